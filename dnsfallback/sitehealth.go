package dnsfallback

import (
	"fmt"
	"slices"
	"strings"
)

// SiteHealth says which service of the table tells of which dimension of a site's
// health: what its verdict at a site is, is what the site has of it.
type SiteHealth struct {
	// WAN is the way out to clients, LAN that between the site's own machines.
	WAN string `yaml:"wan"`
	LAN string `yaml:"lan"`
	// Access is what clients come for.
	Access string `yaml:"access"`
	// Internet is what the site itself needs of the world.
	Internet string `yaml:"internet"`
}

// dimension of a site's health, in the order in which one explains the others: the
// first that is missing is the word for the site.
type dimension uint8

const (
	maintenance dimension = iota
	wan
	lan
	access
	internet
)

var dimensionWords = [...]string{"maintenance", "wan", "lan", "access", "internet"}

func (d dimension) String() string { return dimensionWords[d] }

func dimensionOf(word string) (dimension, bool) {
	i := slices.Index(dimensionWords[:], word)
	return dimension(max(i, 0)), i >= 0
}

// readSiteHealth judges which service tells of what.
func (p *Policy) readSiteHealth(h SiteHealth, known Known, ps *problems) {
	p.dimensions = [len(dimensionWords)]string{wan: h.WAN, lan: h.LAN, access: h.Access, internet: h.Internet}
	for d, service := range p.dimensions {
		if service != "" && known.Services != nil && !slices.Contains(known.Services, service) {
			ps.add("site_health."+dimension(d).String(), "%q is not a service of this table; known: %s", service, strings.Join(known.Services, ", "))
		}
	}
}

// SiteWord is a site's health in one word, and why.
type SiteWord struct {
	Site string `json:"site"`
	// Word is ok, maintenance, no_wan, no_lan, no_access or no_internet: the first of
	// these that is so.
	Word string `json:"word"`
	// Why is empty for a site that is ok and knows it.
	Why string `json:"why,omitempty"`
}

// SiteWords are those of all sites of the state, in order.
func (t *Table) SiteWords() []SiteWord { return t.steering.words }

// words says how each site is.
func (p *Policy) words(s *FleetState) []SiteWord {
	var out []SiteWord
	for site := range s.Sites {
		out = append(out, p.word(s, site))
	}
	slices.SortFunc(out, func(a, b SiteWord) int { return strings.Compare(a.Site, b.Site) })
	return out
}

func (p *Policy) word(s *FleetState, site string) SiteWord {
	if why, in := s.maintained(site); in {
		return SiteWord{site, maintenance.String(), why}
	}
	for _, d := range []dimension{wan, lan, access, internet} {
		service := p.dimensions[d]
		if service == "" {
			continue
		}
		if x := s.Sites[site].Services[service]; !s.well(service, site, new(holding)) {
			why := service + " is down"
			if x.Why != "" {
				why = service + ": " + x.Why
			}
			return SiteWord{site, "no_" + d.String(), why}
		}
	}
	// Without a service named for it, access is any service at all.
	down, all := 0, 0
	for _, x := range s.Sites[site].Services {
		if x.Judged {
			continue
		}
		if all++; x.Forced.To == Unknown && x.V4 == Down && x.V6 == Down {
			down++
		}
	}
	if p.dimensions[access] == "" && down > 0 && down == all {
		return SiteWord{site, "no_" + access.String(), fmt.Sprintf("all %d services are down", down)}
	}
	return SiteWord{Site: site, Word: "ok"}
}

// maintained: a person has taken the site out, or all that it serves, and who.
func (s *FleetState) maintained(site string) (why string, in bool) {
	x := s.Sites[site]
	said := func(f Forced) string {
		if f.Who == "" || f.Why == "" {
			return f.Who + f.Why
		}
		return f.Who + ": " + f.Why
	}
	if x.Forced.To != Unknown {
		return said(x.Forced), x.Forced.To == Down
	}
	first := ""
	for name, v := range x.Services {
		if v.Judged {
			continue
		}
		if v.Forced.To != Down {
			return "", false
		}
		if first == "" || name < first {
			first = name
		}
	}
	if first == "" {
		return "", false
	}
	return said(x.Services[first].Forced), true
}
