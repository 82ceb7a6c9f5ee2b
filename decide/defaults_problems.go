package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Problem is one thing in a table that cannot be meant.
type Problem struct {
	// Path is the place, in the words of the file: services[0].health.fall.
	Path string
	// Text gives the value, what is allowed, and what to do.
	Text string
}

func (p Problem) String() string {
	if p.Path == "" { // of the whole
		return p.Text
	}
	return p.Path + ": " + p.Text
}

// Problems finds everything in the table that cannot be meant, in the order of
// the file. It takes the table as written: zero values stand for their defaults
// and are not problems. A table without problems may be given to the machines.
func (t Table) Problems() []Problem {
	c := critic{t: t, d: t.WithDefaults(), listing: listPrefixes(t.Services)}
	c.sites()
	c.services()
	for i, s := range c.t.Services {
		c.span("services["+strconv.Itoa(i)+"].ttl", s.TTL, 7*24*time.Hour)
	}
	c.prefixes()
	c.guards()
	c.plans()
	c.span("drain_wait", t.DrainWait, 10*time.Minute)
	c.ramp()
	c.drain()
	c.shed()
	c.levels()
	switch {
	case len(t.Source) > MaxSource:
		c.say("", "the text of the table has %d bytes; the ledger carries %d", len(t.Source), MaxSource)
	case !utf8.ValidString(t.Source):
		c.say("", "the text of the table is not UTF-8")
	}
	return c.found
}

// critic collects problems: t is the table as written, d with its defaults.
type critic struct {
	t, d    Table
	listing *listing
	found   []Problem
}

func (c *critic) say(path, format string, args ...any) {
	c.found = append(c.found, Problem{path, fmt.Sprintf(format, args...)})
}

func (c *critic) sites() {
	anycast := c.t.Shared()
	if len(c.t.Announcers()) == 0 {
		c.say("sites", "no site announces anything; name at least one that is not a witness")
	}
	for i, p := range c.t.Sites {
		at := "sites[" + strconv.Itoa(i) + "]"
		c.name(at+".name", p.Name, "site")
		for j, q := range c.t.Sites[:i] {
			if q.Name == p.Name {
				c.say(at+".name", "%q is the name of sites[%d] already; each site has its own", p.Name, j)
				break
			}
		}
		if p.Capacity < 0 {
			c.say(at+".capacity", "%d is negative; leave it out to skip the capacity guard", p.Capacity)
		}
		if p.Load < 0 {
			c.say(at+".load", "%d is negative; leave it out where it is not known", p.Load)
		}
		switch {
		case p.LoadPerAnswer < 0 || p.LoadPerAnswer > maxPerAnswer:
			c.say(at+".load_per_answer", "%d is out of range; allowed: 1 to %d, or leave it out", p.LoadPerAnswer, maxPerAnswer)
		case p.LoadPerAnswer > 0 && p.Load > 0:
			c.say(at+".load_per_answer", "is one source of the load while the site reports none, and load: another; name one")
		}
		c.spill(at, p)
		c.owns(i, p)
		c.paths(i, p)
		c.nodes(i, p, anycast)
	}
}

// nodes checks the nodes of one site: each is one of the whole table, and is
// reached by an address that cannot lead to another.
func (c *critic) nodes(i int, p Place, anycast []netip.Prefix) {
	switch n := max(len(p.Nodes), 1); {
	case p.MinNodes < 0:
		c.say(fmt.Sprintf("sites[%d].min_nodes", i), "%d is negative; default 1", p.MinNodes)
	case p.MinNodes > n:
		c.say(fmt.Sprintf("sites[%d].min_nodes", i), "%d, and %s has %d nodes, so it could never be well; at most %d", p.MinNodes, p.Name, n, n)
	}
	for k, n := range p.Nodes {
		at := fmt.Sprintf("sites[%d].nodes[%d]", i, k)
		c.name(at+".name", n.Name, "node")
		switch a := n.Mesh.Addr(); {
		case !n.Mesh.IsValid() || n.Mesh.Port() == 0 || a.IsUnspecified() || a.IsMulticast():
			c.say(at+".mesh", "is not where a node can be called; write ADDRESS:PORT, such as 192.0.2.1:7482")
		case slices.ContainsFunc(anycast, func(p netip.Prefix) bool { return p.IsValid() && p.Contains(a.Unmap().WithZone("")) }):
			c.say(at+".mesh", "%s is inside a prefix that the fleet announces, so another site may answer; use an address of the node's own", a)
		}
		for j, q := range c.t.Sites[:i+1] {
			for l, m := range q.Nodes {
				if j == i && l >= k {
					break
				}
				if m.Name == n.Name {
					c.say(at+".name", "%q is the name of sites[%d].nodes[%d] already; each node has its own", n.Name, j, l)
				}
				if m.Mesh == n.Mesh && n.Mesh.IsValid() {
					c.say(at+".mesh", "%s is the address of sites[%d].nodes[%d] already", n.Mesh, j, l)
				}
			}
		}
	}
}

