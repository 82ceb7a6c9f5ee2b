package decide

import "github.com/steadycast/steadycast"

// What a site has may be too old to be served when it was away for long (only_new).
// The time is counted from when it served last, and not from what became of it since:
// a return that failed, a word between two silences or a restart makes no data new.

// countAway keeps for each unit of a service with only_new since when its site does not
// serve: from when it left, or was heard last before it fell silent, until it is in, is
// heard and is well.
func (a *applying) countAway() {
	for i := range a.Units {
		u := &a.Units[i]
		gone := never
		timed := false
		for _, k := range a.services(u.Unit) {
			s := &a.Table.Services[k]
			timed = timed || s.OnlyNew > 0
			if m, ok := goneAt(a.Gone, u.Unit.Site, s.Name); ok {
				gone = max(a.Gone[m].silentSince(), 1)
			}
		}
		switch {
		case !timed:
			u.Away = 0
		case u.Away == 0 && u.Ever && u.Phase != steadycast.In:
			u.Away = max(u.Changed, 1) // 0 is not away
		case u.Away == 0 && u.Phase == steadycast.In && gone != never:
			u.Away = gone
		case u.Phase == steadycast.In && !u.Lost && gone == never && a.health(u.Unit).ok:
			u.Away = 0
		}
	}
}

// silentSince is when the service was heard last, so far as is known.
func (g *Gone) silentSince() Time { return max(g.Since-Time(g.QuietMS), 0) }

// awayFrom is since when a service does not serve at a site that is gone: by the mark,
// or from before it.
func (s *state) awayFrom(g *Gone) Time {
	at := g.silentSince()
	for _, u := range s.unitsOf(g.Site, g.Service) {
		if u.Phase == steadycast.In && u.Away != 0 {
			at = min(at, u.Away)
		}
	}
	return at
}

// renewed takes a person's word that what a service has at a site is new.
func (s *state) renewed(site, service string) {
	for _, u := range s.unitsOf(site, service) {
		u.renew(s.LT)
	}
}

// renew counts anew.
func (u *unitState) renew(now Time) {
	if u.Away != 0 {
		u.Away = max(now, 1)
	}
}

// tooOld reports whether a unit that is out may have old data. What never served has none.
func (s *state) tooOld(u *unitState, v *Service) bool {
	return v.OnlyNew > 0 && u.Away != 0 && !s.within(u.Away, v.OnlyNew)
}
