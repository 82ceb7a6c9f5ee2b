package dnsfallback

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
)

// A chooser finds what one client is given. It is used again for the next one,
// and takes no memory.
type chooser struct {
	family int
	where  location
	// told: the client's network came with the question, and the answer says for
	// which network it is.
	told bool
	// hashed is the client's network as a number, 0 until it is wanted.
	hashed uint64
	// scope is the length of the client's network for which this is the choice:
	// the most of every step that looked at where the client is (RFC 7871 §7.2.1).
	scope uint8
	// draw is this question's random number; turn counts the questions.
	draw uint64
	turn uint64
	// given are the records, with their count.
	given []byte
	count uint16
	// trace, if not nil, takes down how it came about.
	trace *[]string
	// aside: who only wants to know is no client, and does not count.
	aside bool
}

// start makes it ready for a client.
func (c *chooser) start(maps *Maps, client netip.Prefix, told bool, family int) {
	c.told = told
	c.family, c.scope, c.hashed, c.count, c.given = family, 0, 0, 0, c.given[:0]
	c.where.maps, c.where.client, c.where.have = maps, client, 0
	c.turn++
	c.draw += 0x9e3779b97f4a7c15 // SplitMix64
}

// random is a number under n.
func (c *chooser) random(n uint64) uint64 {
	c.draw += 0x9e3779b97f4a7c15
	high, _ := bits.Mul64(mix(c.draw), n)
	return high
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// network is the client's for hashing: its /24 or /56, or a wider one if no more is known.
func (c *chooser) network() uint64 {
	if c.hashed != 0 {
		return c.hashed
	}
	a, n := c.where.client.Addr(), c.where.client.Bits()
	if a.Is4() {
		n = min(n, 24)
		b := a.As4()
		c.hashed = mix(uint64(binary.BigEndian.Uint32(b[:])>>(32-n)) ^ uint64(n)<<40)
	} else {
		n = min(n, 56)
		b := a.As16()
		c.hashed = mix(binary.BigEndian.Uint64(b[:8])>>(64-n) ^ uint64(n)<<58)
	}
	c.hashed |= 1
	c.scope = max(c.scope, uint8(n))
	return c.hashed
}

// takes reports whether a candidate that does not take all takes this client.
// The same clients are taken while the share grows, and keep their place.
func (c *chooser) takes(k *candidate) bool {
	return k.share >= 100 || mix(c.network()^k.hash)%100 < uint64(k.share)
}

func (c *chooser) say(format string, args ...any) {
	if c.trace != nil {
		*c.trace = append(*c.trace, fmt.Sprintf(format, args...))
	}
}

// pick gives of a pool what its methods find, in their order.
func (c *chooser) pick(r *ready) {
	if c.trace != nil {
		if r.how != "" {
			c.say("%s: %s", r.pool.name, r.how)
		}
		for _, o := range r.out {
			c.say("%s: %s", r.pool.name, o)
		}
	}
	for _, m := range r.pool.methods {
		switch m {
		case byAll:
			for i := range r.can {
				c.give(r, &r.can[i], m)
			}
			return
		case byTopology:
			if c.topology(r) {
				return
			}
		case byNearest:
			if c.nearest(r) {
				return
			}
		default:
			if len(r.can) > 0 {
				c.give(r, c.among(r, r.can, r.total, m), m)
			}
			return
		}
	}
	if len(r.can) > 0 {
		c.give(r, c.among(r, r.can, r.total, byRatio), byRatio)
	}
}

// give takes a candidate's records, or goes on in its pool.
func (c *chooser) give(r *ready, k *candidate, m method) {
	if c.trace != nil {
		c.say("%s: %v gives %s", r.pool.name, m, k.name)
	}
	if k.below != nil {
		c.pick(k.below)
		return
	}
	c.given = append(c.given, k.records...)
	c.count += k.count
	if !c.aside {
		k.given.n.Add(1)
	}
}

// among chooses one of several.
func (c *chooser) among(r *ready, can []candidate, total uint64, m method) *candidate {
	if len(can) == 1 {
		return &can[0]
	}
	switch m {
	case byHash:
		return c.byHash(can)
	case byPriority:
		return c.byPriority(r, can)
	case byRoundRobin:
		for i := range can {
			if k := &can[(c.turn+uint64(i))%uint64(len(can))]; r.whole || c.takes(k) {
				return k
			}
		}
		return &can[c.turn%uint64(len(can))]
	}
	d := c.random(total)
	for i := range can {
		if d < can[i].weight {
			return &can[i]
		}
		d -= can[i].weight
	}
	return &can[len(can)-1] // not reached: the draw is under the sum
}

// byHash is weighted rendezvous hashing: a member that comes or goes, or whose
// weight changes, moves only the clients that it gains or loses.
func (c *chooser) byHash(can []candidate) *candidate {
	best, top := &can[0], math.Inf(-1)
	n := c.network()
	for i := range can {
		u := (float64(mix(n^can[i].hash)>>11) + 0.5) / (1 << 53)
		if score := -float64(can[i].weight) / math.Log(u); score > top {
			best, top = &can[i], score
		}
	}
	return best
}

func (c *chooser) byPriority(r *ready, can []candidate) *candidate {
	skip := r.pool.trickle > 0 && mix(c.network()^0x7472)%100 < uint64(r.pool.trickle)
	for i := range can {
		if !r.whole && !c.takes(&can[i]) {
			continue
		}
		if skip && i+1 < len(can) {
			skip = false
			continue
		}
		return &can[i]
	}
	return &can[0]
}

// topology looks for members that serve where the client is: by the first map
// that knows one, and there by the closest place.
func (c *chooser) topology(r *ready) bool {
	for i := range c.maps() {
		p := c.where.at(i)
		g := r.serving(p)
		c.see(i, func(other *place) bool { return r.serving(other) == g })
		if g == nil {
			if c.trace != nil {
				c.say("%s: topology by %s: %v is %s, which nobody serves who is up", r.pool.name, c.where.maps.all[i].Name, c.where.client, c.where.maps.all[i].describe(p))
			}
			continue
		}
		k := c.taking(r, g)
		if c.trace != nil {
			c.say("%s: topology by %s: %v is %s", r.pool.name, c.where.maps.all[i].Name, c.where.client, c.where.maps.all[i].describe(p))
		}
		if k == nil {
			continue
		}
		c.give(r, k, byTopology)
		return true
	}
	return false
}

// serving are the candidates for a place, by the closest of its labels that any serves.
func (r *ready) serving(p *place) *group {
	for _, l := range p.labels {
		if l > 0 {
			if g := r.near[l]; g != nil {
				return g
			}
		}
	}
	return nil
}

// taking chooses of a group by weight one that takes this client; nil if none does.
func (c *chooser) taking(r *ready, g *group) *candidate {
	if r.whole {
		return c.among(r, g.can, g.total, byRatio)
	}
	for i := range g.can {
		if k := &g.can[(c.turn+uint64(i))%uint64(len(g.can))]; c.takes(k) {
			return k
		}
	}
	return nil
}

// nearest looks for the member with the least distance to the client.
func (c *chooser) nearest(r *ready) bool {
	for i := range c.maps() {
		p := c.where.at(i)
		k := c.closest(r, p)
		c.see(i, func(other *place) bool { return c.closest(r, other) == k })
		if k == nil {
			continue
		}
		if c.trace != nil {
			c.say("%s: nearest by %s: %v is %s", r.pool.name, c.where.maps.all[i].Name, c.where.client, c.where.maps.all[i].describe(p))
		}
		c.give(r, k, byNearest)
		return true
	}
	return false
}

func (c *chooser) closest(r *ready, p *place) *candidate {
	if !p.located {
		return nil
	}
	var best *candidate
	least := math.Inf(1)
	for i := range r.can {
		k := &r.can[i]
		if !k.located || !r.whole && !c.takes(k) {
			continue
		}
		if d := distance(k.lat, k.lon, float64(p.lat), float64(p.lon)); d < least {
			best, least = k, d
		}
	}
	return best
}

// maps is how many there are, for a client that is somewhere.
func (c *chooser) maps() int {
	if c.where.maps == nil || !c.where.client.IsValid() {
		return 0
	}
	return len(c.where.maps.all)
}

// see widens the scope by what map i said. Runs beside the client's from which
// the same follows belong to its network too.
func (c *chooser) see(i int, alike func(*place) bool) {
	if !c.told {
		return
	}
	c.scope = max(c.scope, c.where.scope(i, alike))
}
