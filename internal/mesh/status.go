package mesh

import (
	"maps"
	"slices"
	"time"

	"github.com/steadycast/steadycast/internal/pki"
)

// LinkState is how a link to a reader stands.
type LinkState string

// The states of a link.
const (
	// LinkDown: there is no stream.
	LinkDown LinkState = "down"
	// LinkUp: what is sent arrives.
	LinkUp LinkState = "up"
	// LinkUnproven: there is a stream, but the reader is not heard, or does not
	// confirm that our words arrive; they go through a voter too.
	LinkUnproven LinkState = "unproven"
)

// LinkStates are all of them.
var LinkStates = []LinkState{LinkDown, LinkUp, LinkUnproven}

// LinkStatus is one link to a reader, with counters since this process began.
type LinkStatus struct {
	Peer
	State LinkState `json:"state"`
	// For is how long it has been up, or not.
	For time.Duration `json:"for_ns"`
	// Error is why there is no stream.
	Error string `json:"error,omitempty"`
	Calls uint64 `json:"calls"`
	// Sent reports; Dropped from a full queue, or when a stream ended; Relayed
	// through a voter instead; Lost without any way; Unechoed, not sent because
	// the reader's nonce was not known.
	Sent     uint64 `json:"sent"`
	Dropped  uint64 `json:"dropped"`
	Relayed  uint64 `json:"relayed"`
	Lost     uint64 `json:"lost"`
	Unechoed uint64 `json:"unechoed"`
	Waiting  int    `json:"waiting"`
	// BytesOut and BytesIn are octets of frames, without what TLS and HTTP/2 add.
	BytesOut uint64 `json:"bytes_out"`
	BytesIn  uint64 `json:"bytes_in"`
	// RTT is the round trip as the kernel smooths it (RFC 6298); 0 where it is not known.
	RTT time.Duration `json:"rtt_ns,omitempty"`
	// Backoff is the pause before the next call, while one lasts.
	Backoff time.Duration `json:"backoff_ns,omitempty"`
}

// CallerStatus is one node that called us, as long as its stream stands.
type CallerStatus struct {
	Name    string    `json:"name"`
	Site    string    `json:"site"`
	Node    string    `json:"node"`
	Addr    string    `json:"addr"`
	Expires time.Time `json:"expires"`
	// For is how long the stream has stood; Silent how long ago a frame arrived.
	For    time.Duration `json:"for_ns"`
	Silent time.Duration `json:"silent_ns"`
	// Received reports, and those that were relayed for it; Drops of what it said,
	// by reason; Dropped from the full queue of what is sent to it.
	Received uint64          `json:"received"`
	Passed   uint64          `json:"passed"`
	Drops    map[Drop]uint64 `json:"drops,omitempty"`
	Dropped  uint64          `json:"dropped"`
}

// Status is the whole mesh as this node sees it.
type Status struct {
	Name    string         `json:"name"`
	Links   []LinkStatus   `json:"links"`
	Callers []CallerStatus `json:"callers"`
	// Heard counts the observations that were let in, Drops those that were not,
	// whichever way they came; Refused the peers that were turned away.
	Heard   uint64                `json:"heard"`
	Drops   map[Drop]uint64       `json:"drops"`
	Refused map[pki.Reason]uint64 `json:"refused"`
}

// Peers is the state of all links, in order of name.
func (m *Mesh) Peers() Status {
	now := time.Now()
	s := Status{Name: m.o.Name, Refused: m.creds.Refusals()}
	m.in.mu.Lock()
	s.Heard, s.Drops = m.in.heard, maps.Clone(m.in.dropped)
	m.in.mu.Unlock()
	for _, l := range m.links() {
		s.Links = append(s.Links, l.status(now))
	}
	for _, c := range m.calling() {
		s.Callers = append(s.Callers, c.status(now))
	}
	slices.SortFunc(s.Callers, func(a, b CallerStatus) int {
		return about{a.Name, a.Addr}.compare(about{b.Name, b.Addr})
	})
	return s
}

func (l *link) status(now time.Time) LinkStatus {
	waiting, dropped := l.q.state()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LinkStatus{Peer: l.peer, State: LinkDown, Error: l.err, Calls: l.calls, Sent: l.total, Dropped: dropped, Relayed: l.relays, Lost: l.losses, Unechoed: l.unecho, Waiting: waiting, BytesOut: l.out, BytesIn: l.in, Backoff: l.wait}
	if l.conn != nil {
		s.RTT = roundTrip(l.conn.NetConn())
	}
	if !l.since.IsZero() {
		s.For = now.Sub(l.since)
	}
	switch {
	case l.works(now):
		s.State = LinkUp
	case l.up:
		s.State = LinkUnproven
	}
	return s
}

func (c *caller) status(now time.Time) CallerStatus {
	_, dropped := c.q.state()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CallerStatus{Name: c.name, Site: c.peer.Site, Node: c.peer.Node, Addr: c.from, Expires: c.peer.Expires, For: now.Sub(c.since), Received: c.got, Passed: c.passed, Drops: maps.Clone(c.drops), Dropped: dropped}
	if !c.heard.IsZero() {
		s.Silent = now.Sub(c.heard)
	}
	return s
}
