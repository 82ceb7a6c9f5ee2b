package bgp

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/steadycast/steadycast"
)

// resolver says with which attributes one neighbour hears a route. It is pure:
// settings and the session's own address in, attributes out. Equal attributes
// come back as the same pointer, so that "did it change" is one comparison.
// The neighbour's pusher owns it.
type resolver struct {
	n        Neighbor
	internal bool
	asn      uint32
	nextHop  [2]netip.Addr         // IPv4, IPv6
	plain    [4][2]*pathAttributes // by stance and family, of routes without attributes of their own
	memo     map[string]*pathAttributes
}

// memoLimit bounds what resolver remembers; beyond it all is resolved anew.
const memoLimit = 1024

// pathAttributes are resolved attributes; immutable.
type pathAttributes struct {
	nextHop          netip.Addr
	prepend          int // of our ASN, beyond the one every eBGP path has
	med, localPref   *uint32
	communities      []steadycast.Community
	largeCommunities []steadycast.LargeCommunity
}

// newResolver resolves for n in a session whose own address is local; local may
// be unknown, then only explicit next hops are had.
func newResolver(s Settings, n Neighbor, local netip.Addr) *resolver {
	r := &resolver{n: n, internal: n.internal(s), asn: n.localASN(s), memo: map[string]*pathAttributes{}}
	r.nextHop = [2]netip.Addr{n.NextHop4, n.NextHop6.WithZone("")}
	if local.IsValid() && !r.nextHop[familyIndex(local)].IsValid() {
		r.nextHop[familyIndex(local)] = local.WithZone("")
	}
	return r
}

// resolve returns the attributes of route, nil if this neighbour does not carry
// its family or there is no next hop for it.
func (r *resolver) resolve(route steadycast.Route) *pathAttributes {
	hop, ok := r.hop(route.Prefix)
	if !ok {
		return nil
	}
	if route.MED == nil && len(route.Communities)+len(route.LargeCommunities) == 0 && int(route.Stance) < len(r.plain) {
		a := &r.plain[route.Stance][familyIndex(hop)]
		if *a == nil {
			*a = r.attributes(route, hop)
		}
		return *a
	}
	key := fmt.Appendf(nil, "%d %s %v %v", route.Stance, hop, route.Communities, route.LargeCommunities)
	if route.MED != nil {
		key = fmt.Appendf(key, " %d", *route.MED)
	}
	if a, ok := r.memo[string(key)]; ok {
		return a
	}
	if len(r.memo) >= memoLimit {
		clear(r.memo)
	}
	a := r.attributes(route, hop)
	r.memo[string(key)] = a
	return a
}

// hop returns the next hop of p, false if this neighbour cannot hear of p.
func (r *resolver) hop(p netip.Prefix) (netip.Addr, bool) {
	hop := r.nextHop[familyIndex(p.Addr())]
	return hop, hop.IsValid() && r.n.carries(familyOf(p.Addr()))
}

func (r *resolver) attributes(route steadycast.Route, hop netip.Addr) *pathAttributes {
	a := &pathAttributes{
		nextHop:          hop,
		prepend:          int(r.n.Prepend),
		med:              r.n.MED,
		localPref:        r.n.LocalPref,
		communities:      slices.Concat(r.n.Communities, route.Communities),
		largeCommunities: slices.Concat(r.n.LargeCommunities, route.LargeCommunities),
	}
	if route.MED != nil {
		a.med = route.MED
	}
	switch route.Stance {
	case steadycast.Depreferred:
		a.weaken(r.n.Deprefer)
	case steadycast.Draining:
		a.weaken(r.n.Drain)
	case steadycast.Backup:
		a.weaken(r.n.Backup)
	}
	if r.internal {
		// Our own AS in the path is a loop to every router of our AS (RFC 4271 §9.1.2).
		a.prepend = 0
	} else {
		a.localPref = nil // RFC 4271 §5.1.5
	}
	slices.Sort(a.communities)
	a.communities = slices.Compact(a.communities)
	slices.SortFunc(a.largeCommunities, compareLarge)
	a.largeCommunities = slices.Compact(a.largeCommunities)
	return a
}

// weaken lays d over the ordinary attributes; what d does not give stays.
func (a *pathAttributes) weaken(d Deprefer) {
	if d.GracefulShutdown == nil || *d.GracefulShutdown {
		a.communities = append(a.communities, steadycast.GracefulShutdown)
	}
	a.communities = append(a.communities, d.Communities...)
	a.largeCommunities = append(a.largeCommunities, d.LargeCommunities...)
	if d.Prepend != nil {
		a.prepend += int(*d.Prepend)
	}
	if d.MED != nil {
		a.med = d.MED
	}
	if d.LocalPref != nil {
		a.localPref = d.LocalPref
	}
}

func (a *pathAttributes) equal(b *pathAttributes) bool {
	return a == b || a != nil && b != nil && a.nextHop == b.nextHop && a.prepend == b.prepend &&
		same(a.med, b.med) && same(a.localPref, b.localPref) &&
		slices.Equal(a.communities, b.communities) && slices.Equal(a.largeCommunities, b.largeCommunities)
}

func same(a, b *uint32) bool { return a == b || a != nil && b != nil && *a == *b }

func compareLarge(a, b steadycast.LargeCommunity) int {
	return cmp.Or(cmp.Compare(a.Global, b.Global), cmp.Compare(a.Data1, b.Data1), cmp.Compare(a.Data2, b.Data2))
}

// same reports whether r and q resolve every route alike.
func (r *resolver) same(q *resolver) bool {
	return r.asn == q.asn && r.internal == q.internal && r.nextHop == q.nextHop && reflect.DeepEqual(r.n, q.n)
}
