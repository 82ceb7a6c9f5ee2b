package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// What is judged here is how sites look at each other: by which addresses, with
// which checks, and whether enough of them can.

// addressesOf judges where each site is reached by the others.
func (j *judge) addressesOf() {
	type user struct {
		site string
		path string
	}
	taken := map[netip.Addr]user{}
	one := func(i int, who, path string, as []netip.Addr) {
		site := j.cfg.Fleet.Sites[i]
		for k, a := range as {
			at := fmt.Sprintf("%s[%d]", path, k)
			p, anycast := j.anycast(a)
			first := slices.IndexFunc(as[:k], func(b netip.Addr) bool { return b.IsValid() && b.Is4() == a.Is4() })
			other, again := taken[a]
			switch {
			case !a.IsValid():
				continue
			case anycast:
				j.say(j.table, at, "%s is inside the anycast prefix %s, where any site may answer for %s; give an address of this site alone", a, p, site.Name)
			case a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.Zone() != "":
				j.say(j.table, at, "%s is no address that other sites can reach", a)
			case first >= 0:
				j.say(j.table, at, "%s is a second address of its family, beside %s; name the one that others look at", a, as[first])
			case again && other.site != who:
				j.say(j.table, at, "%s is %s already, so the two could not be told apart", a, other.path)
			case site.Witness:
				j.warn(j.table, at, "%s is a witness, which serves nothing, so nobody looks at this", site.Name)
			case a.IsLoopback():
				j.warn(j.table, at, "%s is the loopback of whoever looks; of use only when all sites are on one host", a)
			}
			if !again {
				taken[a] = user{who, at}
			}
		}
	}
	for i, s := range j.cfg.Fleet.Sites {
		at := fmt.Sprintf("sites[%d]", i)
		one(i, s.Name, at+".address", s.Address)
		j.addressesBy(i, at+".addresses", s.Addresses, func(path string, as []netip.Addr) { one(i, s.Name, path, as) })
		for k, n := range s.Nodes {
			at := fmt.Sprintf("%s.nodes[%d]", at, k)
			if len(s.Nodes) == 1 && len(n.Address)+len(n.Addresses) > 0 {
				j.say(j.table, at, "has addresses of its own, and is the only node of %s: write them beside the name of the site", s.Name)
				continue
			}
			one(i, n.Name, at+".address", n.Address)
			j.addressesBy(i, at+".addresses", n.Addresses, func(path string, as []netip.Addr) { one(i, n.Name, path, as) })
		}
	}
}

// addressesBy judges addresses that are given for single services of a site.
func (j *judge) addressesBy(i int, at string, of map[string][]netip.Addr, one func(path string, as []netip.Addr)) {
	s := j.cfg.Fleet.Sites[i]
	for _, name := range slices.Sorted(maps.Keys(of)) {
		path := join(at, name)
		n := slices.IndexFunc(j.cfg.Fleet.Services, func(v Service) bool { return v.Name == name })
		switch {
		case !j.table.sound("services"):
		case n < 0:
			j.say(j.table, path, "%q is not a service of this table; known: %s", brief(name), j.serviceNames())
			continue
		case !s.Witness && !j.cfg.Fleet.serves(s.Name, j.cfg.Fleet.Services[n].Service):
			j.say(j.table, path, "%s does not serve %s; see services[%d].sites", s.Name, name, n)
			continue
		}
		one(path, of[name])
	}
}

