package bfd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ports of single-hop BFD (RFC 5881 §4).
const (
	controlPort = 3784
	sourceFirst = 49152
	sourceLast  = 65535
)

// hops is the TTL or hop limit that a packet leaves and arrives with: over more
// than one hop none arrives with it (RFC 5881 §5, RFC 5082).
const hops = 255

// priority is the class of what keeps a network together, CS6, as type of
// service and, beside it, as the queue of the socket.
const (
	typeOfService  = 48 << 2
	socketPriority = 6
)

// Host carries the sessions of one process. Its zero value is ready. Each local
// address has one receiving socket with one goroutine, which gives each packet to
// the session of the router it came from. mu guards it.
type Host struct {
	mu    sync.Mutex
	doors map[doorKey]*door
}

type doorKey struct {
	local  netip.Addr
	device string
}

// door is a receiving socket and the sessions behind it; under Host.mu.
type door struct {
	key      doorKey
	conn     *net.UDPConn
	sessions map[netip.Addr]*Session
}

// Open begins a session. That its address or the router is not there yet is no
// error: it is tried again every second, and Status says why.
func (h *Host) Open(c Config) *Session { return newSession(c, h.link) }

// link opens the socket on which s sends, and the door at which it hears.
func (h *Host) link(s *Session) (link, error) {
	local := s.cfg.Local
	if !local.IsValid() {
		local = netip.IPv6Unspecified()
		if s.cfg.Remote.Is4() {
			local = netip.IPv4Unspecified()
		}
	}
	if local.Is6() && local.IsLinkLocalUnicast() && local.Zone() == "" {
		local = local.WithZone(s.cfg.Remote.Zone())
	}
	conn, err := dial(local, s.cfg.Remote, s.cfg.Device)
	if err != nil {
		return nil, err
	}
	d, err := h.enter(doorKey{local, s.cfg.Device}, s)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &wire{h, d, s, conn}, nil
}

// wire is a link over UDP.
type wire struct {
	host *Host
	door *door
	s    *Session
	conn *net.UDPConn
}

func (w *wire) Send(b []byte) error {
	_, err := w.conn.Write(b)
	return err
}

func (w *wire) Close() {
	w.conn.Close()
	w.host.leave(w.door, w.s)
}

// enter gives what comes to key's address from s's router to s.
func (h *Host) enter(key doorKey, s *Session) (*door, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.doors[key]
	if !ok {
		conn, err := listen(key)
		if err != nil {
			return nil, err
		}
		d = &door{key, conn, map[netip.Addr]*Session{}}
		if h.doors == nil {
			h.doors = map[doorKey]*door{}
		}
		h.doors[key] = d
		go h.receive(d)
	}
	if o := d.sessions[s.cfg.Remote]; o != nil && o != s {
		return nil, fmt.Errorf("there is a BFD session with %s already", s.cfg.Remote)
	}
	d.sessions[s.cfg.Remote] = s
	return d, nil
}

func (h *Host) leave(d *door, s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.sessions[s.cfg.Remote] == s {
		delete(d.sessions, s.cfg.Remote)
	}
	if len(d.sessions) == 0 && h.doors[d.key] == d {
		delete(h.doors, d.key)
		d.conn.Close()
	}
}

// receive gives out what arrives until the door is closed.
func (h *Host) receive(d *door) {
	b, oob := make([]byte, 256), make([]byte, 128)
	for {
		n, on, _, from, err := d.conn.ReadMsgUDPAddrPort(b, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one datagram; a socket has no other
		}
		h.mu.Lock()
		s := d.sessions[from.Addr().Unmap()]
		h.mu.Unlock()
		if s == nil {
			continue // a stranger's
		}
		p, err := Parse(b[:n])
		if err != nil || arrivedWith(oob[:on]) != hops {
			s.dropped.Add(1)
			continue
		}
		s.hear(p)
	}
}

// arrivedWith is the TTL or hop limit that the kernel says a datagram had, 0 if
// it does not say.
func arrivedWith(oob []byte) uint32 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT
		if (v4 || v6) && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data)
		}
	}
	return 0
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "udp4"
	}
	return "udp6"
}

// listen opens the socket on which the routers of key are heard.
func listen(key doorKey) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: control(key.device, func(fd int) error {
		if key.local.Is4() {
			return os.NewSyscallError("setsockopt IP_RECVTTL", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
		}
		return os.NewSyscallError("setsockopt IPV6_RECVHOPLIMIT", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1))
	})}
	at := netip.AddrPortFrom(key.local, controlPort)
	pc, err := lc.ListenPacket(context.Background(), network(key.local), at.String())
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("another process listens for BFD on %s (bfdd, bird?)", at)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("local_address %s is not on this node", key.local)
	case err != nil:
		return nil, fmt.Errorf("listening for BFD on %s: %w", at, err)
	}
	return pc.(*net.UDPConn), nil
}

// dial opens the socket on which a session sends: from one port of RFC 5881 §4
// for as long as it lasts.
func dial(local, remote netip.Addr, device string) (*net.UDPConn, error) {
	set := control(device, func(fd int) error {
		level, ttl, tos := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
		if remote.Is6() {
			level, ttl, tos = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
		}
		return errors.Join(
			os.NewSyscallError("setsockopt TTL", unix.SetsockoptInt(fd, level, ttl, hops)),
			os.NewSyscallError("setsockopt type of service", unix.SetsockoptInt(fd, level, tos, typeOfService)),
			os.NewSyscallError("setsockopt SO_PRIORITY", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, socketPriority)))
	})
	var err error
	for range 32 { // ports in use are few among so many
		port := uint16(sourceFirst + rand.IntN(sourceLast-sourceFirst+1))
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, port)), Control: set}
		var c net.Conn
		if c, err = d.Dial(network(remote), netip.AddrPortFrom(remote, controlPort).String()); err == nil {
			return c.(*net.UDPConn), nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("local_address %s is not on this node", local)
	case errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("bind_device %s does not exist", device)
	default:
		return nil, fmt.Errorf("BFD with %s: %w", remote, err)
	}
}

// control binds a new socket to device, if any, and runs f on it.
func control(device string, f func(fd int) error) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			if device != "" {
				if err = unix.BindToDevice(int(fd), device); err != nil {
					err = fmt.Errorf("binding to device %s: %w", device, err)
					return
				}
			}
			err = f(int(fd))
		}); e != nil {
			return e
		}
		return err
	}
}
