package bgp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"go.uber.org/goleak"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/loopback"
)

func held(t sink.Table) int { return len(t[home]) }

// up waits until every session of sp is established, on both sides.
func up(t testing.TB, sp *Speaker, rs ...*sink.Router) {
	t.Helper()
	eventually(t, sp, "every session established", established)
	for _, r := range rs {
		hears(t, r, "a session", func(tb sink.Table) bool { return tb[home] != nil })
	}
}

// undelayed changes a prefix and back on sp, again and again, and fails if r, a
// healthy router, never hears the withdrawal in time: the machine may be busy
// now and then, what holds a withdrawal up does so each time.
func undelayed(t *testing.T, sp *Speaker, r *sink.Router, rs []steadycast.Route) {
	t.Helper()
	const limit = 50 * time.Millisecond
	best := time.Hour
	for range 20 {
		apply(t, sp, rs...)
		hears(t, r, "all announced", func(tb sink.Table) bool { return held(tb) == len(rs) })
		t0 := time.Now()
		apply(t, sp, rs[1:]...)
		hears(t, r, "one withdrawn", func(tb sink.Table) bool { return held(tb) == len(rs)-1 })
		if best = min(best, time.Since(t0)); best < limit {
			t.Logf("withdrawal after %s", best)
			return
		}
	}
	t.Errorf("a healthy router heard no withdrawal sooner than after %s, more than %s", best, limit)
}

// The three messages that kill GoBGP v3.37, from an established router.
var killers = map[string][]byte{
	"MP_REACH_NLRI of 3 octets": message(msgUpdate, []byte{0, 0, 0, 6, 0x80, attrMPReach, 3, 0, 1, 1}),
	"message of type 9":         message(9, nil),
	// Well formed: an SRv6 service with a sub-TLV of a type not known (RFC 9252 §2).
	"Prefix-SID": message(msgUpdate, []byte{0, 0, 0, 11, 0xc0, 40, 8, 5, 0, 5, 0, 2, 0, 1, 0}),
}

// What the wire is there for: should this fail, GoBGP has learnt to survive.
func TestKillersKill(t *testing.T) {
	for name, m := range killers {
		parse := func() (got any) {
			defer func() {
				if r := recover(); r != nil {
					got = r
				}
			}()
			m, err := packet.ParseBGPMessage(m)
			if m == nil && err != nil {
				return "no message, which the caller dereferences"
			}
			return nil
		}
		if parse() == nil {
			t.Errorf("%s: GoBGP reads it without harm", name)
		}
	}
}

func TestKillingMessages(t *testing.T) {
	t.Parallel()
	for name, m := range killers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
			sp := speak(t, towards(bad, good))
			rs := routes(net1, net2)
			apply(t, sp, rs...)
			up(t, sp, bad, good)
			for range 3 {
				if err := bad.SendRaw(home, m); err != nil {
					break // the session was reset: that is the answer to an unknown type
				}
			}
			eventually(t, sp, "the message counted or answered", func(a steadycast.Actual) bool {
				return a.Peers[0].UpdatesDropped >= 3 || strings.Contains(a.Peers[0].LastError, "unknown type 9")
			})
			undelayed(t, sp, good, rs)
			if m[18] == msgUpdate {
				if p := sp.Actual().Peers[0]; !p.Up() || p.Flaps != 0 {
					t.Errorf("a malformed UPDATE, which nobody needs, cost the session: %+v", p)
				}
			} else {
				eventually(t, sp, "the session again", established)
				ns := bad.Notifications()
				if len(ns) == 0 || ns[0].Code != 1 || ns[0].Sub != 3 || !reflect.DeepEqual(ns[0].Data, []byte{9}) {
					t.Errorf("the router heard %+v; want 1/3 and the type (RFC 4271 §6.1)", ns)
				}
			}
		})
	}
}

func TestHoldTimeZeroIsRefused(t *testing.T) {
	t.Parallel()
	bad, good := listenSink(t, sink.Options{HoldZero: true}), listenSink(t, sink.Options{})
	sp := speak(t, towards(bad, good))
	rs := routes(net1, net2)
	apply(t, sp, rs...)
	hears(t, good, "all", func(tb sink.Table) bool { return held(tb) == 2 })
	eventually(t, sp, "the refusal", func(a steadycast.Actual) bool {
		return strings.Contains(a.Peers[0].LastError, "hold time of 0s")
	})
	if len(bad.Table()) != 0 {
		t.Errorf("a session came up: %v", bad.Table())
	}
	if ns := bad.Notifications(); len(ns) == 0 || ns[0].Code != 2 || ns[0].Sub != 6 {
		t.Errorf("the router heard %+v; want 2/6 (RFC 4271 §6.2)", ns)
	}
	undelayed(t, sp, good, rs)
}

