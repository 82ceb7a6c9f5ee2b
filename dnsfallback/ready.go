package dnsfallback

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// ready is a pool by the state of the fleet, for one family: what can be given.
type ready struct {
	pool *pool
	// can are the members to choose from; never none for a family that the pool has.
	can []candidate
	// total is the sum of their weights.
	total uint64
	// near are the members by the places that they serve.
	near map[label]*group
	// whole: every member takes all the clients who would come.
	whole bool
	// failed: fewer members are up than must be. How says what is given instead.
	failed bool
	how    string
	// alive: some member is up, here or below, be they enough or not.
	alive bool
	// soon: something of it may change before long.
	soon bool
	// change is when, from a state that is not soon, it may change first.
	change change
	// out are the members that cannot be given, and why, and those that a condition
	// lets take part: for explanations.
	out []string
}

// candidate is a member that can be given.
type candidate struct {
	*member
	records []byte
	count   uint16
	below   *ready // of its pool
	weight  uint64
	share   uint8
}

// group are candidates that serve one place.
type group struct {
	can   []candidate
	total uint64
}

// steering is all that depends on the state: the pools and the TTLs.
type steering struct {
	policy *Policy
	pools  [][2]ready // by pool and family
	ttl    []uint32   // by steered name
	why    []string   // of a TTL that is not the steady one
	// minimal: answer the anycast addresses.
	minimal bool
	// holds are the conditions, words the health of each site.
	holds []holding
	words []SiteWord
	// until is when a window begins or ends next; zero for never.
	until time.Time
}

// steer compiles the state.
func (p *Policy) steer(s *FleetState) *steering {
	st := &steering{
		policy: p, pools: make([][2]ready, len(p.pools)), ttl: make([]uint32, len(p.steered)), why: make([]string, len(p.steered)),
		minimal: s.Minimal, holds: p.hold(s), words: p.words(s),
	}
	done := make([]bool, len(p.pools))
	var compile func(o *pool)
	compile = func(o *pool) {
		if done[o.index] {
			return
		}
		done[o.index] = true
		for _, m := range o.members {
			if m.pool != nil {
				compile(m.pool) // those below first
			}
		}
		for family := range 2 {
			st.compile(o, family, s)
		}
	}
	for _, o := range p.pools {
		compile(o)
	}
	for i, t := range p.steered {
		st.ttl[i], st.why[i] = t.life(s.At, &st.pools[t.pool.index], &st.until)
	}
	return st
}

// compile finds what a pool can give of one family.
func (st *steering) compile(o *pool, family int, s *FleetState) {
	r := &st.pools[o.index][family]
	r.pool = o
	var up, reserve, alive, unforced, all []candidate
	for _, m := range o.members {
		c := candidate{member: m, weight: uint64(m.weight), share: 100}
		var stands standing
		switch {
		case m.pool != nil:
			c.below = &st.pools[m.pool.index][family]
			if !m.pool.has[family] && !m.pool.alias {
				continue
			}
			stands = standing{out: c.below.failed, soon: c.below.soon, share: 100, why: c.below.how}
			r.change = r.change.or(c.below.change)
		case m.alias != nil:
			c.records, c.count = m.alias, 1
			stands = s.stand(m.key, m, family == 1)
			if !stands.forced && m.site != "" { // a name is up when either family is
				other := s.stand(m.key, m, family == 0)
				stands.out = stands.out && other.out
			}
		case m.count[family] == 0:
			continue
		default:
			c.records, c.count = m.addresses[family], m.count[family]
			stands = s.stand(m.key, m, family == 1)
		}
		if m.site == "" && m.pool == nil && !stands.forced {
			stands = standing{share: 100}
		}
		r.soon = r.soon || stands.soon
		if m.pool == nil && !stands.forced {
			r.change = r.change.or(st.policy.soonest(m.site, m.service, stands.out))
		}
		c.share = stands.share
		dr := m.dr
		if m.when >= 0 {
			h, name := &st.holds[m.when], m.condition
			r.soon, r.change = r.soon || h.soon, r.change.or(h.change)
			switch {
			case h.holds && dr:
				dr = false
				r.out = append(r.out, fmt.Sprintf("%s takes part, as %s holds: %s", m.name, name, h.why))
			case !h.holds && !dr:
				r.out = append(r.out, fmt.Sprintf("%s takes part only while %s holds: %s", m.name, name, h.why))
				continue
			}
		}
		all = append(all, c)
		if !stands.forced || !stands.out {
			unforced = append(unforced, c)
		}
		if c.below != nil && c.below.failed && c.below.alive {
			alive = append(alive, c)
		}
		switch {
		case stands.out:
			r.out = append(r.out, m.name+" is out: "+stands.why)
		case dr:
			reserve = append(reserve, c)
		default:
			up = append(up, c)
		}
	}
	r.alive = len(up)+len(reserve)+len(alive) > 0
	r.failed = len(up) < o.minUp
	switch {
	case !r.failed:
	case len(reserve) > 0 && len(up)+len(reserve) >= o.minUp:
		r.how, r.failed = fmt.Sprintf("%d up of at least %d, so dr members are given too", len(up), o.minUp), false
		up = append(up, reserve...)
	case o.fallback != nil && (o.fallback.count[family] > 0 || o.fallback.alias != nil):
		r.how = fmt.Sprintf("%d up of at least %d: fallback", len(up), o.minUp)
		f := candidate{member: o.fallback, records: o.fallback.addresses[family], count: o.fallback.count[family], weight: 1, share: 100}
		if o.fallback.alias != nil {
			f.records, f.count = o.fallback.alias, 1
		}
		up = []candidate{f}
	case len(up)+len(reserve) > 0: // nobody is sent to what is bad while something is good
		up = append(up, reserve...)
		r.how = fmt.Sprintf("%d up of at least %d: these are given", len(up), o.minUp)
	case len(alive) > 0:
		r.how = "no pool has enough up: those that have any are given"
		up = alive
	default:
		r.how = fmt.Sprintf("%d up of at least %d: all are given, whatever their health", len(up), o.minUp)
		if up = unforced; len(up) == 0 {
			up = all
		}
	}
	weighty := slices.ContainsFunc(up, func(c candidate) bool { return c.weight > 0 })
	r.whole = true
	for _, c := range up {
		switch {
		case !weighty:
			c.weight = 1 // all are last resorts, and alike
		case c.weight == 0:
			r.out = append(r.out, c.name+" has weight 0, and others are up")
			continue
		}
		c.weight *= uint64(c.share)
		r.whole = r.whole && c.share == 100
		r.can = append(r.can, c)
		r.total += c.weight
	}
	if slices.Contains(o.methods, byTopology) {
		r.near = map[label]*group{}
		for _, c := range r.can {
			for _, l := range c.serves {
				g := r.near[l]
				if g == nil {
					g = &group{}
					r.near[l] = g
				}
				g.can = append(g.can, c)
				g.total += c.weight
			}
		}
	}
}

// distance between two places on the globe, in an order that is that of kilometres.
func distance(lat1, lon1, lat2, lon2 float64) float64 {
	const degree = math.Pi / 180
	dlat, dlon := math.Sin((lat2-lat1)*degree/2), math.Sin((lon2-lon1)*degree/2)
	return dlat*dlat + math.Cos(lat1*degree)*math.Cos(lat2*degree)*dlon*dlon
}
