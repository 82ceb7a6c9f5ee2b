package decide

// requireGuard stands where a service may state what must be true before it
// leaves or returns (a replica caught up, data owned here). The table has no
// such conditions, so there is nothing to hold against a request.
func (q *asking) requireGuard() verdictOf {
	return pass("nothing required")
}