// spill checks where a site's load goes.
func (c *critic) spill(at string, p Place) {
	whole := 0
	for k, s := range p.Spill {
		path := at + ".spill[" + strconv.Itoa(k) + "]"
		q, ok := c.t.Place(s.Site)
		switch {
		case !ok || q.Witness || s.Site == p.Name:
			c.say(path+".site", "%q takes over nothing of %s; other sites that announce: %s", s.Site, p.Name,
				list(slices.DeleteFunc(c.t.Announcers(), func(n string) bool { return n == p.Name })))
		case slices.ContainsFunc(p.Spill[:k], func(o Spill) bool { return o.Site == s.Site }):
			c.say(path+".site", "%q stands here twice; name it once", s.Site)
		}
		if s.Percent < 0 || s.Percent > 100 {
			c.say(path+".percent", "%d is out of range; allowed: 0 to 100", s.Percent)
		} else {
			whole += s.Percent
		}
	}
	if whole > 100 {
		c.say(at+".spill", "the shares add up to %d%%; at most 100, and of what is left out the worst is assumed", whole)
	}
}

// name checks that a name can stand in a command line, a log and a metric label.
func (c *critic) name(path, name, what string) {
	ok := name != "" && len(name) <= 63
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if !ok {
		c.say(path, "%q is not a %s name; use 1 to 63 letters, digits, dots, dashes or underscores", name, what)
	}
}

func (c *critic) services() {
	if len(c.t.Services) == 0 {
		c.say("services", "there is none; name at least one service with its prefixes")
	}
	for i, s := range c.t.Services {
		at := "services[" + strconv.Itoa(i) + "]"
		c.name(at+".name", s.Name, "service")
		for j, q := range c.t.Services[:i] {
			if q.Name == s.Name {
				c.say(at+".name", "%q is the name of services[%d] already; each service has its own", s.Name, j)
				break
			}
		}
		c.servicePrefixes(at, i, s)
		c.serviceSites(at, s)
		c.pathService(at, i, s)
		c.word(at+".mode", s.Mode, ModeAuto, ModeApprove, ModeObserve)
		if s.NodeMode != "" {
			c.word(at+".node_mode", s.NodeMode, ModeAuto, ModeApprove, ModeObserve)
		}
		c.word(at+".return", s.Return, ReturnAuto, ReturnHold)
		if s.OnlyNew != 0 && (s.OnlyNew < time.Minute || s.OnlyNew > maxOnlyNew) {
			c.say(at+".only_new", "%s is out of range; allowed: 1m0s to %s, or 0 for a site that is never too old", s.OnlyNew, maxOnlyNew)
		}
		if s.OnlyNew > 0 && len(s.Prefixes) == 0 {
			c.say(at+".only_new", "is for a service that announces something, which a person can resume")
		}
		c.length(at+".require.withdraw", s.Require.Withdraw)
		c.length(at+".require.return", s.Require.Return)
		c.health(at+".health", s.Health, c.d.Services[i].Health)
	}
}

// maxOnlyNew is the longest absence that a table may let pass.
const maxOnlyNew = 365 * 24 * time.Hour

