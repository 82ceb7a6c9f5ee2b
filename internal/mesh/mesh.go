package mesh

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadycast/steadycast/internal/pki"
)

// Options are what a mesh is made with.
type Options struct {
	Credentials *pki.Credentials
	// Name of this reader; "" is the node's own. A second process of the node
	// calls itself node/word.
	Name string
	// Incarnation counts the starts of the vantage, so that a restarted one is
	// newer than what it said before. It orders sequence numbers.
	Incarnation uint64
	// Voter takes observations of any subject, and passes on what has no direct way.
	Voter bool
	// Digest is how often the voters are told the newest of everything that was
	// published; what changes they are told at once. 0 is [DefaultDigest].
	Digest time.Duration
	// OnObservation is given what is let in, by several goroutines at once; those
	// of one vantage and way in order. It must not block. nil: nothing is taken.
	OnObservation func(Heard)
	// OnTold is given what a sibling tells, by several goroutines at once; that of one
	// in order. It must not block. nil: nothing is taken.
	OnTold func(Told)
	// Handler answers other requests over the same links; [PeerOf] says whose. nil: none.
	Handler http.Handler
	// Dial opens a TCP connection; nil is a plain [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// DefaultDigest is the pace of digests in a large fleet (rule O2 of the protocol).
const DefaultDigest = 10 * time.Second

// Peer is a reader that this node sends to: a node of a site that it watches, or
// a voter.
type Peer struct {
	// Name of the reader: Node, or Node/word.
	Name string `json:"name"`
	// Site and Node that its certificate must name.
	Site string `json:"site"`
	Node string `json:"node"`
	// Addr is an address literal: nothing here depends on DNS.
	Addr netip.AddrPort `json:"addr"`
	// Voter is told of every subject, and relays.
	Voter bool `json:"voter,omitempty"`
}

const (
	// pulse is how often nonces are issued and links are looked at.
	pulse = time.Second
	// patience is how long an unheard or unconfirmed link counts as a way.
	patience = 2 * time.Second
	// silence ends a stream on which nothing arrives.
	silence = 10 * time.Second
	// handshake is how long a call may take to be answered and to agree.
	handshake = 5 * time.Second
	// judgeEvery is how many pulses lie between two looks at the certificates of
	// standing links.
	judgeEvery = 10
)

// Mesh is this node's end of all links. Run owns the clockwork; the maps are
// guarded by mu; what happens on one link is the link's own.
type Mesh struct {
	o     Options
	log   *slog.Logger
	creds *pki.Credentials
	self  pki.Peer
	in    *inbox
	desk  *desk

	mu      sync.Mutex
	ctx     context.Context      // guarded by mu; set by Run
	out     map[string]*link     // guarded by mu; by the reader's name
	order   []*link              // guarded by mu; the same by name; replaced whole, never changed
	callers map[string]*caller   // guarded by mu; by the caller's name
	said    map[string]time.Time // guarded by mu; complaints, and when each was last made
	wg      sync.WaitGroup
}

// New makes a mesh. Nothing is called and nobody is heard until Run.
func New(o Options) (*Mesh, error) {
	if o.Credentials == nil {
		return nil, errors.New("mesh: no credentials")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Digest <= 0 {
		o.Digest = DefaultDigest
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	if o.OnObservation == nil {
		o.OnObservation = func(Heard) {}
	}
	self := o.Credentials.Self()
	if o.Name == "" {
		o.Name = self.Node
	}
	if !names(self.Node, o.Name) {
		return nil, fmt.Errorf("mesh: the name %q is not that of node %s; allowed: %s or %s/WORD", o.Name, self.Node, self.Node, self.Node)
	}
	m := &Mesh{o: o, log: o.Log, creds: o.Credentials, self: self, out: map[string]*link{}, callers: map[string]*caller{}, said: map[string]time.Time{}}
	m.in = newInbox(o.Name, self.Site, o.Voter, o.OnObservation)
	m.desk = newDesk(o.Incarnation, o.Digest)
	m.in.issue(draw(), time.Now())
	return m, nil
}

// draw makes a nonce: random, and never 0.
func draw() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// SetPeers sets the whole of whom this node sends to. Links that are no longer
// wanted end; those that stay are not touched. A bad peer is an error, and then
// nothing changes.
func (m *Mesh) SetPeers(peers []Peer) error {
	want := map[string]Peer{}
	for i, p := range peers {
		if p.Name == "" {
			p.Name = p.Node
		}
		switch _, twice := want[p.Name]; {
		case !names(p.Node, p.Name):
			return fmt.Errorf("peers[%d]: the name %q is not that of node %q", i, p.Name, p.Node)
		case !p.Addr.IsValid() || p.Addr.Port() == 0:
			return fmt.Errorf("peers[%d] %s: %s is not an address and port", i, p.Name, p.Addr)
		case twice:
			return fmt.Errorf("peers[%d]: %s is named twice", i, p.Name)
		}
		if p.Name != m.o.Name {
			want[p.Name] = p
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, l := range m.out {
		if want[name] != l.peer {
			l.stop()
			delete(m.out, name)
		}
	}
	for name, p := range want {
		if m.out[name] == nil {
			l := newLink(m, p)
			m.out[name] = l
			m.start(l)
		}
	}
	m.order = nil
	for _, name := range slices.Sorted(maps.Keys(m.out)) {
		m.order = append(m.order, m.out[name])
	}
	m.desk.forget(slices.Collect(maps.Keys(want)))
	return nil
}

// SetDigest sets how often the voters are told the newest of everything; 0 is
// [DefaultDigest].
func (m *Mesh) SetDigest(every time.Duration) {
	if every <= 0 {
		every = DefaultDigest
	}
	m.desk.pace(every)
}

// start runs a link, once Run has begun. The caller holds mu.
func (m *Mesh) start(l *link) {
	if m.ctx == nil || m.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	l.stop = cancel
	m.wg.Go(func() { l.run(ctx) })
}

// Run keeps the links, and serves those that call on ln (nil: nobody can), until
// ctx ends. It closes ln.
func (m *Mesh) Run(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.wg.Wait()
	defer cancel()
	m.mu.Lock()
	m.ctx = ctx
	for _, l := range m.out {
		m.start(l)
	}
	m.mu.Unlock()
	served := make(chan error, 1)
	if ln != nil {
		m.wg.Go(func() { served <- m.serve(ctx, ln) })
	}
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for n := 1; ; n++ {
		select {
		case err := <-served:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("mesh: the listener is gone: %w", err)
		case <-ctx.Done():
			return nil
		case <-beat.C:
			m.beat(n)
		}
	}
}

// beat is what happens once a second.
func (m *Mesh) beat(n int) {
	now := time.Now()
	m.in.issue(draw(), now)
	nonce := m.in.newest()
	links, callers := m.links(), m.calling()
	for _, c := range callers {
		c.tick(nonce)
	}
	up := encodeJSON(kindNonce, tick{Nonce: nonce})
	for _, l := range links {
		l.tick(up)
	}
	if n%judgeEvery == 0 {
		for _, c := range callers {
			c.judge()
		}
		for _, l := range links {
			l.judge()
		}
		m.in.mu.Lock()
		m.in.seen.forget(now, keep)
		m.in.mu.Unlock()
	}
	if m.desk.due(now) {
		m.digest(links)
	}
}

// links are the outgoing ones, by name. Nobody may change the slice.
func (m *Mesh) links() []*link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.order
}

func (m *Mesh) calling() []*caller {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.callers))
}

// complain logs what a peer did wrong, once a minute for each peer and reason: a
// bad peer must not fill the disk.
func (m *Mesh) complain(what, peer, reason string, args ...any) {
	now := time.Now()
	key := what + "\x00" + peer + "\x00" + reason
	m.mu.Lock()
	last, ok := m.said[key]
	if ok && now.Sub(last) < time.Minute {
		m.mu.Unlock()
		return
	}
	if len(m.said) >= connections {
		clear(m.said)
	}
	m.said[key] = now
	m.mu.Unlock()
	m.log.Warn(what, append([]any{"peer", peer, "reason", reason}, args...)...)
}

// Nonce is the newest nonce heard from a reader, for what is sent to it in
// other ways than as an observation. 0 if none was heard.
func (m *Mesh) Nonce(reader string) uint64 { return m.desk.nonce(reader, time.Now()) }

// Issued is when this reader issued a nonce that it is shown.
func (m *Mesh) Issued(nonce uint64) (time.Time, bool) { return m.in.issued(nonce) }

// Client makes other requests over the link to a reader, to https://peer/…; nil
// if there is no such link. Its requests need deadlines of their own.
func (m *Mesh) Client(reader string) *http.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.out[reader]; l != nil {
		return &http.Client{Transport: l.transport}
	}
	return nil
}

// names reports whether name is a reader's of node: node or node/word.
func names(node, name string) bool {
	if len(name) > maxName || node == "" {
		return false
	}
	if name == node {
		return true
	}
	word, ok := strings.CutPrefix(name, node+"/")
	return ok && word != "" && !strings.Contains(word, "/")
}