// Not parallel: it looks at the memory of the process.
func TestFullTable(t *testing.T) {
	bad, good := listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
	sp := speak(t, towards(bad, good))
	rs := routes(net1, net2)
	apply(t, sp, rs...)
	up(t, sp, bad, good)
	before := heap()
	// The table again and again, until the measurement is over.
	var measured atomic.Bool
	sent := make(chan int, 1)
	go func() {
		n := 0
		for n == 0 || !measured.Load() {
			if err := bad.SendUpdates(home, 100_000); err != nil {
				t.Error(err)
				break
			}
			n += 1000
		}
		sent <- n
	}()
	undelayed(t, sp, good, rs)
	measured.Store(true)
	n := uint64(<-sent)
	eventually(t, sp, "every UPDATE counted", func(a steadycast.Actual) bool { return a.Peers[0].UpdatesDropped == n })
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("a full table of a router left %d KiB", grown>>10)
	}
	if p := sp.Actual().Peers[0]; p.Malformed != 0 || !p.Up() {
		t.Errorf("well-formed UPDATEs: %+v", p)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Nothing a router says is ever said to another, and no route of its takes the
// place of ours.
func TestNothingIsLearnt(t *testing.T) {
	t.Parallel()
	a, b := listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
	sp := speak(t, towards(a, b))
	apply(t, sp, routes(net1)...)
	up(t, sp, a, b)
	hears(t, b, "ours", func(tb sink.Table) bool { return held(tb) == 1 })
	// 198.51.100.0/24, and our own 192.0.2.0/24 as another site has it.
	u := []byte{0, 0, 0, 20, 0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8, 0x40, 3, 4, 127, 0, 0, 1, 24, 198, 51, 100, 24, 192, 0, 2}
	if err := a.SendRaw(home, message(msgUpdate, u)); err != nil {
		t.Fatal(err)
	}
	eventually(t, sp, "it arrived", func(x steadycast.Actual) bool { return x.Peers[0].UpdatesDropped == 1 })
	apply(t, sp)
	for _, r := range []*sink.Router{a, b} {
		hears(t, r, "withdrawn", func(tb sink.Table) bool { return held(tb) == 0 })
	}
	apply(t, sp, routes(net1)...)
	hears(t, b, "ours again", func(tb sink.Table) bool { return held(tb) == 1 })
	for p, at := range b.Table()[home] {
		if p != net1 || !reflect.DeepEqual(at.ASPath, []uint32{65001}) {
			t.Errorf("the other router hears %s %+v", p, at)
		}
	}
	if n := b.Updates(home); n != 3 {
		t.Errorf("the other router got %d UPDATEs; announce, withdraw, announce are 3", n)
	}
}

// Each kind of change is one UPDATE and no withdrawal; no change is none.
func TestChangeIsOneUpdate(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	s := towards(r)
	sp := speak(t, s)
	apply(t, sp, routes(net1)...)
	hears(t, r, "announced", func(tb sink.Table) bool { return held(tb) == 1 })
	first := <-r.Events()
	if !first.Announce {
		t.Fatalf("%+v", first)
	}
	route := steadycast.Route{Prefix: net1}
	stages := []struct {
		name   string
		change func()
		want   func(steadycast.Attributes) bool
	}{
		{"community", func() { route.Communities = []steadycast.Community{65001<<16 | 7} },
			func(a steadycast.Attributes) bool { return len(a.Communities) == 1 }},
		{"large community", func() { route.LargeCommunities = []steadycast.LargeCommunity{{Global: 65001, Data1: 2, Data2: 3}} },
			func(a steadycast.Attributes) bool { return len(a.LargeCommunities) == 1 }},
		{"MED", func() { route.MED = new(uint32(50)) }, func(a steadycast.Attributes) bool { return a.MED != nil && *a.MED == 50 }},
		{"depreferred", func() { route.Stance = steadycast.Depreferred }, func(a steadycast.Attributes) bool { return len(a.ASPath) == 4 }},
		{"normal", func() { route.Stance = steadycast.Normal }, func(a steadycast.Attributes) bool { return len(a.ASPath) == 1 }},
		{"next hop", func() {
			s = towards(r)
			s.Neighbors[0].NextHop4 = netip.MustParseAddr("192.0.2.77")
			if err := sp.Reconfigure(s); err != nil {
				t.Fatal(err)
			}
		}, func(a steadycast.Attributes) bool { return a.NextHop == netip.MustParseAddr("192.0.2.77") }},
	}
	for _, st := range stages {
		before := r.Updates(home)
		st.change()
		apply(t, sp, route)
		apply(t, sp, route) // again: nothing
		e := <-r.Events()
		if !e.Announce || !st.want(e.Attributes) {
			t.Errorf("%s: heard %+v", st.name, e)
		}
		fence(t, sp, r, route)
		if n := r.Updates(home) - before - 2; n != 1 {
			t.Errorf("%s: %d UPDATEs, want one", st.name, n)
		}
	}
}

// fence makes sure r has read everything sent so far, at the cost of two UPDATEs.
func fence(t *testing.T, sp *Speaker, r *sink.Router, keep ...steadycast.Route) {
	t.Helper()
	p := netip.MustParsePrefix("198.51.100.0/24")
	with := append(slices.Clone(keep), steadycast.Route{Prefix: p})
	slices.SortFunc(with, func(a, b steadycast.Route) int { return comparePrefix(a.Prefix, b.Prefix) })
	apply(t, sp, with...)
	hears(t, r, "the fence", func(tb sink.Table) bool { _, ok := tb[home][p]; return ok })
	apply(t, sp, keep...)
	hears(t, r, "no fence", func(tb sink.Table) bool { _, ok := tb[home][p]; return !ok })
	for range 2 {
		<-r.Events()
	}
}

// Withdrawing what was never announced is nothing, also on a cold start.
func TestWithdrawOfNothing(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	apply(t, sp)
	up(t, sp, r)
	apply(t, sp)
	fence(t, sp, r)
	if n := r.Updates(home); n != 2 {
		t.Errorf("%d UPDATEs; the fence alone is 2", n)
	}
}

func TestInternalSession(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{ASN: 65001})
	s := towards(r)
	s.Neighbors[0].ASN = 65001
	sp := speak(t, s)
	apply(t, sp, steadycast.Route{Prefix: net1}, steadycast.Route{Prefix: net2, Stance: steadycast.Depreferred})
	hears(t, r, "both", func(tb sink.Table) bool { return held(tb) == 2 })
	tb := r.Table()[home]
	if a := tb[net1]; len(a.ASPath) != 0 || a.LocalPref == nil || *a.LocalPref != 100 || len(a.Communities) != 0 {
		t.Errorf("normal: %+v", a)
	}
	a := tb[net2]
	if len(a.ASPath) != 0 || a.LocalPref == nil || *a.LocalPref != 0 || len(a.Communities) != 1 || a.Communities[0] != steadycast.GracefulShutdown {
		t.Errorf("depreferred: %+v", a)
	}
}

