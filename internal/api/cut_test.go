package api

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestCutsOfTheFleet: a node shows its own cuts by its own word, those of others by
// what they told the ledger, and what the ledger remembers of those that are gone;
// each once, and held against the medians of those before.
func TestCutsOfTheFleet(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/24")
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	cut := func(site string, at uint64, state decide.CutState, effect time.Duration) decide.Cut {
		return decide.Cut{Unit: steadycast.Unit{Site: site, Prefix: p}, Fence: steadycast.Fence{Epoch: 1, Index: at}, State: state, Effect: effect, Over: state != decide.CutInProgress}
	}
	s := &Snapshot{At: now, Sites: []Site{{Name: "ams", Cuts: []Cut{{Cut: cut("ams", 7, decide.CutComplete, time.Second), Node: "ams-1", At: now.Add(-time.Hour)}}}}}
	s.View.LT = 10_000_000
	for i, took := range []time.Duration{5, 0, 9, 7} { // at fra, of which one had no effect
		s.View.Cuts = append(s.View.Cuts, decide.CutKept{Cut: cut("fra", uint64(20+i), decide.CutComplete, took*time.Second), Node: "fra-1", Since: decide.Time(1_000_000 * (i + 1))})
	}
	s.View.Cuts = append(s.View.Cuts,
		decide.CutKept{Cut: cut("ams", 7, decide.CutFailed, 0), Node: "ams-1"},
		decide.CutKept{Cut: cut("fra", 30, decide.CutFailed, 0), Node: "fra-1", Since: 9_000_000})
	late := cut("fra", 31, decide.CutInProgress, 0)
	late.Why = []string{"residual"}
	heard := []decide.SiteNow{
		{Site: "fra", Node: "fra-1", AgeMS: 60_000, Cuts: []decide.CutTold{{Cut: cut("fra", 30, decide.CutComplete, 3*time.Second), Node: "fra-1", AgeMS: 900_000}, {Cut: late, Node: "fra-1", AgeMS: 61_000}}},
		{Site: "fra", Node: "fra-2", AgeMS: 10, Cuts: []decide.CutTold{{Cut: cut("fra", 31, decide.CutFailed, 0), AgeMS: 60_000}}},
	}
	got := s.cuts(heard)
	var text []string
	for _, c := range got {
		text = append(text, strings.Join([]string{c.Unit.Site, c.Node, c.Fence.String(), string(c.State)}, " "))
	}
	if len(got) != 8 {
		t.Fatalf("%d: %s", len(got), strings.Join(text, "\n"))
	}
	find := func(site, node string, at uint64) *Cut {
		for i := range got {
			if got[i].Unit.Site == site && got[i].Node == node && got[i].Fence.Index == at {
				return &got[i]
			}
		}
		t.Fatalf("no cut of %s at %d:\n%s", node, at, strings.Join(text, "\n"))
		return nil
	}
	if c := find("ams", "ams-1", 7); c.State != decide.CutComplete || c.Earlier != nil {
		t.Errorf("its own is not by its own word: %+v", c)
	}
	if c := find("fra", "fra-1", 30); c.State != decide.CutComplete || !c.At.Equal(now.Add(-15*time.Minute)) || c.Earlier == nil || c.Earlier.Count != 4 || c.Earlier.Effect != 7*time.Second {
		t.Errorf("what was told later is not shown, or not compared: %+v, %+v", c, c.Earlier)
	}
	if c := find("fra", "fra-1", 31); c.Why[0] != "as heard 1m ago" || c.Earlier.Count != 5 {
		t.Errorf("what was heard long ago is shown as if it were so now: %+v", c)
	}
	if c := find("fra", "fra-2", 31); c.Earlier != nil {
		t.Errorf("two nodes are taken for one: %+v", c.Earlier)
	}

	// A unit of another site is done with its cut when every node of the site is.
	u := steadycast.Unit{Site: "fra", Prefix: p}
	s.View.Units = []decide.UnitView{{Unit: u}}
	units := Units{}.beside(s, heard, "fra", netip.Prefix{}, "")
	if len(units.Units) != 1 || units.Units[0].Cut == nil || units.Units[0].Cut.Node != "fra-1" || units.Units[0].Cut.State != decide.CutInProgress {
		t.Errorf("%+v", units.Units)
	}

	// And of a site that nobody hears it is shown that it has failed.
	lost := cut("lon", 40, decide.CutFailed, 0)
	lost.Over, lost.Unheard, lost.Why = false, true, []string{"unheard"}
	s.View.Cuts = append(s.View.Cuts, decide.CutKept{Cut: lost})
	s.View.Units = []decide.UnitView{{Unit: lost.Unit}}
	for _, heard := range [][]decide.SiteNow{nil, {{Site: "lon", AgeMS: 70_000}}} {
		units = Units{}.beside(s, heard, "lon", netip.Prefix{}, "")
		if len(units.Units) != 1 || units.Units[0].Proven || units.Units[0].Cut == nil || !units.Units[0].Cut.Unheard {
			t.Errorf("%+v", units.Units)
		}
	}
}
