package dnsfallback

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/miekg/dns"
)

// Policy is everything that the settings say, judged and indexed. It is
// immutable but for its counters, and its static answers are written once.
type Policy struct {
	revision uint64
	zones    []*zone
	apexes   map[name]*zone
	// nodes are all names that exist, those of every zone and those that only
	// have names below them.
	nodes map[name]*node
	// deepest is the most labels of any of them: a question with more matches none by itself.
	deepest int
	// pools are all choices, those of names too; named are those with a name of
	// their own, and steered the names, each at its index.
	pools      []*pool
	named      map[string]*pool
	steered    []*steered
	conditions []condition
	// dimensions of a site's health: the services that tell of them, or "".
	dimensions [len(dimensionWords)]string
	// pace of the services, for TTLs that follow from it.
	pace map[string]Pace
	// replies counts the prepared answers, for their ids.
	replies uint32
	// counting is done once the counters are those that the policy before had.
	counting sync.Once
}

// firstID is that of the first answer of a policy; those below are of no zone.
const firstID = 64

// number gives an answer its id.
func (p *Policy) number(r *reply) *reply {
	p.replies++
	r.id = firstID + p.replies
	return r
}

// zone is one of the zones.
type zone struct {
	apex  name
	index int
	path  string
	soa   *rrset
	// absent is the SOA of negative answers, with their TTL (RFC 2308 §3, §5).
	absent *rrset

	nodata, nxdomain *reply
	// tally counts what was asked of the zone; apart from what is only read.
	tally *answerTally
}

// node is one name that exists.
type node struct {
	name name
	zone *zone
	sets []*rrset
	// steered answers for some types of the name by state; nil if none.
	steered *steered
	// cut is the delegation at or above the node; nil for what the zone answers itself.
	cut *node
	// wild is the asterisk below the node; nil if there is none.
	wild *node
	// above is the zone around the one whose apex this is, if that is ours too.
	above *zone

	// replies are the prepared answers by type, in order; other is for the rest.
	replies []typedReply
	other   *reply
	// any is the answer to ANY, referral that of everything at or below a cut.
	any, referral *reply
}

type typedReply struct {
	typ uint16
	*reply
}

func (n *node) set(typ uint16) *rrset {
	for _, s := range n.sets {
		if s.typ == typ {
			return s
		}
	}
	return nil
}

// NewPolicy judges the placement. Any problem refuses all of it: the policy is
// nil when there is one. What members name must be known.
func NewPolicy(revision uint64, set Placement, known Known) (*Policy, []Problem) {
	p := &Policy{revision: revision, nodes: map[name]*node{}, apexes: map[name]*zone{}, named: map[string]*pool{}, pace: known.Pace}
	var ps problems
	if len(set.Zones) == 0 {
		ps.add("zones", "is empty; name at least one zone")
	}
	judgeMaps(set.Maps, &ps)
	p.readSiteHealth(set.SiteHealth, known, &ps)
	p.readConditions(set.Conditions, known, &ps)
	p.readPools(set.Pools, known, &ps)
	read := make([]reading, len(set.Zones))
	for i, z := range set.Zones {
		read[i] = p.zone(i, z, &ps)
	}
	for i, r := range read {
		if r.zone != nil {
			p.place(r, &ps)
			p.readSteered(r.zone, set.Zones[i].WithDefaults(), known, &ps)
		}
	}
	p.mark()
	p.judge(&ps)
	if len(ps) > 0 {
		return nil, ps
	}
	for _, n := range p.nodes {
		p.prepare(n, &ps)
	}
	if len(ps) > 0 {
		slices.SortFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
		return nil, ps
	}
	return p, nil
}

// reading is a zone's records before they are sorted into nodes.
type reading struct {
	zone    *zone
	records []record
}

// zone reads one zone's own settings and records.
func (p *Policy) zone(i int, set Zone, ps *problems) reading {
	path := fmt.Sprintf("zones[%d]", i)
	apex, err := parseName(set.Name, root)
	switch {
	case set.Name == "":
		ps.add(path+".name", "is missing; name the zone that is delegated here, as gslb.example.com")
		return reading{}
	case err != nil:
		ps.add(path+".name", "%q is no name: %v", set.Name, err)
		return reading{}
	case apex == root || apex.wildcard():
		ps.add(path+".name", "%q cannot be a zone here", set.Name)
		return reading{}
	}
	if z := p.apexes[apex]; z != nil {
		ps.add(path+".name", "%q is %s already", set.Name, z.path)
		return reading{}
	}
	if len(set.NS) == 0 {
		ps.add(path+".ns", "is missing; name the zone's servers, at least two in different networks")
		return reading{}
	}
	set = set.WithDefaults()
	z := &zone{apex: apex, index: i, path: path, tally: new(answerTally)}
	p.zones = append(p.zones, z)
	p.apexes[apex] = z
	ttl := ps.seconds(path+".ttl", set.TTL)
	z.start(p.revision, set, ps)

	records := []record{}
	for k, s := range set.NS {
		at := fmt.Sprintf("%s.ns[%d]", path, k)
		n, err := parseName(s, apex)
		if err != nil {
			ps.add(at, "%q is no name: %v", s, err)
			continue
		}
		records = append(records, record{apex, dns.TypeNS, ttl, written(s, n), at})
	}
	for k, line := range set.Records {
		at := fmt.Sprintf("%s.records[%d]", path, k)
		r, err := parseRecord(line, apex, ttl)
		if err != nil {
			ps.add(at, "%v", err)
			continue
		}
		if r.owner == apex && r.typ == dns.TypeNS {
			ps.add(at, "is a server of the zone itself; write it under ns:")
			continue
		}
		r.path = at
		records = append(records, r)
	}
	return reading{z, records}
}

