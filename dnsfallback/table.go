package dnsfallback

import (
	"time"

	"github.com/miekg/dns"
)

// Table is what is served: a policy, where clients are, and the state of the
// fleet. It is immutable; a worker reads the newest once for each batch.
type Table struct {
	version  uint64
	policy   *Policy
	maps     *Maps
	steering *steering
	// mute: nothing is answered.
	mute bool
}

// Muted is the same table, of which nothing is answered: its state is too old for
// any answer to be better than that of another server. Who asks is not told why,
// since a resolver that is refused may give up and one that hears nothing asks on.
func (t *Table) Muted() *Table {
	next := *t
	next.mute = true
	return &next
}

// Table joins the policy with the maps, which may be nil, and the state of the fleet.
func (p *Policy) Table(version uint64, maps *Maps, s FleetState) *Table {
	return &Table{version: version, policy: p, maps: maps, steering: p.steer(&s)}
}

// WithMaps is the same table by other maps.
func (t *Table) WithMaps(version uint64, maps *Maps) *Table {
	next := *t
	next.version, next.maps = version, maps
	return &next
}

// Version grows with every table that a node serves.
func (t *Table) Version() uint64 { return t.version }

// Zones are the names of those that the table answers for, in the order of the settings.
func (t *Table) Zones() []string {
	var out []string
	for _, z := range t.policy.zones {
		out = append(out, z.apex.text())
	}
	return out
}

// Until is when the table changes by itself, as a window begins or ends; zero for never.
func (t *Table) Until() time.Time { return t.steering.until }

// choose finds what a client is given of a steered name.
func (t *Table) choose(c *chooser, s *steered) {
	if t.steering.minimal && s.anycast != nil {
		if c.trace != nil {
			c.say("%s: minimal: the anycast addresses, whatever the rest says", s.pool.name)
		}
		c.given, c.count = append(c.given, s.anycast.addresses[c.family]...), s.anycast.count[c.family]
		if c.count > 0 {
			if !c.aside {
				s.anycast.given.n.Add(1)
			}
			return
		}
	}
	c.pick(&t.steering.pools[s.pool.index][c.family])
}

// refused is the answer to what is in none of the zones.
var refused = &reply{id: 1, rcode: dns.RcodeRefused, ede: dns.ExtendedErrorCodeNotAuthoritative}

// match finds the answer of a question (RFC 1034 §4.3.2), but for state. It
// takes the longest part of the name that exists: the closest encloser (RFC
// 4592 §3.3.1).
func (p *Policy) match(q *request) *reply {
	for i := max(0, q.labels-p.deepest); i < q.labels; i++ {
		n := p.nodes[name(q.name[q.at[i]:q.length])]
		if n == nil {
			continue
		}
		q.zone = n.zone
		exact := i == 0
		switch {
		case n.cut != nil && (n != n.cut || !exact || q.typ != dns.TypeDS):
			return n.cut.referral
		case exact && q.typ == dns.TypeDS && n.above != nil:
			return n.above.nodata // DS is the parent's to say (RFC 4035 §3.1.4.1)
		case exact:
			return n.reply(q.typ)
		case n.wild != nil:
			return n.wild.reply(q.typ)
		}
		return n.zone.nxdomain
	}
	return refused
}

func (n *node) reply(typ uint16) *reply {
	for i := range n.replies {
		if n.replies[i].typ == typ {
			return n.replies[i].reply
		}
	}
	if typ == dns.TypeANY && n.any != nil {
		return n.any
	}
	if n.other != nil && typ != dns.TypeRRSIG && typ != dns.TypeNSEC { // which are of the alias itself (RFC 4034 §3, §4)
		return n.other
	}
	return n.zone.nodata
}
