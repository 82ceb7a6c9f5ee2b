package decide

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Table is the fleet's policy, as both machines need it. It is immutable once
// given to a machine. Lists keep the order of the file.
type Table struct {
	// Revision grows with every change.
	Revision uint64    `yaml:"revision" json:"revision"`
	Sites    []Place   `yaml:"sites" json:"sites"`
	Services []Service `yaml:"services" json:"services"`
	// Prefixes that need more than the defaults.
	Prefixes []Prefix `yaml:"prefixes" json:"prefixes,omitempty"`
	Guards   Guards   `yaml:"guards" json:"guards"`
	// DrainWait is how long a draining route carries GSHUT before it is withdrawn; default 3s.
	DrainWait time.Duration `yaml:"drain_wait" json:"drain_wait_ns"`
	// Drain is how long a drain waits for who still comes; without one, for the TTL alone.
	Drain *Drain `yaml:"drain" json:"drain,omitempty"`
	// Shed is which services give clients away when their site carries too much.
	Shed *Shed `yaml:"shed" json:"shed,omitempty"`
	// Ramp is how a site gets its clients back; without one it has them all at once.
	Ramp *Ramp `yaml:"ramp" json:"ramp,omitempty"`
	// Plans are moves that were written down before they are needed.
	Plans []Plan `yaml:"plans" json:"plans,omitempty"`
	// Levels are what automation does about a fault, the smallest change first; see level.go.
	Levels []Level `yaml:"levels" json:"levels,omitempty"`
	// Source is the text that says all this, and besides it what only the nodes
	// need: checks, addresses. It is carried, not read; each node reads it again
	// and compares. Empty where one node has its own file.
	Source string `yaml:"-" json:"source,omitempty"`
}

// MaxSource bounds the text of a table in bytes.
const MaxSource = 1 << 20

// Place is one site as the table knows it.
type Place struct {
	Name string `yaml:"name" json:"name"`
	// Region and Upstreams serve diversity; Group is the independence group, default the site itself.
	Region    string   `yaml:"region" json:"region,omitempty"`
	Upstreams []string `yaml:"upstreams" json:"upstreams,omitempty"`
	Group     string   `yaml:"group" json:"group,omitempty"`
	// Witness sites probe and may vote; they announce nothing.
	Witness bool `yaml:"witness" json:"witness,omitempty"`
	// Capacity in the unit of the loads; 0 means the capacity guard is skipped.
	Capacity int64 `yaml:"capacity" json:"capacity,omitempty"`
	// Load that the site usually carries, for as long as nobody reports it; 0 is not known.
	Load int64 `yaml:"load" json:"load,omitempty"`
	// LoadPerAnswer is the load that names bring with one answer a second which leads
	// here, for as long as the site itself reports none; 0 is not known. See led.go.
	LoadPerAnswer int64 `yaml:"load_per_answer" json:"load_per_answer,omitempty"`
	// Spill says where its load goes when it leaves. Of what is left out, and of
	// shares of sites that do not announce then, the worst is assumed.
	Spill []Spill `yaml:"spill" json:"spill,omitempty"`
	// Own are addresses that lead clients to this site alone. It announces them while
	// it announces anything, and the other sites cover them as backup. One that is a
	// single address is put on the host by all of them.
	Own []netip.Prefix `yaml:"own" json:"own,omitempty"`
	// Paths are the ways by which packets come to the site, the preferred first: each
	// is a group of the neighbours in node.yaml. Without any, every neighbour hears
	// what is announced. See divert.go.
	Paths []string `yaml:"paths" json:"paths,omitempty"`
	// Nodes of the site, for those that tell it what they see of it. Where there are
	// several, each announces.
	Nodes []Node `yaml:"nodes" json:"nodes,omitempty"`
	// MinNodes is how many of the nodes must go on announcing when one leaves alone,
	// and how many must be well for the site to be; default 1.
	MinNodes int `yaml:"min_nodes" json:"min_nodes,omitempty"`
}