// length bounds what stands in every entry of a table; whoever has the checks
// judges what it says.
func (c *critic) length(path, text string) {
	const most = 4096
	if len(text) > most {
		c.say(path, "has %d characters; at most %d", len(text), most)
	}
}

func (c *critic) servicePrefixes(at string, i int, s Service) {
	for j, p := range s.Prefixes {
		path := at + ".prefixes[" + strconv.Itoa(j) + "]"
		if !c.prefix(path, p) {
			continue
		}
		if c.listing.twice(p, i, j) {
			c.say(path, "%s stands here twice; name it once", p)
			continue
		}
		// To withdraw one would leave its addresses to the other.
		if q, ok := c.listing.overlap(p, i, j); ok {
			c.say(path, "%s overlaps %s of services[%d]; share the same prefix (see needs:) or use separate ones", p, q.prefix, q.service)
		}
	}
}

// prefix checks one prefix alone.
func (c *critic) prefix(path string, p netip.Prefix) bool {
	switch {
	case !p.IsValid():
		c.say(path, "is not a prefix; write ADDRESS/LENGTH, such as 192.0.2.0/24 or 2001:db8::/48")
	case p.Addr().Is4In6():
		c.say(path, "%s is an IPv4 prefix written as IPv6; write it as IPv4", p)
	case p != p.Masked():
		c.say(path, "%s has host bits set; write %s", p, p.Masked())
	case p.Bits() == 0:
		c.say(path, "%s is the default route, which is never announced; name the service's own prefix", p)
	case p.Addr().IsLoopback() || p.Addr().IsMulticast() || p.Addr().IsLinkLocalUnicast() || p.Addr().IsUnspecified():
		c.say(path, "%s cannot be routed to a service (loopback, multicast, link-local or unspecified)", p)
	default:
		return true
	}
	return false
}

func (c *critic) serviceSites(at string, s Service) {
	if s.Sites != nil && len(s.Sites) == 0 {
		c.say(at+".sites", "is empty, so nobody would announce the service; leave it out for all sites")
	}
	for j, name := range s.Sites {
		path := at + ".sites[" + strconv.Itoa(j) + "]"
		p, ok := c.t.Place(name)
		switch {
		case !ok:
			c.say(path, "%q is not a site of this table; known: %s", name, strings.Join(c.t.Announcers(), ", "))
		case p.Witness:
			c.say(path, "%q is a witness, which announces nothing; known sites: %s", name, strings.Join(c.t.Announcers(), ", "))
		case slices.Contains(s.Sites[:j], name):
			c.say(path, "%q stands here twice; name it once", name)
		}
	}
}

// health checks the numbers of one service: h as written, d with defaults.
func (c *critic) health(at string, h, d Health) {
	const shortest = 10 * time.Millisecond
	for _, s := range []struct {
		key string
		v   time.Duration
	}{{".interval", h.Interval}, {".fast_interval", h.FastInterval}} {
		if c.span(at+s.key, s.v, time.Hour) && s.v > 0 && s.v < shortest {
			c.say(at+s.key, "%v is under the least interval of %v", s.v, shortest)
		}
	}
	if h.FastInterval > 0 && d.Interval > 0 && d.FastInterval > d.Interval {
		c.say(at+".fast_interval", "%v is longer than interval %v; the fast one is for hurrying", d.FastInterval, d.Interval)
	}
	c.count(at+".fall", h.Fall, 1000)
	if c.count(at+".fall_certain", h.FallCertain, 1000) && d.FallCertain > d.Fall && d.Fall > 0 {
		c.say(at+".fall_certain", "%d is more than fall %d; a certain failure may not need more rounds than another", d.FallCertain, d.Fall)
	}
	c.count(at+".rise", h.Rise, 100_000)
	c.span(at+".hold_up", h.HoldUp, 7*24*time.Hour)
	if h.DownFor != nil {
		c.span(at+".down_for", *h.DownFor, time.Hour)
	}
	c.count(at+".resume_rounds", h.ResumeRounds, 1000)
	c.span(at+".warm_start", h.WarmStart, 24*time.Hour)
}

