// Package loopback gives a test an address and a port that are its own on this
// machine, for what must be known before anyone listens there, or must stay
// when nobody does: a process that is started again, a port that refuses.
//
// To listen on port 0, close and use that port later is no way: in between it
// is anyone's, be it as the near end of an outgoing connection. Whoever can keep
// its listener open should listen on port 0 and do so.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// Own returns an address of 127.64.0.0/10, with a port below those that the
// kernel gives away, on which nobody listens. Until the test ends no other call
// returns that address, in whatever process.
func Own(t testing.TB) netip.AddrPort {
	t.Helper()
	for range 100 {
		r := rand.Uint32()
		a := netip.AddrFrom4([4]byte{127, 64 | byte(r>>16&63), byte(r >> 8), byte(r)})
		release, err := reserve(a)
		if err != nil {
			continue
		}
		at := netip.AddrPortFrom(a, uint16(1024+rand.IntN(32768-1024)))
		if taken(at) { // on all addresses of the machine
			release()
			continue
		}
		t.Cleanup(release)
		return at
	}
	t.Fatal("no address of 127.64.0.0/10 is free")
	return netip.AddrPort{}
}

// reserve makes an address ours by the name of an abstract unix socket: such
// names live in the network namespace, as addresses do, and end with the process.
func reserve(a netip.Addr) (release func(), err error) {
	l, err := net.Listen("unix", fmt.Sprintf("@steadycast-test/%v", a))
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil
}

func taken(at netip.AddrPort) bool {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return true
	}
	defer l.Close()
	pc, err := net.ListenPacket("udp", at.String())
	if err != nil {
		return true
	}
	pc.Close()
	return false
}
