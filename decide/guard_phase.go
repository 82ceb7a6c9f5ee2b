package decide

import "github.com/steadycast/steadycast"

// phaseGuard: what the ledger counts must allow the step, and one site at a
// time comes back to a prefix.
func (q *asking) phaseGuard() verdictOf {
	u := q.u
	switch {
	case u.Unheard:
		return refuses(1000, "", "%s by the older copy that the ledger was recovered from; what %s announces was not heard since", u.Phase, u.Unit.Site)
	case q.action == steadycast.Return && u.Phase == steadycast.Out:
		return q.oneReturning()
	case q.restoring():
		return pass("in; it never left")
	case q.action == steadycast.Return:
		// Re-enterable: an answer may have been lost, or the agent restarted.
		return pass("returning; it may be asked for again")
	case u.Phase == steadycast.Out:
		return refuses(0, "", "out since %s: it does not announce", past(q.LT-u.Changed))
	case u.Phase == steadycast.Returning:
		return pass("returning and not counted yet; it may turn round")
	default:
		return pass("in")
	}
}

// oneReturning refuses while another site returns to the prefix: returns move
// about half of all flows. One that never finishes blocks for no longer than a
// cooldown.
func (q *asking) oneReturning() verdictOf {
	for _, m := range q.of(q.u.Unit.Prefix).members {
		x := &q.Units[m]
		site := x.Unit.Site
		if x == q.u || x.Phase != steadycast.Returning {
			continue
		}
		left := lt(q.Table.Guards.Cooldown) - (q.LT - x.Changed)
		switch {
		case left <= 0:
		case q.pardoned() == sparesAll:
			return pass("out; %s is returning too, but a person ordered this one", site)
		case q.underFloor():
			return pass("out; %s is returning too, but too few announce healthily to wait", site)
		default:
			return refuses(soon(left), "", "%s is returning to %s; one site at a time", site, q.u.Unit.Prefix)
		}
	}
	return pass("out, and no other site is returning")
}
