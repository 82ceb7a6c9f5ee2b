package api

import (
	"net/netip"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestUnitsOfSeveralNodes: a unit is wanted where one node announces it, and its
// change is proven, as far as the position that all have reached, once each node of
// the site was heard and has proven it.
func TestUnitsOfSeveralNodes(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/24")
	u := steadycast.Unit{Site: "ams", Prefix: p}
	snap := &Snapshot{}
	snap.View.Units = []decide.UnitView{{Unit: u}}
	snap.View.Table.Sites = []decide.Place{{Name: "ams", Nodes: []decide.Node{{Name: "ams-1"}, {Name: "ams-2"}}}}
	at := func(n uint64) steadycast.Fence { return steadycast.Fence{Epoch: 1, Index: n} }
	one := decide.SiteNow{Site: "ams", Node: "ams-1", At: at(7), Announcing: []steadycast.Unit{u}}
	two := decide.SiteNow{Site: "ams", Node: "ams-2", At: at(9)}
	late, slow := two, two
	late.AgeMS, slow.Unproven = 60_000, []steadycast.Unit{u}
	own := Units{Fence: at(8), Units: []Unit{{Unit: u, Wanted: false, Proven: true}}}
	for _, c := range []struct {
		name   string
		from   Units
		but    string
		heard  []decide.SiteNow
		wanted bool
		not    string
		fence  steadycast.Fence
	}{
		{"both", Units{}, "", []decide.SiteNow{one, two}, true, "", at(7)},
		{"one was never heard", Units{}, "", []decide.SiteNow{one}, true, "the ledger has not heard ams-2", at(7)},
		{"one is late", Units{}, "", []decide.SiteNow{one, late}, true, "the ledger heard ams-2 last 1m ago", at(7)},
		{"one is slow", Units{}, "", []decide.SiteNow{one, slow}, true, "ams-2 has not proven its newest change yet", at(7)},
		{"what came before there were two", Units{}, "", []decide.SiteNow{{Site: "ams", At: at(1)}, one, two}, true, "", at(7)},
		{"beside one's own", own, "ams-2", []decide.SiteNow{one, slow}, true, "", at(7)},
		{"its sibling was never heard", own, "ams-2", []decide.SiteNow{two}, false, "the ledger has not heard ams-1", at(8)},
	} {
		got := c.from.beside(snap, c.heard, "ams", netip.Prefix{}, c.but)
		if len(got.Units) != 1 || got.Units[0].Wanted != c.wanted || got.Units[0].Unproven != c.not || got.Units[0].Proven != (c.not == "") || got.Fence != c.fence {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
