// Package loopback gives a test an address and a port that are its own on this
// machine, for what must be known before anyone listens there, or must stay
// when nobody does: a process that is started again, a port that refuses.
//
// To listen on port 0, close and use that port later is no way: in between it
// is anyone's, be it as the near end of an outgoing connection. Whoever can keep
// its listener open should listen on port 0 and do so.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
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

// taken asks, and does not try to listen: a process that this one is starting in
// another goroutine would hold that listener, too, until its execve(2).
func taken(at netip.AddrPort) bool {
	for _, network := range []string{"tcp", "udp"} {
		c, err := net.DialTimeout(network, at.String(), time.Second)
		if err == nil { // over UDP that says nothing yet
			_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
			_, _ = c.Write(nil)
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
	}
	return false
}

// Listen listens at an address that Own gave, again if need be: whoever listened
// there in this process and closed may still be held by a process that is just
// being started. The caller closes the listener.
func Listen(t testing.TB, at netip.AddrPort) net.Listener {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		l, err := net.Listen("tcp", at.String())
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
