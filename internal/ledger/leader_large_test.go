package ledger

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"pgregory.net/rapid"
)

// TestUnitsOf: what is found by order is what a walk over all finds, also at the ends
// and of sites that are not there; and so it is with what a beat announces, in
// whatever order it says it.
func TestUnitsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v decide.View
		for _, site := range []string{"ams", "fra", "lon", "nyc"} {
			for i := range rapid.IntRange(0, 4).Draw(t, site) {
				v.Units = append(v.Units, decide.UnitView{Unit: steadycast.Unit{Site: site, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)}})
			}
		}
		for _, site := range []string{"", "ams", "bru", "fra", "lon", "nyc", "zrh"} {
			var want []decide.UnitView
			for _, u := range v.Units {
				if u.Unit.Site == site {
					want = append(want, u)
				}
			}
			got := unitsOf(&v, site)
			if len(got) != len(want) || len(got) > 0 && got[0].Unit != want[0].Unit {
				t.Fatalf("%s: %v, want %v", site, got, want)
			}
			var b decide.Beat
			for _, u := range got {
				if rapid.Bool().Draw(t, "announces") {
					b.Announcing = append(b.Announcing, u.Unit)
				}
			}
			if rapid.Bool().Draw(t, "another order") {
				slices.Reverse(b.Announcing)
			}
			for i, u := range got {
				if is, want := (chorus{b}).announcesAt(i, u.Unit), slices.Contains(b.Announcing, u.Unit); is != want {
					t.Fatalf("%v at %d of %v: %t", u.Unit, i, b.Announcing, is)
				}
			}
		}
	})
}
