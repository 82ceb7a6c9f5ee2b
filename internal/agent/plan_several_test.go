package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
)

// heardSites is a ledger of which only the view and what it heard are asked.
type heardSites struct {
	ledger.Ledger
	view  decide.View
	sites []decide.SiteNow
}

func (l *heardSites) View() decide.View                               { return l.view }
func (l *heardSites) Sites(context.Context) ([]decide.SiteNow, error) { return l.sites, nil }

// TestPlanWaitsForEveryNode: a site of several nodes has carried a step out when each
// of them has, in whatever order they are named; a site that is gone is not waited for.
func TestPlanWaitsForEveryNode(t *testing.T) {
	at := func(n uint64) steadycast.Fence { return steadycast.Fence{Epoch: 1, Index: n} }
	unit := steadycast.Unit{Site: "fra", Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	run := decide.PlanRun{Number: 1, Steps: []decide.StepRun{{Ordered: at(5), Took: []steadycast.Unit{unit}}}}
	node := func(site, name string, n uint64, announcing ...steadycast.Unit) decide.SiteNow {
		return decide.SiteNow{Site: site, Node: name, At: at(n), Announcing: announcing}
	}
	phase := func(site string, p steadycast.Phase, lost bool) decide.UnitView {
		return decide.UnitView{Unit: steadycast.Unit{Site: site, Prefix: unit.Prefix}, Phase: p, Lost: lost}
	}
	units := []decide.UnitView{phase("ams", steadycast.In, false), phase("fra", steadycast.Out, false)}
	for _, x := range []struct {
		name  string
		units []decide.UnitView
		sites []decide.SiteNow
		text  string // "" where the route is out
		n, of int
	}{
		{"both nodes are out", units, []decide.SiteNow{node("ams", "", 6), node("fra", "fra-1", 6), node("fra", "fra-2", 5)}, "", 2, 2},
		{"the second announces still", units, []decide.SiteNow{node("ams", "", 6), node("fra", "fra-1", 6), node("fra", "fra-2", 6, unit)},
			"fra 192.0.2.0/24 is announced still", 2, 2},
		{"the second has not heard of it", units, []decide.SiteNow{node("ams", "", 4), node("fra", "fra-1", 6), node("fra", "fra-2", 4)},
			"fra has not acted on it yet", 0, 2},
		{"two nodes are not two sites", units, []decide.SiteNow{node("ams", "", 4), node("fra", "fra-1", 6), node("fra", "fra-2", 6)}, "", 1, 2},
		{"a witness is no site that acts", units, []decide.SiteNow{node("ams", "", 4), node("fra", "fra-1", 6), node("wit", "", 6)}, "", 1, 2},
		{"fra is gone", units, []decide.SiteNow{node("ams", "", 6)}, "fra is not heard", 1, 1},
		{"ams is lost", []decide.UnitView{phase("ams", steadycast.In, true), units[1]}, []decide.SiteNow{node("fra", "fra-1", 6)}, "", 1, 1},
		{"ams was heard just before", units, []decide.SiteNow{node("fra", "fra-1", 6)}, "", 1, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := &heardSites{sites: x.sites}
			l.view = decide.View{Plans: []decide.PlanRun{run}, Units: x.units, Table: decide.Table{
				Sites:    []decide.Place{{Name: "ams"}, {Name: "fra"}, {Name: "wit", Witness: true}},
				Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{unit.Prefix}, Sites: []string{"ams", "fra"}}},
			}}
			s := &steps{ledger: l}
			text, so, _ := s.routes(t.Context(), stepTry{run: 1}, false)
			if so != (x.text == "") || x.text != "" && text != x.text {
				t.Errorf("out: %t, %s; want %q", so, text, x.text)
			}
			if n, of := s.effective(t.Context(), stepTry{run: 1}); n != x.n || of != x.of {
				t.Errorf("%d of %d act on it; want %d of %d", n, of, x.n, x.of)
			}
		})
	}
}

