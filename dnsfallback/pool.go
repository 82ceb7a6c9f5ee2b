package dnsfallback

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// method is one way to choose.
type method uint8

const (
	byTopology method = iota
	byRatio
	byHash
	byPriority
	byRoundRobin
	byNearest
	byAll
)

var methodNames = []string{"topology", "ratio", "hash", "priority", "round_robin", "nearest", "all"}

func (m method) String() string { return methodNames[m] }

// pool is a choice, judged. Its index is its place in what is compiled by state.
type pool struct {
	name, path string
	index      int
	members    []*member
	methods    []method
	minUp      int
	fallback   *member // nil for none
	trickle    uint8
	// has says which families any member has; alias, whether one is a CNAME.
	has   [2]bool
	alias bool
}

// member is one of a pool's.
type member struct {
	name, key     string // key is pool/member
	site, service string
	addresses     [2][]byte // records of each family, without TTL
	count         [2]uint16
	alias         []byte // a CNAME record, without TTL
	pool          *pool
	weight        uint32
	serves        []label
	located       bool
	lat, lon      float64
	dr            bool
	when          int // the index of its condition; -1 for none
	condition     string
	hash          uint64
	// given counts the answers that named it; apart from what is only read, as
	// all workers write it.
	given *counter
}

// counter has a line of the processor's cache to itself.
type counter struct {
	n atomic.Uint64
	_ [56]byte
}

// Given is how often a member was given out since a policy first had it.
type Given struct {
	// Choice is the name, or the pool; Member one of its members, "fallback" or "anycast".
	Choice, Member string
	// Site and Service of the member; empty if it has none.
	Site, Service string
	Count         uint64
}

// countOn goes on counting where the policy before stopped, for what has kept its
// name. It is called before the policy answers anything, and does it once.
func (p *Policy) countOn(old *Policy) {
	p.counting.Do(func() { p.inherit(old) })
}

func (p *Policy) inherit(old *Policy) {
	for _, z := range p.zones {
		if was := old.apexes[z.apex]; was != nil {
			z.tally = was.tally
		}
	}
	was := map[string]*counter{}
	old.eachMember(func(o *pool, m *member) { was[o.name+"/"+m.name] = m.given })
	p.eachMember(func(o *pool, m *member) {
		if c := was[o.name+"/"+m.name]; c != nil {
			m.given = c
		}
	})
}

// Given lists every member with what it was given, in the order of the settings.
// There are no more than the settings have.
func (t *Table) Given() []Given {
	var out []Given
	t.policy.eachMember(func(o *pool, m *member) {
		out = append(out, Given{o.name, m.name, m.site, m.service, m.given.n.Load()})
	})
	return out
}

// eachMember visits all that can be given: members but for pools, fallbacks and
// anycast addresses.
func (p *Policy) eachMember(visit func(*pool, *member)) {
	some := func(o *pool, m *member) {
		if m != nil && m.pool == nil {
			visit(o, m)
		}
	}
	for _, o := range p.pools {
		for _, m := range o.members {
			some(o, m)
		}
		some(o, o.fallback)
	}
	for _, s := range p.steered {
		some(s.pool, s.anycast)
	}
}

// steered is a name that is answered by a choice.
type steered struct {
	name           name
	index          int
	pool           *pool
	ttl, sensitive uint32 // with auto, the most that it may be
	auto           bool
	windows        []Window
	anycast        *member
}

// answers reports whether the name has records of the type, whatever the state.
func (s *steered) answers(typ uint16) bool {
	switch typ {
	case typeA:
		return s.pool.has[0] || s.pool.alias
	case typeAAAA:
		return s.pool.has[1] || s.pool.alias
	}
	return s.pool.alias && !s.pool.has[0] && !s.pool.has[1]
}

// types are those that are answered by state, but for what an alias answers to all.
func (s *steered) types() []uint16 {
	var out []uint16
	for _, t := range []uint16{typeA, typeAAAA} {
		if s.answers(t) {
			out = append(out, t)
		}
	}
	return out
}

var poolName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// Known is what the table says beside the placement.
type Known struct {
	// Sites and Services are the names that members may use; nil is any.
	Sites, Services []string
	// Pace of each service, for names whose TTL is [Auto]. What is not here may change
	// at any moment.
	Pace map[string]Pace
}

