package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// TestFloorCountsOtherwise: what the floor refused is asked for again as soon as
// the ledger counts otherwise for the prefix, and not before its time for anything
// else that is committed.
func TestFloorCountsOtherwise(t *testing.T) {
	f := newFleetSite(steadycast.Fence{})
	for _, site := range []string{"ams", "nyc"} {
		for _, u := range f.view.Units[:2] {
			f.view.Units = append(f.view.Units, UnitView{Unit: steadycast.Unit{Site: site, Prefix: u.Unit.Prefix}, Phase: steadycast.In})
		}
		f.view.Verdicts = append(f.view.Verdicts, steadycast.Verdict{Site: site, Service: "web", State: steadycast.Healthy})
	}
	slices.SortFunc(f.view.Units, func(a, b UnitView) int { return a.Unit.Compare(b.Unit) })
	at := func(site string) *UnitView {
		i := slices.IndexFunc(f.view.Units, func(u UnitView) bool { return u.Unit.Site == site })
		return &f.view.Units[i]
	}
	commit := func(change func()) {
		f.view.Units, f.view.Verdicts = slices.Clone(f.view.Units), slices.Clone(f.view.Verdicts)
		f.view.Fence.Index++
		change()
		f.now += time.Millisecond
		f.step(Committed{View: f.view})
	}
	refused := func() {
		t.Helper()
		if f.ask == nil || f.ask.Action != steadycast.Withdraw {
			t.Fatalf("it failed for certain, and asked %+v", f.ask)
		}
		ans := Answer{ID: f.ask.ID, Site: "fra"}
		for _, p := range f.ask.Prefixes {
			ans.Rulings = append(ans.Rulings, Ruling{
				Unit:   steadycast.Unit{Site: "fra", Prefix: p},
				Guards: []steadycast.GuardAnswer{{Guard: floorGuard, Text: "1 of 3 would announce it; floor 2"}},
			})
		}
		f.ask = nil
		f.step(Answered{Answer: ans})
	}
	commit(func() { at("ams").Lost = true })
	f.look(8, passes)
	f.look(3, refusal)
	refused()
	commit(func() { f.view.Verdicts[0].Reason = "as before" })
	commit(func() { at("nyc").Depreferred = true })
	if f.ask != nil {
		t.Errorf("asked again although the floor counts the same: %+v", f.ask)
	}
	for _, step := range []struct {
		what   string
		change func()
		counts bool
	}{
		{"one is found", func() { at("ams").Lost = false }, true},
		{"one left", func() { at("ams").Phase = steadycast.Out }, true},
		{"it returns", func() { at("ams").Phase = steadycast.Returning }, false},
		{"and is in", func() { at("ams").Phase = steadycast.In }, true},
		{"one is not healthy", func() { f.view.Verdicts[0].State = steadycast.Suspect }, true},
		{"and is still not", func() { f.view.Verdicts[0].State = steadycast.Unhealthy }, false},
	} {
		commit(step.change)
		if (f.ask != nil) != step.counts {
			t.Errorf("%s: asked %+v", step.what, f.ask)
		}
		if f.ask != nil {
			refused()
		}
	}
}

// TestRejectionIsOver: what a person rejected is asked for again as soon as his
// word is over, which may be long before the time that the refusal gave.
func TestRejectionIsOver(t *testing.T) {
	f := newFleetSite(steadycast.Fence{})
	commit := func(decision uint64) {
		f.view.Units = slices.Clone(f.view.Units)
		for i := range f.view.Units {
			f.view.Units[i].Decision = decision
		}
		f.view.Fence.Index++
		f.step(Committed{View: f.view})
	}
	f.look(8, passes)
	f.look(3, refusal)
	if f.ask == nil {
		t.Fatal("it failed for certain, and asked nothing")
	}
	commit(3)
	ans := Answer{ID: f.ask.ID, Site: "fra"}
	for _, p := range f.ask.Prefixes {
		g := steadycast.GuardAnswer{Guard: orderGuard, Text: "bob rejected decision 3: not now", RetryAfter: time.Hour}
		ans.Rulings = append(ans.Rulings, Ruling{Unit: steadycast.Unit{Site: "fra", Prefix: p}, Guards: []steadycast.GuardAnswer{g}})
	}
	f.step(Answered{Answer: ans})
	f.ask = nil
	commit(3)
	f.look(20, refusal)
	if f.ask != nil {
		t.Errorf("asked again although the rejection stands: %+v", f.ask)
	}
	commit(0)
	if f.ask == nil {
		t.Error("the rejection is over, and it asks nothing")
	}
}
