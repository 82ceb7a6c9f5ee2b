package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/steadycast/steadycast/internal/pki"
)

const streamPath = "/mesh/1/stream"

// connections bounds who may be connected at once, known or not yet: each node
// of the largest fleet, twice.
const connections = 1024

// peerKey finds the caller in a request's context.
type peerKey struct{}

// PeerOf says whose request it is. ok is false where the request did not come
// over a link.
func PeerOf(ctx context.Context) (p pki.Peer, ok bool) {
	p, ok = ctx.Value(peerKey{}).(pki.Peer)
	return p, ok
}

// serve answers those that call, until ctx ends.
func (m *Mesh) serve(ctx context.Context, ln net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+streamPath, m.answer)
	if m.o.Handler != nil {
		mux.Handle("/", m.o.Handler)
	}
	srv := &http.Server{
		Handler:           m.admitted(mux),
		Protocols:         protocols,
		TLSConfig:         m.creds.ServerConfig(pki.Mesh),
		ReadHeaderTimeout: handshake, // the handshake too
		IdleTimeout:       2 * silence,
		MaxHeaderBytes:    16 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 32, MaxReadFrameSize: maxFrame, SendPingTimeout: silence / 2, PingTimeout: silence / 2, WriteByteTimeout: silence},
		ErrorLog:          log.New(&lines{m.log}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	defer close(done)
	m.wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-done:
		}
		srv.Close()
	})
	err := srv.ServeTLS(netutil.LimitListener(ln, connections), "", "")
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// admitted judges the certificate again for each request: a connection may outlive it.
func (m *Mesh) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			http.Error(w, "not a link", http.StatusForbidden)
			return
		}
		peer, err := m.creds.PeerOf(pki.Mesh, *r.TLS)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, peer)))
	})
}

// lines turns what the server complains of into log lines.
type lines struct{ log *slog.Logger }

func (l *lines) Write(b []byte) (int, error) {
	l.log.Debug("mesh server", "text", string(bytes.TrimSpace(b)))
	return len(b), nil
}

// caller is a node that called, as long as its stream stands. The handler's
// goroutine reads; a second one writes what is queued; mu guards the rest.
type caller struct {
	m    *Mesh
	name string
	peer pki.Peer
	cert []byte // in DER; never changed
	q    *queue
	end  context.CancelCauseFunc
	r    *http.Request
	from string

	mu     sync.Mutex
	since  time.Time
	got    uint64
	heard  time.Time
	nonce  uint64               // its own newest, for those that reach it through us
	thirds map[string]time.Time // the readers it reaches through us, and until when
	drops  map[Drop]uint64
	passed uint64 // relayed for it
}

// callersPerNode bounds the readers that one certificate may be.
const callersPerNode = 8

// answer is the reader's end of a stream.
func (m *Mesh) answer(w http.ResponseWriter, r *http.Request) {
	peer, ok := PeerOf(r.Context())
	if !ok {
		http.Error(w, "not a link", http.StatusForbidden)
		return
	}
	ctl := http.NewResponseController(w)
	ctl.SetReadDeadline(time.Now().Add(silence))
	k, b, err := readFrame(r.Body, new([]byte))
	var h hello
	if err == nil && (k != kindHello || json.Unmarshal(b, &h) != nil) {
		err = errors.New("the first frame is not a greeting")
	}
	if err == nil && !names(peer.Node, h.Name) {
		err = fmt.Errorf("node %s calls itself %.80q", peer.Node, h.Name)
	}
	if err != nil {
		m.complain("a caller was turned away", peer.String(), err.Error(), "addr", r.RemoteAddr)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	c := &caller{m: m, name: h.Name, peer: peer, cert: r.TLS.PeerCertificates[0].Raw, q: newQueue(), end: cancel, r: r, from: r.RemoteAddr, since: time.Now(), thirds: map[string]time.Time{}, drops: map[Drop]uint64{}}
	if err := m.enter(c); err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	defer m.leave(c)
	defer context.AfterFunc(ctx, func() { r.Body.Close() })() // wakes the reader
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	c.tick(m.in.newest())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for {
			f, err := c.q.take(ctx)
			if err == nil {
				ctl.SetWriteDeadline(time.Now().Add(silence))
				_, err = w.Write(f)
			}
			if err == nil {
				err = ctl.Flush()
			}
			if err != nil {
				cancel(err)
				return
			}
		}
	}()
	err = c.read(ctl)
	cancel(err)
	<-written
	m.log.Debug("a caller left", "peer", c.name, "addr", c.from, "error", cause(ctx, err))
}

// enter registers a caller; an older stream of the same name ends.
func (m *Mesh) enter(c *caller) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.callers[c.name]; old != nil {
		old.end(errors.New("the same reader called again"))
	} else {
		n := 0
		for _, x := range m.callers {
			if x.peer.Node == c.peer.Node {
				n++
			}
		}
		if n >= callersPerNode {
			return fmt.Errorf("node %s has %d streams here already", c.peer.Node, n)
		}
	}
	m.callers[c.name] = c
	return nil
}

func (m *Mesh) leave(c *caller) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.callers[c.name] == c {
		delete(m.callers, c.name)
	}
}

// read takes frames until the stream is over.
func (c *caller) read(ctl *http.ResponseController) error {
	var buf []byte
	for {
		ctl.SetReadDeadline(time.Now().Add(silence))
		k, b, err := readFrame(c.r.Body, &buf)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("it hung up")
			}
			return err
		}
		if err := c.frame(k, b); err != nil {
			return err
		}
	}
}

// frame takes one frame from the caller.
func (c *caller) frame(k kind, b []byte) error {
	now := time.Now()
	c.mu.Lock()
	c.heard = now
	if k == kindReport || k == kindRelay {
		c.got++
	}
	c.mu.Unlock()
	switch k {
	case kindReport:
		if d := c.m.in.accept(c.peer, c.cert, "", Signed(b), now); d != "" {
			c.mu.Lock()
			c.drops[d]++
			c.mu.Unlock()
			if d != Repeated {
				c.m.complain("an observation was not let in", c.name, string(d), "addr", c.from)
			}
		}
	case kindTold:
		c.told(b)
	case kindNonce:
		var t tick
		if err := json.Unmarshal(b, &t); err != nil {
			return fmt.Errorf("a nonce cannot be read: %w", err)
		}
		c.mu.Lock()
		c.nonce = t.Nonce
		c.mu.Unlock()
		if c.m.o.Voter {
			c.m.spread(c.name, t.Nonce, now)
		}
	case kindRelay:
		name, s, err := decodeNamed(b)
		if err != nil {
			return err
		}
		c.m.pass(c, string(name), s, now)
	default: // of a later version: not for us
	}
	return nil
}

// tick sends a nonce and what has arrived.
func (c *caller) tick(nonce uint64) {
	c.mu.Lock()
	got := c.got
	c.mu.Unlock()
	c.q.push(encodeJSON(kindNonce, tick{nonce, got}))
}

// judge ends a stream whose certificate no longer holds.
func (c *caller) judge() {
	if _, err := c.m.creds.PeerOf(pki.Mesh, *c.r.TLS); err != nil {
		c.m.log.Warn("a caller is cut off", "peer", c.name, "addr", c.from, "error", err)
		c.end(err)
	}
}
