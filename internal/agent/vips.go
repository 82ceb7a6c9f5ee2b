package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/probe"
)

// withVIPs adds to each service what no service can be without: the addresses it
// is announced for must be on this host. Otherwise a probe of such an address
// would be answered by another site, or the route would lead to a closed door.
// The added checks are called vip_1, vip_2, … and shown like any other.
func (a *Agent) withVIPs(p Plan) []probe.Service {
	out := slices.Clone(p.Probes)
	for i := range out {
		if out[i].Subject != a.o.Site {
			continue // looked at from outside
		}
		out[i] = requireVIPs(out[i], p.VIPsOf[out[i].Name])
	}
	return out
}

func requireVIPs(s probe.Service, vips []netip.Prefix) probe.Service {
	s.Checks = slices.Clone(s.Checks)
	var names []string
	for i, v := range vips {
		if slices.ContainsFunc(s.Checks, func(c probe.Check) bool { return c.Kind == "vip" && c.Target == v.Addr().String() }) {
			continue // the configuration says itself how it counts
		}
		name := fmt.Sprintf("vip_%d", i+1)
		for slices.ContainsFunc(s.Checks, func(c probe.Check) bool { return c.Name == name }) {
			name += "_"
		}
		s.Checks = append(s.Checks, probe.Check{Name: name, Kind: "vip", Target: v.Addr().String()})
		names = append(names, name)
	}
	if s.Up != "" && len(names) > 0 {
		s.Up = "(" + s.Up + ") and " + strings.Join(names, " and ")
	}
	return s
}

// touched are the services whose addresses changed between two looks at the host.
func (a *Agent) touched(before, after []steadycast.VIP) []string {
	changed := map[netip.Prefix]bool{}
	was := map[netip.Prefix]steadycast.VIP{}
	for _, v := range before {
		was[v.Address] = v
	}
	for _, v := range after {
		if o, known := was[v.Address]; known && (o.Present != v.Present || o.Usable != v.Usable) {
			changed[v.Address] = true
		}
	}
	if len(changed) == 0 {
		return nil
	}
	var names []string
	for name, vips := range a.plan.Load().VIPsOf {
		if slices.ContainsFunc(vips, func(p netip.Prefix) bool { return changed[p] }) {
			names = append(names, name)
		}
	}
	return names
}
