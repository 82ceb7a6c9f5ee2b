package dnsfallback

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/steadycast/steadycast/internal/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second // only bounds a hang

// serve runs a server until the test ends, or stop is called.
func serve(t testing.TB, table *Table, change ...func(*Settings)) (v *Server, stop func()) {
	t.Helper()
	s := Settings{Listen: []netip.AddrPort{loopback.Own(t)}, Workers: 2, Identity: "fra-1"}
	for _, c := range change {
		c(&s)
	}
	v, err := Listen(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Set(table); err != nil {
		t.Fatal(err)
	}
	return v, keepServing(t, v)
}

// keepServing lets a server answer until the test ends, or stop is called.
func keepServing(t testing.TB, v *Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// more waits until n more questions were answered, or one was not as it should.
func more(t testing.TB, asked *atomic.Uint64, n uint64) {
	for want := asked.Load() + n; asked.Load() < want && !t.Failed(); {
		time.Sleep(100 * time.Microsecond)
	}
}

func exchange(t testing.TB, network string, at netip.AddrPort, packet []byte) *dns.Msg {
	t.Helper()
	return exchangeFrom(t, network, netip.Addr{}, at, packet)
}

// exchangeFrom asks from one of the host's addresses, or from any if it is none.
func exchangeFrom(t testing.TB, network string, from netip.Addr, at netip.AddrPort, packet []byte) *dns.Msg {
	t.Helper()
	var d net.Dialer
	switch near := netip.AddrPortFrom(from, 0); {
	case !from.IsValid():
	case network == "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(near)
	default:
		d.LocalAddr = net.TCPAddrFromAddrPort(near)
	}
	c, err := d.Dial(network, at.String()) // connected: an answer from elsewhere does not arrive
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	stream := &dns.Conn{Conn: c, UDPSize: 4096}
	if _, err := stream.Write(packet); err != nil {
		t.Fatal(err)
	}
	m, err := stream.ReadMsg()
	if err != nil {
		t.Fatalf("%s at %v: %v", network, at, err)
	}
	return m
}

// TestEveryAddress: each transport and family answers from the address that was
// asked, on one that is given and on an unspecified one.
func TestEveryAddress(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	own := loopback.Own(t)
	six := netip.AddrPortFrom(netip.IPv6Loopback(), own.Port())
	for _, c := range []struct {
		listen netip.AddrPort
		asked  []netip.AddrPort
	}{
		{own, []netip.AddrPort{own}},
		{six, []netip.AddrPort{six}},
		{netip.AddrPortFrom(netip.IPv4Unspecified(), 0), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.77.1.2:0"), netip.MustParseAddrPort("127.200.3.4:0")}},
		{netip.AddrPortFrom(netip.IPv6Unspecified(), 0), []netip.AddrPort{netip.MustParseAddrPort("[::1]:0")}},
	} {
		t.Run(c.listen.String(), func(t *testing.T) {
			v, _ := serve(t, table, func(s *Settings) { s.Listen = []netip.AddrPort{c.listen} })
			for _, at := range c.asked {
				at = netip.AddrPortFrom(at.Addr(), v.Addresses()[0].Port())
				for _, network := range []string{"udp", "tcp"} {
					m := exchange(t, network, at, question(t, "www.example.com", "A"))
					if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 2 {
						t.Errorf("%s at %v:\n%v", network, at, m)
					}
				}
			}
		})
	}
}

// TestBothFamiliesAtOnce: the two unspecified addresses can be listened at side by side.
func TestBothFamiliesAtOnce(t *testing.T) {
	own := loopback.Own(t)
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}), func(s *Settings) {
		s.Listen = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), own.Port()), netip.AddrPortFrom(netip.IPv6Unspecified(), own.Port())}
	})
	for _, a := range []netip.Addr{own.Addr(), netip.IPv6Loopback()} {
		if m := exchange(t, "udp", netip.AddrPortFrom(a, v.Addresses()[0].Port()), question(t, "www.example.com", "AAAA")); len(m.Answer) != 1 {
			t.Error(m)
		}
	}
}

