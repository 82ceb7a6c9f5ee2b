package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const bgpPort = 179

// capture listens to everything that reaches one node's interfaces and keeps
// the BGP messages. TCP-MD5 signs them but hides nothing. One goroutine,
// [capture.run], owns the streams; the rest is shared under mu.
type capture struct {
	socket *os.File
	done   chan struct{}

	streams map[[2]netip.AddrPort]*stream

	mu       sync.Mutex
	heard    []Heard
	segments int
	unsigned int // segments without a TCP-MD5 signature
	routed   int // segments that did not arrive with 255 hops left (RFC 5082 §3)
	fault    error
}

// startCapture opens the socket on the room's thread, so that it belongs to the
// room's network, before there are links: nothing can be missed.
func startCapture(r *room) (*capture, error) {
	c := &capture{done: make(chan struct{}), streams: map[[2]netip.AddrPort]*stream{}}
	err := r.do(func() error {
		all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return fmt.Errorf("opening a packet socket: %w", err)
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		c.socket = os.NewFile(uintptr(fd), "packets of "+r.name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	go c.run()
	return c, nil
}

func (c *capture) close() {
	_ = c.socket.Close()
	<-c.done
}

func (c *capture) run() {
	defer close(c.done)
	conn, err := c.socket.SyscallConn()
	if err != nil {
		c.fail(err)
		return
	}
	packet := make([]byte, 256<<10)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), packet, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil: // closed
			return
		case failed != nil:
			if !errors.Is(failed, unix.ENETDOWN) && !errors.Is(failed, unix.EINTR) {
				c.fail(failed)
				return
			}
		default:
			if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype != unix.PACKET_OUTGOING {
				c.packet(packet[:n])
			}
		}
	}
}

// lost counts packets that the kernel had no room for since the last call.
func (c *capture) lost() (n uint32) {
	conn, err := c.socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		if s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n = s.Drops
		}
	})
	return n
}

func (c *capture) packet(b []byte) {
	s, ok := parsePacket(b)
	if !ok || s.from.Port() != bgpPort && s.to.Port() != bgpPort {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.rst { // the kernel answers for a closed port, without key or hop limit
		c.segments++
		if !s.signed {
			c.unsigned++
		}
		if s.hops != 255 {
			c.routed++
		}
	}
	key := [2]netip.AddrPort{s.from, s.to}
	if c.streams[key] == nil {
		c.streams[key] = &stream{}
	}
	st := c.streams[key]
	st.add(s, func(kind uint8, body []byte) {
		h, err := parseMessage(kind, body)
		if err != nil {
			c.fault = errors.Join(c.fault, fmt.Errorf("message of kind %d from %s: %w", kind, s.from, err))
		}
		h.At, h.From = now, s.from.Addr()
		c.heard = append(c.heard, h)
	})
	if st.broken != nil && c.fault == nil {
		c.fault = fmt.Errorf("%s → %s: %w", s.from, s.to, st.broken)
	}
}

func (c *capture) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = errors.Join(c.fault, err)
}

// since gives the messages from the n-th on; an error means that a count could be wrong.
func (c *capture) since(n int) ([]Heard, error) {
	if k := c.lost(); k > 0 {
		c.fail(fmt.Errorf("%d packets were not captured", k))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard[n:len(c.heard):len(c.heard)], c.fault
}

// guarded says how many segments came, and how many without a signature or
// from more than one hop away.
func (c *capture) guarded() (segments, unsigned, routed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.segments, c.unsigned, c.routed
}