func TestExternalSession(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		t.Run(fmt.Sprintf("two-octet router %v", two), func(t *testing.T) {
			t.Parallel()
			r := listenSink(t, sink.Options{TwoOctet: two})
			s := towards(r)
			s.ASN = 4200000001
			n := &s.Neighbors[0]
			n.Prepend, n.MED = 2, new(uint32(5))
			n.Communities = []steadycast.Community{1<<16 | 1}
			sp := speak(t, s)
			apply(t, sp, steadycast.Route{Prefix: net1}, steadycast.Route{Prefix: net2, Stance: steadycast.Draining})
			hears(t, r, "both", func(tb sink.Table) bool { return held(tb) == 2 })
			own := uint32(4200000001)
			tb := r.Table()[home]
			if a := tb[net1]; !reflect.DeepEqual(a.ASPath, []uint32{own, own, own}) || *a.MED != 5 || a.LocalPref != nil {
				t.Errorf("normal: %+v", a)
			}
			if a := tb[net2]; len(a.ASPath) != 6 || *a.MED != 4294967294 || len(a.Communities) != 2 {
				t.Errorf("draining: %+v", a)
			}
			// What this side says it sent is what the other reader read.
			eventually(t, sp, "both rows", func(a steadycast.Actual) bool { return len(a.Sent) == 2 })
			for _, row := range sp.Actual().Sent {
				if got := tb[row.Prefix]; !reflect.DeepEqual(row.Attributes, got) {
					t.Errorf("sent %+v, heard %+v", row.Attributes, got)
				}
			}
		})
	}
}

func TestWrongASN(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{ASN: 65009})
	sp := speak(t, towards(r))
	eventually(t, sp, "the reason", func(a steadycast.Actual) bool {
		return strings.Contains(a.Peers[0].LastError, "the router says it is AS 65009; asn here is 65000")
	})
	if p := sp.Actual().Peers[0]; p.Flaps != 0 {
		t.Errorf("%+v", p)
	}
}

