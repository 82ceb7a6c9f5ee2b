package decide

import (
	"fmt"
	"math/bits"

	"github.com/steadycast/steadycast"
)

// loadMaxAge is the age in seconds above which a load says nothing; a unit that
// left less long ago than that has not shown its load elsewhere yet.
const loadMaxAge = 60

// capacityGuard asks whether the others could carry what this site carries.
// Where its clients go is not known, so the worst is assumed: all of them to
// each of the others in turn. A certain failure is refused only where a site
// would be over its capacity, everything else above the red line.
func (q *asking) capacityGuard() verdictOf {
	u, p := q.u, q.u.Unit.Prefix
	if u.Phase != steadycast.In {
		return pass("%s: its load is elsewhere already", u.Phase)
	}
	rest := keep(q.announcing(q.sight, u.Unit.Site), func(site string) bool { return q.capacity(site) > 0 })
	if len(rest) == 0 {
		return pass("no other announcing site states a capacity")
	}
	if q.e.Decide == nil || len(q.e.Decide.Loads) == 0 {
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
	spill, unknown := q.spill()
	most, at := int64(-1), ""
	for _, site := range rest {
		l, ok := q.load(site)
		if !ok {
			unknown = site
			continue
		}
		if pct := percent(l, spill, q.capacity(site)); pct > most {
			most, at = pct, site
		}
	}
	force := fmt.Sprintf("steadycast withdraw %s --force: %s may be overloaded", u.Unit, list(rest))
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

// spill is the load that would have to go elsewhere: this site's, and that of
// units which left so lately that their load has not shown up. unknown names a
// site of them without a fresh load.
func (q *asking) spill() (load int64, unknown string) {
	for _, m := range q.of(q.u.Unit.Prefix).members {
		x := &q.Units[m]
		site := x.Unit.Site
		if x != q.u && (x.Phase != steadycast.Out || !x.Ever || q.LT-x.Changed >= loadMaxAge*1000) {
			continue
		}
		if l, ok := q.load(site); !ok {
			unknown = site
		} else {
			load = sum(load, l)
		}
	}
	return load, unknown
}

// load is a site's load, if it is fresh and makes sense.
func (a *applying) load(site string) (int64, bool) {
	if a.e.Decide == nil {
		return 0, false
	}
	l, ok := a.e.Decide.load(site)
	return l.Load, ok && l.Load >= 0 && l.AgeSeconds >= 0 && l.AgeSeconds <= loadMaxAge
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
				most, known = max(most, percent(l, 0, a.capacity(site))), true
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

// percent is (load+spill)/capacity rounded up, at most a million; capacity > 0, loads >= 0.
func percent(load, spill, capacity int64) int64 {
	const most = 1_000_000
	hi, lo := bits.Mul64(uint64(sum(load, spill)), 100)
	lo, carry := bits.Add64(lo, uint64(capacity-1), 0)
	if hi += carry; hi >= uint64(capacity) {
		return most // the quotient would not fit
	}
	q, _ := bits.Div64(hi, lo, uint64(capacity))
	return int64(min(q, most))
}
