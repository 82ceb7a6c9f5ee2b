package decide

import (
	"fmt"

	"github.com/steadycast/steadycast"
)

// freeze stops automation in a scope. Freezing what is frozen renews who and why.
func (a *applying) freeze(s Scope) string {
	if !a.scope(s) || !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	a.Freezes = grow(
		keep(a.Freezes, func(f StandingFreeze) bool { return f.Breaker || f.Scope != s }),
		StandingFreeze{Scope: s, Actor: a.e.Actor, Reason: a.e.Reason, Since: a.LT})
	a.event(steadycast.Event{
		Kind: steadycast.EventFreeze, Site: s.Site, Prefix: s.Prefix, To: "frozen", Actor: a.e.Actor, Reason: a.e.Reason,
	})
	return ""
}

// thaw ends the freezes that lie within a scope, the breaker's too. A wider one
// stays: thawing one site does not thaw the fleet.
func (a *applying) thaw(s Scope) string {
	if !a.scope(s) || !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	var stay []StandingFreeze
	for _, f := range a.Freezes {
		if !s.takesIn(f.Scope) {
			stay = append(stay, f)
			continue
		}
		if f.Breaker {
			a.forget(f.Scope.Prefix)
			if p := a.prefix(f.Scope.Prefix); p != nil {
				p.Calm = never
			}
		}
		a.event(steadycast.Event{
			Kind: steadycast.EventFreeze, Site: f.Scope.Site, Prefix: f.Scope.Prefix, From: "frozen", Actor: a.e.Actor, Reason: a.e.Reason,
		})
	}
	if len(stay) == len(a.Freezes) {
		scopes := make([]Scope, len(stay))
		for i, f := range stay {
			scopes[i] = f.Scope
		}
		a.refuse(freezeGuard, fmt.Sprintf("nothing within %s is frozen; frozen: %s", s, list(scopes)), "")
		return ""
	}
	a.Freezes = stay
	return ""
}

// takesIn reports whether the scope takes in the whole of f.
func (s Scope) takesIn(f Scope) bool {
	return (s.Site == "" || s.Site == f.Site) && (!s.Prefix.IsValid() || s.Prefix == f.Prefix)
}

// unlock clears locks, and the cycles that led to them.
func (a *applying) unlock(s Scope) string {
	wrong := a.each(s, lockGuard, "is locked", func(u *unitState) bool { return u.Locked }, func(u *unitState) {
		u.Locked, u.Cycles = false, nil
		a.event(steadycast.Event{
			Kind: steadycast.EventRecovery, Site: u.Unit.Site, Prefix: u.Unit.Prefix, Guard: lockGuard,
			From: "locked", Actor: a.e.Actor, Reason: a.e.Reason,
		})
	})
	if r := a.reply.Refused; (r == nil || r.Guard == lockGuard) && a.unlockPaths(s) {
		a.reply.Refused = nil
	}
	return wrong
}

// resume ends `return: hold` for units that automation took out, and takes a
// person's word that what was away for long is not old.
func (a *applying) resume(s Scope) string {
	out := func(u *unitState) bool {
		return u.Phase == steadycast.Out && u.Auto && !u.Resumed && a.holds(u) != ""
	}
	held := func(u *unitState) bool { return out(u) || a.doubted(u.Unit) }
	return a.each(s, orderGuard, "is on hold", held, func(u *unitState) {
		a.trust(u.Unit)
		if !out(u) {
			return
		}
		u.Resumed = true
		u.renew(a.LT)
		a.event(steadycast.Event{
			Kind: steadycast.EventOrder, Site: u.Unit.Site, Prefix: u.Unit.Prefix,
			From: "on hold", To: "automatic", Actor: a.e.Actor, Reason: a.e.Reason,
		})
	})
}

// each does a person's wish to every unit of the scope that it fits, or refuses
// if it fits none.
func (a *applying) each(s Scope, guard, what string, fits func(*unitState) bool, do func(*unitState)) string {
	if !a.scope(s) || !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	done := false
	for i := range a.Units {
		if u := &a.Units[i]; s.Covers(u.Unit) && fits(u) {
			do(u)
			done = true
		}
	}
	if !done {
		a.refuse(guard, fmt.Sprintf("nothing within %s %s", s, what), "")
	}
	return ""
}

// holds says why a unit that is out returns only when a person resumes it; "" if it
// need not wait for one. What must prove before it returns that its data are new does
// that instead.
func (s *state) holds(u *unitState) string {
	for _, i := range s.services(u.Unit) {
		switch v := &s.Table.Services[i]; {
		case v.Return == ReturnHold:
			return fmt.Sprintf("service %s has return hold: healthy or not, it stays out until a person resumes it", v.Name)
		case v.Require.Return == "" && s.tooOld(u, v):
			return fmt.Sprintf("service %s has only_new %s, and it was out for longer: it may have old data, and stays out until a person resumes it", v.Name, v.OnlyNew)
		}
	}
	return ""
}
