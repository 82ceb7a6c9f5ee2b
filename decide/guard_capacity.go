package decide

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/steadycast/steadycast"
)

// loadMaxAge is the age in seconds above which a load says nothing; a unit that
// left less long ago than that has not shown its load elsewhere yet.
const loadMaxAge = 60

// capacityGuard asks whether the others could carry what this site carries, and
// what others left behind that has not shown up yet. Where its clients go is
// known as far as the table's spill rows say; of the rest the worst is assumed:
// all of it to each of the others in turn. A certain failure is refused only
// where a site would be over its capacity, everything else above the red line.
func (q *asking) capacityGuard() verdictOf {
	u, p := q.u, q.u.Unit.Prefix
	if u.gone() {
		return pass("%s: its load is elsewhere already", u.Phase)
	}
	rest := q.announcing(q.sight, u.Unit.Site)
	rated := keep(rest, func(site string) bool { return q.capacity(site) > 0 })
	if len(rated) == 0 {
		return pass("no other announcing site states a capacity")
	}
	if !slices.ContainsFunc(append(rated, u.Unit.Site), q.reports) {
		return pass("no site reports its load")
	}
	certain := q.order == nil && q.r.Class == steadycast.Hard
	if x := q.prefix(p); x.Tight && !certain && q.order == nil {
		return refuses(0, "steadycast withdraw "+u.Unit.String(), "the sites of %s are tight; only certain failures leave", p)
	}
	limit := q.Table.Guards.CapacityRed
	if certain {
		limit = 100
	}
	leaving, unknown := q.leaving()
	most, at := int64(-1), ""
	for _, site := range rated {
		l, ok := q.load(site)
		if !ok {
			unknown = site
			continue
		}
		for _, x := range leaving {
			if x.site != site { // it may have left by another prefix only
				l = sum(l, q.spill(x, site, rest))
			}
		}
		if pct := percent(l, q.capacity(site)); pct > most {
			most, at = pct, site
		}
	}
	force := fmt.Sprintf("steadycast withdraw %s --force: %s may be overloaded", u.Unit, list(rated))
	switch {
	case most > int64(limit):
		return refuses(0, force, "%s would carry %d%% of its capacity; limit %d%%", at, most, limit)
	case unknown != "" && !certain:
		return refuses(0, force, "the load of %s is not known, or older than %ds", unknown, loadMaxAge)
	case unknown != "":
		return pass("the load of %s is not known; that does not keep a certain failure", unknown)
	default:
		return pass("%s would carry %d%% of its capacity; limit %d%%", at, most, limit)
	}
}

// leaver is a site whose load has to go elsewhere.
type leaver struct {
	site string
	load int64
}

// leaving are this site, and those that left so lately, by whatever prefix, that
// their load has not shown up elsewhere: with what they carried when they were
// let go, since what they report now is what is left. unknown names one of which
// that is not known.
func (q *asking) leaving() (ls []leaver, unknown string) {
	if l, ok := q.load(q.u.Unit.Site); ok {
		ls = append(ls, leaver{q.u.Unit.Site, l})
	} else {
		unknown = q.u.Unit.Site
	}
	for i := range q.Units {
		x := &q.Units[i]
		site := x.Unit.Site
		if site == q.u.Unit.Site || x.Phase != steadycast.Out || !x.Ever || q.LT-x.Changed >= loadMaxAge*1000 {
			continue
		}
		k := slices.IndexFunc(ls, func(l leaver) bool { return l.site == site })
		switch {
		case x.Load == nil:
			unknown = site
		case k < 0:
			ls = append(ls, leaver{site, *x.Load})
		default:
			ls[k].load = max(ls[k].load, *x.Load)
		}
	}
	return ls, unknown
}

// spill is what of a leaver's load may come to a site, where rest are those that
// stay: what the table says, and all of what it says nothing of.
func (q *asking) spill(x leaver, site string, rest []string) int64 {
	share, unsaid := q.Table.spill(x.site, site, rest)
	return part(x.load, share+unsaid)
}

// load is a site's load, as the proposer knew it.
func (a *applying) load(site string) (int64, bool) { return a.Table.loadOf(a.loads(), site) }

func (a *applying) loads() []Load {
	if a.e.Decide != nil {
		return a.e.Decide.Loads
	}
	return nil
}

// reports: there is a load of the site, be it an old one.
func (a *applying) reports(site string) bool {
	if a.e.Decide != nil {
		if _, ok := a.e.Decide.load(site); ok {
			return true
		}
	}
	p, _ := a.Table.Place(site)
	return p.Load > 0
}

// leave moves a unit out, and keeps what its site carried.
func (a *applying) leave(u *unitState) {
	u.Load = nil
	if l, ok := a.load(u.Unit.Site); ok {
		u.Load = &l
	}
	u.move(a.state, steadycast.Out)
}

func (s *state) capacity(site string) int64 {
	p, _ := s.Table.Place(site)
	return p.Capacity
}

// tighten sets the flag of each prefix of which an announcing site is above the
// red line, and clears it when all are under three quarters of that: without
// the gap the answer would change with each swing of the load.
func (a *applying) tighten() {
	red := int64(a.Table.Guards.CapacityRed)
	for i := range a.Prefixes {
		p := &a.Prefixes[i]
		most, known := int64(0), false
		for _, site := range a.announcing(a.sees(p.Prefix), "") {
			if l, ok := a.load(site); ok && a.capacity(site) > 0 {
				most, known = max(most, percent(l, a.capacity(site))), true
			}
		}
		switch {
		case known && most > red:
			p.Tight = true
		case known && most < red*3/4:
			p.Tight = false
		}
	}
}

// sum adds without overflow.
func sum(a, b int64) int64 {
	if c := a + b; c >= a && b >= 0 {
		return c
	}
	return 1<<63 - 1
}

// percent is load/capacity rounded up, at most a million; capacity > 0, load >= 0.
func percent(load, capacity int64) int64 {
	const most = 1_000_000
	hi, lo := bits.Mul64(uint64(load), 100)
	lo, carry := bits.Add64(lo, uint64(capacity-1), 0)
	if hi += carry; hi >= uint64(capacity) {
		return most // the quotient would not fit
	}
	q, _ := bits.Div64(hi, lo, uint64(capacity))
	return int64(min(q, most))
}

// part is so many percent of load, rounded up; load >= 0, share 0 to 100.
func part(load int64, share int) int64 {
	hi, lo := bits.Mul64(uint64(load), uint64(share))
	lo, carry := bits.Add64(lo, 99, 0)
	q, _ := bits.Div64(hi+carry, lo, 100)
	return int64(q)
}
