package bgp

import (
	"fmt"
	"net/netip"
)

// outbound judges what GoBGP is about to say to a router. It is the last hand
// on a route: whatever happened before, a prefix outside the allow-list or with
// a next hop nobody can use does not leave. The pump that writes to the router
// owns it.
type outbound struct {
	allow        *allowList
	overLoopback bool

	opened      bool // our OPEN passed
	established bool // our first KEEPALIVE passed
	fourOctet   bool // both sides use four-octet AS numbers (RFC 6793)
}

// check returns the routes in m, nil if it carries none. An error means m must
// not be sent.
func (o *outbound) check(m []byte) (u *update, err error) {
	defer func() {
		if r := recover(); r != nil {
			u, err = nil, fmt.Errorf("reading it failed: %v", r)
		}
	}()
	switch m[18] {
	case msgOpen:
		o.opened = true
	case msgKeepalive:
		o.established = true
	case msgNotification:
	case msgUpdate:
		u, err := readUpdate(m[headerLen:], o.fourOctet)
		if err != nil {
			return nil, err
		}
		return u, o.judge(u)
	default:
		return nil, fmt.Errorf("it is of type %d", m[18])
	}
	return nil, nil
}

func (o *outbound) judge(u *update) error {
	for _, p := range u.announced {
		if !o.allow.covers(p) {
			return fmt.Errorf("%s is not in the allow-list", p)
		}
		if why := badNextHop(u.attributesOf(p).NextHop, o.overLoopback); why != "" {
			return fmt.Errorf("the next hop %s of %s %s", orNothing(u.attributesOf(p).NextHop), p, why)
		}
	}
	if l := u.linkLocal; l != (netip.Addr{}) && !l.IsLinkLocalUnicast() {
		return fmt.Errorf("its second next hop %s is not link-local (RFC 2545 §3)", l)
	}
	return nil
}