// TestPlanVerifiesTheCut: a plan that took a route away is verified by the proof of the
// cut at each node of the site, whoever knows it, and by nothing weaker; where nothing
// counts, that is said.
func TestPlanVerifiesTheCut(t *testing.T) {
	at := steadycast.Fence{Epoch: 1, Index: 5}
	unit := steadycast.Unit{Site: "fra", Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	cut := func(node string, state decide.CutState, why ...string) decide.CutTold {
		return decide.CutTold{Node: node, Cut: decide.Cut{Unit: unit, Fence: at, State: state, Why: why}}
	}
	kept := func(c decide.CutTold) decide.CutKept { return decide.CutKept{Cut: c.Cut, Node: c.Node} }
	over, alone := cut("fra-1", decide.CutFailed, "long ago"), cut("", decide.CutFailed, "unheard")
	over.Over, alone.Unheard = true, true
	for _, x := range []struct {
		name         string
		told         [2][]decide.CutTold // of fra-1 and fra-2, the newest first
		kept         []decide.CutKept
		text         string
		done, failed bool
	}{
		{"there never was one", [2][]decide.CutTold{}, nil, "1 route is as ordered, and acknowledged", true, false},
		{"both go on", [2][]decide.CutTold{{cut("fra-1", decide.CutInProgress, "residual: 50")}, {cut("fra-2", decide.CutInProgress, "route: tor1")}}, nil,
			"the cut of fra 192.0.2.0/24 is in progress: residual: 50", false, false},
		{"the second goes on", [2][]decide.CutTold{{}, {cut("fra-2", decide.CutInProgress, "route: tor1")}}, []decide.CutKept{kept(cut("fra-1", decide.CutComplete))},
			"the cut of fra 192.0.2.0/24 is in progress: route: tor1", false, false},
		{"who took over is unwell", [2][]decide.CutTold{{cut("fra-1", decide.CutFailed, "target: ams")}}, nil, "the cut of fra 192.0.2.0/24 has failed: target: ams", false, true},
		{"both are remembered", [2][]decide.CutTold{}, []decide.CutKept{kept(cut("fra-1", decide.CutComplete)), kept(cut("fra-2", decide.CutComplete))}, "1 route is as ordered, and acknowledged", true, false},
		{"nothing counts", [2][]decide.CutTold{}, []decide.CutKept{kept(cut("fra-1", decide.CutUnmeasured, "nothing counts what still comes here"))},
			"1 route is as ordered, and acknowledged; the cut of fra 192.0.2.0/24 is unmeasured: nothing counts what still comes here", true, false},
		{"what is told is newer than what is remembered", [2][]decide.CutTold{{cut("fra-1", decide.CutComplete)}}, []decide.CutKept{kept(cut("fra-1", decide.CutFailed, "target"))},
			"1 route is as ordered, and acknowledged", true, false},
		{"an older one that is over, and that it was unheard", [2][]decide.CutTold{{cut("fra-1", decide.CutComplete), over}}, []decide.CutKept{kept(over), kept(alone)},
			"1 route is as ordered, and acknowledged", true, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := &heardSites{sites: []decide.SiteNow{
				{Site: "fra", Node: "fra-1", At: at, Cuts: x.told[0]}, {Site: "fra", Node: "fra-2", At: at, Cuts: x.told[1]},
			}}
			l.view = decide.View{
				Plans: []decide.PlanRun{{Number: 1, Plan: decide.Plan{Steps: []decide.Step{{Do: decide.DoDrain}, {Do: decide.DoVerify}}}, Steps: []decide.StepRun{{Ordered: at, Took: []steadycast.Unit{unit}}, {}}}},
				Units: []decide.UnitView{{Unit: unit, Phase: steadycast.Out}}, Cuts: x.kept,
			}
			s := &steps{ledger: l}
			if text, done, failed := s.carriedOut(t.Context(), stepTry{run: 1, step: 1}, ""); text != x.text || done != x.done || failed != x.failed {
				t.Errorf("%t, %t: %s; want %s", done, failed, text, x.text)
			}
		})
	}
}

// local is a ledger's name inside lagging, which has a method Local.
type local = ledger.Local

// lagging is a ledger whose view comes late after a step is done.
type lagging struct {
	*local
	mu   sync.Mutex
	old  decide.View
	left int
}

func (l *lagging) Step(ctx context.Context, w decide.StepWord) (decide.Reply, error) {
	l.mu.Lock()
	if w.Say == decide.SayDone {
		l.old, l.left = l.local.View(), 3
	}
	l.mu.Unlock()
	return l.local.Step(ctx, w)
}

func (l *lagging) View() decide.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		l.left--
		return l.old
	}
	return l.local.View()
}

// TestPlanRunsOnce: a node whose view still shows it as the holder of what it has done
// does not do it once more.
func TestPlanRunsOnce(t *testing.T) {
	t.Parallel()
	program, told := script(t, "")
	b := newPlanBed(t, "", []string{program},
		config.PlanStep{Step: decide.Step{Do: decide.DoRun, At: "fra"}, Run: &config.PlanRun{Argv: []string{program}}},
		config.PlanStep{Step: decide.Step{Do: decide.DoWait, For: 2 * time.Second}})
	b.tell(decide.PlanRunIt)
	ctx, cancel := context.WithCancel(t.Context())
	s := newSteps(&Agent{o: Options{Site: "fra", Node: "fra-1", Fleet: "test", Ledger: &lagging{local: b.ledger}, Logger: slog.New(slog.DiscardHandler)}})
	s.plan = b.plan.Load
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	b.end = func() { cancel(); running.Wait() }
	b.until("the end of the run", func(r decide.PlanRun) bool { return r.At > 0 })
	time.Sleep(time.Second) // in which it would be begun again
	if lines := told(); len(lines) != 1 {
		t.Errorf("the program was run %d times: %q", len(lines), lines)
	}
}
