package decide

import (
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// TestRecoveredLedger: a ledger that was recovered from an older copy counts out
// a unit that has come back since. Its route stays, and the ledger is told.
func TestRecoveredLedger(t *testing.T) {
	site, v, actual := startedSite(1)
	unit := v.Units[0].Unit
	now, seq := Now(0), uint64(0)
	grant := func(what steadycast.Action, r steadycast.Result) []Effect {
		t.Helper()
		for range 1000 {
			now, seq = now+time.Second, seq+1
			for _, e := range observe(site, now, seq, r) {
				if a, ok := e.(Ask); ok && a.Request.Action == what {
					v.Fence.Index++
					p := &steadycast.Permit{Unit: unit, ID: a.Request.ID, Action: what, Fence: v.Fence}
					return site.Step(now, Answered{Answer: Answer{ID: a.Request.ID, Site: "fra", Rulings: []Ruling{{Unit: unit, Permit: p}}}})
				}
			}
		}
		t.Fatalf("it never asked to %s", what)
		return nil
	}
	if sets := announced(grant(steadycast.Withdraw, refusal)); len(sets) != 1 || len(sets[0].Routes) != 0 {
		t.Fatalf("the permit gave %+v", sets)
	}
	copied := site.view
	copied.Fence = site.fence
	copied.Units = []UnitView{{Unit: unit, Phase: steadycast.Out, Ever: true, Permit: site.units[0].view.Permit}}
	site.Step(now, Committed{View: copied})
	if sets := announced(grant(steadycast.Return, passes)); len(sets) != 1 || len(sets[0].Routes) != 1 {
		t.Fatalf("the return gave %+v", sets)
	}
	actual.Incarnation, actual.Version = 1, site.set.Version
	site.Step(now, Proved{Actual: actual})

	copied.Fence = steadycast.Fence{Epoch: 2, Index: 1}
	es := site.Step(now, Committed{View: copied})
	if sets := announced(es); len(sets) > 0 {
		t.Errorf("the route left for the older copy: %+v", sets)
	}
	told := false
	for _, e := range es {
		g, ok := e.(GiveUp)
		told = told || ok && g.ID.Compare(copied.Units[0].Permit.ID) >= 0 && len(g.Units) == 1 && g.Units[0] == unit
	}
	if !told {
		t.Errorf("the ledger was not told: %+v", es)
	}
}