func (j *judge) serviceNames() string {
	var names []string
	for _, s := range j.cfg.Fleet.Services {
		names = append(names, s.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// remote judges what other sites look at; own is when they look at themselves.
func (j *judge) remote(at string, s Service, own decide.Health) {
	f := j.cfg.Fleet
	if s.Path != "" {
		if s.Remote != nil {
			j.say(j.table, at+".remote", "is for a service that other sites can look at; whether path %s works is the site's own to say", s.Path)
		}
		return
	}
	serving := f.serving(s.Service)
	solo := j.node != nil && j.cfg.Node.Mode == "solo"
	switch {
	case len(f.Sites) < 2 && s.Remote != nil:
		j.warn(j.table, at+".remote", "is for other sites, and this table has none")
	case s.Remote == nil && !solo && len(f.Sites) > 1 && len(serving) > 0 && j.table.allSound("sites", at+".sites"):
		var names []string
		for _, i := range serving {
			names = append(names, cmp.Or(f.Sites[i].Name, "one without a name"))
		}
		j.say(j.table, at+".remote", "is missing, so no other site looks at this service, and these can never reach a quorum to withdraw it: %s", strings.Join(slices.Compact(names), ", "))
	}
	if s.Remote == nil {
		return
	}
	at += ".remote"
	for k, c := range s.Remote.Checks {
		j.remoteCheck(fmt.Sprintf("%s.checks[%d]", at, k), c, len(serving))
	}
	pace := s.Remote.withDefaults(own)
	if pace.Interval > 2*own.Interval {
		j.say(j.table, at+".interval", "%v is over twice the service's own interval of %v; observations would be too old to be counted", pace.Interval, own.Interval)
	}
	j.inTime(at, s.Remote.Checks, own.Interval, echoed)
	j.asked(at, s, serving)
	// The shape of the checks is judged as of one subject, whose names are put
	// back into what is said.
	const site, v4, v6 = "the-site-looked-at", "240.0.0.1", "100::1"
	filled := allAbout(s.Remote.Checks, replacer(site, site, netip.MustParseAddr(v4), netip.MustParseAddr(v6)))
	back := strings.NewReplacer(site, inSite, v4, inAddress, v6, inAddress6)
	ps := probe.Service{Name: cmp.Or(s.Name, "unnamed"), Checks: filled, Up: s.Remote.Up,
		Interval: pace.Interval, FastInterval: pace.FastInterval}.Problems()
	for _, p := range ps {
		if path := join(at, p.Path); j.table.wrote(path) || !slices.Contains([]string{"interval", "fast_interval"}, p.Path) {
			j.say(j.table, path, "%s", back.Replace(p.Text))
		}
	}
	for k, c := range filled {
		j.files(fmt.Sprintf("%s.checks[%d]", at, k), c)
	}
}

// remoteCheck judges one check that runs at other sites.
func (j *judge) remoteCheck(at string, c probe.Check, sites int) {
	if kinds := probe.RemoteKinds(); c.Kind != "" && !slices.Contains(kinds, c.Kind) {
		if slices.Contains([]string{"exec", "file", "vip", "link", "bgp"}, c.Kind) {
			j.say(j.table, at+".kind", "%s looks at the host it runs on, not at another site; allowed: %s", c.Kind, strings.Join(kinds, ", "))
		}
		return // an unknown kind is told by its owner
	}
	for _, l := range leavesOf(c, false) {
		path := join(at, l.path)
		if isReplaced(l.path) {
			if p, unknown := unknownPlaceholder(l.path, l.value); unknown {
				j.say(j.table, path, "%s stands for nothing here; known: %s", brief(p), strings.Join(placeholders, ", "))
			}
			continue
		}
		for _, p := range placeholders {
			if strings.Contains(l.value, p) && !l.secret {
				j.say(j.table, path, "%s is not filled in here, only in %s", p, strings.Join(replaced, ", "))
			}
		}
	}
	host := hostOf(about(c, replacer("", "", netip.Addr{}, netip.Addr{}))) // a literal
	names := strings.Contains(c.Target, inAddress) || strings.Contains(c.Target, inAddress6)
	switch p, anycast := j.anycast(host); {
	case c.Target == "" || names:
	case anycast:
		j.say(j.table, at+".target", "%s is inside the anycast prefix %s, so any site may answer; write %s, the site's own", host, p, addressLike(host))
	case !host.IsValid():
		j.say(j.table, at+".target", "%q is found by its name, which may lead anywhere, and nowhere when DNS fails; write %s", brief(c.Target), inAddress)
	case sites > 1:
		j.say(j.table, at+".target", "%s is the same for all %d sites; write %s, the site's own", host, sites, addressLike(host))
	}
	for path, identity := range identities(c) {
		if sites > 1 && identity != "" && !slices.ContainsFunc(placeholders, func(p string) bool { return strings.Contains(identity, p) }) {
			j.say(j.table, join(at, path), "%q is the same for all %d sites; write %s where their names differ", brief(identity), sites, inSite)
		}
	}
	if c.Source.IsValid() {
		j.say(j.table, at+".source", "%s is an address of one host, and every other site runs this check; leave it out", c.Source)
	}
	if c.HTTP != nil && c.HTTP.FollowRedirects > 0 {
		j.say(j.table, at+".http.follow_redirects", "may lead to an anycast address, where any site answers; judge the redirect as it is")
	}
}

// identities are what a check knows its subject by.
func identities(c probe.Check) map[string]string {
	out := map[string]string{}
	if c.HTTP != nil {
		out["http.identity"] = c.HTTP.Identity
	}
	if c.DNS != nil {
		out["dns.identity"] = c.DNS.Identity
	}
	return out
}

func addressLike(a netip.Addr) string {
	if a.Is6() {
		return "[" + inAddress6 + "]"
	}
	return inAddress
}

// asked finds the sites that lack an address which a check asks for.
func (j *judge) asked(at string, s Service, serving []int) {
	var need [2]string // the first check that asks for an address of the family
	for k, c := range s.Remote.Checks {
		for v, p := range []string{inAddress, inAddress6} {
			if strings.Contains(c.Target, p) && need[v] == "" {
				need[v] = fmt.Sprintf("%s.checks[%d]", at, k)
			}
		}
	}
	for _, i := range serving {
		for _, x := range j.cfg.Fleet.Sites[i].reaches(s.Name) {
			var lack []string
			if need[0] != "" && !x.v4.IsValid() {
				lack = append(lack, "no IPv4 address, which "+need[0]+" looks at")
			}
			if need[1] != "" && !x.v6.IsValid() {
				lack = append(lack, "no IPv6 address, which "+need[1]+" looks at")
			}
			of := fmt.Sprintf("sites[%d].%s", i, x.at)
			path := of + "address"
			if written := join(of+"addresses", s.Name); !j.table.wrote(path) && j.table.wrote(written) {
				path = written
			}
			if len(lack) > 0 {
				j.say(j.table, path, "has %s", strings.Join(lack, ", and "))
			}
		}
	}
}

// controls judges what tells a vantage that it can be believed.
func (j *judge) controls() {
	c := j.cfg.Fleet.Controls
	if c == nil {
		return
	}
	for _, p := range c.Problems() {
		j.say(j.table, join("controls", p.Path), "%s", p.Text)
	}
	for _, list := range []struct {
		key    string
		checks []probe.Check
	}{{"positive", c.Positive}, {"negative", c.Negative}} {
		for k, check := range list.checks {
			at := fmt.Sprintf("controls.%s[%d]", list.key, k)
			if p, anycast := j.anycast(hostOf(check)); anycast {
				j.say(j.table, at+".target", "%s is inside the anycast prefix %s, whose state is what is in question; name something outside of the fleet", hostOf(check), p)
			}
			if check.Source.IsValid() {
				j.say(j.table, at+".source", "%s is an address of one host, and every site runs this check; leave it out", check.Source)
			}
			j.files(at, check)
		}
	}
}

// linked judges whether the others can tell this node what they see of its site.
func (j *judge) linked() {
	n := j.cfg.Node
	i := slices.IndexFunc(j.cfg.Fleet.Sites, func(s Site) bool { return s.Name == n.Site })
	if n.Mode != "fleet" || i < 0 || j.witness() || !slices.Contains(n.Roles, "agent") {
		return
	}
	at := fmt.Sprintf("sites[%d].nodes", i)
	nodes := j.cfg.Fleet.Sites[i].Nodes
	if !slices.ContainsFunc(nodes, func(x decide.Node) bool { return x.Name == n.Node }) {
		j.say(j.table, at, "does not name %s, so nobody would tell it what they see of %s: add {name: %s, mesh: ADDRESS:PORT}", n.Node, n.Site, n.Node)
	}
}

// quorum names the sites that too few others could ever judge.
func (j *judge) quorum() {
	table := j.cfg.Fleet.Table()
	if len(table.Sites) < 2 || !j.table.sound("sites") {
		return
	}
	for i, s := range table.Sites {
		if s.Witness || s.Name == "" {
			continue
		}
		if voices, least := table.Voices(s.Name); voices < least {
			j.warn(j.table, fmt.Sprintf("sites[%d]", i), "%s can never be judged by a quorum: of %d independent voices at least %d must be heard; add a site or a witness of another group. Until then only its own certain failure, seen by another site too, withdraws it", s.Name, voices, least)
		}
	}
}
