package decide

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// A common fault is no site's fault: a bad release, a dead upstream, a wrong
// probe. When too many sites of a prefix fall into trouble within a short time,
// or fewer that share one cause across independence groups, automation stops
// for that prefix and a person is called. It goes on by itself after a long
// enough time with little trouble, or when a person thaws it.

// breakerGuard answers for prefixes that the breaker froze.
func (q *asking) breakerGuard() verdictOf {
	p := q.sight.prefix
	n := len(q.of(p).members)
	if n <= 1 {
		return pass("a site alone knows of no others")
	}
	troubled, limit := len(q.troubled(p)), q.breakerLimit(n)
	f := q.broken(p)
	switch {
	case f == nil:
		trips := fmt.Sprintf("more than %d would trip it", limit)
		if least := q.breakerShared(p); least > 0 {
			trips += fmt.Sprintf(", or %d in different groups with one cause", least)
		}
		return pass("%d of %d sites in trouble within %s; %s", troubled, n, q.Table.Guards.BreakerWindow, trips)
	case q.action == steadycast.Return && q.pardoned() == sparesAll:
		return pass("tripped, but a person ordered it back")
	case q.action == steadycast.Return && (q.restoring() || q.underFloor()):
		return pass("tripped, but too few announce healthily to refuse a return")
	default:
		return refuses(0, "steadycast thaw "+p.String()+", or order this one unit",
			"tripped %s ago: %s; it clears after %s under %d%%",
			past(q.LT-f.Since), f.Reason, q.Table.Guards.BreakerClear, q.Table.Guards.BreakerClearPct)
	}
}

// breakerLimit is how many of n sites may be in trouble at once.
func (s *state) breakerLimit(n int) int {
	return max(s.Table.Guards.BreakerSites, n*s.Table.Guards.BreakerPercent/100)
}

// breakerShared is how few sites of p that share one cause trip the breaker
// although no more than [state.breakerLimit] are in trouble; 0 where so few never
// do: the limit is lower, or all sites are of one group.
func (s *state) breakerShared(p netip.Prefix) int {
	members := s.of(p).members
	n := len(members)
	least := max(2, n*s.Table.Guards.BreakerPercent/100+1)
	apart := slices.ContainsFunc(members, func(m int) bool { return s.index.units[m].group != s.index.units[members[0]].group })
	if !apart || least > s.breakerLimit(n) {
		return 0
	}
	return least
}

// broken finds the breaker's freeze of p.
func (s *state) broken(p netip.Prefix) *StandingFreeze {
	for i := range s.Freezes {
		if f := &s.Freezes[i]; f.Breaker && f.Scope.Prefix == p {
			return f
		}
	}
	return nil
}

// trouble is one site in trouble, with its cause.
type trouble struct{ site, group, cause string }

// troubled lists the sites of p that fell into trouble within the window and
// are still in it: by verdict, or by asking to leave.
func (s *state) troubled(p netip.Prefix) []trouble {
	var ts []trouble
	window := s.Table.Guards.BreakerWindow
	for _, m := range s.of(p).members {
		u := &s.Units[m]
		t, found := trouble{u.Unit.Site, s.index.units[m].group, ""}, s.within(u.Asked, window)
		for _, sv := range s.index.units[m].services {
			i, ok := s.verdict(u.Unit.Site, s.Table.Services[sv].Name)
			if ok && s.within(s.Verdicts[i].Onset, window) && s.troubledVerdict(u.Unit) {
				t.cause, found = s.Verdicts[i].Cause, true
				break
			}
		}
		if found {
			ts = append(ts, t)
		}
	}
	return ts
}

// markAsking notes a site that asks to leave although no verdict of trouble is
// committed for it: it counts like one.
func (a *applying) markAsking(r steadycast.Request) {
	if r.Action != steadycast.Withdraw || !a.wellFormed(r).Pass {
		return
	}
	if i, ok := a.slot(r.Site, r.ID); ok && r.ID.Compare(a.Slots[i].ID) <= 0 {
		return
	}
	for _, p := range r.Prefixes {
		if u := a.unit(r.Site, p); u.Phase != steadycast.Out && !a.troubledVerdict(u.Unit) && !a.within(u.Asked, a.Table.Guards.BreakerWindow) {
			u.Asked = a.LT
		}
	}
}

