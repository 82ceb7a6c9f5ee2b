package dnsfallback

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// door counts the connections and keeps them, so that they can be ended.
type door struct {
	most, each int

	mu     sync.Mutex
	inside map[net.Conn]netip.Prefix
	from   map[netip.Prefix]int
	closed time.Time // by when all must have left; zero while it is open
	wg     sync.WaitGroup
}

// network is what connections are counted by: a client's /24 or /56.
func network(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 56
	}
	p, _ := a.WithZone("").Prefix(bits)
	return p
}

// forSelf is how many more connections are let in from the address that they come
// to: whoever fills the room must not make the server look dead to its own test.
const forSelf = 8

// enter lets a connection in, if there is room.
func (d *door) enter(c net.Conn, p netip.Prefix, self bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, each := d.most, d.each
	if self {
		most, each = most+forSelf, each+forSelf
	}
	if !d.closed.IsZero() || len(d.inside) >= most || d.from[p] >= each {
		return false
	}
	if d.inside == nil {
		d.inside = map[net.Conn]netip.Prefix{}
	}
	d.inside[c] = p
	d.from[p]++
	d.wg.Add(1)
	return true
}

func (d *door) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.inside[c]
	delete(d.inside, c)
	if d.from[p]--; d.from[p] == 0 {
		delete(d.from, p)
	}
	d.wg.Done()
}

// lastWords is how long those who are inside may go on when the server stops:
// their next query may be on its way.
const lastWords = 500 * time.Millisecond

// shut lets nobody in any more, and waits until all have left, which they must by
// the given time.
func (d *door) shut(by time.Time) {
	d.mu.Lock()
	d.closed = by
	for c := range d.inside {
		c.SetReadDeadline(by)
	}
	d.mu.Unlock()
	d.wg.Wait()
}

// wait gives a connection its time for the next query.
func (d *door) wait(c net.Conn, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed.IsZero() {
		until = d.closed
	}
	c.SetReadDeadline(until)
}

// accept takes connections until the listener is closed.
func (v *Server) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors left, as a rule: let others end first
			time.Sleep(10 * time.Millisecond)
			continue
		}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort()
		self := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr() == from.Addr()
		if !v.door.enter(c, network(from.Addr()), self) {
			v.shared.tally.turnedAway.Add(1)
			c.SetLinger(0)
			c.Close()
			continue
		}
		v.shared.tally.accepted.Add(1)
		go v.converse(c, from)
	}
}

const streamBuffer = 4096

// converse answers the queries of one connection in order (RFC 7766 §6.2.1):
// those that one read brings go out in one write.
func (v *Server) converse(c *net.TCPConn, from netip.AddrPort) {
	defer v.door.leave(c)
	defer c.Close()
	a := v.responder(true)
	in, out := make([]byte, streamBuffer), make([]byte, 0, streamBuffer)
	have := 0
	v.door.wait(c, time.Now().Add(v.settings.TCP.Idle))
	for {
		n, err := c.Read(in[have:])
		have += n
		used, answered, began := 0, 0, time.Now()
		for {
			rest := in[used:have]
			if len(rest) < 2 {
				break
			}
			size := int(binary.BigEndian.Uint16(rest))
			if size < headerLen {
				return // no message begins like this
			}
			if len(rest) < 2+size {
				if 2+size > len(in) {
					in = append(make([]byte, 0, 2+dns.MaxMsgSize), in...)[:2+dns.MaxMsgSize]
				}
				break
			}
			at := len(out)
			out = append(out, 0, 0)
			out = a.respond(out, rest[2:2+size], v.table.Load(), from, v.moment(time.Now()), true)
			if len(out) == at+2 {
				out = out[:at]
			} else {
				binary.BigEndian.PutUint16(out[at:], uint16(len(out)-at-2))
			}
			used += 2 + size
			answered++
			if len(out) > dns.MaxMsgSize {
				if out = v.say(c, out); out == nil {
					return
				}
			}
		}
		have = copy(in, in[used:have])
		if len(out) > 0 {
			if out = v.say(c, out); out == nil {
				return
			}
		}
		if answered > 0 {
			v.shared.tally.tcp.took(time.Since(began), answered)
		}
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				v.shared.tally.timedOut.Add(1)
			}
			return
		}
		if answered > 0 { // the time is for a whole query, not for each of its octets
			v.door.wait(c, time.Now().Add(v.settings.TCP.Idle))
		}
	}
}

// say writes, and gives the buffer back; nil when the other side does not read.
func (v *Server) say(c *net.TCPConn, out []byte) []byte {
	c.SetWriteDeadline(time.Now().Add(v.settings.TCP.Idle))
	if _, err := c.Write(out); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			v.shared.tally.timedOut.Add(1)
		}
		return nil
	}
	return out[:0]
}
