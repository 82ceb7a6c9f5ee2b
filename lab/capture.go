package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const bgpPort = 179

// capture listens to everything that reaches one node's interfaces and keeps
// the BGP messages. TCP-MD5 signs them but hides nothing. The goroutine
// [capture.run] reads as packets come; whoever asks first reads what is still
// waiting, so an answer is never older than the router's own knowledge: the
// kernel hands a packet to this socket before it hands it to TCP.
type capture struct {
	socket *os.File
	conn   syscall.RawConn
	done   chan struct{}

	mu       sync.Mutex // over reading a packet and all it leads to
	packet   [256 << 10]byte
	streams  map[[2]netip.AddrPort]*stream
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
	if c.conn, err = c.socket.SyscallConn(); err != nil {
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
	_ = c.conn.Read(func(fd uintptr) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drain(int(fd))
		return false // wait for more, until the socket is closed
	})
}

// drain takes in every packet that waits in the socket.
func (c *capture) drain(fd int) {
	for {
		n, from, err := unix.Recvfrom(fd, c.packet[:], 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN): // a link went down
		case err != nil:
			c.fault = errors.Join(c.fault, err)
			return
		default:
			if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype != unix.PACKET_OUTGOING {
				c.take(c.packet[:n])
			}
		}
	}
}

// catchUp drains the socket and counts what the kernel had no room for.
func (c *capture) catchUp() {
	_ = c.conn.Control(func(fd uintptr) {
		c.drain(int(fd))
		if s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil && s.Drops > 0 {
			c.fault = errors.Join(c.fault, fmt.Errorf("%d packets were not captured", s.Drops))
		}
	})
}

func (c *capture) take(packet []byte) {
	s, ok := parsePacket(packet)
	if !ok || s.from.Port() != bgpPort && s.to.Port() != bgpPort {
		return
	}
	now := time.Now()
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

// since gives the messages from the n-th on; an error means that a count could be wrong.
func (c *capture) since(n int) ([]Heard, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catchUp()
	return c.heard[n:len(c.heard):len(c.heard)], c.fault
}

// guarded says how many segments came, and how many without a signature or
// from more than one hop away.
func (c *capture) guarded() (segments, unsigned, routed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catchUp()
	return c.segments, c.unsigned, c.routed
}
