package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// gateAddress is where GoBGP finds the wire.
const gateAddress = "127.0.0.1"

// gate is the loopback listener through which GoBGP reaches the wire. It is
// open only while one connection is awaited, and takes only a connection whose
// other end is a socket of this very process: another program that finds the
// port is turned away.
type gate struct{ l *net.TCPListener }

func openGate() (*gate, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp4", gateAddress+":0")
	if err != nil {
		return nil, fmt.Errorf("listening on loopback for GoBGP: %w", err)
	}
	return &gate{l.(*net.TCPListener)}, nil
}

func (g *gate) port() int { return g.l.Addr().(*net.TCPAddr).Port }

func (g *gate) close() { g.l.Close() }

// accept waits for GoBGP.
func (g *gate) accept(ctx context.Context) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { g.l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		c, err := g.l.AcceptTCP()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, fmt.Errorf("waiting for GoBGP: %w", err)
		}
		if ours(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort()) {
			return c, nil
		}
		c.SetLinger(0)
		c.Close()
	}
}

// ours reports whether this process holds the socket from local to remote. A
// pair of addresses names one connection, so no other process can hold it too.
func ours(local, remote netip.AddrPort) bool {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return oursByNumber(local, remote)
	}
	for _, e := range fds {
		if fd, err := strconv.Atoi(e.Name()); err == nil && isSocket(fd, local, remote) {
			return true
		}
	}
	return false
}

// oursByNumber is ours without /proc: every descriptor there could be.
func oursByNumber(local, remote netip.AddrPort) bool {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return false
	}
	for fd := range int(min(limit.Cur, 1<<16)) {
		if isSocket(fd, local, remote) {
			return true
		}
	}
	return false
}

func isSocket(fd int, local, remote netip.AddrPort) bool {
	l, err1 := unix.Getsockname(fd)
	r, err2 := unix.Getpeername(fd)
	return errors.Join(err1, err2) == nil && addrPort(l) == local && addrPort(r) == remote
}

func addrPort(s unix.Sockaddr) netip.AddrPort {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), uint16(s.Port))
	default:
		return netip.AddrPort{}
	}
}
