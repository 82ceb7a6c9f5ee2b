package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/probe"
)

// between judges what lies between two sections: the services against the
// routers, the addresses and the programs of this node.
func (j *judge) between() {
	f, n := j.cfg.Fleet, j.cfg.Node
	served := false
	for i, s := range f.Services {
		at := fmt.Sprintf("services[%d]", i)
		here := j.node != nil && f.serves(n.Site, s.Service)
		j.addresses(at, s, here)
		j.checks(at, s, here)
		if !here {
			continue
		}
		served = true
		for k, p := range s.Prefixes {
			j.announced(fmt.Sprintf("%s.prefixes[%d]", at, k), p)
		}
	}
	if j.node == nil {
		return
	}
	j.linked()
	if j.witness() {
		return
	}
	if served && !j.announces() {
		j.say(j.node, "roles", "names no speaker, and site %s serves what would have to be announced; add speaker, or make the site a witness in %s", n.Site, filepath.Base(j.cfg.TableFile))
	}
	if !served && len(f.Services) > 0 && n.Site != "" && j.node.allSound("site") && j.table.allSound("sites", "services") {
		j.say(j.table, "services", "none of them is served by this node's site %s, so it would announce nothing", n.Site)
	}
	j.routers()
}

// addresses judges a service's vips; here, whether this node serves it.
func (j *judge) addresses(at string, s Service, here bool) {
	for k, a := range s.VIPs {
		path := fmt.Sprintf("%s.vips[%d]", at, k)
		switch {
		case !a.IsValid() || !j.table.allSound(at+".prefixes"):
		case !slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) }):
			j.say(j.table, path, "%s is in none of the service's prefixes, so nobody would be led to it", a)
		case slices.Contains(s.VIPs[:k], a):
			j.say(j.table, path, "%s stands here twice; name it once", a)
		}
	}
	if !here || j.cfg.Node.VIP.Manage == "off" {
		return
	}
	for k, p := range s.Prefixes {
		if p.IsValid() && !p.IsSingleIP() && !slices.ContainsFunc(s.VIPs, p.Contains) && j.table.sound(at+".vips") {
			j.warn(j.table, fmt.Sprintf("%s.prefixes[%d]", at, k), "no address of %s is in vips:, so none is put on this host and watched", p)
		}
	}
}

// announced judges one prefix of this site against what the routers are told.
func (j *judge) announced(path string, p netip.Prefix) {
	b, r := j.cfg.Node.BGP, j.node
	if !p.IsValid() {
		return
	}
	if r.wrote("bgp.allow") && r.sound("bgp.allow") &&
		!slices.ContainsFunc(b.Allow, func(a netip.Prefix) bool { return a.Contains(p.Addr()) && a.Bits() <= p.Bits() }) {
		j.say(j.table, path, "%s is outside bgp.allow (%s), so the speaker would refuse it", p, list(b.Allow))
	}
	family := "ipv4"
	if p.Addr().Is6() {
		family = "ipv6"
	}
	if len(b.Neighbors) > 0 && r.sound("bgp.neighbors") {
		heard := false
		for _, nb := range b.Neighbors {
			heard = heard || len(nb.Families) == 0 || slices.Contains(nb.Families, family)
		}
		if !heard {
			j.say(j.table, path, "%s would reach no router: none of bgp.neighbors has %s among its families", p, family)
		}
	}
}

// routers judges the neighbours' addresses against the anycast prefixes: a
// session or a next hop that is itself announced from many places may lead
// anywhere.
func (j *judge) routers() {
	for i, nb := range j.cfg.Node.BGP.Neighbors {
		at := fmt.Sprintf("bgp.neighbors[%d]", i)
		for _, x := range []struct {
			key  string
			addr netip.Addr
			what string
		}{
			{"address", nb.Address, "a router is reached by an address of its own"},
			{"local_address", nb.LocalAddress, "the session needs an address of this host alone"},
			{"next_hop4", nb.NextHop4, "a next hop is an address of this host alone"},
			{"next_hop6", nb.NextHop6, "a next hop is an address of this host alone"},
		} {
			if p, ok := j.anycast(x.addr); ok && j.node.wrote(join(at, x.key)) {
				j.say(j.node, join(at, x.key), "%s is inside the anycast prefix %s; %s", x.addr, p, x.what)
			}
		}
		j.password(at, nb)
	}
	j.paths()
}

// anycast gives the prefix of a service, or of a site's own addresses that others
// cover, that contains a.
func (j *judge) anycast(a netip.Addr) (netip.Prefix, bool) {
	if !a.IsValid() {
		return netip.Prefix{}, false
	}
	for _, s := range j.cfg.Fleet.Services {
		for _, p := range s.Prefixes {
			if p.IsValid() && p.Bits() > 0 && p.Contains(a.WithZone("")) {
				return p, true
			}
		}
	}
	for _, s := range j.cfg.Fleet.Sites {
		for _, p := range s.Own {
			if p.IsValid() && p.Bits() > 0 && p.Contains(a.WithZone("")) {
				return p, true
			}
		}
	}
	return netip.Prefix{}, false
}

