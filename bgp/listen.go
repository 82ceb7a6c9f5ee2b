package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listeners are the sockets on which passive neighbours are awaited: one per
// local address, port and device, shared by all neighbours there. Each has the
// MD5 key of every neighbour that has one, so that a stranger's SYN is dropped
// by the kernel, and gives a connection only to the neighbour whose address it
// comes from. mu guards it; each listener has one goroutine that accepts.
type listeners struct {
	mu   sync.Mutex
	open map[listenKey]*listener
}

type listenKey struct {
	at     netip.AddrPort
	device string
}

type listener struct {
	key   listenKey
	l     *net.TCPListener
	peers map[netip.Addr]*door
}

// door is where one passive neighbour's connections arrive. It holds one, the
// newest: a router that lost a session without our noticing comes again, and
// is answered as soon as the old session's end is known.
type door struct {
	in *listener
	n  Neighbor
	c  chan *net.TCPConn
}

// add opens a door for n.
func (ls *listeners) add(n Neighbor, password string) (*door, error) {
	local := n.LocalAddress
	if !local.IsValid() {
		local = netip.IPv6Unspecified()
		if n.Address.Is4() {
			local = netip.IPv4Unspecified()
		}
	}
	key := listenKey{netip.AddrPortFrom(zoned(local, n.Address.Zone()), n.ListenPort), n.BindDevice}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.open[key]
	if !ok {
		var err error
		if l, err = listen(key); err != nil {
			return nil, err
		}
		if ls.open == nil {
			ls.open = map[listenKey]*listener{}
		}
		ls.open[key] = l
		go ls.accept(l)
	}
	d := &door{l, n, make(chan *net.TCPConn, 1)}
	if err := l.admit(d, password); err != nil {
		ls.closeUnused(l)
		return nil, err
	}
	return d, nil
}

func listen(key listenKey) (*listener, error) {
	lc := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		return onSocket(c, func(fd int) error {
			if key.device == "" {
				return nil
			}
			return os.NewSyscallError("binding to device "+key.device, unix.BindToDevice(fd, key.device))
		})
	}}
	// Go listens with MPTCP by default, and on such a socket MD5 is not set
	// and nobody is told.
	lc.SetMultipathTCP(false)
	network := "tcp6"
	if key.at.Addr().Is4() {
		network = "tcp4"
	}
	l, err := lc.Listen(context.Background(), network, key.at.String())
	if err != nil {
		return nil, fmt.Errorf("awaiting routers on %s: %w", key.at, err)
	}
	return &listener{key, l.(*net.TCPListener), map[netip.Addr]*door{}}, nil
}

// admit makes the listener take connections from d's neighbour.
func (l *listener) admit(d *door, password string) error {
	if _, taken := l.peers[d.n.Address]; taken {
		return fmt.Errorf("%s is already awaited on %s", d.n.Address, l.key.at)
	}
	c, err := l.l.SyscallConn()
	if err != nil {
		return err
	}
	err = onSocket(c, func(fd int) error {
		if d.n.TTLSecurity > 0 {
			// The answer to SYN must pass the router's own check. What arrives is
			// checked on the accepted connection.
			level, option := unix.IPPROTO_IP, unix.IP_TTL
			if !d.n.Address.Is4() {
				level, option = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
			}
			if err := unix.SetsockoptInt(fd, level, option, 255); err != nil {
				return os.NewSyscallError("setsockopt TTL", err)
			}
		}
		if password == "" {
			return nil
		}
		return setMD5(fd, d.n.Address, password)
	})
	if err == nil {
		l.peers[d.n.Address] = d
	}
	return err
}

// remove closes d.
func (ls *listeners) remove(d *door) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(d.in.peers, d.n.Address)
	if c, err := d.in.l.SyscallConn(); err == nil {
		onSocket(c, func(fd int) error { return setMD5(fd, d.n.Address, "") })
	}
	select {
	case c := <-d.c:
		c.Close()
	default:
	}
	ls.closeUnused(d.in)
}

func (ls *listeners) closeUnused(l *listener) {
	if len(l.peers) == 0 {
		l.l.Close()
		delete(ls.open, l.key)
	}
}

// accept hands each connection to the door of its address until l is closed.
func (ls *listeners) accept(l *listener) {
	for {
		c, err := l.l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// One connection's failure, such as a reset before it was taken; or no
			// descriptors, which lasts, so not at once again.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		ls.mu.Lock()
		if d := l.peers[from]; d != nil {
			d.put(c)
		} else {
			c.SetLinger(0) // a stranger: reset, at once
			c.Close()
		}
		ls.mu.Unlock()
	}
}

// put places c in the door; one that was there before is closed.
func (d *door) put(c *net.TCPConn) {
	select {
	case old := <-d.c:
		old.Close()
	default:
	}
	d.c <- c
}

// wait returns the next connection of the router.
func (d *door) wait(ctx context.Context, internal bool) (*net.TCPConn, error) {
	select {
	case c := <-d.c:
		raw, err := c.SyscallConn()
		if err == nil {
			// The key came with the socket from the listener.
			n := d.n
			n.BindDevice = ""
			err = onSocket(raw, func(fd int) error { return prepare(fd, n, internal, "") })
		}
		if err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
