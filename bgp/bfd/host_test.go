package bfd

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/loopback"
)

// pairs are two addresses of this machine that nobody else uses. The port is
// BFD's own, so the addresses have to differ; of IPv6 there is one only.
func pairs(t *testing.T) [][]netip.Addr {
	return [][]netip.Addr{{loopback.Own(t).Addr(), loopback.Own(t).Addr()}}
}

// spoof sends a sound packet that has come over too many hops.
func spoof(t *testing.T, from, to netip.Addr) {
	t.Helper()
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, controlPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(Packet{State: AdminDown, Multiplier: 1, Mine: 1}.Append(nil)); err != nil {
		t.Fatal(err)
	}
}

func TestTroubleInWords(t *testing.T) {
	own := loopback.Own(t).Addr()
	taken, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(own, controlPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, x := range []struct {
		c    Config
		want string
	}{
		{Config{Local: own, Remote: loopback.Own(t).Addr()}, "another process listens for BFD on"},
		{Config{Local: netip.MustParseAddr("192.0.2.77"), Remote: own}, "local_address 192.0.2.77 is not on this node"},
		{Config{Local: own, Remote: own, Device: "nosuch0"}, "bind_device nosuch0 does not exist"},
	} {
		var h Host
		s := h.Open(x.c)
		deadline := time.Now().Add(time.Minute)
		for !strings.Contains(s.Status().Why, x.want) {
			if time.Now().After(deadline) {
				t.Errorf("%+v: %q, want %q", x.c, s.Status().Why, x.want)
				break
			}
			time.Sleep(ms)
		}
		s.Stop()
		<-s.Done()
	}
}