// pools reads the pools, which may name each other in any order.
func (p *Policy) readPools(set []Pool, known Known, ps *problems) {
	for i, s := range set {
		path := fmt.Sprintf("pools[%d]", i)
		switch {
		case !poolName.MatchString(s.Name):
			ps.add(path+".name", "%q is not a name; allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -", s.Name)
		case s.Name == switchedCondition:
			ps.add(path+".name", "%q is what people switch conditions by; choose another name", s.Name)
		case p.named[s.Name] != nil:
			ps.add(path+".name", "%q is %s already", s.Name, p.named[s.Name].path)
		default:
			p.named[s.Name] = p.newPool(s.Name, path)
		}
	}
	for i, s := range set {
		if o := p.named[s.Name]; o != nil && o.path == fmt.Sprintf("pools[%d]", i) {
			p.fill(o, s.Choice.withDefaults(), known, ps)
		}
	}
	for _, o := range slices.Clone(p.pools) {
		p.judgeNesting(o, []*pool{o}, ps)
	}
	if len(*ps) == 0 {
		for range p.pools { // families go up, level by level
			for _, o := range p.pools {
				o.inherit()
			}
		}
		for _, o := range p.pools {
			o.judgeAliases(ps)
		}
	}
}

func (p *Policy) newPool(name, path string) *pool {
	o := &pool{name: name, path: path, index: len(p.pools)}
	p.pools = append(p.pools, o)
	return o
}

// judgeNesting finds pools that hold themselves.
func (p *Policy) judgeNesting(o *pool, way []*pool, ps *problems) {
	for _, m := range o.members {
		switch {
		case m.pool == nil:
		case m.pool == way[0]:
			var names []string
			for _, w := range append(way, m.pool) {
				names = append(names, w.name)
			}
			ps.add(way[0].path+".members", "leads back to itself: %s", strings.Join(names, " → "))
		case slices.Contains(way, m.pool): // told of that pool
		case len(way) >= maxChain:
			ps.add(way[0].path+".members", "pools nest over %d deep", maxChain)
		default:
			p.judgeNesting(m.pool, append(slices.Clone(way), m.pool), ps)
		}
	}
}

// inherit takes over what pools below have.
func (o *pool) inherit() {
	for _, m := range o.members {
		if m.pool != nil {
			o.has[0] = o.has[0] || m.pool.has[0]
			o.has[1] = o.has[1] || m.pool.has[1]
			o.alias = o.alias || m.pool.alias
		}
	}
}

// judgeAliases keeps CNAMEs alone in their answers.
func (o *pool) judgeAliases(ps *problems) {
	if o.alias && slices.Contains(o.methods, byAll) {
		ps.add(o.path+".methods", "all would give a CNAME beside other records; an alias has nothing else (RFC 1034 §3.6.2)")
	}
}

const (
	typeA     = 1
	typeCNAME = 5
	typeAAAA  = 28
)

// appendRecord writes one whose owner is the question, with a TTL to be filled in.
func appendRecord(b []byte, typ uint16, data []byte) []byte {
	b = append(b, 0xC0, headerLen, byte(typ>>8), byte(typ), 0, 1, 0, 0, 0, 0, byte(len(data)>>8), byte(len(data)))
	return append(b, data...)
}

// give adds addresses, or a name, to what a member gives.
func (m *member) give(addresses []netip.Addr, alias name) {
	for _, a := range addresses {
		f, typ := 0, uint16(typeA)
		if a.Is6() {
			f, typ = 1, typeAAAA
		}
		m.addresses[f] = appendRecord(m.addresses[f], typ, a.AsSlice())
		m.count[f]++
	}
	if alias != "" {
		m.alias = appendRecord(nil, typeCNAME, []byte(alias))
	}
}

