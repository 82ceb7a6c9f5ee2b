package bgp

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// between against the plainest comparison there is.
func TestBetween(t *testing.T) {
	draw := func(t *rapid.T, name string) []steadycast.Route {
		rs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) steadycast.Route {
			r := steadycast.Route{
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 8).Draw(t, "prefix"))}), 32),
				Stance: steadycast.Stance(rapid.IntRange(0, 2).Draw(t, "stance")),
			}
			if rapid.Bool().Draw(t, "community") {
				r.Communities = []steadycast.Community{1}
			}
			if rapid.Bool().Draw(t, "MED") {
				r.MED = new(rapid.Uint32Range(0, 1).Draw(t, "MED value"))
			}
			return r
		}), 0, 9, func(r steadycast.Route) netip.Prefix { return r.Prefix }).Draw(t, name)
		slices.SortFunc(rs, func(a, b steadycast.Route) int { return comparePrefix(a.Prefix, b.Prefix) })
		return rs
	}
	find := func(rs []steadycast.Route, p netip.Prefix) (steadycast.Route, bool) {
		return steadycast.RouteSet{Routes: rs}.Find(p)
	}
	rapid.Check(t, func(t *rapid.T) {
		old, new := draw(t, "old"), draw(t, "new")
		gone, come := between(old, cloneRoutes(new))
		var wantGone, wantCome []netip.Prefix
		for _, r := range old {
			if _, ok := find(new, r.Prefix); !ok {
				wantGone = append(wantGone, r.Prefix)
			}
		}
		for _, r := range new {
			o, ok := find(old, r.Prefix)
			if !ok || o.Stance != r.Stance || len(o.Communities) != len(r.Communities) || (o.MED == nil) != (r.MED == nil) || o.MED != nil && *o.MED != *r.MED {
				wantCome = append(wantCome, r.Prefix)
			}
		}
		var got []netip.Prefix
		for _, r := range come {
			got = append(got, r.Prefix)
		}
		if !slices.Equal(gone, wantGone) || !slices.Equal(got, wantCome) {
			t.Fatalf("gone %v, want %v; come %v, want %v", gone, wantGone, got, wantCome)
		}
	})
}
