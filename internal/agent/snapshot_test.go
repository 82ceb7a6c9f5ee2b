package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/probe"
)

// alone is an agent that is not running, of one site with two services that
// share a prefix, and its machine.
func alone(t *testing.T) *Agent {
	t.Helper()
	own, shared := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	table := decide.Table{
		Sites: []decide.Place{{Name: "fra"}},
		Services: []decide.Service{
			{Name: "web", Prefixes: []netip.Prefix{own, shared}},
			{Name: "dns", Prefixes: []netip.Prefix{shared}},
		},
	}.WithDefaults()
	led, err := ledger.Open("", table, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { led.Close() })
	a, err := New(Options{Site: "fra", Node: "fra-1", Solo: true, Ledger: led, Plan: Plan{Table: table}})
	if err != nil {
		t.Fatal(err)
	}
	a.probes = probe.NewScheduler(probe.Options{})
	t.Cleanup(a.probes.Stop)
	a.site = decide.NewSite(decide.SiteOptions{Name: "fra", Node: "fra-1", Incarnation: 1, Table: table, Solo: true})
	return a
}

func (a *Agent) round(service string, seq uint64, out steadycast.Outcome) decide.Observed {
	r := steadycast.Result{Outcome: out}
	if out == steadycast.Down {
		r.Class, r.Reason = steadycast.Soft, "answers 500"
	}
	return decide.Observed{From: a.now(), Observation: steadycast.Observation{Vantage: "fra", Subject: "fra", Service: service, Seq: seq, Result: r}}
}

// TestTroublesByPrefix: each unit is told of its own services, and of no other.
func TestTroublesByPrefix(t *testing.T) {
	a := alone(t)
	x := decide.Explanation{Services: []decide.ServiceStatus{
		{Verdict: steadycast.Verdict{Service: "web", State: steadycast.Healthy}},
		{Verdict: steadycast.Verdict{Service: "dns", State: steadycast.Unhealthy, Reason: "refused"}, Next: "one more round"},
		{Verdict: steadycast.Verdict{Service: "of an older table", State: steadycast.Unhealthy}},
	}}
	want := map[netip.Prefix][]string{netip.MustParsePrefix("192.0.2.2/32"): {"dns is unhealthy: refused; next: one more round"}}
	if got := a.troubles(x); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	x.Services[0].Verdict.State = steadycast.Suspect
	got := a.troubles(x)
	for p, n := range map[string]int{"192.0.2.1/32": 1, "192.0.2.2/32": 2} {
		texts := got[netip.MustParsePrefix(p)]
		if len(texts) != n || !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "web is suspect; next: ") }) {
			t.Errorf("%s: %q", p, texts)
		}
	}
}

// TestRoutineWaitsForTheBeat: rounds that pass and change nothing make no
// snapshot of their own; a failing one, and whatever else has effects, does.
func TestRoutineWaitsForTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.errand.run(ctx)
		seq := uint64(0)
		shows := func(out steadycast.Outcome) bool {
			seq++
			time.Sleep(time.Second)
			a.dirty = false
			a.step(a.round("web", seq, out))
			return a.dirty
		}
		a.step(decide.Committed{View: a.o.Ledger.View()})
		for a.site.Verdicts()[0].State != steadycast.Healthy {
			if shows(steadycast.Up); seq > 1000 {
				t.Fatalf("it does not get well: %+v", a.site.Verdicts()[0])
			}
		}
		for range 10 {
			if shows(steadycast.Up) {
				t.Fatal("a round that changed nothing is shown before the beat")
			}
		}
		if !shows(steadycast.Down) {
			t.Error("a failing round is not shown")
		}
		if a.dirty = false; !routine(decide.Tick{}) || routine(decide.Committed{}) || routine(decide.SpeakerLost{}) {
			t.Error("only time and passing rounds are routine")
		}
		a.errand.send(func(context.Context) { cancel() })
		synctest.Wait()
	})
}
