package dnsfallback

import (
	"cmp"
	"net/netip"
	"time"
)

// Placement is everything that fleet.yaml says of names: which zones there are,
// and where their clients are sent.
type Placement struct {
	// Zones that are delegated to the fleet's nodes.
	Zones []Zone `yaml:"zones"`
	// Pools that members of names, and of other pools, can name.
	Pools []Pool `yaml:"pools"`
	// Maps say where clients are; what several say is asked for in their order.
	Maps []MapFile `yaml:"maps"`
	// Conditions that members can be bound to.
	Conditions []Condition `yaml:"conditions"`
	// SiteHealth says what tells of the dimensions of a site's health.
	SiteHealth SiteHealth `yaml:"site_health"`
}

// WithDefaults fills in what was not said.
func (p Placement) WithDefaults() Placement {
	zones := make([]Zone, len(p.Zones))
	for i, z := range p.Zones {
		zones[i] = z.WithDefaults()
	}
	pools := make([]Pool, len(p.Pools))
	for i, o := range p.Pools {
		o.Choice = o.Choice.withDefaults()
		pools[i] = o
	}
	if p.Zones != nil {
		p.Zones = zones
	}
	if p.Pools != nil {
		p.Pools = pools
	}
	return p
}

// Steered is one entry of a zone's `names:`: a name whose addresses depend on
// who asks and on the state of the fleet.
type Steered struct {
	// Name in the zone; @ is the zone itself, and a first label * any name below.
	Name   string `yaml:"name"`
	Choice `yaml:",inline"`
	// TTL while nothing is about to change; default the zone's. Auto follows from how
	// soon the services behind the name can change, and the zone's is the most.
	TTL TTL `yaml:"ttl"`
	// SensitiveTTL while a member is suspect or returning, and in a window; default 30s.
	SensitiveTTL time.Duration `yaml:"sensitive_ttl"`
	// Windows are times in which changes are to take effect soon.
	Windows []Window `yaml:"windows"`
	// Anycast addresses are the answer when everything else is switched off: plain, the same to all.
	Anycast []netip.Addr `yaml:"anycast"`
}

// Window is a time in which the sensitive TTL holds. It holds from Lead before, so
// that caches have it when the window begins.
type Window struct {
	From time.Time `yaml:"from"`
	To   time.Time `yaml:"to"`
	// Lead is how long before From; default 30m. No less than the name's TTL, so that
	// nothing with it is kept into the window.
	Lead time.Duration `yaml:"lead"`
}

// Pool is a choice that has a name.
type Pool struct {
	// Name: [a-z][a-z0-9_-]{0,62}.
	Name   string `yaml:"name"`
	Choice `yaml:",inline"`
}

// Choice is how one of several members is chosen.
type Choice struct {
	// Service whose health is that of the members; a member may name another.
	Service string `yaml:"service"`
	// Members in order of preference.
	Members []Member `yaml:"members"`
	// Methods are tried in order (preferred, alternate, fallback) until one finds
	// a member that is up: topology, ratio, hash, priority, round_robin, nearest, all.
	// Default ratio. When none does, ratio is the last.
	Methods []string `yaml:"methods"`
	// MinUp is how many members must be up; default 1. With fewer, dr members are
	// given too; when these do not suffice, the choice has failed: what names a
	// pool takes its other members, and a name gives its Fallback. Without one, what
	// is up is given; and when nothing is, all members whatever their health, since
	// a client that is sent to a site that may be down is better off than one that
	// is sent nowhere.
	MinUp int `yaml:"min_up"`
	// Fallback are addresses, or one name, to give when the choice has failed.
	Fallback []string `yaml:"fallback"`
	// Trickle is the percentage of clients that method priority sends to the
	// second member that is up, to keep it warm; default 0.
	Trickle int `yaml:"trickle"`
}

// Member is one place that a client can be sent to: addresses, another name, or a pool.
type Member struct {
	// Name; default that of its site or pool.
	Name string `yaml:"name"`
	// Site whose health counts, with that of the service. One without is never out by itself.
	Site string `yaml:"site"`
	// Service at the site; default the choice's.
	Service string `yaml:"service"`
	// Addresses of both families; each family has its own health.
	Addresses []netip.Addr `yaml:"addresses"`
	// CNAME is a name to send the client to instead.
	CNAME string `yaml:"cname"`
	// Pool is a choice to make instead.
	Pool string `yaml:"pool"`
	// Weight for ratio and hash; default 1. A member of weight 0 is given only
	// when none of another weight is up, whatever the method.
	Weight *int `yaml:"weight"`
	// Serves are the places whose clients topology sends here: region:NAME,
	// country:DE, continent:EU, asn:64500. Default the region of the site's name.
	Serves []string `yaml:"serves"`
	// At is where the member is for nearest, in degrees: latitude, longitude.
	At []float64 `yaml:"at"`
	// DR members are given only when the choice would fail without.
	DR bool `yaml:"dr"`
	// When names one of the conditions: the member takes part only while it holds.
	// A DR member with a condition takes part like any other while it holds.
	When string `yaml:"when"`
}

func (c Choice) withDefaults() Choice {
	if len(c.Methods) == 0 {
		c.Methods = []string{"ratio"}
	}
	c.MinUp = cmp.Or(c.MinUp, 1)
	members := make([]Member, len(c.Members))
	for i, m := range c.Members {
		m.Name = cmp.Or(m.Name, m.Site, m.Pool)
		if m.Site != "" {
			m.Service = cmp.Or(m.Service, c.Service)
		}
		if m.Weight == nil {
			m.Weight = new(1)
		}
		if len(m.Serves) == 0 && m.Site != "" {
			m.Serves = []string{"region:" + m.Site}
		}
		members[i] = m
	}
	if c.Members != nil {
		c.Members = members
	}
	return c
}

func (s Steered) withDefaults(z Zone) Steered {
	s.Choice = s.Choice.withDefaults()
	s.TTL = cmp.Or(s.TTL, TTL(z.TTL))
	s.SensitiveTTL = cmp.Or(s.SensitiveTTL, 30*time.Second)
	if s.Windows != nil {
		windows := make([]Window, len(s.Windows))
		for i, w := range s.Windows {
			w.Lead = cmp.Or(w.Lead, 30*time.Minute)
			windows[i] = w
		}
		s.Windows = windows
	}
	return s
}

// Members are the names by which members of names and pools can be switched, each
// choice/member, and conditions, each condition/NAME, in the order of the settings.
func (p Placement) Members() []string {
	var out []string
	add := func(choice string, members []Member) {
		for _, m := range members {
			out = append(out, choice+"/"+cmp.Or(m.Name, m.Site, m.Pool))
		}
	}
	for _, z := range p.Zones {
		apex, err := parseName(z.Name, root)
		if err != nil {
			continue
		}
		for _, s := range z.Names {
			if n, err := parseName(s.Name, apex); err == nil {
				add(n.text(), s.Members)
			}
		}
	}
	for _, o := range p.Pools {
		add(o.Name, o.Members)
	}
	for _, c := range p.Conditions {
		out = append(out, switchedCondition+"/"+c.Name)
	}
	return out
}
