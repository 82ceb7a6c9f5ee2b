package demo

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// port is a TCP port that stays ours while nobody listens on it. A service that
// is killed refuses connections, as after the death of its process, and comes
// back where it was: nobody else can have taken the port meanwhile.
//
// It is a socket that is bound and never listens: whoever connects is refused,
// but for when someone who may share the address (SO_REUSEADDR, as Go's
// listeners do) listens; and the kernel gives the port to nobody else.
type port struct {
	fd   int
	addr netip.AddrPort
}

// takePort takes some port of an IPv4 address until close.
func takePort(ip netip.Addr) (p *port, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: ip.As4()}); err != nil {
		return nil, fmt.Errorf("%v: %w", ip, os.NewSyscallError("bind", err))
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	return &port{fd, netip.AddrPortFrom(ip, uint16(name.(*unix.SockaddrInet4).Port))}, nil
}

// listen lets connections in until what it returns is closed.
func (p *port) listen() (net.Listener, error) { return net.Listen("tcp", p.addr.String()) }

// close gives the port up.
func (p *port) close() { unix.Close(p.fd) }
