package decide

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// cutWorld has one unit, looked at once a second.
type cutWorld struct {
	c   *Cutter
	now Now
	f   CutFacts
}

func newCutWorld() *cutWorld {
	w := &cutWorld{c: NewCutter(nil), now: time.Hour}
	w.f = CutFacts{Unit: steadycast.Unit{Site: "fra", Prefix: netip.MustParsePrefix("192.0.2.0/24")}, Announced: true, Proven: true,
		Voices: 4, Counted: true, Rate: 1000, Targets: []CutTarget{{Site: "ams"}, {Site: "iad"}}}
	w.look(3)
	return w
}

func (w *cutWorld) look(seconds int) {
	for range seconds {
		w.now += time.Second
		w.c.Look(w.now, []CutFacts{w.f})
	}
}

func (w *cutWorld) cut(t *testing.T) Cut {
	t.Helper()
	cs := w.c.Cuts()
	if len(cs) == 0 {
		t.Fatal("there is no cut")
	}
	return cs[len(cs)-1]
}

// TestCut: what is missing keeps a cut in progress, each by itself, for as long as
// it is missing and the window after it.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing func(*CutFacts)
		state   CutState
		why     string
	}{
		{"a router that keeps the route", func(f *CutFacts) { f.Proven, f.Unproven = false, "tor1 still has it" }, CutInProgress, "route: tor1 still has it"},
		{"a node that has not heard", func(f *CutFacts) { f.Behind = []string{"ams", "iad"} }, CutInProgress, "not heard of yet by ams, iad"},
		{"one client in twenty", func(f *CutFacts) { f.Rate = 50 }, CutInProgress, "residual: 50 a second still come here, of 1000 before; at most 10"},
		{"a name that still leads here", func(f *CutFacts) { f.Led, f.LedBy, f.Named = 3, []string{"ams-1", "iad-1"}, 2 }, CutInProgress,
			"residual: 3 answers of the last 10s led clients here, by ams-1, iad-1"},
		{"a name that still leads here, and nobody counts", func(f *CutFacts) { f.Led, f.LedBy, f.Named, f.Counted = 1, []string{"ams-1"}, 2, false }, CutInProgress,
			"residual: 1 answers of the last 10s led clients here, by ams-1"},
		{"the site itself answers", func(f *CutFacts) { f.Met, f.Asked = []string{"eye-1"}, 2 }, CutInProgress,
			"identity: fra still answers at 192.0.2.0/24, as eye-1 sees it"},
		{"a target that fails", func(f *CutFacts) { f.Targets[1].Bad = "web is unhealthy" }, CutFailed, "target: iad: web is unhealthy. Roll back?"},
		{"no target", func(f *CutFacts) { f.Targets = nil }, CutFailed, "target: no other site announces it. Roll back?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCutWorld()
			w.f.Announced, w.f.Rate = false, 0
			good := w.f
			good.Targets = []CutTarget{{Site: "ams"}, {Site: "iad"}}
			c.missing(&w.f)
			w.look(60)
			if got := w.cut(t); got.State != c.state || strings.Join(got.Why, " / ") == "" || !strings.Contains(strings.Join(got.Why, " / "), c.why) {
				t.Fatalf("%s: %q", got.State, got.Why)
			}
			w.f = good
			w.look(1)
			if got := w.cut(t); got.State == CutComplete && !strings.HasPrefix(c.why, "route") && !strings.HasPrefix(c.why, "not heard") {
				t.Fatalf("complete without the window: %+v", got)
			}
			w.look(10)
			got := w.cut(t)
			if got.State != CutComplete || len(got.Why) != 0 {
				t.Fatalf("%s: %q", got.State, got.Why)
			}
			w.f.Rate, w.f.Proven = 500, false // what comes later is another matter
			w.look(5)
			if w.cut(t).State != CutComplete {
				t.Error("what was complete is no more")
			}
		})
	}
}

