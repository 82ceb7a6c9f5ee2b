package mesh

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// network is an internet in memory, for a bubble. A direction that is cut holds
// what is sent and delivers it when it is joined again, as TCP does.
type network struct {
	mu    sync.Mutex
	ends  map[netip.AddrPort]*listener
	cuts  map[[2]string]bool
	pipes map[*pipe]bool
}

func newNetwork() *network {
	return &network{ends: map[netip.AddrPort]*listener{}, cuts: map[[2]string]bool{}, pipes: map[*pipe]bool{}}
}

// cut holds everything from one host to another, from now on.
func (n *network) cut(from, to string)  { n.set(from, to, true) }
func (n *network) join(from, to string) { n.set(from, to, false) }

func (n *network) set(from, to string, cut bool) {
	n.mu.Lock()
	n.cuts[[2]string{from, to}] = cut
	var wake []*pipe
	for p := range n.pipes {
		wake = append(wake, p)
	}
	n.mu.Unlock()
	for _, p := range wake {
		p.mu.Lock()
		p.cond.Broadcast()
		p.mu.Unlock()
	}
}

func (n *network) isCut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[[2]string{from, to}]
}

// pipe is one direction of a connection.
type pipe struct {
	n        *network
	from, to string
	mu       sync.Mutex
	cond     *sync.Cond
	data     []byte
	closed   bool // no more will be written
	deaf     bool // nobody reads
	deadline [2]time.Time
}

const window = 64 << 10

func (n *network) pipe(from, to string) *pipe {
	p := &pipe{n: n, from: from, to: to}
	p.cond = sync.NewCond(&p.mu)
	n.mu.Lock()
	n.pipes[p] = true
	n.mu.Unlock()
	return p
}

const reading, writing = 0, 1

func (p *pipe) late(i int) bool {
	return !p.deadline[i].IsZero() && !time.Now().Before(p.deadline[i])
}

func (p *pipe) setDeadline(i int, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline[i] = t
	p.cond.Broadcast()
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			p.cond.Broadcast()
			p.mu.Unlock()
		})
	}
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		cut := p.n.isCut(p.from, p.to)
		switch {
		case p.deaf:
			return 0, net.ErrClosed
		case len(p.data) > 0 && !cut:
			n := copy(b, p.data)
			p.data = p.data[n:]
			p.cond.Broadcast()
			return n, nil
		case p.closed && !cut:
			return 0, io.EOF
		case p.late(reading):
			return 0, os.ErrDeadlineExceeded
		}
		p.cond.Wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, net.ErrClosed
		case p.deaf && !p.n.isCut(p.to, p.from):
			return 0, errors.New("connection reset")
		case p.late(writing):
			return 0, os.ErrDeadlineExceeded
		case len(p.data) < window:
			p.data = append(p.data, b...)
			p.cond.Broadcast()
			return len(b), nil
		}
		p.cond.Wait()
	}
}

func (p *pipe) end(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.cond.Broadcast()
}

type conn struct {
	in, out       *pipe
	local, remote net.Addr
}

func (c *conn) Read(b []byte) (int, error)         { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error)        { return c.out.write(b) }
func (c *conn) LocalAddr() net.Addr                { return c.local }
func (c *conn) RemoteAddr() net.Addr               { return c.remote }
func (c *conn) SetReadDeadline(t time.Time) error  { c.in.setDeadline(reading, t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.out.setDeadline(writing, t); return nil }
func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) Close() error {
	c.out.end(func() { c.out.closed = true })
	c.in.end(func() { c.in.deaf = true })
	return nil
}

type listener struct {
	addr  netip.AddrPort
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

func (n *network) listen(host string) *listener {
	l := &listener{addr: netip.MustParseAddrPort(host + ":443"), conns: make(chan net.Conn, 16), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[l.addr] = l
	return l
}

// dialer calls from a host. Where a direction is cut nobody answers.
func (n *network) dialer(from string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		to := netip.MustParseAddrPort(address)
		host := to.Addr().String()
		if n.isCut(from, host) || n.isCut(host, from) {
			select {
			case <-time.After(5 * time.Second):
				return nil, errors.New("i/o timeout")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		n.mu.Lock()
		l := n.ends[to]
		n.mu.Unlock()
		if l == nil || l.closed() {
			return nil, errors.New("connection refused")
		}
		there, back := n.pipe(from, host), n.pipe(host, from)
		near, far := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 50000)), net.TCPAddrFromAddrPort(to)
		select {
		case l.conns <- &conn{there, back, far, near}:
			return &conn{back, there, near, far}, nil
		case <-l.done:
			return nil, errors.New("connection refused")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