// fill reads a choice into its pool.
func (p *Policy) fill(o *pool, c Choice, known Known, ps *problems) {
	at := func(format string, args ...any) string { return o.path + "." + fmt.Sprintf(format, args...) }
	if len(c.Members) == 0 {
		ps.add(at("members"), "is missing; a choice needs at least one member, or it could only answer nothing")
	}
	for i, s := range c.Methods {
		k := slices.Index(methodNames, s)
		switch {
		case k < 0:
			ps.add(at("methods[%d]", i), "%q is no method; one of %s", s, strings.Join(methodNames, ", "))
		case slices.Contains(o.methods, method(k)):
			ps.add(at("methods[%d]", i), "%q stands before already", s)
		case len(o.methods) > 0 && o.methods[len(o.methods)-1] > byTopology && o.methods[len(o.methods)-1] != byNearest:
			ps.add(at("methods[%d]", i), "is never reached: %s before it always finds a member that is up", o.methods[len(o.methods)-1])
		default:
			o.methods = append(o.methods, method(k))
		}
	}
	if o.minUp = c.MinUp; c.MinUp < 1 || c.MinUp > max(1, len(c.Members)) {
		ps.add(at("min_up"), "%d is out of range; 1 to the %d members", c.MinUp, len(c.Members))
	}
	if c.Trickle < 0 || c.Trickle > 50 {
		ps.add(at("trickle"), "%d is out of range; 0 to 50 percent", c.Trickle)
	} else if c.Trickle > 0 && !slices.Contains(o.methods, byPriority) {
		ps.add(at("trickle"), "is for the method priority, which is not among the methods")
	}
	o.trickle = uint8(c.Trickle)
	if len(c.Fallback) > 0 {
		o.fallback = &member{name: "fallback", given: new(counter)}
		p.readFallback(o, c.Fallback, at("fallback"), ps)
	}
	seen := map[string]bool{}
	for i, m := range c.Members {
		p.readMember(o, m, at("members[%d]", i), seen, known, ps)
	}
}

func (p *Policy) readFallback(o *pool, set []string, path string, ps *problems) {
	for i, s := range set {
		if a, err := netip.ParseAddr(s); err == nil {
			if badAddress(a) {
				ps.add(fmt.Sprintf("%s[%d]", path, i), "%s is no address to send a client to", s)
			}
			o.fallback.give([]netip.Addr{a}, "")
			continue
		}
		n, err := parseName(s, "")
		if err != nil {
			ps.add(fmt.Sprintf("%s[%d]", path, i), "%q is neither an address nor a name", s)
			continue
		}
		if len(set) > 1 {
			ps.add(fmt.Sprintf("%s[%d]", path, i), "%q is a name, and an alias has nothing beside it", s)
		}
		o.fallback.give(nil, n)
	}
}

func badAddress(a netip.Addr) bool {
	return a.Is4In6() || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast()
}

func (p *Policy) readMember(o *pool, s Member, path string, seen map[string]bool, known Known, ps *problems) {
	m := &member{name: s.Name, key: o.name + "/" + s.Name, site: s.Site, service: s.Service, dr: s.DR, when: -1, condition: s.When, given: new(counter)}
	o.members = append(o.members, m)
	switch {
	case s.Name == "":
		ps.add(path+".name", "is missing; a member without a site or a pool needs one")
	case seen[s.Name]:
		ps.add(path+".name", "%q is an earlier member of this choice; give each its own name", s.Name)
	}
	seen[s.Name] = true
	h := fnv.New64a()
	h.Write([]byte(s.Name))
	m.hash = h.Sum64()

	if s.When != "" {
		if m.when = p.condition(s.When); m.when < 0 {
			ps.add(path+".when", "there is no condition %q; say under conditions: when it holds", s.When)
		}
	}

	given := 0
	if len(s.Addresses) > 0 {
		given++
		for i, a := range s.Addresses {
			if badAddress(a) {
				ps.add(fmt.Sprintf("%s.addresses[%d]", path, i), "%v is no address to send a client to", a)
			}
		}
		m.give(s.Addresses, "")
		o.has[0] = o.has[0] || m.count[0] > 0
		o.has[1] = o.has[1] || m.count[1] > 0
	}
	if s.CNAME != "" {
		given++
		n, err := parseName(s.CNAME, "")
		if err != nil || n == root {
			ps.add(path+".cname", "%q is no name", s.CNAME)
		}
		m.give(nil, n)
		o.alias = true
	}
	if s.Pool != "" {
		given++
		if m.pool = p.named[s.Pool]; m.pool == nil {
			ps.add(path+".pool", "there is no pool %q", s.Pool)
		}
		if s.Site != "" {
			ps.add(path+".site", "a pool's members have their own sites; leave it out")
		}
	}
	switch {
	case given == 0:
		ps.add(path, "gives nothing; write addresses:, cname: or pool:")
	case given > 1:
		ps.add(path, "has more than one of addresses:, cname: and pool:; a member is one of them")
	}
	switch {
	case s.Site == "":
		if s.Service != "" && s.Pool == "" {
			ps.add(path+".service", "is of no use without a site, whose service it is")
		}
	case known.Sites != nil && !slices.Contains(known.Sites, s.Site):
		ps.add(path+".site", "%q is not a site of this table; known: %s", s.Site, strings.Join(known.Sites, ", "))
	case s.Service == "":
		ps.add(path+".service", "is missing; name the service whose health at %s counts, here or for the whole choice", s.Site)
	case known.Services != nil && !slices.Contains(known.Services, s.Service):
		ps.add(path+".service", "%q is not a service of this table; known: %s", s.Service, strings.Join(known.Services, ", "))
	}
	if *s.Weight < 0 || *s.Weight > 1_000_000 {
		ps.add(path+".weight", "%d is out of range; 0 to 1000000", *s.Weight)
	}
	m.weight = uint32(*s.Weight)
	for i, t := range s.Serves {
		l, err := parseLabel(t)
		if err != nil {
			ps.add(fmt.Sprintf("%s.serves[%d]", path, i), "%v", err)
		}
		m.serves = append(m.serves, l)
	}
	switch {
	case len(s.At) == 0:
	case len(s.At) != 2 || s.At[0] < -90 || s.At[0] > 90 || s.At[1] < -180 || s.At[1] > 180:
		ps.add(path+".at", "is not [latitude, longitude] in degrees")
	default:
		m.located, m.lat, m.lon = true, s.At[0], s.At[1]
	}
}

