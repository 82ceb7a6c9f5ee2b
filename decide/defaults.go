package decide

import (
	"net/netip"
	"slices"
	"time"
)

// The words of Service.Mode, Service.Return and Prefix.Needs.
const (
	ModeAuto    = "auto"
	ModeApprove = "approve"
	ModeObserve = "observe"

	ReturnAuto = "auto"
	ReturnHold = "hold"

	NeedsAll = "all"
	NeedsAny = "any"
)

// WithDefaults returns a deep copy with every zero value that has a documented
// default filled in. Floors stay as written, because they follow from the number
// of sites; read them with [Table.Floor] and [Table.HealthyFloor]. Giving the
// result to WithDefaults again changes nothing.
func (t Table) WithDefaults() Table {
	t.Sites = slices.Clone(t.Sites)
	for i := range t.Sites {
		p := &t.Sites[i]
		p.Upstreams = slices.Clone(p.Upstreams)
		p.Nodes = slices.Clone(p.Nodes)
		p.Spill = slices.Clone(p.Spill)
		setDefault(&p.Group, p.Name)
	}
	t.Services = slices.Clone(t.Services)
	for i := range t.Services {
		s := &t.Services[i]
		s.Prefixes = slices.Clone(s.Prefixes)
		s.Sites = slices.Clone(s.Sites)
		if len(s.Sites) == 0 {
			s.Sites = t.sitesOfService(*s)
		}
		setDefault(&s.Mode, ModeAuto)
		setDefault(&s.Return, ReturnAuto)
		s.Health = s.Health.withDefaults()
	}
	t.Prefixes = slices.Clone(t.Prefixes)
	for i := range t.Prefixes {
		t.Prefixes[i] = t.Prefixes[i].withDefaults()
	}
	t.Guards = t.Guards.withDefaults(len(t.Announcers()))
	setDefault(&t.DrainWait, 3*time.Second)
	t.Drain = t.Drain.withDefaults()
	t.Shed = t.Shed.withDefaults(t.Guards)
	t.Ramp = t.Ramp.withDefaults(t.Guards)
	t.Levels = withLevelDefaults(t.Levels)
	t.Plans = slices.Clone(t.Plans)
	for i := range t.Plans {
		t.Plans[i] = t.Plans[i].WithDefaults()
	}
	return t
}

func (h Health) withDefaults() Health {
	setDefault(&h.Interval, time.Second)
	setDefault(&h.FastInterval, min(200*time.Millisecond, h.Interval))
	setDefault(&h.Fall, 3)
	setDefault(&h.FallCertain, min(2, h.Fall))
	setDefault(&h.Rise, 20)
	setDefault(&h.HoldUp, 5*time.Minute)
	// Hurried rounds are many in a moment; who asks for short rounds asks for that.
	downFor := max(0, min(time.Second, time.Duration(h.Fall-1)*h.Interval))
	if h.DownFor != nil {
		downFor = *h.DownFor
	}
	h.DownFor = &downFor
	setDefault(&h.ResumeRounds, 3)
	setDefault(&h.WarmStart, time.Minute)
	return h
}

func (p Prefix) withDefaults() Prefix {
	setDefault(&p.Needs, NeedsAll)
	p.Communities = slices.Clone(p.Communities)
	p.LargeCommunities = slices.Clone(p.LargeCommunities)
	p.MED = clonePtr(p.MED)
	p.Floor = clonePtr(p.Floor)
	p.HealthyFloor = clonePtr(p.HealthyFloor)
	return p
}

func (g Guards) withDefaults(sites int) Guards {
	setDefault(&g.Cooldown, 5*time.Minute)
	setDefault(&g.SiteBudget, 2)
	setDefault(&g.SiteWindow, time.Hour)
	setDefault(&g.SiteLongBudget, max(4, g.SiteBudget))
	setDefault(&g.SiteLongWindow, max(6*time.Hour, g.SiteWindow))
	setDefault(&g.FleetBudget, max(1, sites/10))
	setDefault(&g.FleetWindow, 10*time.Minute)
	setDefault(&g.LockCycles, 3)
	setDefault(&g.LockWindow, 6*time.Hour)
	setDefault(&g.BreakerSites, 2)
	setDefault(&g.BreakerPercent, 20)
	setDefault(&g.BreakerWindow, 30*time.Second)
	setDefault(&g.BreakerClear, 5*time.Minute)
	setDefault(&g.BreakerClearPct, min(10, g.BreakerPercent))
	setDefault(&g.PermitTTL, 5*time.Second)
	setDefault(&g.CapacityRed, 80)
	return g
}

