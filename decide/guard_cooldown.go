package decide

import "github.com/steadycast/steadycast"

// cooldownGuard: the least time between two changes that automation makes to a unit.
func (q *asking) cooldownGuard() verdictOf {
	u := q.u
	left := u.coolLeft(q.state)
	cooldown := q.Table.Guards.Cooldown
	returning := q.action == steadycast.Return
	switch {
	case u.Cool == never:
		return pass("automation has not changed it yet; cooldown %s", cooldown)
	case left == 0:
		return pass("last change %s ago; cooldown %s", past(q.LT-u.Cool), cooldown)
	case u.Phase == steadycast.Returning || q.restoring():
		return pass("last change %s ago; cooldown %s does not bind a unit that is returning or never left", past(q.LT-u.Cool), cooldown)
	case returning && q.pardoned() != noPardon:
		return pass("last change %s ago; cooldown %s spared by a person", past(q.LT-u.Cool), cooldown)
	case returning && q.underFloor():
		return pass("last change %s ago; cooldown %s waived while too few announce healthily", past(q.LT-u.Cool), cooldown)
	case returning:
		return refuses(soon(left), "steadycast announce "+u.Unit.String(),
			"last change %s ago; cooldown %s", past(q.LT-u.Cool), cooldown)
	default:
		return refuses(left, "steadycast withdraw "+u.Unit.String(),
			"last change %s ago; cooldown %s", past(q.LT-u.Cool), cooldown)
	}
}
