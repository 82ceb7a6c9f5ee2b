package probe

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A look at a near service is little more than one connection, so what is done
// for it counts. package net makes ready for all that a connection may become
// (other addresses to try, a goroutine that watches the context, options, an
// entry in the poller), and then waits, although the handshake with a service on
// this host has ended before connect(2) returns. Here a connection is begun and
// looked at; only one that has to be waited for is given to Go's poller.

// begin begins to connect to a over TCP, and does not wait. The descriptor is the
// caller's; finished tells how it goes on.
func (d dialer) begin(a netip.AddrPort) (fd int, err error) {
	family, to := unix.AF_INET6, kernelAddr(a)
	if a.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := d.prepare(fd, family); err != nil {
		unix.Close(fd)
		return -1, err
	}
	switch err := unix.Connect(fd, to); err {
	case nil, unix.EINPROGRESS, unix.EALREADY, unix.EINTR, unix.EISCONN:
		return fd, nil
	default:
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
}

// prepare sets from where a socket connects.
func (d dialer) prepare(fd, family int) error {
	if d.device != "" {
		if err := unix.BindToDevice(fd, d.device); err != nil {
			return os.NewSyscallError("SO_BINDTODEVICE "+d.device, err)
		}
	}
	if d.source.IsValid() {
		if d.source.Is4() != (family == unix.AF_INET) {
			return os.NewSyscallError("bind", unix.EAFNOSUPPORT)
		}
		return os.NewSyscallError("bind", unix.Bind(fd, kernelAddr(netip.AddrPortFrom(d.source, 0))))
	}
	return nil
}

// finished reports whether the handshake has ended; an error is how it failed.
func finished(fd int) (bool, error) {
	peer, err := unix.Getpeername(fd)
	if err == unix.ENOTCONN {
		// The error is in the socket; without one it is still under way.
		no, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return false, os.NewSyscallError("getsockopt", err)
		}
		if no != 0 {
			return false, os.NewSyscallError("connect", unix.Errno(no))
		}
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("getpeername", err)
	}
	// Where nobody listens on a port of the range from which this one was taken, a
	// socket can connect to itself (RFC 9293 §3.5, simultaneous open). That is
	// nobody's answer.
	if own, err := unix.Getsockname(fd); err == nil && addrPort(own) == addrPort(peer) {
		return false, os.NewSyscallError("connect", unix.ECONNREFUSED)
	}
	return true, nil
}

// connecting is a connection on its way. It belongs to one goroutine.
type connecting struct {
	dialer
	to        netip.AddrPort
	fd        int // when begun
	begun     bool
	connected bool
}

// more begins, or looks how far it is, without waiting.
func (x *connecting) more() (connected bool, err error) {
	if !x.begun {
		if err := x.present(x.to.Addr()); err != nil {
			return false, err
		}
		if x.fd, err = x.begin(x.to); err != nil {
			return false, err
		}
		x.begun = true
	}
	if !x.connected {
		x.connected, err = finished(x.fd)
	}
	return x.connected, err
}

// wait gives the connection, once it is one. Whatever comes of it, nothing is left to drop.
func (x *connecting) wait(ctx context.Context) (*conn, error) {
	connected, err := x.more()
	if err != nil {
		x.drop()
		return nil, err
	}
	c := newConn(x.fd, x.to)
	x.begun = false
	if !connected {
		err = c.established(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// drop closes it, unless wait gave it away.
func (x *connecting) drop() {
	if x.begun {
		x.begun = false
		unix.Close(x.fd)
	}
}

// conn is a TCP connection in Go's poller.
type conn struct {
	file   *os.File
	raw    rawConn
	remote netip.AddrPort
}

type rawConn interface {
	Control(f func(fd uintptr)) error
	Write(f func(fd uintptr) (done bool)) error
}

// newConn takes a descriptor over. If it was connecting, established comes first.
func newConn(fd int, remote netip.AddrPort) *conn {
	// As package net does: what is written leaves at once.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	f := os.NewFile(uintptr(fd), "tcp") // sees that it does not block, and asks the poller from then on
	raw, _ := f.SyscallConn()           // fails for a nil file only
	return &conn{f, raw, remote}
}

// established waits until the handshake has ended, and gives how.
func (c *conn) established(ctx context.Context) error {
	defer until(ctx, c)()
	var how error
	err := c.raw.Write(func(fd uintptr) (done bool) {
		done, how = finished(int(fd))
		return done || how != nil
	})
	return cmp.Or(plain(err), how)
}

func (c *conn) Read(b []byte) (int, error)         { n, err := c.file.Read(b); return n, plain(err) }
func (c *conn) Write(b []byte) (int, error)        { n, err := c.file.Write(b); return n, plain(err) }
func (c *conn) Close() error                       { return plain(c.file.Close()) }
func (c *conn) SetDeadline(t time.Time) error      { return plain(c.file.SetDeadline(t)) }
func (c *conn) SetReadDeadline(t time.Time) error  { return plain(c.file.SetReadDeadline(t)) }
func (c *conn) SetWriteDeadline(t time.Time) error { return plain(c.file.SetWriteDeadline(t)) }
func (c *conn) RemoteAddr() net.Addr               { return net.TCPAddrFromAddrPort(c.remote) }

func (c *conn) LocalAddr() net.Addr {
	var a netip.AddrPort
	_ = c.raw.Control(func(fd uintptr) {
		if own, err := unix.Getsockname(int(fd)); err == nil {
			a = addrPort(own)
		}
	})
	return net.TCPAddrFromAddrPort(a)
}

// plain gives the errors of a file as a connection's.
func plain(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return &net.OpError{Op: e.Op, Net: "tcp", Err: e.Err}
	}
	return err
}

// kernelAddr is a as the kernel wants it. A zone is the name or the number of an interface.
func kernelAddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	to := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			to.ZoneId = uint32(n)
		} else if i, err := net.InterfaceByName(zone); err == nil {
			to.ZoneId = uint32(i.Index)
		}
	}
	return to
}

func addrPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// literal is host:port if host is written as an address, and of no zone: what can
// be connected to without asking anybody.
func literal(target string) (netip.AddrPort, bool) {
	a, err := netip.ParseAddrPort(target)
	if err != nil || a.Addr().Zone() != "" {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), true
}
