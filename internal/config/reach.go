package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/probe"
)

// Where a site has several nodes, each is looked at by an address of its own: from
// elsewhere, for the site is well while min_nodes of them are; and by its siblings,
// for no node is believed alone that it fails.

// reach is where others look at a service: a site, or one node of a site of several.
type reach struct {
	node   string
	v4, v6 netip.Addr
	at     string // before address and addresses, below the site
}

// reaches are those of one service in this site. An address that is not known is not
// valid.
func (s Site) reaches(service string) []reach {
	if len(s.Nodes) < 2 {
		x := reach{node: s.Name}
		if len(s.Nodes) == 1 {
			x.node = s.Nodes[0].Name
		}
		x.v4, x.v6 = families(s.Addresses[service], s.Address)
		return []reach{x}
	}
	out := make([]reach, len(s.Nodes))
	for i, n := range s.Nodes {
		out[i] = reach{node: n.Name, at: fmt.Sprintf("nodes[%d].", i)}
		out[i].v4, out[i].v6 = families(n.Addresses[service], n.Address)
	}
	return out
}

// families takes the first address of each family.
func families(lists ...[]netip.Addr) (v4, v6 netip.Addr) {
	for _, a := range slices.Concat(lists...) {
		switch {
		case a.Is4() && !v4.IsValid():
			v4 = a
		case a.Is6() && !v6.IsValid():
			v6 = a
		}
	}
	return v4, v6
}

// about fills in what is known of a reach.
func (x reach) about(cs []probe.Check, site string) []probe.Check {
	return allAbout(cs, replacer(site, x.node, x.v4, x.v6))
}

// from says how a service of a site is looked at from other sites. Of several nodes
// each has checks of its own, numbered in their order: web_1, web_2. Those that a person
// took out serve nobody: min_nodes of the others must be well, or all of them where
// there are fewer. A site of which every node is out is looked at as ever.
func (r Remote) from(s Site, service string, out func(node string) bool) (checks []probe.Check, up string) {
	reaches := s.reaches(service)
	if len(reaches) == 1 {
		return reaches[0].about(r.Checks, s.Name), r.Up
	}
	skip := make([]bool, len(reaches))
	serve := 0
	for i, x := range reaches {
		if skip[i] = out(x.node); !skip[i] {
			serve++
		}
	}
	if serve == 0 {
		clear(skip)
		serve = len(reaches)
	}
	var names []string
	for _, c := range r.Checks {
		names = append(names, regexp.QuoteMeta(c.Name))
	}
	word := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
	all := r.Up
	if all == "" {
		all = strings.Join(names, " and ")
	}
	var each []string
	for i, x := range reaches {
		if skip[i] {
			continue
		}
		numbered := func(name string) string { return fmt.Sprintf("%s_%d", name, i+1) }
		for _, c := range x.about(r.Checks, s.Name) {
			c.Name = numbered(c.Name)
			checks = append(checks, c)
		}
		each = append(each, "("+word.ReplaceAllStringFunc(all, numbered)+")")
	}
	return checks, fmt.Sprintf("at_least(%d, %s)", min(max(s.MinNodes, 1), serve), strings.Join(each, ", "))
}

// siblings are the looks of this node at the others of its site, each a subject of
// its own: SITE/NODE. They wait for no controls, for those are outside of the site.
func (c *Config) siblings() []probe.Service {
	site, ok := c.Fleet.site(c.Node.Site)
	if !ok || len(site.Nodes) < 2 {
		return nil
	}
	var out []probe.Service
	for _, s := range c.Fleet.Services {
		if s.Remote == nil || !c.Fleet.serves(site.Name, s.Service) || c.left[s.Name] {
			continue
		}
		for _, x := range site.reaches(s.Name) {
			if x.node == c.Node.Node {
				continue
			}
			subject := site.Name + "/" + x.node
			out = append(out, probe.Service{
				Name: s.Name, Subject: subject, Vantage: subject, Checks: x.about(s.Remote.Checks, site.Name), Up: s.Remote.Up,
				Interval: s.Remote.Interval, FastInterval: s.Remote.FastInterval,
			})
		}
	}
	return out
}
