package config

import (
	"net/netip"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/probe"
)

// Fleet is fleet.yaml, the table: what is kept reachable, where, and by which
// rules. A solo node may write the same keys, but for sites, in node.yaml.
type Fleet struct {
	// Revision grows with every change; default 0, counted by the ledger.
	Revision uint64          `yaml:"revision"`
	Sites    []decide.Place  `yaml:"sites"`
	Services []Service       `yaml:"services"`
	Prefixes []decide.Prefix `yaml:"prefixes"`
	Guards   decide.Guards   `yaml:"guards"`
	// Zones are what the fleet's nodes answer for by DNS.
	Zones []dnsfallback.Zone `yaml:"zones"`
	// DrainWait is how long a draining route carries GSHUT before it is withdrawn; default 3s.
	DrainWait time.Duration `yaml:"drain_wait"`
}

// Service is what is being kept reachable, with the checks that say whether it is.
type Service struct {
	decide.Service `yaml:",inline"`
	// Up combines the checks by name: `web and (dns or not maintenance)`.
	// Default: all of them.
	Up     string        `yaml:"up"`
	Checks []probe.Check `yaml:"checks"`
	// VIPs are the service's addresses inside prefixes wider than one address;
	// a /32 or /128 among the prefixes is its own.
	VIPs []netip.Addr `yaml:"vips"`
}

// Table returns the part of the fleet's policy that the machines need.
func (f Fleet) Table() decide.Table {
	t := decide.Table{
		Revision:  f.Revision,
		Sites:     f.Sites,
		Prefixes:  f.Prefixes,
		Guards:    f.Guards,
		DrainWait: f.DrainWait,
	}
	for _, s := range f.Services {
		t.Services = append(t.Services, s.Service)
	}
	return t
}