// checks judges the checks of a service against the addresses and, where this
// node serves it, its programs and routers.
func (j *judge) checks(at string, s Service, here bool) {
	for k, c := range s.Checks {
		path := fmt.Sprintf("%s.checks[%d]", at, k)
		j.target(path, s, c)
		if here {
			j.files(path, c)
		}
		if p, ok := j.anycast(c.Source); ok && !j.local(c.Source, hostOf(c)) {
			j.say(j.table, path+".source", "%s is inside the anycast prefix %s, so the reply may go to another site; use an address of this host alone", c.Source, p)
		}
		if c.Exec != nil && len(c.Exec.Argv) > 0 {
			j.program(path+".exec.argv[0]", c.Exec.Argv[0], here)
		}
		if c.Kind == "bgp" && here && j.node.sound("bgp.neighbors") {
			names := []string{"any", "all"}
			for _, nb := range j.cfg.Node.BGP.Neighbors {
				names = append(names, nb.Name)
			}
			if strings.HasPrefix(c.Target, probe.PathTarget) {
				j.pathTarget(path, s, c.Target)
				continue
			}
			if c.Target != "" && !slices.Contains(names, c.Target) {
				j.say(j.table, path+".target", "%q is not a neighbour; known: %s", brief(c.Target), strings.Join(names, ", "))
			}
		}
	}
}

// files looks whether the program and the certificates of a check are on this
// host. It is a warning: only the agent needs them, and a speaker that cannot
// see them must not refuse the file. A table by itself may be for other hosts.
func (j *judge) files(path string, c probe.Check) {
	if j.node == nil || len(c.Problems()) > 0 {
		return
	}
	for _, l := range leavesOf(c, false) {
		if st, err := os.Stat(l.value); strings.HasSuffix(l.path, ".ca_file") && err == nil && !st.Mode().IsRegular() {
			j.say(j.table, join(path, l.path), "%s is not a regular file", brief(l.value)) // and reading it might never end
			return
		}
	}
	if _, err := probe.Compile(c, probe.Env{}); err != nil {
		text := strings.TrimPrefix(err.Error(), "check "+c.Name+": ")
		if key, rest, ok := strings.Cut(text, ": "); ok && j.table.wrote(join(path, key)) {
			path, text = join(path, key), rest
		}
		j.warn(j.table, path, "%s; the agent needs it on its host", text)
	}
}

// target judges where a check looks. This node may ask a service address that
// it holds itself, since the kernel then answers from here. Any other address
// inside an anycast prefix may be answered by another site, and the check would
// pass for a dead one.
func (j *judge) target(path string, s Service, c probe.Check) {
	host := hostOf(c)
	p, ok := j.anycast(host)
	switch {
	case c.Kind == "vip" && host.IsValid() && !slices.Contains(s.Addresses(), netip.PrefixFrom(host, host.BitLen())):
		j.say(j.table, path+".target", "%s is not an address of this service; known: %s", host, list(s.Addresses()))
	case ok && !j.local(host, host):
		j.say(j.table, path+".target", "%s is inside the anycast prefix %s and not among the vips:, so another site may answer; ask a vip, or an address of this host alone", host, p)
	}
}

// local reports whether a is a service address that the host holds itself
// towards the address to.
func (j *judge) local(a, to netip.Addr) bool {
	if _, ok := j.anycast(to); !ok && !to.IsLoopback() {
		return false
	}
	return slices.ContainsFunc(j.cfg.Fleet.Services, func(s Service) bool {
		return slices.Contains(s.Addresses(), netip.PrefixFrom(a, a.BitLen()))
	})
}

// hostOf gives the address literal that a check asks, if it is one.
func hostOf(c probe.Check) netip.Addr {
	host := c.Target
	switch c.Kind {
	case "http", "prometheus":
		u, err := url.Parse(c.Target)
		if err != nil {
			return netip.Addr{}
		}
		host = u.Hostname()
	case "icmp", "vip":
	default:
		if h, _, err := net.SplitHostPort(c.Target); err == nil {
			host = h
		}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}

// program holds an exec check to the programs that node.yaml names: a table
// comes from elsewhere and may not say what runs here.
func (j *judge) program(path, argv0 string, here bool) {
	switch {
	case !filepath.IsAbs(argv0):
		j.say(j.table, path, "%q is not the absolute path of a program; no PATH is searched", brief(argv0))
	case here && j.node != j.table && j.node.sound("exec") && !slices.Contains(j.cfg.Node.Exec, argv0):
		j.say(j.table, path, "%q is not among exec: of %s, which says what a table may run on this host", brief(argv0), filepath.Base(j.node.file))
	}
}

// list names a few things in a sentence.
func list(ps []netip.Prefix) string {
	const most = 6
	words := make([]string, 0, most+1)
	for i, p := range ps {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(ps)-most))
			break
		}
		words = append(words, p.String())
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