// A router that is there only later, and one that loses the session.
func TestComesBack(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{Address: loopback.Own(t).String()})
	s := towards(r)
	s.Neighbors[0].ConnectRetry = time.Second
	at := r.Addr().String()
	r.Close()
	sp := speak(t, s)
	apply(t, sp, routes(net1, net6)...)
	eventually(t, sp, "refused", func(a steadycast.Actual) bool {
		return strings.Contains(a.Peers[0].LastError, "refused the connection")
	})
	r = listenSink(t, sink.Options{Address: at})
	hears(t, r, "everything replayed", func(tb sink.Table) bool { return held(tb) == 2 })

	// The machine may be busy now and then; what GoBGP waits for by itself, it
	// waits for each time.
	best, losses := time.Hour, uint64(0)
	for best > 6*time.Second && losses < 4 {
		began := time.Now()
		if err := r.Reset(home); err != nil {
			t.Fatal(err)
		}
		losses++
		eventually(t, sp, "the loss seen and its rows forgotten", func(a steadycast.Actual) bool { return !a.Peers[0].Up() && len(a.Sent) == 0 })
		hears(t, r, "everything replayed", func(tb sink.Table) bool { return held(tb) == 2 })
		best = min(best, time.Since(began))
		eventually(t, sp, "up again", established)
	}
	if t.Logf("back after %s", best); best > 6*time.Second {
		t.Errorf("the session was back after %s; GoBGP by itself takes 6.5 to 7.1 s, 2 s are its least", best)
	}
	if p := sp.Actual().Peers[0]; p.Flaps != losses {
		t.Errorf("%d losses, %+v", losses, p)
	}
}

// A router that takes the connection and says nothing does not hold us 240 s.
func TestSilentRouter(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := listenSink(t, sink.Options{})
	s := towards(r)
	at := l.Addr().(*net.TCPAddr).AddrPort()
	s.Neighbors[0].Port, s.Neighbors[0].HoldTime = at.Port(), 3*time.Second
	sp := speak(t, s)
	eventually(t, sp, "given up", func(a steadycast.Actual) bool {
		return strings.Contains(a.Peers[0].LastError, "did not complete the handshake within 6s")
	})
}