// several: the site's nodes share its one place in the ledger, so each is named.
func (p Place) several() bool { return len(p.Nodes) > 1 }

// leastNodes is MinNodes with its default.
func (p Place) leastNodes() int { return max(p.MinNodes, 1) }

// has reports whether a request may be of that node of the site; "" is of the
// only one, or of before there were several.
func (p Place) has(node string) bool {
	return node == "" || slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Name == node })
}

// Spill is a share of a site's load that goes to another.
type Spill struct {
	Site    string `yaml:"site" json:"site"`
	Percent int    `yaml:"percent" json:"percent"`
}

// Node is one node of a site.
type Node struct {
	// Name as in its certificate.
	Name string `yaml:"name" json:"name"`
	// Mesh is where other nodes call it: an address of its own, inside no prefix of
	// the fleet.
	Mesh netip.AddrPort `yaml:"mesh" json:"mesh"`
	// Address is where this node of several alone is reached by those that look at
	// it: at most one of each family. Addresses are those of single services.
	Address   []netip.Addr            `yaml:"address" json:"address,omitempty"`
	Addresses map[string][]netip.Addr `yaml:"addresses" json:"addresses,omitempty"`
}

// Service is what is being kept reachable, as the core needs it.
type Service struct {
	Name string `yaml:"name" json:"name"`
	// Prefixes that it announces. One without any is only judged: its verdict tells
	// answers of DNS something of its site.
	Prefixes []netip.Prefix `yaml:"prefixes" json:"prefixes" empty:"ok"`
	// Sites that serve it; default all that are not witnesses, and of a path all that have it.
	Sites []string `yaml:"sites" json:"sites,omitempty"`
	// Path that the service tells of: its verdict is the path's health. It has no
	// prefixes, and each site judges it alone. See path.go.
	Path   string `yaml:"path" json:"path,omitempty"`
	Health Health `yaml:"health" json:"health"`
	// Mode is auto (default), observe (only says what it would do) or approve: what
	// automation would do waits as a decision for a person's yes.
	Mode string `yaml:"mode" json:"mode,omitempty"`
	// NodeMode is the mode of what one node of a site does alone, where the site has
	// several; default as Mode. The yes that approve waits for is an order on the node.
	NodeMode string `yaml:"node_mode" json:"node_mode,omitempty"`
	// Return is auto (default) or hold: healthy, on hold until a person resumes.
	Return string `yaml:"return" json:"return,omitempty"`
	// OnlyNew is how long a site may have been away from the service before what it
	// has may be too old to be served: then it comes back only when a person resumes
	// it, or, after a withdrawal, by what it requires to return. 0: it never is. It is
	// counted from when the site served last.
	OnlyNew time.Duration `yaml:"only_new" json:"only_new_ns,omitempty"`
	// TTL is how long clients keep an answer of ours that leads them to one site: the
	// greatest TTL of the names. 0: no name leads to it, only routes do.
	TTL time.Duration `yaml:"ttl" json:"ttl_ns,omitempty"`
	// Require says what must be true besides, before it leaves or returns.
	Require Require `yaml:"require" json:"require,omitzero"`
}

// Require are conditions over named checks of the service that are not part of
// its health: a replica has caught up, data is owned here. Each is evaluated at
// the site; false and unknown refuse. A person's order is not bound by them.
type Require struct {
	Withdraw string `yaml:"withdraw" json:"withdraw,omitempty"`
	Return   string `yaml:"return" json:"return,omitempty"`
}