// TestBatch sends more than one batch before it reads anything.
func TestBatch(t *testing.T) {
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}), func(s *Settings) { s.RateLimit = new(0) })
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(v.Addresses()[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 3*batch + 7
	want := map[uint16]string{}
	for i := range n {
		name := fmt.Sprintf("n%d.wild.example.com.", i)
		want[uint16(i)] = name
		if _, err := c.Write(question(t, name, "A", func(m *dns.Msg) { m.Id = uint16(i) })); err != nil {
			t.Fatal(err)
		}
	}
	c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	for range n {
		k, err := c.Read(buf)
		if err != nil {
			t.Fatalf("%d answers are missing: %v", len(want), err)
		}
		var m dns.Msg
		if err := m.Unpack(buf[:k]); err != nil {
			t.Fatal(err)
		}
		if m.Question[0].Name != want[m.Id] || m.Answer[0].Header().Name != want[m.Id] {
			t.Errorf("%d: %v", m.Id, &m)
		}
		delete(want, m.Id)
	}
}

// TestPipeline sends many queries over one connection before it reads: they are
// answered in order, however the octets arrive.
func TestPipeline(t *testing.T) {
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}))
	for _, piece := range []int{1, 3, 100, 1 << 20} {
		c, err := net.Dial("tcp", v.Addresses()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		var all []byte
		n := 1000
		if piece == 1 {
			n = 20
		}
		for i := range n {
			p := question(t, fmt.Sprintf("n%d.wild.example.com", i), "A", func(m *dns.Msg) { m.Id = uint16(i) })
			all = append(binary.BigEndian.AppendUint16(all, uint16(len(p))), p...)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for len(all) > 0 {
				k := min(piece, len(all))
				if _, err := c.Write(all[:k]); err != nil {
					t.Error(err)
					return
				}
				all = all[k:]
			}
		})
		d := &dns.Conn{Conn: c}
		for i := range n {
			m, err := d.ReadMsg()
			if err != nil {
				t.Fatalf("in pieces of %d, answer %d: %v", piece, i, err)
			}
			if m.Id != uint16(i) || m.Question[0].Name != fmt.Sprintf("n%d.wild.example.com.", i) {
				t.Fatalf("answer %d is\n%v", i, m)
			}
		}
		wg.Wait()
		c.Close()
	}
}

// TestLongMessages: a query of any length is read over TCP, and an answer of any length sent.
func TestLongMessages(t *testing.T) {
	z := exampleZones()
	z[0].Records = append(z[0].Records, many(3000)...)
	v, _ := serve(t, mustPolicy(t, z).Table(1, nil, FleetState{}))
	long := question(t, "many.example.com", "A", withOption(&dns.EDNS0_PADDING{Padding: make([]byte, 60000)}))
	if m := exchange(t, "tcp", v.Addresses()[0], long); len(m.Answer) != 3000 {
		t.Errorf("%d answers of 3000", len(m.Answer))
	}
	if m := exchange(t, "udp", v.Addresses()[0], question(t, "many.example.com", "A")); !m.Truncated {
		t.Error("UDP is not sent to TCP")
	}
}