// readSteered reads the names of a zone.
func (p *Policy) readSteered(z *zone, set Zone, known Known, ps *problems) {
	for i, s := range set.Names {
		path := fmt.Sprintf("%s.names[%d]", z.path, i)
		s = s.withDefaults(set)
		if s.Name == "" {
			ps.add(path+".name", "is missing; write @ for the zone itself")
			continue
		}
		n, err := parseName(s.Name, z.apex)
		if err != nil {
			ps.add(path+".name", "%q is no name: %v", s.Name, err)
			continue
		}
		if !n.under(z.apex) {
			ps.add(path+".name", "%s is outside the zone %s; a last dot makes a name absolute", n.text(), z.apex.text())
			continue
		}
		if other := p.zoneOf(n); other != z {
			ps.add(path+".name", "%s belongs to %s, which is %s", n.text(), other.apex.text(), other.path)
			continue
		}
		node := p.node(n, z)
		if node.steered != nil {
			ps.add(path+".name", "%s is %s already", n.text(), node.steered.pool.path)
			continue
		}
		before := len(*ps)
		o := p.newPool(n.text(), path)
		p.fill(o, s.Choice, known, ps)
		o.inherit()
		auto := s.TTL == Auto
		if auto {
			s.TTL = TTL(set.TTL)
		}
		t := &steered{
			name: n, index: len(p.steered), pool: o, auto: auto,
			ttl: ps.seconds(path+".ttl", time.Duration(s.TTL)), sensitive: ps.seconds(path+".sensitive_ttl", s.SensitiveTTL), windows: s.Windows,
		}
		p.steered = append(p.steered, t)
		node.steered = t
		for k, w := range s.Windows {
			at := fmt.Sprintf("%s.windows[%d]", path, k)
			switch {
			case w.From.IsZero() || w.To.IsZero():
				ps.add(at, "needs from: and to:, as 2026-11-11T00:00:00Z")
			case !w.From.Before(w.To):
				ps.add(at, "ends before it begins")
			case w.Lead < 0 || w.Lead > 7*24*time.Hour:
				ps.add(at+".lead", "%v is out of range; 0s to 168h", w.Lead)
			}
		}
		if len(s.Anycast) > 0 {
			t.anycast = &member{name: "anycast", given: new(counter)}
			t.anycast.give(s.Anycast, "")
			for k, a := range s.Anycast {
				if badAddress(a) {
					ps.add(fmt.Sprintf("%s.anycast[%d]", path, k), "%v is no address to send a client to", a)
				}
			}
		}
		if len(*ps) > before {
			continue
		}
		o.judgeAliases(ps)
		if o.alias && n == z.apex {
			ps.add(path+".members", "the zone's own name has SOA and NS, and an alias has nothing beside it; write addresses there")
		}
	}
}

// setTTL writes a TTL and an owner into records that appendRecord made.
func setTTL(records []byte, owner uint16, ttl uint32) {
	for len(records) > 0 {
		binary.BigEndian.PutUint16(records, owner)
		binary.BigEndian.PutUint32(records[6:], ttl)
		records = records[12+int(binary.BigEndian.Uint16(records[10:])):]
	}
}