// Health says when a service's state changes. Counts are rounds of probes.
type Health struct {
	// Interval between rounds, and FastInterval once suspect; default 1s and 200ms.
	Interval     time.Duration `yaml:"interval" json:"interval_ns"`
	FastInterval time.Duration `yaml:"fast_interval" json:"fast_interval_ns"`
	// Fall is the failing rounds in a row before Unhealthy; default 3.
	// FallCertain is the same for certain local failures; default min(2, Fall).
	Fall        int `yaml:"fall" json:"fall"`
	FallCertain int `yaml:"fall_certain" json:"fall_certain"`
	// Rise is the passing rounds in a row before Healthy; default 20.
	Rise int `yaml:"rise" json:"rise"`
	// HoldUp is the least time since the last bad round before Healthy; default 5m.
	HoldUp time.Duration `yaml:"hold_up" json:"hold_up_ns"`
	// DownFor is the least time of failing before Unhealthy; default 1s, or
	// from the first of Fall rounds to the last, Interval apart, if that is less. nil
	// means the default.
	DownFor *time.Duration `yaml:"down_for" json:"down_for_ns"`
	// ResumeRounds that must pass after a restart before a unit whose phase is In announces again; default 3.
	ResumeRounds int `yaml:"resume_rounds" json:"resume_rounds"`
	// WarmStart: a restart shorter ago than this skips jitter and the first depreferred minute; default 60s.
	WarmStart time.Duration `yaml:"warm_start" json:"warm_start_ns"`
}

// Prefix is what a prefix needs beyond the defaults.
type Prefix struct {
	Prefix netip.Prefix `yaml:"prefix" json:"prefix"`
	// Needs says how services that share it combine: all (default: one failing
	// service takes it out) or any (it stays while one is well).
	Needs            string                      `yaml:"needs" json:"needs,omitempty"`
	Communities      []steadycast.Community      `yaml:"communities" json:"communities,omitempty"`
	LargeCommunities []steadycast.LargeCommunity `yaml:"large_communities" json:"large_communities,omitempty"`
	MED              *uint32                     `yaml:"med" json:"med,omitempty"`
	// Floor: announcing sites that automation never goes below; nil means the
	// default of [Table.Floor].
	Floor *int `yaml:"floor" json:"floor,omitempty"`
	// HealthyFloor: healthy announcing sites; nil means 1, 0 for a site alone.
	HealthyFloor *int `yaml:"healthy_floor" json:"healthy_floor,omitempty"`
}

// Guards are the numbers of the guards, with their defaults.
type Guards struct {
	Cooldown time.Duration `yaml:"cooldown" json:"cooldown_ns"` // 5m between changes of one unit
	// Budget of automatic withdrawals per site and prefix.
	SiteBudget      int           `yaml:"site_budget" json:"site_budget"`                     // 2 …
	SiteWindow      time.Duration `yaml:"site_window" json:"site_window_ns"`                  // … in 1h
	SiteLongBudget  int           `yaml:"site_long_budget" json:"site_long_budget"`           // 4 …
	SiteLongWindow  time.Duration `yaml:"site_long_window" json:"site_long_window_ns"`        // … in 6h
	FleetBudget     int           `yaml:"fleet_budget" json:"fleet_budget"`                   // max(1, sites/10) …
	FleetWindow     time.Duration `yaml:"fleet_window" json:"fleet_window_ns"`                // … in 10m
	LockCycles      int           `yaml:"lock_cycles" json:"lock_cycles"`                     // 3 …
	LockWindow      time.Duration `yaml:"lock_window" json:"lock_window_ns"`                  // … in 6h
	BreakerSites    int           `yaml:"breaker_sites" json:"breaker_sites"`                 // more than max(2, …
	BreakerPercent  int           `yaml:"breaker_percent" json:"breaker_percent"`             // … 20 %) in trouble …
	BreakerWindow   time.Duration `yaml:"breaker_window" json:"breaker_window_ns"`            // … within 30s freezes the prefix
	BreakerClear    time.Duration `yaml:"breaker_clear" json:"breaker_clear_ns"`              // cleared after 5m …
	BreakerClearPct int           `yaml:"breaker_clear_percent" json:"breaker_clear_percent"` // … below 10 %
	PermitTTL       time.Duration `yaml:"permit_ttl" json:"permit_ttl_ns"`                    // 5s, the right to act
	CapacityRed     int           `yaml:"capacity_red_percent" json:"capacity_red_percent"`   // 80
}
