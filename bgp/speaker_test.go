package bgp

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

// patience is how long a test waits for something that takes at most a few
// seconds on an idle machine.
const patience = 40 * time.Second

var (
	home = netip.MustParseAddr("127.0.0.1")
	net1 = netip.MustParsePrefix("192.0.2.0/24")
	net2 = netip.MustParsePrefix("198.51.100.0/24")
	net6 = netip.MustParsePrefix("2001:db8:53::/48")
)

var quiet = slog.New(slog.DiscardHandler)

// listenSink starts a router on a loopback address.
func listenSink(t testing.TB, o sink.Options) *sink.Router {
	t.Helper()
	r, err := sink.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// towards returns settings for one eBGP neighbour per router, named r0, r1, …
func towards(rs ...*sink.Router) Settings {
	s := Settings{
		ASN: 65001, RouterID: netip.MustParseAddr("192.0.2.1"),
		Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
	}
	for i, r := range rs {
		s.Neighbors = append(s.Neighbors, Neighbor{
			Name: "r" + string(rune('0'+i)), Address: r.Addr().Addr(), Port: r.Addr().Port(), ASN: 65000,
			NextHop6: netip.MustParseAddr("2001:db8::1"),
		})
	}
	return s
}

func speak(t testing.TB, s Settings) *Speaker {
	t.Helper()
	sp, err := New(s, Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		sp.Stop(ctx, "the test is over")
	})
	return sp
}

func routes(ps ...netip.Prefix) []steadycast.Route {
	var rs []steadycast.Route
	for _, p := range ps {
		rs = append(rs, steadycast.Route{Prefix: p})
	}
	return rs
}

// apply applies routes as the next version.
func apply(t testing.TB, sp *Speaker, rs ...steadycast.Route) {
	t.Helper()
	set := steadycast.RouteSet{Incarnation: 1, Version: sp.Actual().Version + 1, Routes: rs}
	if err := sp.Apply(set); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until cond holds of what sp says.
func eventually(t testing.TB, sp *Speaker, what string, cond func(steadycast.Actual) bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond(sp.Actual()) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s; now %+v", patience, what, sp.Actual())
		}
		<-tick.C
	}
}

// hears waits until the table of r fits cond.
func hears(t testing.TB, r *sink.Router, what string, cond func(sink.Table) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Wait(ctx, cond); err != nil {
		t.Fatalf("%s: %v; table %v", what, err, r.Table())
	}
}

func established(a steadycast.Actual) bool {
	for _, p := range a.Peers {
		if !p.Up() {
			return false
		}
	}
	return true
}

func TestAnnounceAndWithdraw(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	apply(t, sp, routes(net1, net6)...)
	hears(t, r, "two prefixes", func(tb sink.Table) bool { return len(tb[home]) == 2 })
	eventually(t, sp, "both acknowledged", func(a steadycast.Actual) bool {
		return len(a.Sent) == 2 && !a.Sent[0].Acked.IsZero() && !a.Sent[1].Acked.IsZero()
	})
	apply(t, sp, routes(net6)...)
	hears(t, r, "one prefix", func(tb sink.Table) bool { return len(tb[home]) == 1 })
	eventually(t, sp, "withdrawal acknowledged", func(a steadycast.Actual) bool {
		return !a.Sent[0].Announced && !a.Sent[0].Acked.IsZero()
	})
}
