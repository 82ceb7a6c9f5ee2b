package sink

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// peer opens a session to r from 127.0.0.n by hand.
func peer(t *testing.T, r *Router, last byte) net.Conn {
	t.Helper()
	from := netip.AddrFrom4([4]byte{127, 0, 0, last})
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	c, err := d.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	write(t, c, bgp.NewBGPOpenMessage(65001, 90, "192.0.2.1", nil))
	write(t, c, bgp.NewBGPKeepAliveMessage())
	wait(t, r, func(tb Table) bool { return tb[from] != nil })
	return c
}

func write(t *testing.T, c net.Conn, m *bgp.BGPMessage) {
	t.Helper()
	b, err := m.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func wait(t *testing.T, r *Router, cond func(Table) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.Wait(ctx, cond); err != nil {
		t.Fatalf("%v; %v", err, r.Table())
	}
}

func announce(prefix string) *bgp.BGPMessage {
	return bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0), bgp.NewPathAttributeAsPath(nil), bgp.NewPathAttributeNextHop("192.0.2.1"),
	}, []*bgp.IPAddrPrefix{bgp.NewIPAddrPrefix(24, prefix)})
}

// Two peers announce one prefix; one of them sends what makes the parser panic
// and loses its session, and what it announced, and nothing else happens.
func TestBadPeerLosesOnlyItself(t *testing.T) {
	r, err := Listen(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a, b := netip.MustParseAddr("127.0.0.61"), netip.MustParseAddr("127.0.0.62")
	good, bad := peer(t, r, 61), peer(t, r, 62)
	write(t, good, announce("192.0.2.0"))
	write(t, bad, announce("192.0.2.0"))
	wait(t, r, func(tb Table) bool { return len(tb[a]) == 1 && len(tb[b]) == 1 })
	// An UPDATE with an MP_REACH_NLRI of three octets.
	m := []byte{0, 0, 0, 6, 0x80, 14, 3, 0, 1, 1}
	raw := append([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, byte(19 + len(m)), 2}, m...)
	if _, err := bad.Write(raw); err != nil {
		t.Fatal(err)
	}
	wait(t, r, func(tb Table) bool { return len(tb[a]) == 1 && tb[b] == nil })
	for i, want := range []Event{{Peer: a, Announce: true}, {Peer: b, Announce: true}, {Peer: b, Lost: true}} {
		e := <-r.Events()
		if i < 2 && e.Peer == b && want.Peer == a {
			want.Peer = b // the two announcements come in either order
		} else if i < 2 && e.Peer == a {
			want.Peer = a
		}
		if e.Peer != want.Peer || e.Announce != want.Announce || e.Lost != want.Lost || e.At.IsZero() {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

// When nobody reads, the newest events are kept.
func TestEventsAreBounded(t *testing.T) {
	r := &Router{events: make(chan Event, 3)}
	at := time.Now()
	for i := range 10 {
		r.emit(Event{At: at.Add(time.Duration(i))})
	}
	for i := 7; i < 10; i++ {
		if e := <-r.events; !e.At.Equal(at.Add(time.Duration(i))) {
			t.Errorf("%v", e.At.Sub(at))
		}
	}
	if r.dropped != 7 {
		t.Errorf("%d dropped", r.dropped)
	}
}
