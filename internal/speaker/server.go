package speaker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/role"
)

const (
	// pushPause is the least time between two pushes on one connection.
	pushPause = 5 * time.Millisecond
	// writePatience ends the connection of a client that does not read.
	writePatience = 5 * time.Second
	// maxClients bounds the connections at one time; further ones are closed.
	maxClients = 32
)

// server is the door: it lets one agent in, the newest, and any number of
// watchers up to maxClients. Whoever may open the socket may ask anything; only
// the agent may apply.
type server struct {
	e   *engine
	log *slog.Logger

	mu    sync.Mutex
	conns map[*serverConn]bool
	agent *serverConn
}

type serverConn struct {
	s    *server
	conn net.Conn
	who  string

	mu  sync.Mutex // over writes
	out *bufio.Writer
}

// serve accepts until the listener is closed, and then ends every connection.
func (s *server) serve(ln net.Listener) {
	var clients sync.WaitGroup
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // out of descriptors, perhaps: routes do not depend on it
			s.log.Error("no connection taken", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c := &serverConn{s: s, conn: conn, out: bufio.NewWriterSize(conn, 64<<10), who: whoIs(conn)}
		if !s.enter(c) {
			conn.Close()
			continue
		}
		clients.Go(func() {
			defer s.leave(c)
			c.serve()
		})
	}
	s.mu.Lock()
	for c := range s.conns {
		c.conn.Close()
	}
	s.mu.Unlock()
	clients.Wait()
}

func whoIs(conn net.Conn) string {
	p, err := role.PeerOf(conn)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%s[%d]", p.User, p.PID)
}

func (s *server) enter(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= maxClients {
		s.log.Warn("too many clients", "limit", maxClients, "who", c.who)
		return false
	}
	s.conns[c] = true
	return true
}

func (s *server) leave(c *serverConn) {
	c.conn.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// install makes c the agent and shows an older one out.
func (s *server) install(c *serverConn) {
	s.mu.Lock()
	old := s.agent
	s.agent = c
	s.mu.Unlock()
	if old != nil {
		_ = old.write(frame{Error: refuse("replaced", "a newer agent (%s) took this one's place", c.who)})
		old.conn.Close()
	}
}

func (s *server) isAgent(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agent == c
}

func (c *serverConn) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := bufio.NewReaderSize(c.conn, 64<<10)
	var hello question
	_ = c.conn.SetReadDeadline(time.Now().Add(writePatience))
	if err := readFrame(in, &hello); err != nil || hello.Do != "hello" || hello.Protocol != protocol {
		_ = c.write(frame{ID: hello.ID, Error: refuse("invalid", "expected a hello of protocol %d; client and speaker must be of the same version", protocol)})
		return
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	if !hello.Watch {
		c.s.install(c)
		if c.s.e.do(ctx, func() { c.s.e.agentJoined(c.who) }) != nil {
			return
		}
		defer c.s.e.do(context.Background(), func() { c.s.e.agentLeft(c.who) })
	}
	var pusher sync.WaitGroup
	defer pusher.Wait()
	defer cancel()
	pusher.Go(func() { c.push(ctx) })
	for {
		var q question
		if err := readFrame(in, &q); err != nil {
			return
		}
		f := c.answer(ctx, q)
		f.ID = q.ID
		if c.write(f) != nil {
			return
		}
	}
}

func (c *serverConn) answer(ctx context.Context, q question) (f frame) {
	e := c.s.e
	var err error
	switch q.Do {
	case "apply":
		switch {
		case !c.s.isAgent(c):
			err = refuse("replaced", "only the newest agent may apply")
		case q.Set == nil:
			err = refuse("invalid", "apply without a set")
		default:
			err = e.applyAndWait(ctx, *q.Set)
		}
	case "ping": // answered by the loop that owns the routes, for it is what may hang
		err = e.do(ctx, func() {})
	case "intent":
		var i Intent
		err = e.do(ctx, func() { i = e.intent() })
		f.Intent = &i
	case "plan":
		var p Plan
		p, err = e.plan(ctx)
		f.Plan = &p
	case "reload":
		var p Plan
		p, err = e.reload(ctx)
		f.Plan = &p
	case "clear":
		err = e.clearAndWait(ctx, q.Clear)
	case "stop":
		err = e.stopAndWait(ctx, q.Reason)
	default:
		err = refuse("invalid", "%q is not known here; client and speaker must be of the same version", q.Do)
	}
	if err != nil {
		var r *Refused
		if !errors.As(err, &r) {
			r = refuse("lost", "%v", err)
		}
		f.Error = r
	}
	return f
}

// push tells of every change, the first at once, later ones not within
// pushPause of each other, nor within four times what the last one took.
func (c *serverConn) push(ctx context.Context) {
	changed := c.s.e.subs.add()
	defer c.s.e.subs.remove(changed)
	var last *steadycast.Actual
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		now := c.s.e.actual.Load()
		if now == last {
			continue
		}
		began := time.Now()
		d := difference(last, *now)
		if c.write(frame{Push: &d}) != nil {
			c.conn.Close() // ends the reader, too
			return
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(pushPause, 4*time.Since(began))):
		}
	}
}

func (c *serverConn) write(f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writePatience))
	if err := writeFrame(c.out, f); err != nil {
		return err
	}
	return c.out.Flush()
}
