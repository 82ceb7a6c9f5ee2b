package config

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/probe"
)

// Fleet is fleet.yaml, the table: what is kept reachable, where, and by which
// rules. A solo node may write the same keys, but for sites and controls, in
// node.yaml.
type Fleet struct {
	// Revision grows with every change; default 0, counted by the ledger.
	Revision uint64          `yaml:"revision"`
	Sites    []Site          `yaml:"sites"`
	Services []Service       `yaml:"services"`
	Prefixes []decide.Prefix `yaml:"prefixes"`
	Guards   decide.Guards   `yaml:"guards"`
	// Controls are looked at by every site, to know whether what it sees of
	// others can be believed. Without them it always is.
	Controls *probe.Controls `yaml:"controls"`
	// Placement is what the fleet's nodes answer for by DNS: zones, pools, maps.
	dnsfallback.Placement `yaml:",inline"`
	// DrainWait is how long a draining route carries GSHUT before it is withdrawn; default 3s.
	DrainWait time.Duration `yaml:"drain_wait"`
	// Drain is how long a drain waits for who still comes; without one, for the TTL alone.
	Drain *decide.Drain `yaml:"drain"`
	// Shed is which services give clients away when their site carries too much.
	Shed *decide.Shed `yaml:"shed"`
	// Ramp is how a site gets its clients back; without one it has them all at once.
	Ramp *decide.Ramp `yaml:"ramp"`
	// Levels are what automation does about a fault, the smallest change first.
	Levels []decide.Level `yaml:"levels"`
	// Plans are moves that were written down before they are needed.
	Plans []Plan `yaml:"plans"`
	// Source is the text that this was read from, where it was a file of its own.
	Source string `yaml:"-"`
}

// Site is one site of the table, and where the others look at it.
type Site struct {
	decide.Place `yaml:",inline"`
	// Address is where this site alone is reached: at most one address of each
	// family, inside no prefix that the fleet announces. Of a site of several nodes
	// each node has its own.
	Address []netip.Addr `yaml:"address"`
	// Addresses are those of single services, by their names, where they differ.
	// A family that is not given here is taken from Address.
	Addresses map[string][]netip.Addr `yaml:"addresses"`
}

// Service is what is being kept reachable, with the checks that say whether it is.
type Service struct {
	decide.Service `yaml:",inline"`
	// Up combines the checks by name: `web and (dns or not maintenance)`.
	// Default: all of them.
	Up     string        `yaml:"up"`
	Checks []probe.Check `yaml:"checks"`
	// Remote is what the other sites look at; nil in a table of one site.
	Remote *Remote `yaml:"remote"`
	// VIPs are the service's addresses inside prefixes wider than one address;
	// a /32 or /128 among the prefixes is its own.
	VIPs []netip.Addr `yaml:"vips"`
}

// Remote says how a service is looked at from other sites.
type Remote struct {
	// Up combines Checks by name. Default: all of them.
	Up string `yaml:"up"`
	// Checks in which {address}, {address6}, {site} and {node} stand for those of
	// what is looked at; see [placeholders].
	Checks []probe.Check `yaml:"checks"`
	// Interval between rounds, and FastInterval while they fail; default the
	// service's own.
	Interval     time.Duration `yaml:"interval"`
	FastInterval time.Duration `yaml:"fast_interval"`
}

// withDefaults fills in what was not said; a nil Remote stays one.
func (r *Remote) withDefaults(h decide.Health) *Remote {
	if r == nil {
		return nil
	}
	full := *r
	full.Interval = cmp.Or(r.Interval, h.Interval)
	full.FastInterval = cmp.Or(r.FastInterval, min(h.FastInterval, full.Interval))
	full.Checks = slices.Clone(r.Checks)
	for k, c := range full.Checks {
		full.Checks[k] = c.WithDefaults()
	}
	return &full
}

// Table returns the part of the fleet's policy that the machines need.
func (f Fleet) Table() decide.Table {
	t := decide.Table{
		Revision:  f.Revision,
		Prefixes:  f.Prefixes,
		Guards:    f.Guards,
		DrainWait: f.DrainWait,
		Drain:     f.Drain,
		Shed:      f.Shed,
		Ramp:      f.Ramp,
		Levels:    f.Levels,
		Source:    f.Source,
	}
	for _, s := range f.Sites {
		t.Sites = append(t.Sites, s.Place)
	}
	for _, s := range f.Services {
		s.TTL = cmp.Or(s.TTL, f.ttl(s.Name))
		t.Services = append(t.Services, s.Service)
	}
	for _, p := range f.Plans {
		t.Plans = append(t.Plans, p.plan())
	}
	return t
}

// site finds a site of the table.
func (f Fleet) site(name string) (Site, bool) {
	for _, s := range f.Sites {
		if s.Name == name {
			return s, true
		}
	}
	return Site{}, false
}

// serving are the sites that announce the service, in the order of the table.
func (f Fleet) serving(s decide.Service) []int {
	var out []int
	for i, p := range f.Sites {
		if f.serves(p.Name, s) && !p.Witness {
			out = append(out, i)
		}
	}
	return out
}

// FleetOf is what a table says, without what only its text has: the checks.
func FleetOf(t decide.Table) Fleet {
	f := Fleet{Revision: t.Revision, Prefixes: t.Prefixes, Guards: t.Guards, DrainWait: t.DrainWait, Drain: t.Drain, Shed: t.Shed, Ramp: t.Ramp, Levels: t.Levels}
	for _, p := range t.Sites {
		f.Sites = append(f.Sites, Site{Place: p})
	}
	for _, s := range t.Services {
		f.Services = append(f.Services, Service{Service: s})
	}
	return f
}
