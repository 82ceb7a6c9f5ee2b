package ledger

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// RaftProtocol is what voters of a fleet speak with each other. A voter listens
// on one address; which of its two services a connection is for is agreed in the
// TLS handshake (ALPN, RFC 7301): raft, whose messages name no cluster, so that
// the protocol's name does; and HTTP/2 for everything else.
func RaftProtocol(fleet string) string { return "steadycast-ledger/" + fleet }

const httpProtocol = "h2"

// Bounds of connections.
const (
	handshakeTimeout = 5 * time.Second
	// handshakes may be under way at once; more wait in the kernel's queue.
	handshakes = 64
	// connectionsMost may be open at once; one more is closed at once.
	connectionsMost = 4096
	// judgeEvery is how often the other end of a raft connection is judged again.
	judgeEvery = 10 * time.Second
)

// door accepts connections, shakes hands, and hands each to its service.
type door struct {
	net.Listener
	log  *slog.Logger
	said *sparse
	tls  *tls.Config
	id   TLS
	raft *room
	http *room
	// voter says whether a node may speak raft here.
	voter func(node string) bool
	slots chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool
	shut  bool
}

// newDoor makes a door on l. Nobody is let in before serve.
func newDoor(l net.Listener, t TLS, fleet string, voter func(string) bool, log *slog.Logger) *door {
	return &door{
		Listener: l, log: log, said: newSparse(), tls: t.server(fleet, RaftProtocol(fleet), httpProtocol), id: t, voter: voter,
		raft: newRoom(l.Addr()), http: newRoom(l.Addr()),
		slots: make(chan struct{}, handshakes), conns: map[net.Conn]bool{},
	}
}

// serve lets in whoever knocks, until Close.
func (d *door) serve(fleet string) {
	for pause := time.Duration(0); ; {
		c, err := d.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, say
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			d.log.Warn("the ledger cannot take a connection", "error", err)
			time.Sleep(pause)
			continue
		}
		pause = 0
		d.slots <- struct{}{}
		go func() {
			defer func() { <-d.slots }()
			d.welcome(c, fleet)
		}()
	}
}

// welcome shakes hands with one connection.
func (d *door) welcome(raw net.Conn, fleet string) {
	if !d.keep(raw) {
		raw.Close()
		return
	}
	c := tls.Server(raw, d.tls)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if err == nil {
		switch c.ConnectionState().NegotiatedProtocol {
		case RaftProtocol(fleet):
			who, _ := peerOf(c.ConnectionState())
			if !d.voter(who.Node) {
				err = fmt.Errorf("%s speaks raft here and is no voter", who)
				break
			}
			k := &kept{Conn: c, door: d, raw: raw, judge: func() error {
				if !d.voter(who.Node) {
					return fmt.Errorf("%s does not vote any more", who)
				}
				return d.id.again(c.ConnectionState())
			}, clock: newClock()}
			if d.raft.put(k) {
				return
			}
		case httpProtocol:
			if d.http.put(c) {
				return
			}
		}
	}
	d.drop(raw)
	raw.Close()
	if err != nil && !errors.Is(err, io.EOF) && d.said.pass(err.Error()) { // who leaves in the middle was not refused
		d.log.Warn("a connection to the ledger is refused", "from", raw.RemoteAddr(), "why", err)
	}
}

// keep notes a connection, so that Close ends it.
func (d *door) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut || len(d.conns) >= connectionsMost {
		return false
	}
	d.conns[c] = true
	return true
}

func (d *door) drop(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// Close ends the listener and every connection.
func (d *door) Close() error {
	d.mu.Lock()
	d.shut = true
	for c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.raft.Close()
	d.http.Close()
	return d.Listener.Close()
}

// kept is a raft connection: the door forgets it when it is closed, and its other
// end is judged again while it lasts. One goroutine reads it.
type kept struct {
	net.Conn
	door   *door
	raw    net.Conn
	judge  func() error
	clock  clock
	judged time.Duration
}

func (k *kept) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	if now := k.clock.now(); err == nil && now-k.judged >= judgeEvery {
		k.judged = now
		if err := k.judge(); err != nil {
			k.Close()
			return 0, err
		}
	}
	return n, err
}

func (k *kept) Close() error {
	k.door.drop(k.raw)
	return k.Conn.Close()
}

// room is a listener whose connections come through the door.
type room struct {
	addr net.Addr
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

func newRoom(a net.Addr) *room {
	return &room{addr: a, in: make(chan net.Conn), done: make(chan struct{})}
}

func (r *room) put(c net.Conn) bool {
	select {
	case r.in <- c:
		return true
	case <-r.done:
		return false
	}
}

func (r *room) Accept() (net.Conn, error) {
	select {
	case c := <-r.in:
		return c, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

func (r *room) Close() error {
	r.once.Do(func() { close(r.done) })
	return nil
}

func (r *room) Addr() net.Addr { return r.addr }

// streams is the layer under raft's transport: connections between voters.
type streams struct {
	*room
	fleet string
	tls   TLS
	dial  Dialer
	// node says who is to be found at an address; "" for an address of nobody known.
	node func(address string) string
}

// Dialer opens a TCP connection to an address, an IP literal and a port. A
// network with cuts and delays can stand in its place.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// Dial connects to a voter.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	raw, err := s.dial(ctx, string(address))
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, s.tls.client(s.fleet, s.node(string(address)), RaftProtocol(s.fleet)))
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return c, nil
}
