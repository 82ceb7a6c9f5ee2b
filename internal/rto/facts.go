package rto

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/probe"
)

// Of are the facts of one service of a table, at the site of it that is judged
// the slowest, with the sessions and the ledger of node. Both have their defaults.
func Of(fleet config.Fleet, node config.Node, service config.Service) Facts {
	h := service.Health
	f := Facts{
		Service: service.Name,
		Own:     Look{h.Interval, h.FastInterval, longest(service.Checks)},
		Voices:  1, Quorum: 1,
		Fall: h.Fall, FallCertain: h.FallCertain, DownFor: *h.DownFor,
		Mode: service.Mode, Solo: len(fleet.Sites) < 2, MaxRTT: node.Ledger.MaxRTT,
		Tripwire: slices.ContainsFunc(service.Checks, func(c probe.Check) bool { return c.Tripwire }),
	}
	if r := service.Remote; r != nil && !f.Solo {
		f.Remote = Look{r.Interval, r.FastInterval, longest(r.Checks)}
	}
	if !f.Solo {
		f.Voices = 0
		table := fleet.Table()
		for _, site := range service.Sites {
			n, _ := table.Voices(site)
			if k := n/2 + 1; f.Voices == 0 || k*(f.Voices+1) > f.Quorum*(n+1) {
				f.Voices, f.Quorum = n, k
			}
		}
	}
	for _, n := range node.BGP.Neighbors {
		f.HoldTime = max(f.HoldTime, n.HoldTime)
	}
	f.Name, f.TTL = slowestName(fleet.Placement, service.Service, f.leaves())
	return f
}

// longest is the timeout of the check that gives up last; 1s, the default, of none.
func longest(checks []probe.Check) time.Duration {
	most := time.Duration(0)
	for _, c := range checks {
		most = max(most, c.Timeout)
	}
	return cmp.Or(most, time.Second)
}

// slowestName is the name of the longest TTL that leads clients to single sites of
// the service: by addresses that are outside of its prefixes. An anycast address
// in an answer need not change when a site fails.
func slowestName(p dnsfallback.Placement, s decide.Service, leaves time.Duration) (name string, ttl time.Duration) {
	pools := map[string]dnsfallback.Choice{}
	for _, x := range p.Pools {
		pools[x.Name] = x.Choice
	}
	single := func(a netip.Addr) bool {
		return !slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	var leads func(c dnsfallback.Choice, seen []string) bool
	leads = func(c dnsfallback.Choice, seen []string) bool {
		return slices.ContainsFunc(c.Members, func(m dnsfallback.Member) bool {
			if m.Pool != "" {
				return !slices.Contains(seen, m.Pool) && leads(pools[m.Pool], append(slices.Clone(seen), m.Pool))
			}
			return m.Site != "" && cmp.Or(m.Service, c.Service) == s.Name && slices.ContainsFunc(m.Addresses, single)
		})
	}
	for _, z := range p.Zones {
		for _, n := range z.Names {
			kept := time.Duration(n.TTL)
			if n.TTL == dnsfallback.Auto { // by this service, if no other of the name changes sooner
				kept = max(time.Second, min(z.TTL, leaves.Truncate(time.Second)))
			}
			if kept > ttl && leads(n.Choice, nil) {
				name, ttl = strings.TrimPrefix(n.Name+"."+z.Name, "@."), kept
			}
		}
	}
	return name, ttl
}