// TestFourLatencies: by a schedule of whole seconds, added up by hand.
func TestFourLatencies(t *testing.T) {
	w := newCutWorld()
	w.f.Failing = 1 // of four
	w.look(1)       // 0 s: the first failure
	w.f.Failing = 4
	w.look(2) // 2 s of a total failure
	w.f.Announced, w.f.Proven, w.f.Unproven, w.f.Rate = false, false, "not acknowledged", 400
	w.look(1) // 3 s: it leaves
	w.f.Proven = true
	w.look(2) // 4 s: acknowledged
	w.f.Rate = 10
	w.look(12) // 6 s: the clients have gone; complete 10 s later
	got := w.cut(t)
	text := fmt.Sprintf("%s decided %v effect %v migrated %v lost %v of %d now %d", got.State, got.Decided, got.Effect, got.Migrated, got.Lost, got.Before, got.Rest)
	if text != "complete decided 3s effect 4s migrated 6s lost 4s of 1000 now 10" {
		t.Error(text)
	}
	w.f.Failing, w.f.Announced = 0, true
	w.look(1)
	if got := w.cut(t); !got.Over || got.State != CutComplete {
		t.Errorf("announced again: %+v", got)
	}
	// An order has no trouble before it, and is decided as it is carried out.
	w.f.Announced, w.f.Rate, w.f.Reason = false, 0, "by order"
	w.look(1)
	if got := w.cut(t); got.Decided != 0 || got.Lost != 0 || got.Reason != "by order" || got.Effect != 1 || got.Before != 10 {
		t.Errorf("by order: %+v", got)
	}
	if n := len(w.c.Cuts()); n != 2 {
		t.Errorf("%d cuts", n)
	}
}

// Where nothing is counted a cut is never called complete.
func TestUnmeasured(t *testing.T) {
	w := newCutWorld()
	w.f.Announced, w.f.Counted = false, false
	w.look(20)
	if got := w.cut(t); got.State != CutUnmeasured || got.Why[0] != "nothing counts what still comes here" || got.Migrated != 0 {
		t.Errorf("%+v", got)
	}
	// A site alone has nobody to hand its clients to, and none that could be unwell.
	w = newCutWorld()
	w.f.Announced, w.f.Rate, w.f.Targets, w.f.Alone = false, 0, nil, true
	w.look(12)
	if got := w.cut(t); got.State != CutComplete || !got.Counted {
		t.Errorf("alone: %+v", got)
	}
}

// What was kept goes on, and is bounded.
func TestCutsAreKept(t *testing.T) {
	w := newCutWorld()
	w.f.Announced, w.f.Rate = false, 0
	w.look(3)
	w.c = NewCutter(w.c.Cuts())
	w.look(12)
	if got := w.cut(t); got.State != CutComplete || len(w.c.Cuts()) != 1 {
		t.Errorf("%+v", got)
	}
	other := w.f
	other.Unit.Site = "ams"
	w.c.Look(w.now, nil) // nothing is known yet
	if w.cut(t).Over {
		t.Error("over for want of knowledge")
	}
	w.c.Look(w.now, []CutFacts{other})
	if !w.cut(t).Over {
		t.Error("a unit that is gone keeps its cut open")
	}
	for range 2 * cutsKept {
		w.f.Announced = !w.f.Announced
		w.look(1)
	}
	if n := len(w.c.Cuts()); n != cutsKept {
		t.Errorf("%d are kept", n)
	}
}

// TestCutIsNeverAssumed: whatever happens in whatever order, a cut that is complete
// had every one of its conditions for the whole of the window before.
func TestCutIsNeverAssumed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCutWorld()
		w.f.Announced = false
		goodSince, done := Now(-1), false
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			w.f.Proven = rapid.IntRange(0, 19).Draw(t, "unproven") > 0
			w.f.Behind = nil
			if rapid.IntRange(0, 19).Draw(t, "behind") == 0 {
				w.f.Behind = []string{"ams"}
			}
			w.f.Rate = rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, 0, 9, 10, 11}).Draw(t, "rate")
			w.f.Targets = []CutTarget{{Site: "ams"}}
			if rapid.IntRange(0, 19).Draw(t, "bad") == 0 {
				w.f.Targets[0].Bad = "slow"
			}
			w.now += time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond
			w.c.Look(w.now, []CutFacts{w.f})
			lasting := w.f.Rate <= 10 && w.f.Targets[0].Bad == ""
			switch {
			case !lasting:
				goodSince = -1
			case goodSince < 0:
				goodSince = w.now
			}
			cs := w.c.Cuts()
			complete := cs[0].State == CutComplete
			want := done || lasting && w.now-goodSince >= CutWindow && w.f.Proven && w.f.Behind == nil
			if complete != want {
				t.Fatalf("at %v: %s %q, and it has been good since %v", w.now, cs[0].State, cs[0].Why, goodSince)
			}
			if done = complete; complete != (len(cs[0].Why) == 0) {
				t.Fatalf("%s without a reason: %q", cs[0].State, cs[0].Why)
			}
		}
	})
}