func (c *critic) prefixes() {
	for i, p := range c.t.Prefixes {
		at := "prefixes[" + strconv.Itoa(i) + "]"
		if !c.prefix(at+".prefix", p.Prefix) {
			continue
		}
		sites := len(c.t.SitesOf(p.Prefix))
		if len(c.t.ServicesOf(p.Prefix)) == 0 {
			c.say(at+".prefix", "%s belongs to no service, so nobody announces it; name it in services[].prefixes", p.Prefix)
		}
		if slices.ContainsFunc(c.t.Prefixes[:i], func(q Prefix) bool { return q.Prefix == p.Prefix }) {
			c.say(at+".prefix", "%s stands here twice; join the two", p.Prefix)
		}
		c.word(at+".needs", p.Needs, NeedsAll, NeedsAny)
		c.floor(at+".floor", p.Floor, sites)
		c.floor(at+".healthy_floor", p.HealthyFloor, sites)
	}
}

func (c *critic) floor(path string, floor *int, sites int) {
	if floor != nil && (*floor < 0 || *floor > sites) {
		c.say(path, "%d cannot be kept: %d sites announce the prefix; allowed: 0 to %d", *floor, sites, sites)
	}
}

func (c *critic) guards() {
	g, d := c.t.Guards, c.d.Guards
	const week = 7 * 24 * time.Hour
	c.span("guards.cooldown", g.Cooldown, week)
	c.count("guards.site_budget", g.SiteBudget, 1000)
	c.span("guards.site_window", g.SiteWindow, week)
	if c.count("guards.site_long_budget", g.SiteLongBudget, 1000) && d.SiteLongBudget < d.SiteBudget {
		c.say("guards.site_long_budget", "%d is under site_budget %d, which could then never be used", d.SiteLongBudget, d.SiteBudget)
	}
	if c.span("guards.site_long_window", g.SiteLongWindow, week) && d.SiteLongWindow < d.SiteWindow {
		c.say("guards.site_long_window", "%v is shorter than site_window %v; swap them", d.SiteLongWindow, d.SiteWindow)
	}
	c.count("guards.fleet_budget", g.FleetBudget, 100_000)
	c.span("guards.fleet_window", g.FleetWindow, week)
	c.count("guards.lock_cycles", g.LockCycles, 1000)
	c.span("guards.lock_window", g.LockWindow, week)
	c.count("guards.breaker_sites", g.BreakerSites, 100_000)
	c.count("guards.breaker_percent", g.BreakerPercent, 100)
	c.span("guards.breaker_window", g.BreakerWindow, week)
	c.span("guards.breaker_clear", g.BreakerClear, week)
	if c.count("guards.breaker_clear_percent", g.BreakerClearPct, 100) && d.BreakerClearPct > d.BreakerPercent {
		c.say("guards.breaker_clear_percent", "%d is over breaker_percent %d, so the breaker would clear while it trips", d.BreakerClearPct, d.BreakerPercent)
	}
	if c.span("guards.permit_ttl", g.PermitTTL, time.Minute) && g.PermitTTL > 0 && g.PermitTTL < time.Second {
		c.say("guards.permit_ttl", "%v is under 1s, too short for one answer over a wide-area link", g.PermitTTL)
	}
	c.count("guards.capacity_red_percent", g.CapacityRed, 100)
}

// word checks a closed set of words; empty means the default.
func (c *critic) word(path, got string, allowed ...string) {
	if got != "" && !slices.Contains(allowed, got) {
		c.say(path, "%q is not known; allowed: %s", got, strings.Join(allowed, ", "))
	}
}

// count checks a whole number; 0 means the default.
func (c *critic) count(path string, v, most int) bool {
	if v < 0 || v > most {
		c.say(path, "%d is out of range; allowed: 1 to %d, or leave it out for the default", v, most)
		return false
	}
	return true
}

// span checks a duration; 0 means the default.
func (c *critic) span(path string, v, most time.Duration) bool {
	if v < 0 || v > most {
		c.say(path, "%v is out of range; allowed: up to %v, or leave it out for the default", v, most)
		return false
	}
	return true
}
