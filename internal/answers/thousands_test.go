package answers

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/steadycast/steadycast/dnsfallback"
)

// TestOneSwitchForThousands: the example of switches with thousands of names, each with
// members of its own. One order takes a site out of all of them but for the members
// that are excepted, before it or after, and its end brings all back.
func TestOneSwitchForThousands(t *testing.T) {
	const names, excepted = 5000, 50
	e := readExample(t, section{file: "dns-switch.yaml"})
	zone := &e.fleet.Zones[0]
	for i := range names {
		at := func(site byte) []netip.Addr {
			return []netip.Addr{netip.AddrFrom4([4]byte{10, site, byte(i >> 8), byte(i)})}
		}
		zone.Names = append(zone.Names, dnsfallback.Steered{Name: fmt.Sprintf("app%04d", i), Choice: dnsfallback.Choice{
			Service: "web", Methods: []string{"priority"}, Members: []dnsfallback.Member{{Site: "ist", Addresses: at(1)}, {Site: "ank", Addresses: at(2)}},
		}})
	}
	exceptions := func(to string, from, n int) string {
		s := ""
		for i := from; i < from+n; i++ {
			s += fmt.Sprintf("switch app%04d.gslb.example.com/ist %s, ", i, to)
		}
		return s
	}
	for _, c := range []struct {
		what, steps string
		from, to    int // which of them move: from, and up to before to
	}{
		{"all well", "", 0, 0},
		{"withdrawn", "withdraw ist", 0, names},
		{"withdrawn, with exceptions before and after", exceptions("up", 0, excepted/2) + "withdraw ist, " + exceptions("up", excepted/2, excepted/2), excepted, names},
		{"released again", "withdraw ist, release ist", 0, 0},
		{"single members", exceptions("down", 0, excepted), 0, excepted},
	} {
		table, _ := e.table(e.play(t, c.steps))
		for i := range names {
			want := fmt.Sprintf("10.1.%d.%d", i>>8, i&255)
			if i >= c.from && i < c.to {
				want = fmt.Sprintf("10.2.%d.%d", i>>8, i&255)
			}
			x, err := table.Explain(fmt.Sprintf("app%04d.gslb.example.com", i), "A", netip.MustParsePrefix("203.0.113.0/24"))
			if got, _ := answerOf(x); err != nil || got != want {
				t.Fatalf("%s: name %d is %s, %v; want %s", c.what, i, got, err, want)
			}
		}
		if words := table.SiteWords(); c.what == "withdrawn" && !slices.ContainsFunc(words, func(w dnsfallback.SiteWord) bool { return w.Site == "ist" && w.Word == "maintenance" }) {
			t.Errorf("%s: %+v", c.what, words)
		}
	}
}
