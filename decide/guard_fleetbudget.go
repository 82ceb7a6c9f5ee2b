package decide

// fleetBudgetGuard bounds how fast automation takes sites away, whatever it
// believes. One request counts once, however many prefixes it is about. A site
// alone is no fleet: there is nobody that it could take down along with itself,
// and its own budget bounds its flaps.
func (q *asking) fleetBudgetGuard() verdictOf {
	g := q.Table.Guards
	n, left := q.spent(q.state.Charges, g.FleetWindow, g.FleetBudget)
	switch {
	case len(q.Table.Announcers()) <= 1:
		return pass("a site alone is no fleet; its own budget bounds it")
	case q.charged():
		return pass("this request is charged already; %d of %d withdrawals in %s", n, g.FleetBudget, g.FleetWindow)
	case left == 0:
		return pass("%d of %d withdrawals in %s", n, g.FleetBudget, g.FleetWindow)
	default:
		return refuses(left, "steadycast withdraw "+q.u.Unit.String(), "%d of %d withdrawals in %s", n, g.FleetBudget, g.FleetWindow)
	}
}
