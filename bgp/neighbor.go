package bgp

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
)

// The states of a session, as steadycast.Peer says them.
const (
	stateIdle        = "idle"
	stateConnect     = "connect"
	stateOpen        = "open"
	stateEstablished = steadycast.PeerEstablished
	stateStuck       = steadycast.PeerStuck
	stateStopped     = "stopped"
)

// passivePause is the longest pause before an awaited router is listened to again.
const passivePause = 100 * time.Millisecond

// neighbor is one router for as long as its transport settings stay the same.
//
// Two goroutines: run makes and loses sessions, one after the other; push
// brings GoBGP's table to what is wanted (push.go). Everything below mu is
// guarded by it; it is held for moments only, never over I/O.
type neighbor struct {
	cfg      Neighbor // with defaults; the attributes in it may be stale, see current
	settings Settings // as cfg
	asn      uint32   // ours towards it
	password string
	logger   *slog.Logger
	changed  func() // something a snapshot shows is new
	doors    *listeners
	watch    watch
	engine   *engine
	pusher   pusher
	allow    atomic.Pointer[allowList]

	messagesIn, messagesOut, updatesDropped, malformed atomic.Uint64

	retry    atomic.Int64    // connect_retry, a time.Duration
	former   <-chan struct{} // closed when who had this address before is gone; nil if nobody
	stopping context.CancelCauseFunc
	done     chan struct{} // run and push have ended

	mu        sync.Mutex
	state     string
	since     time.Time
	lastError string
	families  []string
	hold      time.Duration
	flaps     uint64
	session   *session // nil between sessions
	sent      *sentTable
	refusal   string // newest message of GoBGP's that was not let out
	fresh     bool   // view is what the fields say
	view      neighborView
	counted   [4]uint64 // the counters in view
}

// neighborView is an immutable picture of a neighbour.
type neighborView struct {
	peer    steadycast.Peer
	sent    []steadycast.Sent
	refusal string
}

func newNeighbor(s Settings, n Neighbor, logger *slog.Logger, doors *listeners, host *bfd.Host, changed func()) (*neighbor, error) {
	password, err := n.secret()
	if err != nil {
		return nil, err
	}
	nb := &neighbor{
		cfg: n, settings: s, asn: n.localASN(s), password: password,
		logger: logger.With("peer", n.Name), changed: changed, doors: doors,
		done: make(chan struct{}), state: stateIdle, since: time.Now(), sent: newSentTable(),
	}
	nb.watch.init(nb, host)
	nb.allow.Store(s.allowed().any)
	nb.retry.Store(int64(n.ConnectRetry))
	if nb.engine, err = newEngine(nb.asn, s.RouterID, nb.logger); err != nil {
		return nil, err
	}
	nb.pusher.init(nb, s, n)
	return nb, nil
}

// start begins to make sessions.
func (n *neighbor) start() {
	ctx, cancel := context.WithCancelCause(context.Background())
	n.stopping = cancel
	var both sync.WaitGroup
	both.Go(func() { n.run(ctx) })
	both.Go(func() { n.pusher.run(ctx) })
	go func() {
		both.Wait()
		n.engine.stop()
		close(n.done)
	}()
}

// startAfter is start once the neighbour's former self has gone, so that two
// never hold the same address; pushing begins at once.
func (n *neighbor) startAfter(gone <-chan struct{}) {
	n.former = gone
	n.start()
}

// current returns the settings in force, attributes included.
func (n *neighbor) current() Neighbor {
	n.pusher.mu.Lock()
	defer n.pusher.mu.Unlock()
	return n.pusher.cfg
}

// become takes over settings that do not touch the session.
func (n *neighbor) become(s Settings, cfg Neighbor, allow *allowList, routes []steadycast.Route) <-chan struct{} {
	n.allow.Store(allow)
	n.retry.Store(int64(cfg.ConnectRetry))
	n.watch.become(cfg.BFD)
	return n.pusher.wish(func() { n.pusher.settings, n.pusher.cfg, n.pusher.routes = s, cfg, routes })
}

// stop ends the session, if there is one, with f.
func (n *neighbor) stop(f *fault) { n.stopping(f) }

