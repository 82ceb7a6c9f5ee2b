package mesh

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/steadycast/steadycast/internal/pki"
)

// link is the way to one reader: it calls, and calls again when the stream ends.
// Its run loop owns the stream; mu guards what others see of it.
type link struct {
	m         *Mesh
	peer      Peer
	q         *queue
	transport *http.Transport
	stop      context.CancelFunc // guarded by Mesh.mu
	dialing   sync.WaitGroup     // entered under mu while life lasts

	mu       sync.Mutex
	up       bool      // a stream stands and the reader's nonces arrive on it
	since    time.Time // of up
	err      string    // why the last stream ended
	fails    int       // in a row
	calls    uint64    // ever
	end      context.CancelCauseFunc
	conn     *tls.Conn            // of the last call; closed with its stream
	life     context.Context      // of run; no dial outlives it
	sent     uint64               // reports that the stream has taken
	got      uint64               // that the reader says have arrived
	unproven time.Time            // since when there is one that has not; zero for none
	heard    time.Time            // when a nonce arrived last
	noRoute  map[string]time.Time // as a voter: the readers it cannot reach, and since when
	relays   uint64               // sent through a voter instead
	losses   uint64               // had no way
	unecho   uint64               // not sent, because the reader's nonce is not known yet
	total    uint64               // reports the streams have taken, ever
	out, in  uint64               // octets of frames, ever
	wait     time.Duration        // before the next call; zero while one stands or is under way
}

func newLink(m *Mesh, p Peer) *link {
	l := &link{m: m, peer: p, q: newQueue(), stop: func() {}, noRoute: map[string]time.Time{}, err: "not called yet"}
	want := pki.Identity{Fleet: m.self.Fleet, Site: p.Site, Node: p.Node}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	l.transport = &http.Transport{
		Protocols:           protocols,
		MaxConnsPerHost:     1,
		MaxIdleConnsPerHost: 1,
		DisableCompression:  true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: silence / 2, PingTimeout: silence / 2, WriteByteTimeout: silence, MaxReadFrameSize: maxFrame},
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return l.dial(ctx, network, want)
		},
	}
	return l
}

// dial opens the connection. The transport dials on after its request has
// ended, so this ends with the link itself.
func (l *link) dial(ctx context.Context, network string, want pki.Identity) (net.Conn, error) {
	l.mu.Lock()
	if l.life == nil || l.life.Err() != nil {
		l.mu.Unlock()
		return nil, errStopped
	}
	l.dialing.Add(1)
	defer l.dialing.Done()
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	l.mu.Unlock()

	conn, err := l.m.o.Dial(ctx, network, l.peer.Addr.String())
	if err != nil {
		return nil, err
	}
	c := tls.Client(conn, l.m.creds.ClientConfig(pki.Mesh, want))
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		conn.Close()
		return nil, errStopped
	}
	l.conn = c
	return c, nil
}

// run keeps a stream until ctx ends.
func (l *link) run(ctx context.Context) {
	l.mu.Lock()
	l.life = ctx
	l.mu.Unlock()
	defer l.hangUp()
	for {
		err := l.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		l.ended(err)
		l.mu.Lock()
		wait := backoff(l.fails)
		l.wait = wait
		l.fails++
		l.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// ended records how a stream ended, and says so where that is news.
func (l *link) ended(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up && time.Since(l.since) >= steady {
		l.fails = 0
	}
	level := slog.LevelDebug // a dead peer is said once, not at each call
	if l.up || l.calls == 1 {
		level = slog.LevelWarn
	}
	l.m.log.Log(context.Background(), level, "link down", "peer", l.peer.Name, "addr", l.peer.Addr, "error", err)
	// A connection on which one stream died is not trusted with the next.
	if l.conn != nil {
		l.conn.NetConn().Close()
	}
	l.up, l.end, l.conn, l.err = false, nil, nil, err.Error()
	l.since = time.Now()
}

// hangUp closes the connection, once nobody calls any more.
func (l *link) hangUp() {
	l.dialing.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.NetConn().Close()
	}
	l.up, l.end, l.conn, l.err = false, nil, nil, "stopped"
}

var errStopped = errors.New("stopped")

var errSilent = fmt.Errorf("nothing arrived for %s", silence)

// stream calls once, and returns when the stream is over.
func (l *link) stream(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	l.q.clear()
	l.mu.Lock()
	l.calls++
	l.end, l.wait = cancel, 0
	l.sent, l.got, l.unproven, l.heard = 0, 0, time.Time{}, time.Time{}
	l.mu.Unlock()

	l.q.push(encodeJSON(kindHello, hello{Name: l.m.o.Name}))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://peer"+streamPath, newBody(ctx, l.q, l.took))
	if err != nil {
		return err
	}
	// The watchdog is fed by every frame that arrives.
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 256))
		return fmt.Errorf("%s answers %s: %s", l.peer.Name, resp.Status, text)
	}
	var buf []byte
	for {
		k, b, err := readFrame(resp.Body, &buf)
		if err != nil {
			return cause(ctx, err)
		}
		watchdog.Reset(silence)
		if err := l.frame(k, b); err != nil {
			return err
		}
	}
}

