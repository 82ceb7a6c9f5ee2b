package bgp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"

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

// BenchmarkWire measures from the call to the last prefix read at the router.
func BenchmarkWire(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		ps := hostRoutes(n)
		for _, who := range []struct {
			name string
			new  func(testing.TB, *sink.Router) announcer
		}{{"steadycast", newSpeaking}, {"gobgp", newBare}} {
			b.Run(fmt.Sprintf("%d/%s", n, who.name), func(b *testing.B) {
				r := listenSink(b, sink.Options{})
				a := who.new(b, r)
				hears(b, r, "a session", func(t sink.Table) bool { return t[home] != nil })
				var up, down time.Duration
				for b.Loop() {
					t0 := time.Now()
					a.announce(ps)
					hears(b, r, "all", func(t sink.Table) bool { return len(t[home]) == n })
					t1 := time.Now()
					a.withdraw(ps)
					hears(b, r, "none", func(t sink.Table) bool { return len(t[home]) == 0 })
					up += t1.Sub(t0)
					down += time.Since(t1)
				}
				b.ReportMetric(float64(up.Microseconds())/float64(b.N)/1000, "ms/announce")
				b.ReportMetric(float64(down.Microseconds())/float64(b.N)/1000, "ms/withdraw")
			})
		}
	}
}