// A stuck router is named, loses its session by the send hold timer, delays
// nobody, and cannot hold Stop.
func TestStuckRouter(t *testing.T) {
	t.Parallel()
	bad, good := listenSink(t, sink.Options{ReceiveBuffer: 4096}), listenSink(t, sink.Options{})
	s := towards(bad, good)
	s.Neighbors[0].HoldTime = 3 * time.Second
	sp := speak(t, s)
	rs := routes(net1, net2)
	apply(t, sp, rs...)
	up(t, sp, bad, good)
	bad.StopReading(true)
	// Enough to fill what the kernels hold.
	many := routes(hostRoutes(30_000)...)
	apply(t, sp, many...)
	eventually(t, sp, "stuck", func(a steadycast.Actual) bool { return a.Peers[0].State == "stuck" })
	if p := sp.Actual().Peers[1]; !p.Up() {
		t.Errorf("the other router: %+v", p)
	}
	apply(t, sp, rs...)
	undelayed(t, sp, good, rs)
	eventually(t, sp, "reset by the send hold timer", func(a steadycast.Actual) bool {
		return strings.Contains(a.Peers[0].LastError, "send hold timer")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	t0 := time.Now()
	if err := sp.Stop(ctx, "enough"); err != nil {
		t.Errorf("Stop: %v", err)
	}
	t.Logf("stopped after %s", time.Since(t0))
}

func TestStopSaysWhy(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	up(t, sp, r)
	reason := "upgrade to 1.2 " + strings.Repeat("ä", 200)
	if err := sp.Stop(t.Context(), reason); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Wait(ctx, func(tb sink.Table) bool { return len(tb) == 0 }); err != nil {
		t.Fatal(err)
	}
	ns := r.Notifications()
	if len(ns) != 1 || ns[0].Code != 6 || ns[0].Sub != 2 {
		t.Fatalf("%+v", ns)
	}
	text := string(ns[0].Data[1:])
	if int(ns[0].Data[0]) != len(text) || len(text) != 255 || !strings.HasPrefix(reason, text) {
		t.Errorf("%d octets: %q", ns[0].Data[0], text)
	}
	if sp.Actual().Peers[0].State != "stopped" || sp.Apply(steadycast.RouteSet{Incarnation: 9}) == nil {
		t.Errorf("after Stop: %+v", sp.Actual().Peers[0])
	}
}

// A session of one family leaves the other family's prefix unannounced, and
// says so.
func TestFamilyNotNegotiated(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{Families: []string{"ipv4"}})
	sp := speak(t, towards(r))
	apply(t, sp, routes(net1, net6)...)
	hears(t, r, "IPv4", func(tb sink.Table) bool { return held(tb) == 1 })
	eventually(t, sp, "the alarm", func(a steadycast.Actual) bool {
		return strings.Contains(a.Alarm, "2001:db8:53::/48 is announced to nobody: no established session carries ipv6")
	})
	eventually(t, sp, "the count", func(a steadycast.Actual) bool { return a.Peers[0].Announced == 1 })
	if p := sp.Actual().Peers[0]; !reflect.DeepEqual(p.Families, []string{"ipv4"}) {
		t.Errorf("%+v", p)
	}
}

func TestRouteRefresh(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	apply(t, sp, routes(net1, net6)...)
	hears(t, r, "both", func(tb sink.Table) bool { return held(tb) == 2 })
	before := r.Updates(home)
	rr := message(msgRouteRefresh, []byte{0, 1, 0, 1})
	for range 100 { // one now, one after a second, and not one each
		if err := r.SendRaw(home, rr); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for r.Updates(home) < before+2 {
		if err := nextChange(ctx, r); err != nil {
			t.Fatalf("%d UPDATEs after 100 ROUTE-REFRESHes, want 2: %v", r.Updates(home)-before, err)
		}
	}
	fence(t, sp, r, routes(net1, net6)...)
	if n := r.Updates(home) - before; n != 4 {
		t.Errorf("%d UPDATEs after 100 ROUTE-REFRESHes and a fence, want 2 and 2", n)
	}
}

// nextChange waits for the next change at r.
func nextChange(ctx context.Context, r *sink.Router) error {
	first := true
	return r.Wait(ctx, func(sink.Table) bool { was := first; first = false; return !was })
}

// The gate takes GoBGP, not whoever finds the port.
func TestGateTakesOnlyOurOwn(t *testing.T) {
	t.Parallel()
	g, err := openGate()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	stranger := exec.Command("bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d; read -u 3 -t 10; true", g.port()))
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	strangerSeen := make(chan struct{})
	go func() {
		// The stranger is reset, so that its read ends and it exits.
		stranger.Wait()
		close(strangerSeen)
	}()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := g.accept(ctx)
		if err == nil {
			accepted <- c
		}
	}()
	select {
	case <-strangerSeen:
	case <-accepted:
		t.Fatal("a stranger's connection was taken")
	case <-ctx.Done():
		t.Fatal("the stranger was not turned away")
	}
	own, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.port()))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	select {
	case c := <-accepted:
		c.Close()
	case <-ctx.Done():
		t.Fatal("our own connection was not taken")
	}
}

// Servers are used again: neighbours that come and go, many at one moment, leave
// nothing more behind, and never wait for each other for good.
func TestServersAreReused(t *testing.T) {
	cycle := func() {
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				e, err := newEngine(65001, netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}), quiet)
				if err != nil {
					t.Error(err)
					return
				}
				if err := e.announce(net1, apiAttributes(&pathAttributes{nextHop: home}, 65001)); err != nil {
					t.Error(err)
				}
				e.stop()
			})
		}
		all.Wait()
	}
	var first []*engine // as many as a cycle can need at one moment
	for range 6 {
		e, err := newEngine(65001, netip.MustParseAddr("192.0.2.1"), quiet)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, e)
	}
	for _, e := range first {
		e.stop()
	}
	before := runtime.NumGoroutine()
	for range 100 {
		cycle()
	}
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before, %d after 600 servers", before, runtime.NumGoroutine())
		}
		runtime.Gosched()
	}
}

// Nothing stays behind when a speaker stops, but the parked GoBGP servers.
func TestNothingLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	r := listenSink(t, sink.Options{})
	passive, at := towards(r), loopback.Own(t)
	passive.Neighbors = append(passive.Neighbors, Neighbor{
		Name: "passive", Address: netip.MustParseAddr("127.0.0.9"), ASN: 65000, Passive: true,
		LocalAddress: at.Addr(), ListenPort: at.Port(), NextHop6: netip.MustParseAddr("2001:db8::1"),
	})
	sp := speak(t, passive)
	apply(t, sp, routes(net1)...)
	hears(t, r, "announced", func(tb sink.Table) bool { return held(tb) == 1 })
	if err := sp.Stop(t.Context(), "leak test"); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("github.com/osrg/gobgp/v3/pkg/server.(*BgpServer).Serve")); err != nil {
		t.Error(err)
	}
}
