package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// The node of the reaction figures, on the loopback.
var loopback, nodeAddress = netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.11")

// BenchmarkReaction is the time from the answer of the probe that completes
// fall until the last withdrawal has come to the router: reading the answer,
// verdict, ledger on disk, permit, speaker and wire. "assembled" has all of it
// in one process, "processes" is the product as it is installed.
func BenchmarkReaction(b *testing.B) {
	p := pace{interval: 40 * time.Millisecond, fast: 20 * time.Millisecond, fall: 3}
	for _, how := range []struct {
		name  string
		start func(b *testing.B, p pace, t *target, r *sink.Router, prefixes []netip.Prefix)
	}{{"assembled", assemble}, {"processes", install}} {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", how.name, n), func(b *testing.B) {
				r, err := sink.Listen(sink.Options{Address: loopback.String() + ":0", ASN: routerASN})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { r.Close() })
				t := newTarget(b, "", loopback.String()+":0")
				prefixes := serviceAddresses(n)
				how.start(b, p, t, r, prefixes)
				heard(b, r, n, true)
				var reaction sample
				for b.Loop() {
					for i := range 20 {
						t.afterLook(time.Duration(i) * p.interval / 20)
						t.fail()
						decisive := t.when("failed", p.fall)
						reaction = append(reaction, heard(b, r, n, false).Sub(decisive))
						t.heal()
						heard(b, r, n, true)
					}
				}
				reaction.report(b, "last")
				done(b)
			})
		}
	}
}

// heard waits until the router has heard n announcements, or withdrawals, and
// gives the moment of the last.
func heard(b testing.TB, r *sink.Router, n int, announce bool) time.Time {
	b.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	seen := map[netip.Prefix]bool{} // an announcement may be repeated with other attributes
	for {
		select {
		case e := <-r.Events():
			if e.Lost {
				b.Fatalf("the session with %v was lost", e.Peer)
			}
			if e.Announce == announce {
				seen[e.Prefix] = true
			}
			if len(seen) == n {
				return e.At
			}
		case <-limit.C:
			b.Fatalf("the router has heard %d of %d within %v (announced: %v)\n%s", len(seen), n, patience, announce, running.said())
		}
	}
}

// install starts the two processes of a node.
func install(b *testing.B, p pace, t *target, r *sink.Router, prefixes []netip.Prefix) {
	newNode(b, "", "", r.Addr(), nodeAddress, p.service("web", "http", "http://"+t.address+"/", prefixes))
}

// assemble puts a node together in this process, with its state on disk.
func assemble(b *testing.B, p pace, t *target, r *sink.Router, prefixes []netip.Prefix) {
	b.Helper()
	dir := b.TempDir()
	log := slog.New(slog.DiscardHandler)
	atOnce := time.Duration(0)
	table := decide.Table{
		Sites: []decide.Place{{Name: "edge"}},
		Services: []decide.Service{{Name: "web", Prefixes: prefixes, Health: decide.Health{
			Interval: p.interval, FastInterval: p.fast, Fall: p.fall, Rise: 1, HoldUp: time.Millisecond, DownFor: &atOnce}}},
		Guards: decide.Guards{Cooldown: time.Millisecond, SiteBudget: 1000, SiteLongBudget: 1000, FleetBudget: 1000, LockCycles: 1000},
	}.WithDefaults()
	led, err := ledger.Open(filepath.Join(dir, "ledger"), table, ledger.Options{Fleet: "bench", Node: "edge-1", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	settings := bgp.Settings{
		ASN: edgeASN, RouterID: netip.MustParseAddr("192.0.2.1"), Allow: prefixes,
		Neighbors: []bgp.Neighbor{{
			Name: "router", Address: r.Addr().Addr(), Port: r.Addr().Port(), ASN: routerASN, LocalAddress: nodeAddress, NextHop4: nodeAddress,
		}},
	}
	a, err := agent.New(agent.Options{
		Site: "edge", Node: "edge-1", Fleet: "bench", Mode: "solo", Solo: true, StateDir: filepath.Join(dir), Ledger: led, Logger: log,
		Plan: agent.Plan{Table: table, Probes: []probe.Service{{
			Name: "web", Subject: "edge", Vantage: "edge", Interval: p.interval, FastInterval: p.fast,
			Checks: []probe.Check{{Name: "it", Kind: "http", Target: "http://" + t.address + "/"}},
		}}},
		Speak: func(o speaker.Options) (speaker.Interface, error) {
			return speaker.Local(speaker.Config{
				Node: "edge-1", StateDir: dir, Logger: log, StopDrain: time.Millisecond, AfterWithdraw: time.Millisecond,
				Load: func() (bgp.Settings, bgp.VIPSettings, error) { return settings, bgp.VIPSettings{Manage: "off"}, nil },
			}, o)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		led.Close()
	})
}