// written is a name in the case that the settings wrote it in.
func written(s string, n name) []byte {
	if !dns.IsFqdn(s) {
		s += "."
	}
	out := []byte(n)
	var buf [maxNameLen]byte
	if k, err := dns.PackDomainName(s, buf[:], 0, nil, false); err == nil {
		copy(out, buf[:k-1])
	}
	return out
}

// start writes the zone's SOA.
func (z *zone) start(revision uint64, set Zone, ps *problems) {
	path := z.path + ".soa."
	var data []byte
	for _, f := range []struct{ key, value string }{{"mname", set.SOA.MName}, {"rname", set.SOA.RName}} {
		n, err := parseName(f.value, z.apex)
		if err != nil {
			ps.add(path+f.key, "%q is no name: %v", f.value, err)
			continue
		}
		data = append(data, written(f.value, n)...)
	}
	ttl := ps.seconds(path+"ttl", set.SOA.TTL)
	minimum := ps.seconds(path+"minimum", set.SOA.Minimum)
	for _, v := range []uint32{
		uint32(revision),
		ps.seconds(path+"refresh", set.SOA.Refresh), ps.seconds(path+"retry", set.SOA.Retry), ps.seconds(path+"expire", set.SOA.Expire),
		minimum,
	} {
		data = binary.BigEndian.AppendUint32(data, v)
	}
	z.soa = &rrset{z.apex, dns.TypeSOA, ttl, [][]byte{data}, z.path + ".soa"}
	z.absent = &rrset{z.apex, dns.TypeSOA, min(ttl, minimum), [][]byte{data}, z.path + ".soa"}
}

// zoneOf is the zone that a name belongs to: the deepest around it. Nil if none is.
func (p *Policy) zoneOf(n name) *zone {
	for ; n != root; n = n.parent() {
		if z := p.apexes[n]; z != nil {
			return z
		}
	}
	return nil
}

// place sorts a zone's records into sets and nodes.
func (p *Policy) place(r reading, ps *problems) {
	apex := p.node(r.zone.apex, r.zone)
	apex.sets = append(apex.sets, r.zone.soa)
	for _, rec := range r.records {
		if !rec.owner.under(r.zone.apex) {
			ps.add(rec.path, "%s is outside the zone %s; a last dot makes a name absolute", rec.owner.text(), r.zone.apex.text())
			continue
		}
		if other := p.zoneOf(rec.owner); other != r.zone {
			ps.add(rec.path, "%s belongs to %s, which is %s", rec.owner.text(), other.apex.text(), other.path)
			continue
		}
		n := p.node(rec.owner, r.zone)
		s := n.set(rec.typ)
		if s == nil {
			n.sets = append(n.sets, &rrset{rec.owner, rec.typ, rec.ttl, [][]byte{rec.data}, rec.path})
			continue
		}
		switch {
		case slices.ContainsFunc(s.data, func(d []byte) bool { return same(rec.typ, d, rec.data) }):
			ps.add(rec.path, "is the same as %s", s.path)
		case rec.ttl != s.ttl:
			ps.add(rec.path, "has a TTL of %d and %s of the same set has %d; a set has one (RFC 2181 §5.2)", rec.ttl, s.path, s.ttl)
		default:
			s.data = append(s.data, rec.data)
		}
	}
}

// node finds or makes the node of a name, and those between it and the apex:
// a name below which others are exists (RFC 4592 §2.2.2).
func (p *Policy) node(n name, z *zone) *node {
	if found := p.nodes[n]; found != nil {
		return found
	}
	made := &node{name: n, zone: z}
	p.nodes[n] = made
	p.deepest = max(p.deepest, n.labels())
	if n != z.apex {
		above := p.node(n.parent(), z)
		if string(n[:2]) == "\x01*" {
			above.wild = made
		}
	}
	return made
}

// mark finds the delegations, and the zones around zones.
func (p *Policy) mark() {
	for _, z := range p.zones {
		if n := p.nodes[z.apex]; n != nil {
			n.above = p.zoneOf(z.apex.parent())
		}
	}
	for _, n := range p.nodes {
		for at := n; at.name != n.zone.apex; at = p.nodes[at.name.parent()] {
			if at.set(dns.TypeNS) != nil {
				n.cut = at // the topmost wins: what it hides is not ours
			}
		}
	}
}