// trip freezes p if it is in common trouble and not frozen yet.
func (a *applying) trip(p *prefixState) {
	n := len(a.of(p.Prefix).members)
	if n <= 1 || a.broken(p.Prefix) != nil {
		return
	}
	ts := a.troubled(p.Prefix)
	why := ""
	if len(ts) > a.breakerLimit(n) {
		why = fmt.Sprintf("%d of %d sites in trouble within %s", len(ts), n, a.Table.Guards.BreakerWindow)
	} else if c, k := common(ts); k*100 > n*a.Table.Guards.BreakerPercent {
		why = fmt.Sprintf("%d of %d sites share one cause within %s: %s", k, n, a.Table.Guards.BreakerWindow, c)
	}
	if why == "" {
		return
	}
	p.Calm = never
	a.Freezes = grow(a.Freezes, StandingFreeze{
		Scope: Scope{Prefix: p.Prefix}, Actor: "breaker", Reason: why, Breaker: true, Since: a.LT,
	})
	a.event(steadycast.Event{
		Kind: steadycast.EventFreeze, Prefix: p.Prefix, To: "frozen", Guard: breakerGuard, Actor: "breaker", Reason: why,
	})
	a.event(steadycast.Event{
		Kind: steadycast.EventAlarm, Prefix: p.Prefix, Guard: breakerGuard, Actor: "breaker",
		Reason: why + "; a shared cause is no site's fault: automation stopped for this prefix, look for what they have in common",
	})
}

// common finds the cause that most sites share across at least two independence
// groups, and how many share it; 0 if there is none.
func common(ts []trouble) (string, int) {
	best, most := "", 0
	for _, t := range ts {
		if t.cause == "" {
			continue
		}
		same := keep(ts, func(x trouble) bool { return x.cause == t.cause })
		apart := slices.ContainsFunc(same, func(x trouble) bool { return x.group != t.group })
		if apart && len(same) > most {
			best, most = t.cause, len(same)
		}
	}
	return best, most
}

// clearBreakers ends freezes after a calm time. Sites that are out do not
// count: their trouble harms nobody and may last.
func (a *applying) clearBreakers() {
	g := a.Table.Guards
	for i := range a.Prefixes {
		p := &a.Prefixes[i]
		if a.broken(p.Prefix) == nil {
			continue
		}
		sites, bad := a.of(p.Prefix).members, 0
		for _, m := range sites {
			u := &a.Units[m]
			if u.Phase != steadycast.Out && (a.troubledVerdict(u.Unit) || a.within(u.Asked, g.BreakerWindow)) {
				bad++
			}
		}
		switch {
		case bad*100 >= max(len(sites)*g.BreakerClearPct, 1):
			p.Calm = never
		case p.Calm == never:
			p.Calm = a.LT
		case !a.within(p.Calm, g.BreakerClear):
			p.Calm = never
			a.Freezes = keep(a.Freezes, func(f StandingFreeze) bool { return !f.Breaker || f.Scope.Prefix != p.Prefix })
			a.event(steadycast.Event{
				Kind: steadycast.EventFreeze, Prefix: p.Prefix, From: "frozen", Guard: breakerGuard, Actor: "breaker",
				Reason: fmt.Sprintf("%d of %d sites in trouble for %s; automation goes on", bad, len(sites), g.BreakerClear),
			})
			a.event(steadycast.Event{
				Kind: steadycast.EventRecovery, Prefix: p.Prefix, Guard: breakerGuard, Reason: "the common trouble is over",
			})
		}
	}
}

// forget makes the breaker start counting anew for p, after a person thawed it.
func (a *applying) forget(p netip.Prefix) {
	for _, m := range a.of(p).members {
		u := &a.Units[m]
		u.Asked = never
		for _, sv := range a.index.units[m].services {
			if i, ok := a.verdict(u.Unit.Site, a.Table.Services[sv].Name); ok {
				a.Verdicts[i].Onset = never
			}
		}
	}
}