// TestConnectionsAreBounded: in number, in number from one network, and in time.
func TestConnectionsAreBounded(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	ended := func(c net.Conn) bool {
		c.SetReadDeadline(time.Now().Add(patience))
		_, err := c.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err)
	}
	dial := func(at netip.AddrPort, from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", at.String())
		if errors.Is(err, syscall.ECONNRESET) { // turned away before we knew that we were in
			near, far := net.Pipe()
			far.Close()
			return near
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	answered := func(c net.Conn) bool {
		c.SetDeadline(time.Now().Add(patience))
		d := &dns.Conn{Conn: c}
		if _, err := d.Write(question(t, "www.example.com", "A")); err != nil {
			return false
		}
		_, err := d.ReadMsg()
		return err == nil
	}

	v, _ := serve(t, table, func(s *Settings) { s.TCP = TCPSettings{Connections: 3, PerNetwork: 2, Idle: time.Minute} })
	at := v.Addresses()[0]
	a, b := dial(at, "127.1.1.1"), dial(at, "127.1.1.2")
	if !answered(a) || !answered(b) {
		t.Fatal("the first two are not answered")
	}
	if c := dial(at, "127.1.1.3"); !ended(c) {
		t.Error("a third from one network is let in")
	}
	if c := dial(at, "127.1.2.1"); !answered(c) {
		t.Error("a third from another network is turned away")
	}
	if c := dial(at, "127.1.3.1"); !ended(c) {
		t.Error("a fourth is let in")
	}
	if got := v.Counters(); got.TurnedAway != 2 || got.Accepted != 3 {
		t.Errorf("%+v", got)
	}
	a.Close()
	for !func() bool { c := dial(at, "127.1.1.3"); ok := answered(c); c.Close(); return ok }() {
		// until the server has seen that one left
	}

	v, _ = serve(t, table, func(s *Settings) { s.TCP.Idle = 200 * time.Millisecond })
	at = v.Addresses()[0]
	if c := dial(at, "127.0.0.1"); !ended(c) {
		t.Error("a silent connection is kept")
	}
	c := dial(at, "127.0.0.1")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // a query that never ends
		c.Write([]byte{0, 200})
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				c.Write([]byte{0})
			}
		}
	})
	if !ended(c) {
		t.Error("a slow query is waited for")
	}
	close(stop)
	wg.Wait()
	// Nonsense ends the connection at once.
	c = dial(at, "127.0.0.1")
	c.Write([]byte{0, 3, 1, 2, 3})
	if !ended(c) {
		t.Error("nonsense is listened to")
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestUnreadAnswers: who asks and never reads holds up nobody else.
func TestUnreadAnswers(t *testing.T) {
	z := exampleZones()
	z[0].Records = append(z[0].Records, many(3000)...)
	v, stop := serve(t, mustPolicy(t, z).Table(1, nil, FleetState{}), func(s *Settings) { s.TCP.Idle = 300 * time.Millisecond })
	c, err := net.Dial("tcp", v.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := question(t, "many.example.com", "A")
	p = append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...)
	c.SetDeadline(time.Now().Add(patience))
	for range 100_000 { // until the server gives up
		if _, err := c.Write(p); err != nil {
			break
		}
	}
	if m := exchange(t, "tcp", v.Addresses()[0], question(t, "www.example.com", "A")); len(m.Answer) != 2 {
		t.Error("another client is not answered")
	}
	stop()
	if v.Counters().TimedOut == 0 {
		t.Error("the connection was not ended for its slowness")
	}
}

// TestStopAnswersWhatCame: what is in the sockets when the server is told to stop is answered.
func TestStopAnswersWhatCame(t *testing.T) {
	v, stop := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}), func(s *Settings) { s.RateLimit = new(0) })
	c, err := net.Dial("udp", v.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 100
	for range n {
		if _, err := c.Write(question(t, "www.example.com", "A")); err != nil {
			t.Fatal(err)
		}
	}
	stop() // loopback has delivered them all
	c.SetReadDeadline(time.Now().Add(patience))
	for i := range n {
		if _, err := c.Read(make([]byte, 512)); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	if _, err := net.Dial("tcp", v.Addresses()[0].String()); err == nil {
		t.Error("the server still listens")
	}
}

// TestNoTableNoService: nothing is answered from nothing.
func TestNoTableNoService(t *testing.T) {
	v, err := Listen(Settings{Listen: []netip.AddrPort{loopback.Own(t)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Serve(t.Context()); err == nil {
		t.Error("it serves")
	}
	if _, err := Listen(Settings{}, nil); err == nil {
		t.Error("a server that listens nowhere")
	}
}

func TestSettingsProblems(t *testing.T) {
	s := Settings{
		Listen:  []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[::ffff:192.0.2.1]:53"), netip.MustParseAddrPort("192.0.2.1:53")},
		Workers: -1, RateLimit: new(-1), Slip: new(101), TCP: TCPSettings{Connections: -1, PerNetwork: -1, Idle: time.Millisecond},
		Identity: "x123456789012345678901234567890123456789012345678901234567890123456789",
	}
	got := ""
	for _, p := range s.Problems() {
		got += p.String() + "\n"
	}
	want := `listen[1]: [::ffff:192.0.2.1]:53 is IPv4 inside IPv6; write it as IPv4
listen[2]: 192.0.2.1:53 is listen[0] already
workers: -1 is out of range; 1 to 256
rate_limit: -1 is out of range; 0 to 1000000
slip: 101 is out of range; 0 to 100
tcp.connections: -1 is out of range; 1 to 1000000
tcp.per_network: -1 is out of range; 1 to 1000000
tcp.idle: 1ms is out of range; 100ms to 10m
identity: has 70 octets; at most 64, so that it fits every answer
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestWorkerAllocatesNothing takes a query through the sockets.
func TestWorkerAllocatesNothing(t *testing.T) {
	for _, listen := range []netip.AddrPort{loopback.Own(t), netip.AddrPortFrom(netip.IPv4Unspecified(), 0), netip.AddrPortFrom(netip.IPv6Unspecified(), 0)} {
		v, err := Listen(Settings{Listen: []netip.AddrPort{listen}, Workers: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer v.close()
		v.Set(mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}))
		w, err := newWorker(v, v.udp[0])
		if err != nil {
			t.Fatal(err)
		}
		to := v.Addresses()[0]
		if to.Addr().IsUnspecified() {
			to = netip.AddrPortFrom(netip.MustParseAddr("127.3.4.5"), to.Port())
			if listen.Addr().Is6() {
				to = netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
			}
		}
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), 0)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		p, buf := question(t, "www.example.com", "A"), make([]byte, 512)
		read, write := w.read, w.write
		if n := testing.AllocsPerRun(50, func() {
			if _, err := c.WriteToUDPAddrPort(p, to); err != nil {
				t.Fatal(err)
			}
			if err := w.raw.Read(read); err != nil {
				t.Fatal(err)
			}
			w.turn(write)
			if _, from, err := c.ReadFromUDPAddrPort(buf); err != nil || from.Port() != to.Port() || from.Addr().Unmap() != to.Addr() {
				t.Fatalf("from %v: %v", from, err)
			}
		}); n > 0 {
			t.Errorf("at %v: %v allocations", listen, n)
		}
	}
}

// TestSelfTest: a server that answers says yes, and one that does not, or in
// whose place another answers, says no.
func TestSelfTest(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	own := loopback.Own(t)
	both := func(s *Settings) {
		s.Listen = []netip.AddrPort{own, netip.AddrPortFrom(netip.IPv6Unspecified(), own.Port())}
	}
	v, stop := serve(t, table, both)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := v.SelfTest(ctx); err != nil {
		t.Errorf("all is well: %v", err)
	}
	v.settings.Identity = "ams-1"
	if err := v.SelfTest(ctx); err == nil || strings.Count(err.Error(), "its identity is not ours") != 8 {
		t.Errorf("another's identity: %v", err)
	}
	other := exampleZones()
	other[1].Name = "elsewhere.example.com"
	p, _ := NewPolicy(8, Placement{Zones: other}, Known{})
	v.settings.Identity = "fra-1"
	next, err := Listen(Settings{Listen: []netip.AddrPort{loopback.Own(t)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.close()
	if err := next.SelfTest(ctx); err == nil {
		t.Error("no table, and all is well")
	}
	next.tcp[0].Close()
	next.tcp[0] = v.tcp[0] // asks at v's address what it does not know
	next.Set(p.Table(1, nil, FleetState{}))
	if err := next.SelfTest(ctx); err == nil || !strings.Contains(err.Error(), "elsewhere.example.com at ") || !strings.Contains(err.Error(), "the serial is 7; revision 8 is in force") {
		t.Errorf("another's zones: %v", err)
	}
	stop()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := v.SelfTest(short); err == nil {
		t.Error("nobody answers, and all is well")
	}
}
