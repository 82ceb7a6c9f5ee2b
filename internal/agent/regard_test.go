package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/probe"
)

// TestRegardIsTriedAgain: where the looks that an order over a node calls for cannot
// be used, that is said once and tried again, and the node does not take itself for
// one that looks as it should.
func TestRegardIsTriedAgain(t *testing.T) {
	ring := api.NewRing(16)
	a := &Agent{o: Options{Site: "fra", Node: "fra-1", Logger: slog.New(slog.DiscardHandler), Events: ring}}
	a.probes = probe.NewScheduler(probe.Options{OnResult: func(steadycast.Observation, time.Duration) {}})
	defer a.probes.Stop()
	twice := probe.Service{Name: "web", Subject: "ams", Vantage: "fra", Interval: time.Second, FastInterval: time.Second,
		Checks: []probe.Check{{Name: "word", Kind: "file", Target: "/dev/null"}}}
	asked := 0
	a.plan.Store(&Plan{LooksBut: func(func(site, node, service string) bool) []probe.Service {
		asked++
		return []probe.Service{twice, twice}
	}})
	v := decide.View{NodeOrders: []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: "ams-2"}}}}
	for n := range 3 {
		a.regard(&v)
		if asked != n+1 || a.regarded != "" {
			t.Fatalf("after %d views it was tried %d times, and regards %q", n+1, asked, a.regarded)
		}
	}
	if said, _ := ring.Since(0); len(said) != 1 {
		t.Errorf("said: %v", said)
	}
}
