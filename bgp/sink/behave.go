package sink

import (
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// StopReading makes the router take nothing more from any connection, as a hung
// one does, until it is called with false. It goes on sending KEEPALIVEs.
func (r *Router) StopReading(stop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf = stop
	r.notify()
}

// listening returns when the router reads again, or is closed.
func (r *Router) listening() {
	r.mu.Lock()
	for r.deaf {
		news := r.news
		r.mu.Unlock()
		<-news
		r.mu.Lock()
	}
	r.mu.Unlock()
}

// SendRaw writes octets into the session of peer as they are.
func (r *Router) SendRaw(peer netip.Addr, b []byte) error {
	s, err := r.sessionOf(peer)
	if err != nil {
		return err
	}
	return s.sendRaw(b)
}

// SendUpdates announces n routes to peer, as a router does that sends its whole
// table; it returns when they are written.
func (r *Router) SendUpdates(peer netip.Addr, n int) error {
	s, err := r.sessionOf(peer)
	if err != nil {
		return err
	}
	const perMessage = 100
	attrs := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{r.o.ASN})}),
		bgp.NewPathAttributeNextHop("192.0.2.254"),
	}
	for i := 0; i < n; {
		var nlri []*bgp.IPAddrPrefix
		for ; i < n && len(nlri) < perMessage; i++ {
			a := netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i), 0})
			nlri = append(nlri, bgp.NewIPAddrPrefix(24, a.String()))
		}
		if err := s.send(bgp.NewBGPUpdateMessage(nil, attrs, nlri)); err != nil {
			return err
		}
	}
	return nil
}

// Reset closes the session of peer without a word.
func (r *Router) Reset(peer netip.Addr) error {
	s, err := r.sessionOf(peer)
	if err != nil {
		return err
	}
	return s.c.Close()
}

func (r *Router) sessionOf(peer netip.Addr) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[peer]
	if s == nil {
		return nil, fmt.Errorf("sink: %s has no session", peer)
	}
	return s, nil
}