// run makes sessions until ctx ends.
func (n *neighbor) run(ctx context.Context) {
	defer n.enter(stateStopped, nil)
	var retry backoff
	var d *door
	if n.former != nil {
		<-n.former
	}
	defer n.watch.rest()
	for ctx.Err() == nil {
		n.enter(stateConnect, nil)
		router, err := n.connect(ctx, &d)
		var up time.Duration
		if err == nil {
			up, err = n.speak(ctx, router)
		}
		if ctx.Err() != nil {
			break
		}
		n.failed(err, up > 0)
		retry.base = time.Duration(n.retry.Load())
		pause := retry.after(up, rand.Float64())
		if d != nil {
			// The router decides when it comes again; that it comes and goes a
			// thousand times a second is not for us to match.
			pause = min(pause, passivePause)
		}
		if pause > 0 {
			n.enter(stateIdle, nil)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
	if d != nil {
		n.doors.remove(d)
	}
}

// connect dials the router, or awaits it.
func (n *neighbor) connect(ctx context.Context, d **door) (*net.TCPConn, error) {
	internal := n.cfg.internal(n.settings)
	if !n.cfg.Passive {
		return dial(ctx, n.cfg, internal, n.password)
	}
	if *d == nil {
		var err error
		if *d, err = n.doors.add(n.cfg, n.password); err != nil {
			return nil, err
		}
	}
	return (*d).wait(ctx, internal)
}

// enter moves to a state. A session says who it is, so that one that is over
// cannot speak for the next; run says nil.
func (n *neighbor) enter(state string, by *session) {
	n.mu.Lock()
	if by != nil && by != n.session {
		n.mu.Unlock()
		return
	}
	was := n.state
	if was != state {
		n.state, n.since, n.fresh = state, time.Now(), false
	}
	flaps := n.flaps
	n.mu.Unlock()
	if was == state {
		return
	}
	switch {
	case state == stateEstablished && was == stateStuck:
		n.logger.Info("the router reads again")
	case state == stateEstablished:
		n.logger.Info("session established", "flaps", flaps)
	case state == stateStuck:
		n.logger.Warn("the router takes nothing: what is announced to it cannot be changed")
	default:
		n.logger.Debug("session", "from", was, "to", state)
	}
	n.changed()
}

// begin makes s the session.
func (n *neighbor) begin(s *session) {
	n.mu.Lock()
	n.session, n.sent, n.refusal, n.fresh = s, newSentTable(), "", false
	n.mu.Unlock()
	n.enter(stateOpen, s)
}

// lose forgets the session and what was said in it.
func (n *neighbor) lose(established bool) {
	n.mu.Lock()
	if established {
		n.flaps++
	}
	n.session, n.families, n.hold, n.sent, n.fresh = nil, nil, 0, newSentTable(), false
	n.mu.Unlock()
	n.enter(stateIdle, nil)
	n.changed()
}

// failed keeps the reason of a failure; the same again is not news.
func (n *neighbor) failed(err error, lost bool) {
	text := err.Error()
	n.mu.Lock()
	news := n.lastError != text
	n.lastError, n.fresh = text, n.fresh && !news
	n.mu.Unlock()
	switch {
	case lost:
		n.logger.Warn("session lost", "reason", text)
	case news:
		n.logger.Warn("no session", "reason", text)
	}
	if news {
		n.changed()
	}
}

// negotiated notes what both OPENs of s say.
func (n *neighbor) negotiated(s *session, families []string, hold time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == s {
		n.families, n.hold, n.fresh = families, hold, false
	}
}

// dropped takes over the counters of in after each message.
func (n *neighbor) dropped(in *inbound) {
	if in.updates > 0 {
		n.updatesDropped.Add(in.updates)
		in.updates = 0
	}
	if in.malformed > 0 {
		if n.malformed.Add(in.malformed) == in.malformed {
			n.logger.Warn("the router sends malformed messages; they are dropped and counted", "first", in.wrong)
		}
		in.malformed = 0
	}
}

// refused notes that a message of GoBGP's was not let out.
func (n *neighbor) refused(err error) {
	text := "an UPDATE was held back: " + err.Error()
	n.mu.Lock()
	news := n.refusal != text
	n.refusal, n.fresh = text, false
	n.mu.Unlock()
	if news {
		n.logger.Error(text)
		n.changed()
	}
}

// recordSent notes what s wrote from its octet base on.
func (n *neighbor) recordSent(s *session, us []sentUpdate, base uint64, at time.Time) {
	n.mu.Lock()
	if n.session == s {
		for _, u := range us {
			n.sent.record(u.update, at, base+uint64(u.end))
		}
		n.fresh = false
	}
	n.mu.Unlock()
	n.changed()
}

// acknowledge notes that the router's TCP has the first upTo octets of s.
func (n *neighbor) acknowledge(s *session, upTo uint64, at time.Time) {
	n.mu.Lock()
	news := n.session == s && n.sent.acknowledge(upTo, at)
	n.fresh = n.fresh && !news
	n.mu.Unlock()
	if news {
		n.changed()
	}
}

// look returns a picture; the last one if nothing has changed.
func (n *neighbor) look() neighborView {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := [4]uint64{n.messagesIn.Load(), n.messagesOut.Load(), n.updatesDropped.Load(), n.malformed.Load()}
	if n.fresh && c == n.counted {
		return n.view
	}
	sent := n.view.sent
	if !n.fresh {
		sent = n.sent.rowsOf(n.cfg.Name)
	}
	n.view = neighborView{
		peer: steadycast.Peer{
			Name: n.cfg.Name, Address: n.cfg.Address, ASN: n.cfg.ASN,
			State: n.state, Since: n.since, LastError: n.lastError,
			Families: slices.Clone(n.families), HoldTime: n.hold, Flaps: n.flaps,
			MessagesIn: c[0], MessagesOut: c[1], UpdatesDropped: c[2], Malformed: c[3],
			Announced: n.sent.announced,
		},
		sent:    sent,
		refusal: n.refusal,
	}
	n.fresh, n.counted = true, c
	return n.view
}

// inherit takes over the history of the same neighbour under older settings.
func (n *neighbor) inherit(old *neighbor) {
	old.mu.Lock()
	flaps, lastError := old.flaps, old.lastError
	old.mu.Unlock()
	n.mu.Lock()
	n.flaps, n.lastError = flaps, lastError
	n.mu.Unlock()
	n.messagesIn.Store(old.messagesIn.Load())
	n.messagesOut.Store(old.messagesOut.Load())
	n.updatesDropped.Store(old.updatesDropped.Load())
	n.malformed.Store(old.malformed.Load())
}

// ready brings GoBGP's table up to date for a session whose own address is
// local, before the router can hear anything.
func (n *neighbor) ready(ctx context.Context, local netip.Addr) error {
	select {
	case <-n.pusher.setLocal(local):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
