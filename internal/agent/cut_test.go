package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// traffic is what a host counts: packets at a rate that changes.
type traffic struct {
	mu   sync.Mutex
	n    float64
	rate float64
	at   time.Time
}

func (x *traffic) flow(rate float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n += x.rate * time.Since(x.at).Seconds()
	x.at, x.rate = time.Now(), rate
}

func (x *traffic) counts([]netip.Prefix) (map[netip.Prefix]uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return map[netip.Prefix]uint64{prefix: uint64(x.n + x.rate*time.Since(x.at).Seconds())}, nil
}

// TestCutIsProven: a route that a router keeps, and one client that stays, each keep
// a cut in progress and say so; only when both have gone, for a while, is it
// complete. What became of it is there after a restart.
func TestCutIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		table := decide.Table{
			Sites:    []decide.Place{{Name: "fra"}},
			Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{prefix}, Health: decide.Health{Rise: 3, HoldUp: time.Second}}},
		}
		quiet := slog.New(slog.DiscardHandler)
		local, err := ledger.Open("", table, ledger.Options{Fleet: "test", Node: "fra-1", Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		m := &mirror{now: steadycast.Actual{Started: 1, Peers: []steadycast.Peer{{Name: "tor1", State: steadycast.PeerEstablished, Families: []string{"ipv4"}}}}}
		clients := &traffic{at: time.Now(), rate: 1000}
		start := func() (a *Agent, stop func()) {
			a, err := New(Options{
				Site: "fra", Node: "fra-1", Fleet: "test", Solo: true, Ledger: local, Logger: quiet, StateDir: dir, Counts: clients.counts, LoadPackets: true,
				Plan: Plan{Table: table, Probes: []probe.Service{{Name: "web", Subject: "fra", Vantage: "fra", Interval: time.Second, FastInterval: 200 * time.Millisecond,
					Checks: []probe.Check{{Name: "address", Kind: "vip", Target: prefix.Addr().String()}}}}},
				Speak: func(o speaker.Options) (speaker.Interface, error) {
					m.tell = o.OnActual
					m.vip(true)
					return m, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			return a, func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		a, stop := start()
		newest := func() *api.Cut {
			synctest.Wait()
			cs := a.snapshot.Load().Sites[0].Cuts
			if len(cs) == 0 {
				t.Fatalf("there is no cut; the prefix is %s", m.wire())
			}
			return &cs[len(cs)-1]
		}
		expect := func(state decide.CutState, why string) {
			t.Helper()
			if c := newest(); c.State != state || !strings.Contains(strings.Join(c.Why, " / "), why) {
				t.Errorf("%s %q; want %s, %q", c.State, c.Why, state, why)
			}
		}
		time.Sleep(30 * time.Second)
		if m.wire() != "normal" {
			t.Fatalf("the prefix is %s", m.wire())
		}
		if sites, err := local.Sites(t.Context()); err != nil || len(sites) != 1 || sites[0].Load == nil || sites[0].Load.Load != 1000 {
			t.Fatalf("the load that is told: %+v, %v", sites, err)
		}
		m.keeps(true)
		order := steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test", Force: true}
		if r, err := local.Order(t.Context(), order); err != nil || r.Refused != nil {
			t.Fatal(r, err)
		}
		clients.flow(50)
		time.Sleep(time.Minute)
		expect(decide.CutInProgress, "route: ")
		m.keeps(false)
		time.Sleep(time.Minute)
		expect(decide.CutInProgress, "residual: 50 a second still come here, of 1000 before; at most 10")
		if c := newest(); c.Effect < time.Minute || c.Effect > 70*time.Second || c.Migrated != 0 {
			t.Errorf("in effect after %v, clients gone after %v", c.Effect, c.Migrated)
		}
		clients.flow(0)
		time.Sleep(5 * time.Second)
		expect(decide.CutInProgress, "quiet for ")

		stop()
		a, stop = start()
		time.Sleep(20 * time.Second)
		expect(decide.CutComplete, "")
		if c := newest(); c.Effect < time.Minute || c.Before != 1000 || len(a.snapshot.Load().Sites[0].Cuts) != 1 {
			t.Errorf("%+v", c)
		}
		// The ledger remembers what it came to, once, and the node knows that it does.
		time.Sleep(5 * time.Second)
		kept := local.View().Cuts
		if len(kept) != 1 || kept[0].State != decide.CutComplete || kept[0].Node != "fra-1" || kept[0].Effect != newest().Effect || !newest().Kept {
			t.Errorf("the ledger remembers %+v", kept)
		}
		if sites, err := local.Sites(t.Context()); err != nil || len(sites) != 1 || len(sites[0].Cuts) != 0 {
			t.Errorf("it is told still: %+v, %v", sites, err)
		}
		stop()
	})
}

func TestPerSecond(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		in   time.Duration
		want int64
	}{{0, time.Second, 0}, {1, time.Minute, 1}, {1000, time.Second, 1000}, {1500, 1500 * time.Millisecond, 1000}, {1, 0, 1000}} {
		if got := perSecond(c.n, c.in); got != c.want {
			t.Errorf("%d in %v: %d, want %d", c.n, c.in, got, c.want)
		}
	}
}
