package decide

import (
	"fmt"

	"github.com/steadycast/steadycast"
)

// lockGuard: a unit that left and came back too often is left alone until a
// person has looked at it.
func (q *asking) lockGuard() verdictOf {
	g, u := q.Table.Guards, q.u
	n := q.cycles(u)
	switch {
	case !u.Locked:
		return pass("%d of %d cycles in %s", n, g.LockCycles, g.LockWindow)
	case q.action == steadycast.Return && q.pardoned() == sparesAll:
		return pass("locked, but a person ordered it back")
	default:
		return refuses(0, fmt.Sprintf("steadycast unlock %s", u.Unit),
			"locked after %d cycles in %s", len(u.Cycles), g.LockWindow)
	}
}
