package bgp

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/loopback"
)

// TestBFDBesideBGP walks one neighbour through a life with BFD: a failure ends
// the BGP session at once, AdminDown of the router's does not, timers change in
// flight, and a stop tells both.
func TestBFDBesideBGP(t *testing.T) {
	t.Parallel()
	at, own := loopback.Own(t), loopback.Own(t).Addr()
	r := listenSink(t, sink.Options{Address: at.String()})
	patient := bfd.Settings{Interval: 100 * time.Millisecond, Multiplier: 50} // a loaded machine is no failure
	var host bfd.Host
	router := host.Open(bfd.Config{Local: at.Addr(), Remote: own, Settings: patient})
	defer func() { router.Stop() }()

	s := towards(r)
	s.Neighbors[0].LocalAddress, s.Neighbors[0].BFD = own, &patient
	sp := speak(t, s)
	apply(t, sp, routes(net1)...)
	peer := func(a steadycast.Actual) steadycast.Peer { return a.Peers[0] }
	both := func(a steadycast.Actual) bool { return established(a) && peer(a).BFD.Up() }
	eventually(t, sp, "both up", both)

	saysDown(t, at.Addr(), own)
	eventually(t, sp, "BGP lost by BFD", func(a steadycast.Actual) bool {
		return peer(a).Flaps == 1 && strings.HasPrefix(peer(a).LastError, "BFD is down: the router's end went down")
	})
	if n := r.Notifications(); len(n) != 1 || n[0].Code != codeCease || n[0].Sub != subBFDDown {
		t.Errorf("the router was told %+v", n)
	}
	eventually(t, sp, "both up again", both)

	router.Stop()
	<-router.Done()
	eventually(t, sp, "BFD held down by the router", func(a steadycast.Actual) bool { return peer(a).BFD.Remote == "admin-down" })
	if a := sp.Actual(); !established(a) || peer(a).Flaps != 1 {
		t.Errorf("AdminDown is no failure (RFC 5882 §4.2), and BGP is %+v", peer(a))
	}
	router = host.Open(bfd.Config{Local: at.Addr(), Remote: own, Settings: patient})
	eventually(t, sp, "both up a third time", both)

	next := s
	next.Neighbors = []Neighbor{s.Neighbors[0]}
	next.Neighbors[0].BFD = &bfd.Settings{Interval: 200 * time.Millisecond, Multiplier: 40}
	if c := sp.Plan(next); c[0].Kind != ChangeAttributes || !strings.Contains(c[0].Reason, "session r0 stays") {
		t.Errorf("other timers: %+v", c)
	}
	if err := sp.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	eventually(t, sp, "slower by agreement", func(a steadycast.Actual) bool {
		return peer(a).BFD.Interval == 200*time.Millisecond && router.Status().Detection == 8*time.Second
	})
	without := next
	without.Neighbors = []Neighbor{next.Neighbors[0]}
	without.Neighbors[0].BFD = nil
	if c := sp.Plan(without); c[0].Kind != ChangeReset || c[0].Reason != "bfd changed: session r0 will be reset" {
		t.Errorf("without BFD: %+v", c)
	}
	if a := sp.Actual(); !both(a) || peer(a).Flaps != 1 {
		t.Errorf("after all that: %+v", peer(a))
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := sp.Stop(ctx, "the test is over"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); router.Status().Remote != bfd.AdminDown || len(r.Notifications()) != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the router heard %+v and %+v", router.Status(), r.Notifications())
		}
	}
}

// A neighbour may get BFD while its session stands; what nobody answers is said.
func TestBFDAdded(t *testing.T) {
	t.Parallel()
	at, own := loopback.Own(t), loopback.Own(t).Addr()
	r := listenSink(t, sink.Options{Address: at.String()})
	s := towards(r)
	s.Neighbors[0].LocalAddress = own
	sp := speak(t, s)
	apply(t, sp, routes(net1)...)
	eventually(t, sp, "BGP up", established)
	next := s
	next.Neighbors = []Neighbor{s.Neighbors[0]}
	next.Neighbors[0].BFD = &bfd.Settings{}
	if err := sp.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	eventually(t, sp, "the alarm", func(a steadycast.Actual) bool {
		return strings.Contains(a.Alarm, "r0: BFD is down: the router sends no BFD; only the hold time would notice that the router is gone")
	})
	if a := sp.Actual(); !established(a) || a.Peers[0].Flaps != 0 {
		t.Errorf("%+v", a.Peers[0])
	}
}

// saysDown sends what the router's BFD would: that it hears nothing.
func saysDown(t *testing.T, router, node netip.Addr) {
	t.Helper()
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(router, 0)), Control: func(_, _ string, c syscall.RawConn) error {
		return onSocket(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 255) })
	}}
	c, err := d.Dial("udp4", netip.AddrPortFrom(node, 3784).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := bfd.Packet{State: bfd.Down, Diag: bfd.TimeExpired, Multiplier: 3, Mine: 99, MinTx: time.Second, MinRx: time.Second}
	if _, err := c.Write(p.Append(nil)); err != nil {
		t.Fatal(err)
	}
}
