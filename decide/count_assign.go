package decide

import (
	"cmp"
	"slices"
	"time"
)

const (
	// allLookBelow is the fleet's size under which everybody watches everybody.
	allLookBelow = 10
	// assigned is how many sites watch one site in a larger fleet.
	assigned = 9
	// spread is the least number of regions, and of upstreams, among them.
	spread = 3
)

// Vantages are the names of the sites and witnesses that watch subject, in
// order: all others in a fleet of fewer than ten, else nine by rendezvous
// hashing, first those that bring three regions and three upstreams together,
// where the fleet has so many. Adding or removing a site moves few of them.
func (t Table) Vantages(subject string) []string {
	var others []Place
	for _, p := range t.Sites {
		if p.Name != subject {
			others = append(others, p)
		}
	}
	if len(t.Sites) >= allLookBelow {
		others = rendezvous(others, subject)
	}
	names := make([]string, len(others))
	for i, p := range others {
		names[i] = p.Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rendezvous picks the assigned vantages of subject among others.
func rendezvous(others []Place, subject string) []Place {
	type scored struct {
		score uint64
		place Place
	}
	ranked := make([]scored, len(others))
	for i, p := range others {
		ranked[i] = scored{score(subject, p.Name), p}
	}
	slices.SortFunc(ranked, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.place.Name, b.place.Name))
	})
	for i, r := range ranked {
		others[i] = r.place
	}
	var picked, rest []Place
	var regions, upstreams, groups []string
	for _, p := range others {
		group := cmp.Or(p.Group, p.Name)
		brings := adds(groups, group) && (len(regions) < spread && adds(regions, p.Region) ||
			len(upstreams) < spread && slices.ContainsFunc(p.Upstreams, func(u string) bool { return adds(upstreams, u) }))
		if !brings || len(picked) == assigned {
			rest = append(rest, p)
			continue
		}
		picked = append(picked, p)
		regions, upstreams = append(regions, p.Region), append(upstreams, p.Upstreams...)
		groups = append(groups, group)
		regions, upstreams = distinct(regions), distinct(upstreams)
	}
	// Fill with new independence groups first: a second vantage of one group
	// would add no voice.
	for _, again := range []bool{false, true} {
		for i := 0; i < len(rest) && len(picked) < assigned; {
			p := rest[i]
			if group := cmp.Or(p.Group, p.Name); again || adds(groups, group) {
				picked, groups = append(picked, p), append(groups, group)
				rest = slices.Delete(rest, i, i+1)
			} else {
				i++
			}
		}
	}
	return picked
}

func adds(have []string, s string) bool { return s != "" && !slices.Contains(have, s) }

func distinct(ss []string) []string {
	slices.Sort(ss)
	ss = slices.Compact(ss)
	if len(ss) > 0 && ss[0] == "" {
		ss = ss[1:]
	}
	return ss
}

// score is FNV-1a over both names, then mixed so that names that differ in
// their last letter only do not stay neighbours.
func score(subject, vantage string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range []string{subject, "\x00", vantage} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Voices are how many independent voices judge the site when all are fresh, and
// the fewest that can. With fewer than that only a pair can act: the site itself,
// certain of its failure, and another.
func (t Table) Voices(site string) (all, least int) {
	j := newJury(t, site, false, time.Second, jury{})
	return j.assigned, j.count().least
}
