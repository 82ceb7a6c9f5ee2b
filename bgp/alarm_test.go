package bgp

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/loopback"
)

// Should anything before it fail, the wire holds a route back, and says so.
func TestHeldBackIsAnAlarm(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	apply(t, sp, routes(net2)...)
	hears(t, r, "announced", func(tb sink.Table) bool { return held(tb) == 1 })
	sp.neighbors[0].allow.Store(newAllowList([]netip.Prefix{net2}))
	apply(t, sp, routes(net1, net2)...)
	eventually(t, sp, "both alarms", func(a steadycast.Actual) bool {
		return strings.Contains(a.Alarm, "an UPDATE was held back: 192.0.2.0/24 is not in the allow-list") &&
			strings.Contains(a.Alarm, "r0: the session is up, and only 1 of 2 prefixes are announced (192.0.2.0/24 is not)")
	})
	if held(r.Table()) != 1 {
		t.Errorf("it left: %v", r.Table())
	}
	// A change that does not leave is not proven by the acknowledgement of what
	// left before.
	sp.neighbors[0].allow.Store(newAllowList(nil))
	changed := routes(net2)
	changed[0].Communities = []steadycast.Community{7}
	apply(t, sp, changed...)
	eventually(t, sp, "the row named stale", func(a steadycast.Actual) bool {
		i := slices.IndexFunc(a.Sent, func(r steadycast.Sent) bool { return r.Prefix == net2 })
		return a.Sent[i].Stale && a.Sent[i].Announced && !a.Sent[i].Acked.IsZero()
	})
	apply(t, sp, routes(net2)...)
	eventually(t, sp, "that it is no longer missing", func(a steadycast.Actual) bool { return !strings.Contains(a.Alarm, "only") })
}

func TestMissing(t *testing.T) {
	sent := func(ps ...netip.Prefix) (out []steadycast.Sent) {
		for _, p := range ps {
			out = append(out, steadycast.Sent{Prefix: p, Announced: true})
		}
		return out
	}
	gone := sent(net1)
	gone[0].Announced = false
	for i, c := range []struct {
		routes []steadycast.Route
		v      neighborView
		want   string
	}{
		{nil, neighborView{sent: sent(net1)}, ""},
		{routes(net1, net2), neighborView{sent: sent(net1, net2)}, ""},
		{routes(net1, net2), neighborView{}, "only 0 of 2 prefixes are announced (192.0.2.0/24 is not)"},
		{routes(net1, net2), neighborView{sent: sent(net1)}, "only 1 of 2 prefixes are announced (198.51.100.0/24 is not)"},
		{routes(net1), neighborView{sent: gone}, "only 0 of 1"},
		{routes(net1, net6), neighborView{sent: sent(net1)}, ""}, // not negotiated: another alarm
	} {
		c.v.peer.Families = []string{familyIPv4}
		if got := missing(c.routes, c.v); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// A router that goes silent is given up when the hold time is over, and told.
func TestHoldTimer(t *testing.T) {
	t.Parallel()
	at := loopback.Own(t)
	sp := speak(t, passive(t, 31, at))
	awaited(t, sp, at)
	t0 := time.Now()
	_, f := join(t, 31, at, "")
	for {
		m, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		if m[18] == msgNotification {
			if m[headerLen] != codeHold {
				t.Errorf("heard %s", codeName(m[headerLen], m[headerLen+1]))
			}
			break
		}
	}
	if d := time.Since(t0); d < 2900*time.Millisecond || d > time.Minute {
		t.Errorf("given up after %s with a hold time of 3s", d)
	}
	eventually(t, sp, "the reason", func(a steadycast.Actual) bool {
		return a.Peers[0].LastError == "this side closed the session: hold timer expired (4/0)" && a.Peers[0].Flaps == 1
	})
}

func TestBindDevice(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	s := towards(r)
	s.Neighbors[0].BindDevice = "lo"
	sp := speak(t, s)
	apply(t, sp, routes(net1)...)
	hears(t, r, "announced", func(tb sink.Table) bool { return held(tb) == 1 })
	s.Neighbors[0].BindDevice = "no-such-device"
	if err := sp.Reconfigure(s); err != nil {
		t.Fatal(err)
	}
	eventually(t, sp, "the reason", func(a steadycast.Actual) bool {
		return a.Peers[0].LastError == "bind_device no-such-device does not exist"
	})
}

// Many speakers in one process, as the demo has: started at one moment, and
// changed from several goroutines at once.
func TestManySpeakers(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			s := towards(r)
			s.ASN += uint32(i)
			s.Neighbors[0].LocalAddress = netip.AddrFrom4([4]byte{127, 0, 0, byte(41 + i)})
			sp := speak(t, s)
			for j := range 20 {
				all.Go(func() {
					sp.Apply(steadycast.RouteSet{Incarnation: 1, Version: uint64(j), Routes: routes(net1, net2)[j%2:]})
					sp.Actual()
					sp.Plan(s)
				})
			}
			all.Go(func() {
				t := s
				t.Neighbors = []Neighbor{s.Neighbors[0]}
				t.Neighbors[0].MED = new(uint32(i))
				sp.Reconfigure(t)
			})
		})
	}
	all.Wait()
	hears(t, r, "one set of each", func(tb sink.Table) bool {
		n := 0
		for i := range 5 {
			table := tb[netip.AddrFrom4([4]byte{127, 0, 0, byte(41 + i)})]
			a, ok := table[net2]
			if len(table) == 1 && ok && a.ASPath[0] == uint32(65001+i) && a.MED != nil && *a.MED == uint32(i) {
				n++
			}
		}
		return n == 5
	})
}

// A second Apply is not held up by the first one's ten thousand announcements.
func TestNewestWishWins(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	apply(t, sp, routes(net1)...)
	hears(t, r, "announced", func(tb sink.Table) bool { return held(tb) == 1 })
	many := append(hostRoutes(5_000), net1)
	done := make(chan error, 1)
	go func() { done <- sp.Apply(steadycast.RouteSet{Incarnation: 1, Version: 2, Routes: routes(many...)}) }()
	hears(t, r, "the first few", func(tb sink.Table) bool { return held(tb) > 100 })
	t0 := time.Now()
	go func() {
		done <- sp.Apply(steadycast.RouteSet{Incarnation: 1, Version: 3, Routes: routes(many[:5_000]...)})
	}()
	hears(t, r, "the withdrawal", func(tb sink.Table) bool { _, ok := tb[home][net1]; return !ok })
	d, n := time.Since(t0), held(r.Table())
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	hears(t, r, "all", func(tb sink.Table) bool { return held(tb) == 5_000 })
	t.Logf("withdrawn after %s, with %d of 5000 announced", d, n)
	if n == 5_000 && d > 50*time.Millisecond {
		t.Errorf("the withdrawal waited for every announcement")
	}
}
