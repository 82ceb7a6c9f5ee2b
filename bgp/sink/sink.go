// Package sink is a router that only listens: it accepts any BGP peer, keeps
// what it is told and says when it was told. It is there for the demo, for tests
// and for benchmarks, and it can misbehave on demand as real routers do.
//
// It shares no code with the speaker: messages are read with GoBGP's packet
// library (inside a recover, since that can panic), so that what arrived is
// judged by a second reader. It forwards nothing, re-announces nothing, and has
// no policy; do not put it where a router is needed.
package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
)

// Options of a router.
type Options struct {
	// Address to listen on; port 0 chooses one. Default 127.0.0.1:0.
	Address string
	// ASN of the router; default 65000.
	ASN uint32
	// RouterID is its BGP identifier; default 192.0.2.254.
	RouterID netip.Addr
	// Password is the TCP-MD5 secret (RFC 2385) of every peer; empty for none.
	Password string
	// TTLSecurity is the greatest distance of a peer in hops (RFC 5082); 0 for any.
	TTLSecurity uint8
	// HoldTime proposed; default 90s. Whole seconds.
	HoldTime time.Duration
	// HoldZero proposes a hold time of 0, which this product refuses.
	HoldZero bool
	// Families offered: ipv4, ipv6; default both.
	Families []string
	// TwoOctet leaves out the four-octet AS capability (RFC 6793).
	TwoOctet bool
	// ReceiveBuffer limits the kernel's receive buffer, in octets; 0 leaves it.
	// With StopReading, a small one fills soon.
	ReceiveBuffer int
	// Behind puts something between the peers and the router, which it hears through
	// what that gives back; nil for nothing.
	Behind func(net.Listener) net.Listener
}

// Event is one prefix announced or withdrawn by one peer. When a session ends,
// everything the peer had announced is withdrawn.
type Event struct {
	At         time.Time             `json:"at"`
	Peer       netip.Addr            `json:"peer"`
	Announce   bool                  `json:"announce"`
	Prefix     netip.Prefix          `json:"prefix"`
	Attributes steadycast.Attributes `json:"attributes"`
	// Lost is true for a withdrawal because the session ended.
	Lost bool `json:"lost,omitempty"`
}

// Notification is one NOTIFICATION that a peer sent.
type Notification struct {
	At        time.Time
	Peer      netip.Addr
	Code, Sub uint8
	Data      []byte
}

// Table is what peers announce now, by the source address of their session.
type Table map[netip.Addr]map[netip.Prefix]steadycast.Attributes

const (
	eventBuffer        = 1 << 16
	notificationBuffer = 64
)

// Router listens. mu guards all below it; each session has one goroutine that
// reads.
type Router struct {
	o      Options
	l      net.Listener
	events chan Event
	done   sync.WaitGroup

	mu            sync.Mutex
	news          chan struct{} // closed and made anew at each change
	closed        bool
	deaf          bool // StopReading
	sessions      map[netip.Addr]*session
	all           map[*session]struct{}
	table         Table
	updates       map[netip.Addr]uint64
	notifications []Notification
	dropped       uint64
}

// Listen starts a router.
func Listen(o Options) (*Router, error) {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.ASN == 0 {
		o.ASN = 65000
	}
	if !o.RouterID.IsValid() {
		o.RouterID = netip.AddrFrom4([4]byte{192, 0, 2, 254})
	}
	if o.HoldTime == 0 {
		o.HoldTime = 90 * time.Second
	}
	if len(o.Families) == 0 {
		o.Families = []string{"ipv4", "ipv6"}
	}
	l, err := listen(o)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	var in net.Listener = l
	if o.Behind != nil {
		in = o.Behind(l)
	}
	r := &Router{
		o: o, l: in, events: make(chan Event, eventBuffer), news: make(chan struct{}),
		sessions: map[netip.Addr]*session{}, all: map[*session]struct{}{},
		table: Table{}, updates: map[netip.Addr]uint64{},
	}
	r.done.Go(r.accept)
	return r, nil
}

// Addr is where it listens.
func (r *Router) Addr() netip.AddrPort { return r.l.Addr().(*net.TCPAddr).AddrPort() }

// Table returns a copy of what peers announce now. A peer whose session is
// established and that announces nothing has an empty map.
func (r *Router) Table() Table {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(Table, len(r.table))
	for p, t := range r.table {
		out[p] = maps.Clone(t)
	}
	return out
}

// Events delivers each announcement and withdrawal. It holds 65,536; when
// nobody reads, the oldest are dropped. Close closes it.
func (r *Router) Events() <-chan Event { return r.events }

// Updates counts the UPDATE messages a peer has sent, over all its sessions.
func (r *Router) Updates(peer netip.Addr) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updates[peer]
}

// Notifications returns the newest 64 NOTIFICATIONs, oldest first.
func (r *Router) Notifications() []Notification {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Notification(nil), r.notifications...)
}

// Wait returns when cond holds, looking at each change, or with ctx's error.
// cond must not keep or change the table.
func (r *Router) Wait(ctx context.Context, cond func(Table) bool) error {
	for {
		r.mu.Lock()
		ok, news := cond(r.table), r.news
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("sink: waiting for the table: %w", context.Cause(ctx))
		}
	}
}

// Close ends every session and the listener.
func (r *Router) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed, r.deaf = true, false
	err := r.l.Close()
	for s := range r.all {
		s.c.Close()
	}
	r.notify()
	r.mu.Unlock()
	r.done.Wait()
	close(r.events)
	return err
}

// notify wakes Wait; mu is held.
func (r *Router) notify() {
	close(r.news)
	r.news = make(chan struct{})
}

// emit queues an event; mu is held.
func (r *Router) emit(e Event) {
	for {
		select {
		case r.events <- e:
			return
		default:
		}
		select {
		case <-r.events:
			r.dropped++
		default:
		}
	}
}

func (r *Router) accept() {
	for {
		c, err := r.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		r.mu.Lock()
		if r.closed {
			c.Close()
			r.mu.Unlock()
			return
		}
		s := &session{r: r, c: c, peer: c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()}
		r.all[s] = struct{}{}
		r.done.Go(s.run)
		r.mu.Unlock()
	}
}

// up registers a session as established; an older one of the same peer is closed.
func (r *Router) up(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.sessions[s.peer]; old != nil && old != s {
		old.c.Close()
		r.forget(old)
	}
	r.sessions[s.peer] = s
	r.table[s.peer] = map[netip.Prefix]steadycast.Attributes{}
	r.notify()
}

// forget withdraws everything of s, if it is still its peer's session; mu is held.
func (r *Router) forget(s *session) {
	if r.sessions[s.peer] != s {
		return
	}
	delete(r.sessions, s.peer)
	now := time.Now()
	for p, a := range r.table[s.peer] {
		r.emit(Event{At: now, Peer: s.peer, Prefix: p, Attributes: a, Lost: true})
	}
	delete(r.table, s.peer)
	r.notify()
}
