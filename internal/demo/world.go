package demo

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/steadycast/steadycast/probe"
)

// world is what lies outside the fleet, and by which a site knows whether it
// still sees anything: three web servers that have nothing to do with it, and a
// port where nobody listens.
type world struct {
	anchors []*port
	nobody  *port
	servers []*http.Server
}

// The world's addresses are 127.0.0.201, .202, .203, and .204, where nobody listens.
const firstAnchor = 201

func openWorld(n *network) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for i := range 3 {
		p, err := takePort(netip.AddrFrom4([4]byte{127, 0, 0, byte(firstAnchor + i)}))
		if err != nil {
			return nil, err
		}
		w.anchors = append(w.anchors, p)
		l, err := p.listen()
		if err != nil {
			return nil, err
		}
		s := &http.Server{ReadHeaderTimeout: slowness, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "here") })}
		w.servers = append(w.servers, s)
		go func(l net.Listener) {
			if err := s.Serve(n.behind(l)); !errors.Is(err, http.ErrServerClosed) {
				_ = s.Close()
			}
		}(l)
	}
	w.nobody, err = takePort(netip.AddrFrom4([4]byte{127, 0, 0, firstAnchor + 3}))
	return w, err
}

// addresses are where the world is in the network.
func (w *world) addresses() (out []netip.Addr) {
	for _, p := range w.anchors {
		out = append(out, p.addr.Addr())
	}
	return out
}

// controls are how a site looks at the world, from its address.
func (w *world) controls(from netip.Addr) probe.Controls {
	c := probe.Controls{Interval: controlEvery}
	for i, p := range w.anchors {
		c.Positive = append(c.Positive, probe.Check{
			Name: fmt.Sprintf("anchor%d", i+1), Kind: "http", Target: "http://" + p.addr.String() + "/", Source: from,
		})
	}
	c.Negative = []probe.Check{{Name: "nobody", Kind: "tcp", Target: w.nobody.addr.String(), Source: from}}
	return c
}

// routerAddress is where the router is, and who asks for its clients.
var routerAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// controlEvery is how often the world is looked at.
const controlEvery = time.Second

func (w *world) close() {
	for _, s := range w.servers {
		_ = s.Close()
	}
	for _, p := range w.anchors {
		p.close()
	}
	if w.nobody != nil {
		w.nobody.close()
	}
}