// setDefault sets *v when it is zero.
func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Place returns the site of that name.
func (t Table) Place(name string) (Place, bool) {
	for _, p := range t.Sites {
		if p.Name == name {
			return p, true
		}
	}
	return Place{}, false
}

// Service returns the service of that name.
func (t Table) Service(name string) (Service, bool) {
	for _, s := range t.Services {
		if s.Name == name {
			return s, true
		}
	}
	return Service{}, false
}

// Announcers are the names of all sites that are not witnesses, in order of name.
func (t Table) Announcers() []string {
	var names []string
	for _, p := range t.Sites {
		if !p.Witness {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// AllPrefixes are the prefixes that any service has, in order, each once.
func (t Table) AllPrefixes() []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range t.Services {
		ps = append(ps, s.Prefixes...)
	}
	slices.SortFunc(ps, comparePrefix)
	return slices.Compact(ps)
}

// SitesOf are the names of the sites that announce p, in order, each once.
func (t Table) SitesOf(p netip.Prefix) []string {
	var names []string
	for _, s := range t.ServicesOf(p) {
		names = append(names, t.sitesOfService(s)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// PrefixesAt are the prefixes that site announces, in order, each once.
func (t Table) PrefixesAt(site string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range t.Services {
		if slices.Contains(t.sitesOfService(s), site) {
			ps = append(ps, s.Prefixes...)
		}
	}
	slices.SortFunc(ps, comparePrefix)
	return slices.Compact(ps)
}

// ServicesOf are the services that have p, in the order of the table.
func (t Table) ServicesOf(p netip.Prefix) []Service {
	var ss []Service
	for _, s := range t.Services {
		if slices.Contains(s.Prefixes, p) {
			ss = append(ss, s)
		}
	}
	return ss
}

// ServicesAt are the services that have p at site, in the order of the table.
func (t Table) ServicesAt(site string, p netip.Prefix) []Service {
	var ss []Service
	for _, s := range t.ServicesOf(p) {
		if slices.Contains(t.sitesOfService(s), site) {
			ss = append(ss, s)
		}
	}
	return ss
}

func (t Table) sitesOfService(s Service) []string {
	switch {
	case len(s.Sites) > 0:
		return s.Sites
	case s.Path != "":
		return t.sitesWith(s.Path)
	default:
		return t.Announcers()
	}
}

// PrefixPolicy is what the table says of p, with defaults where it says nothing.
func (t Table) PrefixPolicy(p netip.Prefix) Prefix {
	for _, q := range t.Prefixes {
		if q.Prefix == p {
			return q.withDefaults()
		}
	}
	return Prefix{Prefix: p}.withDefaults()
}

// Floor is the number of sites announcing p that automation never goes below:
// as written, else max(2, half of the sites, rounded up). For two sites with a
// witness it is 1; for two without one it stays 2, so that automation can only
// deprefer; for one of several sites it is 1; for a site alone, which knows of
// no others, 0.
func (t Table) Floor(p netip.Prefix) int {
	if f := t.PrefixPolicy(p).Floor; f != nil {
		return *f
	}
	sites := len(t.SitesOf(p))
	switch {
	case t.alone():
		return 0
	case sites <= 1:
		return sites
	case sites == 2 && t.hasWitness():
		return 1
	default:
		return max(2, (sites+1)/2)
	}
}

// HealthyFloor is the number of healthy sites announcing p that automation
// never goes below: as written, else 1, and 0 for a site alone.
func (t Table) HealthyFloor(p netip.Prefix) int {
	if f := t.PrefixPolicy(p).HealthyFloor; f != nil {
		return *f
	}
	if t.alone() {
		return 0
	}
	return 1
}

func (t Table) alone() bool { return len(t.Announcers()) <= 1 }

func (t Table) hasWitness() bool {
	return slices.ContainsFunc(t.Sites, func(p Place) bool { return p.Witness })
}

// comparePrefix orders prefixes by address, then length.
func comparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
