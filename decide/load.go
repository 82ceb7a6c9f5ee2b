package decide

import "slices"

// Burden is what one site carries, and what it would when others are gone.
type Burden struct {
	Site string `json:"site"`
	// Capacity as the table states it; 0 is not stated.
	Capacity int64 `json:"capacity"`
	// Load now; Known is false where nobody reports it, or not lately.
	Load  int64 `json:"load"`
	Known bool  `json:"known"`
	// Gone: it is one of those that leave, or does not announce.
	Gone bool `json:"gone,omitempty"`
	// After is Load and what the table's spill rows send here; Most has besides all
	// of which they say nothing, which the capacity guard counts.
	After int64 `json:"after"`
	Most  int64 `json:"most"`
	// Percent, AfterPercent and MostPercent of Capacity, rounded up; 0 without one.
	Percent      int64 `json:"percent"`
	AfterPercent int64 `json:"after_percent"`
	MostPercent  int64 `json:"most_percent"`
}

// Burdens are what the sites that announce would carry if those that are gone
// were not there, in order of the table. loads are what is reported.
func (t Table) Burdens(loads []Load, announcing, gone []string) []Burden {
	rest := keep(announcing, func(site string) bool { return !slices.Contains(gone, site) })
	var out []Burden
	for _, p := range t.Sites {
		if p.Witness {
			continue
		}
		b := Burden{Site: p.Name, Capacity: p.Capacity, Gone: !slices.Contains(rest, p.Name)}
		b.Load, b.Known = t.loadOf(loads, p.Name)
		if b.Known && !b.Gone {
			b.After, b.Most = b.Load, b.Load
			for _, from := range gone {
				l, known := t.loadOf(loads, from)
				if !known || !slices.Contains(announcing, from) {
					continue
				}
				share, unsaid := t.spill(from, p.Name, rest)
				b.After, b.Most = sum(b.After, part(l, share)), sum(b.Most, part(l, share+unsaid))
			}
		}
		if b.Known && p.Capacity > 0 {
			b.Percent, b.AfterPercent, b.MostPercent = percent(b.Load, p.Capacity), percent(b.After, p.Capacity), percent(b.Most, p.Capacity)
		}
		out = append(out, b)
	}
	return out
}

// Movable is how many percent of a site's load the others of rest could take, each
// staying at or under limit percent of its capacity, wherever the table says
// nothing counted as going to each of them. A site that states no capacity takes
// any; where a load is not known, nothing can be promised.
func (t Table) Movable(loads []Load, from string, rest []string, limit int) int {
	l, known := t.loadOf(loads, from)
	if !known || len(rest) == 0 {
		return 0
	}
	most := 100
	for _, site := range rest {
		p, _ := t.Place(site)
		if p.Capacity <= 0 {
			continue
		}
		has, known := t.loadOf(loads, site)
		if !known {
			return 0
		}
		share, unsaid := t.spill(from, site, rest)
		comes := part(l, share+unsaid)
		for most > 0 && percent(sum(has, part(comes, most)), p.Capacity) > int64(limit) {
			most--
		}
	}
	return most
}

// spill is what of from's load comes to a site, in percent, where rest are those
// that stay: what the table says, and what it says nothing of, which is counted
// for each of them. A share of one that does not stay goes nobody knows where.
func (t Table) spill(from, site string, rest []string) (share, unsaid int) {
	p, _ := t.Place(from)
	unsaid = 100
	for _, s := range p.Spill {
		if slices.Contains(rest, s.Site) {
			unsaid -= s.Percent
			if s.Site == site {
				share += s.Percent
			}
		}
	}
	return share, max(unsaid, 0)
}

// loadOf is a site's load: what it reported, if that is fresh and makes sense,
// else, where it reported nothing, what the table says.
func (t Table) loadOf(loads []Load, site string) (int64, bool) {
	for _, l := range loads {
		if l.Site == site {
			return l.Load, l.Load >= 0 && l.AgeSeconds >= 0 && l.AgeSeconds <= loadMaxAge
		}
	}
	p, _ := t.Place(site)
	return p.Load, p.Load > 0
}
