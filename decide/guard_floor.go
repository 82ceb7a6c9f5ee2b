package decide

// floorGuard holds two floors for each prefix. The first counts who would still
// announce; the second who of them is healthy, because the ones that stay could
// all be dead while the last good one is let go. When all are bad, the last
// stay: a prefix answered badly beats one that is gone.
func (q *asking) floorGuard() verdictOf {
	u := q.u
	if u.gone() {
		return pass("%s: it is not counted, so nobody is missed", u.Phase)
	}
	p := u.Unit.Prefix
	x := q.of(p)
	rest, healthy := len(q.announcing(q.sight, u.Unit.Site)), len(q.healthy(q.sight, u.Unit.Site))
	sites, floor, healthyFloor := len(x.members), x.floor, x.healthyFloor
	force := "steadycast withdraw " + u.Unit.String() + " --force: fewer sites than the floor will announce it"
	switch {
	case rest < floor:
		return refuses(0, force, "%d of %d would announce %s; floor %d", rest, sites, p, floor)
	case healthy < healthyFloor:
		return refuses(0, force, "%d of %d that would announce %s are healthy; healthy floor %d", healthy, rest, p, healthyFloor)
	default:
		return pass("%d of %d would announce %s, %d healthy; floor %d, healthy floor %d", rest, sites, p, healthy, floor, healthyFloor)
	}
}
