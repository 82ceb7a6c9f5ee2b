package bgp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

func hostRoutes(n int) []netip.Prefix {
	ps := make([]netip.Prefix, n)
	for i := range ps {
		ps[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	return ps
}

// announcer is what the benchmarks compare: the speaker, and bare GoBGP.
type announcer interface {
	announce([]netip.Prefix)
	withdraw([]netip.Prefix)
}

type speaking struct {
	testing.TB
	*Speaker
}

func (s speaking) announce(ps []netip.Prefix) { apply(s.TB, s.Speaker, routes(ps...)...) }
func (s speaking) withdraw([]netip.Prefix)    { apply(s.TB, s.Speaker) }

// bare is GoBGP used as its documentation does, dialling the router itself.
type bare struct {
	testing.TB
	srv *server.BgpServer
}

func (b bare) path(p netip.Prefix) *api.Path {
	return &api.Path{Family: ipv4Unicast, NlriBinary: nlri(p), Pattrs: apiAttributes(&pathAttributes{nextHop: home}, 65001)}
}

func (b bare) announce(ps []netip.Prefix) {
	for _, p := range ps {
		if _, err := b.srv.AddPath(context.Background(), &api.AddPathRequest{Path: b.path(p)}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b bare) withdraw(ps []netip.Prefix) {
	for _, p := range ps {
		if err := b.srv.DeletePath(context.Background(), &api.DeletePathRequest{Path: b.path(p)}); err != nil {
			b.Fatal(err)
		}
	}
}

func newSpeaking(t testing.TB, r *sink.Router) announcer {
	sp, err := New(towards(r), Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sp.Stop(context.Background(), "bench over") })
	return speaking{t, sp}
}

func newBare(t testing.TB, r *sink.Router) announcer {
	srv := server.NewBgpServer(server.LoggerOption(&gobgpLog{}))
	go srv.Serve()
	ctx := context.Background()
	if err := srv.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: 65001, RouterId: "192.0.2.1", ListenPort: -1}}); err != nil {
		t.Fatal(err)
	}
	err := srv.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: r.Addr().Addr().String(), PeerAsn: 65000},
		Transport: &api.Transport{RemotePort: uint32(r.Addr().Port()), LocalAddress: home.String()},
		Timers:    &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, HoldTime: 9, KeepaliveInterval: 3}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.StopBgp(ctx, &api.StopBgpRequest{}) })
	return bare{t, srv}
}

// BenchmarkIdle is what a speaker with one router and 100 prefixes costs when
// nothing happens: resident memory of the whole process, and processor time.
func BenchmarkIdle(b *testing.B) {
	ps := hostRoutes(100)
	r := listenSink(b, sink.Options{})
	newSpeaking(b, r).announce(ps)
	hears(b, r, "all", func(t sink.Table) bool { return len(t[home]) == len(ps) })
	debug.FreeOSMemory()
	var before, after syscall.Rusage
	const watch = 3 * time.Second
	for b.Loop() {
		syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		<-time.After(watch)
		syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	}
	cpu := func(u syscall.Rusage) time.Duration {
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ReportMetric(100*float64(cpu(after)-cpu(before))/float64(watch), "%cpu")
	b.ReportMetric(resident(b), "MB-resident")
	b.ReportMetric(0, "ns/op")
}

// resident reads this process's resident memory.
func resident(b *testing.B) float64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(raw), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / 1e6
}

// BenchmarkWire measures from the call to the last prefix read at the router:
// the speaker and bare GoBGP in turn, each with a router of its own, and the
// ratio of the two.
func BenchmarkWire(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ps := hostRoutes(n)
			type side struct {
				r        *sink.Router
				a        announcer
				up, down []time.Duration
			}
			var sides [2]side
			for i, open := range []func(testing.TB, *sink.Router) announcer{newSpeaking, newBare} {
				r := listenSink(b, sink.Options{})
				sides[i] = side{r: r, a: open(b, r)}
			}
			for _, s := range sides {
				hears(b, s.r, "a session", func(t sink.Table) bool { return t[home] != nil })
			}
			for b.Loop() {
				for i := range sides {
					s := &sides[i]
					t0 := time.Now()
					s.a.announce(ps)
					hears(b, s.r, "all", func(t sink.Table) bool { return len(t[home]) == n })
					t1 := time.Now()
					s.a.withdraw(ps)
					hears(b, s.r, "none", func(t sink.Table) bool { return len(t[home]) == 0 })
					s.up, s.down = append(s.up, t1.Sub(t0)), append(s.down, time.Since(t1))
				}
			}
			up, down := median(sides[0].up), median(sides[0].down)
			b.ReportMetric(up, "ms-announce")
			b.ReportMetric(down, "ms-withdraw")
			b.ReportMetric(up/median(sides[1].up), "x-gobgp-announce")
			b.ReportMetric(down/median(sides[1].down), "x-gobgp-withdraw")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// median in milliseconds.
func median(ds []time.Duration) float64 {
	slices.Sort(ds)
	return float64(ds[len(ds)/2]) / float64(time.Millisecond)
}

// BenchmarkOneOfMany is a withdrawal while ten thousand others stay.
func BenchmarkOneOfMany(b *testing.B) {
	ps := hostRoutes(10_000)
	r := listenSink(b, sink.Options{})
	a := newSpeaking(b, r).(speaking)
	var took []time.Duration
	for b.Loop() {
		a.announce(ps)
		hears(b, r, "all", func(t sink.Table) bool { return len(t[home]) == len(ps) })
		eventually(b, a.Speaker, "all proven", func(x steadycast.Actual) bool {
			return len(x.Sent) == len(ps) && x.Sent[0].Announced && !slices.ContainsFunc(x.Sent, func(s steadycast.Sent) bool { return s.Acked.IsZero() })
		})
		t0 := time.Now()
		a.announce(ps[1:])
		hears(b, r, "one gone", func(t sink.Table) bool { return len(t[home]) == len(ps)-1 })
		took = append(took, time.Since(t0))
	}
	b.ReportMetric(median(took), "ms-withdraw")
	b.ReportMetric(0, "ns/op")
}
