package decide

import (
	"time"

	"github.com/steadycast/steadycast"
)

// siteBudgetGuard: routers of the Internet punish about the third withdrawal of
// a prefix in an hour, so automation spends few. A return needs one unspent,
// because what returns may have to leave again: an empty budget keeps a bad
// site out, never a dead one in.
func (q *asking) siteBudgetGuard() verdictOf {
	g, u := q.Table.Guards, q.u
	short, shortLeft := q.spent(u.Charges, g.SiteWindow, g.SiteBudget)
	long, longLeft := q.spent(u.Charges, g.SiteLongWindow, g.SiteLongBudget)
	returning := q.action == steadycast.Return
	left := max(shortLeft, longLeft)
	switch {
	case left == 0:
		return pass("%d of %d withdrawals in %s, %d of %d in %s", short, g.SiteBudget, g.SiteWindow, long, g.SiteLongBudget, g.SiteLongWindow)
	case returning && u.Phase != steadycast.Out:
		return pass("%d of %d withdrawals in %s; it left nothing to come back from", short, g.SiteBudget, g.SiteWindow)
	case returning && q.pardoned() != noPardon:
		return pass("%d of %d withdrawals in %s; spared by a person", short, g.SiteBudget, g.SiteWindow)
	case returning && q.underFloor():
		return pass("%d of %d withdrawals in %s; waived while too few announce healthily", short, g.SiteBudget, g.SiteWindow)
	case returning:
		return refuses(soon(left), "steadycast announce "+u.Unit.String(),
			"%d of %d withdrawals in %s, %d of %d in %s; a return needs one unspent",
			short, g.SiteBudget, g.SiteWindow, long, g.SiteLongBudget, g.SiteLongWindow)
	default:
		return refuses(left, "steadycast withdraw "+u.Unit.String(),
			"%d of %d withdrawals in %s, %d of %d in %s",
			short, g.SiteBudget, g.SiteWindow, long, g.SiteLongBudget, g.SiteLongWindow)
	}
}

// spent counts the charges within the window, and says how long until the
// budget has one again; 0 if it has. The n-th newest charge decides: exact, with
// no more memory than the budget itself.
func (s *state) spent(charges []charge, window time.Duration, budget int) (n int, left Time) {
	for i := len(charges) - 1; i >= 0 && s.within(charges[i].LT, window); i-- {
		if n++; n == budget {
			left = lt(window) - (s.LT - charges[i].LT)
		}
	}
	if budget <= 0 {
		left = lt(window)
	}
	return n, left
}
