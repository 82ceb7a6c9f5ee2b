package demo

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// network is the loopback between the parts of the fleet, with a switch in it.
// Each part has an address of its own and dials from it, so that a listener
// knows by the address who calls, be it a voter, an agent or a probe.
//
// Between two parts that are cut off from each other everything is lost without
// a word, as in a filter: calls are taken in by the kernel and never answered.
// What had lost something ends with a reset once the way is open again, as an
// old connection does at a firewall that has forgotten it.
//
// Its mutex guards everything.
type network struct {
	mu    sync.Mutex
	cuts  map[[2]netip.Addr]bool // both orders of each pair
	wires map[*wire]bool
}

func newNetwork() *network {
	return &network{cuts: map[[2]netip.Addr]bool{}, wires: map[*wire]bool{}}
}

// dialer opens connections from one part.
func (n *network) dialer(from netip.Addr) net.Dialer {
	return net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
}

// dial is the dialer as the ledger takes it.
func (n *network) dial(from netip.Addr) func(context.Context, string) (net.Conn, error) {
	d := n.dialer(from)
	return func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}

// behind puts the switch before a listener.
func (n *network) behind(l net.Listener) net.Listener { return &switched{l, n} }

// cut separates two groups of parts, both ways.
func (n *network) cut(as, bs []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range as {
		for _, b := range bs {
			if a != b {
				n.cuts[[2]netip.Addr{a, b}], n.cuts[[2]netip.Addr{b, a}] = true, true
			}
		}
	}
}

// heal opens every way again.
func (n *network) heal() {
	n.mu.Lock()
	clear(n.cuts)
	var broken []*wire
	for w := range n.wires {
		if w.lossy {
			broken = append(broken, w)
		}
	}
	n.mu.Unlock()
	for _, w := range broken {
		w.reset()
	}
}

// sever ends every connection of some parts, as when the ports that they hang on
// go down.
func (n *network) sever(parts []netip.Addr) {
	n.mu.Lock()
	var ended []*wire
	for w := range n.wires {
		if slices.Contains(parts, w.ends[0]) || slices.Contains(parts, w.ends[1]) {
			ended = append(ended, w)
		}
	}
	n.mu.Unlock()
	for _, w := range ended {
		w.reset()
	}
}

// add notes a connection.
func (n *network) add(w *wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[w] = true
}

func (n *network) forget(w *wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.wires, w)
}

// loses reports whether what is sent over a connection now is lost.
func (n *network) loses(w *wire) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.lossy = w.lossy || n.cuts[w.ends]
	return w.lossy
}

type switched struct {
	net.Listener
	n *network
}

func (s *switched) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, n: s.n, ends: [2]netip.Addr{ipOf(c.RemoteAddr()), ipOf(c.LocalAddr())}}
	s.n.add(w)
	return w, nil
}

func ipOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap()
}

// wire is the accepting end of a connection. lossy says that something was lost
// on it, so that it can only be reset; the network's mutex guards it.
type wire struct {
	net.Conn
	n     *network
	ends  [2]netip.Addr
	lossy bool
}

func (w *wire) Read(b []byte) (int, error) {
	for {
		k, err := w.Conn.Read(b)
		if err != nil || !w.n.loses(w) {
			return k, err
		}
	}
}

func (w *wire) Write(b []byte) (int, error) {
	if w.n.loses(w) {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w *wire) Close() error {
	w.n.forget(w)
	return w.Conn.Close()
}

// reset ends a connection as one that the other end does not know.
func (w *wire) reset() {
	if c, ok := w.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = w.Close()
}

// everybody but some.
func but(all []netip.Addr, some ...netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return slices.Contains(some, a) })
}