// cause prefers why we ended the stream to how that looked.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	return err
}

// frame takes one frame from the reader.
func (l *link) frame(k kind, b []byte) error {
	now := time.Now()
	l.mu.Lock()
	l.in += frameHead + uint64(len(b))
	l.mu.Unlock()
	switch k {
	case kindNonce:
		var t tick
		if err := json.Unmarshal(b, &t); err != nil {
			return fmt.Errorf("a nonce cannot be read: %w", err)
		}
		l.m.desk.hear(l.peer.Name, "", t.Nonce, now)
		l.confirmed(t.Got, now)
	case kindThird:
		var t third
		if err := json.Unmarshal(b, &t); err != nil {
			return fmt.Errorf("a nonce cannot be read: %w", err)
		}
		if l.peer.Voter && l.m.known(t.Name) {
			l.m.desk.hear(t.Name, l.peer.Name, t.Nonce, now)
		}
	case kindForward:
		if l.peer.Voter {
			return l.m.forwarded(l.peer.Name, b, now)
		}
	case kindNoRoute:
		if name := string(b); l.peer.Voter && l.m.known(name) {
			l.mu.Lock()
			l.noRoute[name] = now
			l.mu.Unlock()
		}
	default: // of a later version: not for us
	}
	return nil
}

// confirmed takes the reader's count of what has arrived.
func (l *link) confirmed(got uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		l.up, l.since, l.err = true, now, ""
		l.m.log.Info("link up", "peer", l.peer.Name, "addr", l.peer.Addr)
	}
	l.heard = now
	switch {
	case got >= l.sent:
		l.unproven = time.Time{}
	case got > l.got:
		l.unproven = now
	}
	l.got = got
}

// took is told of each frame that the stream takes.
func (l *link) took(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out += uint64(len(frame))
	if !carries(frame) {
		return
	}
	l.sent++
	l.total++
	if l.unproven.IsZero() {
		l.unproven = time.Now()
	}
}

// works reports whether words sent now will arrive, as far as is known. The
// caller holds mu.
func (l *link) works(now time.Time) bool {
	return l.up && now.Sub(l.heard) <= patience+pulse && (l.unproven.IsZero() || now.Sub(l.unproven) <= patience)
}

// offer queues a frame, if any, where there is a stream, and reports whether that suffices.
func (l *link) offer(frame []byte, now time.Time) bool {
	l.mu.Lock()
	up, works := l.up, l.works(now)
	l.mu.Unlock()
	if up && frame != nil {
		l.q.push(frame)
	}
	return works
}

// carries reports whether a voter may have a way to a reader.
func (l *link) carries(name string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.noRoute[name]; ok {
		if now.Sub(at) < silence/2 {
			return false
		}
		delete(l.noRoute, name)
	}
	return l.works(now)
}

// tick sends our own nonce, which keeps the stream alive.
func (l *link) tick(frame []byte) {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	if up {
		l.q.push(frame)
	}
}

// judge ends a stream whose certificate no longer holds.
func (l *link) judge() {
	l.mu.Lock()
	conn, end := l.conn, l.end
	l.mu.Unlock()
	if conn == nil || end == nil {
		return
	}
	if _, err := l.m.creds.PeerOf(pki.Mesh, conn.ConnectionState()); err != nil {
		end(err)
	}
}

func (l *link) relayed()  { l.mu.Lock(); l.relays++; l.mu.Unlock() }
func (l *link) lost()     { l.mu.Lock(); l.losses++; l.mu.Unlock() }
func (l *link) unechoed() { l.mu.Lock(); l.unecho++; l.mu.Unlock() }
