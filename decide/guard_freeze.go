package decide

import (
	"fmt"

	"github.com/steadycast/steadycast"
)

// freezeGuard: while a person froze a site, a prefix or everything, automation
// changes nothing there. What the breaker froze is the breaker's to answer.
func (q *asking) freezeGuard() verdictOf {
	for _, f := range q.Freezes {
		if f.Breaker || !f.Scope.Covers(q.u.Unit) {
			continue
		}
		if q.action == steadycast.Return && q.pinned() {
			return pass("%s froze %s, but the unit is announced by order", f.Actor, f.Scope)
		}
		return refuses(0, fmt.Sprintf("steadycast thaw%s, or order this one unit", f.Scope.args()),
			"%s froze %s %s ago: %s", f.Actor, f.Scope, past(q.LT-f.Since), f.Reason)
	}
	return pass("no person froze it")
}

// String writes the scope for people.
func (s Scope) String() string {
	switch {
	case s.Site == "" && !s.Prefix.IsValid():
		return "everything"
	case s.Site == "":
		return s.Prefix.String()
	case !s.Prefix.IsValid():
		return s.Target()
	default:
		return s.Target() + " " + s.Prefix.String()
	}
}

// args writes the scope as arguments of a command.
func (s Scope) args() string {
	if s == (Scope{}) {
		return ""
	}
	return " " + s.String()
}
