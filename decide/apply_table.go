package decide

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// table takes a new policy. Units that it keeps keep all that is known of them;
// new ones were never announced; those it drops are forgotten.
func (a *applying) table(t Table) string {
	if ps := t.Problems(); len(ps) > 0 {
		return unsound(ps)
	}
	t = t.WithDefaults()
	born := a.Rules != 0
	if born && t.Revision <= a.Table.Revision {
		return fmt.Sprintf("revision %d is not above %d, which is in force", t.Revision, a.Table.Revision)
	}
	if born && !a.keepsFloors(t, false) {
		return ""
	}
	if !born {
		a.Rules, a.Fence.Epoch, a.reply.Fence.Epoch = a.e.Rules, a.e.Epoch, a.e.Epoch
	}
	a.enforce(t)
	return ""
}

// keepsFloors refuses a table that takes announcing sites away from a prefix it
// keeps, below the floor in force: a wrong table withdraws everywhere at once.
// A fleet's table may not drop a prefix as a whole either, while it is announced,
// nor take away more at once than the breaker lets fall.
func (a *applying) keepsFloors(t Table, fleet bool) bool {
	override := "withdraw the site by an order first, or give the prefix another floor in a revision of its own"
	if fleet {
		override += ", or --force"
	}
	for _, p := range a.Prefixes {
		left := t.SitesOf(p.Prefix)
		was, stay := a.announcing(a.sees(p.Prefix), ""), 0
		if len(left) == 0 {
			if fleet && len(was) > 0 {
				a.refuse(floorGuard, fmt.Sprintf("nobody would announce %s after revision %d; now %d do: %s", p.Prefix, t.Revision, len(was), list(was)),
					"withdraw it everywhere by orders first, or --force")
				return false
			}
			continue // it says so in the diff
		}
		for _, site := range was {
			if slices.Contains(left, site) {
				stay++
			}
		}
		if floor := a.of(p.Prefix).floor; stay < len(was) && stay < floor {
			a.refuse(floorGuard, fmt.Sprintf("%d of %d would announce %s after revision %d; floor %d",
				stay, len(was), p.Prefix, t.Revision, floor),
				override)
			return false
		}
		if limit := a.breakerLimit(len(a.of(p.Prefix).members)); fleet && len(was)-stay > limit {
			a.refuse(breakerGuard, fmt.Sprintf("%d of the %d that announce %s would not after revision %d; more than %d at once is what trips the breaker",
				len(was)-stay, len(was), p.Prefix, t.Revision, limit),
				"take fewer away in each of several revisions, or --force")
			return false
		}
	}
	return !fleet || a.keepsNodes(t)
}

// settle makes the lists fit the table.
func (a *applying) settle() {
	var units []unitState
	for _, site := range a.Table.Announcers() {
		for _, p := range a.Table.PrefixesAt(site) {
			if u := a.unit(site, p); u != nil {
				units = append(units, *u)
			} else {
				units = append(units, unitState{
					Unit: steadycast.Unit{Site: site, Prefix: p}, Changed: a.LT, Cool: never, Asked: never,
				})
			}
		}
	}
	a.Units = units
	var prefixes []prefixState
	for _, p := range a.Table.AllPrefixes() {
		if len(a.Table.SitesOf(p)) == 0 {
			continue
		}
		if x := a.prefix(p); x != nil {
			prefixes = append(prefixes, *x)
		} else {
			prefixes = append(prefixes, prefixState{Prefix: p, Calm: never})
		}
	}
	a.Prefixes = prefixes
	a.reindex()
	a.Verdicts = keep(a.Verdicts, func(v verdictState) bool {
		s, ok := a.Table.Service(v.Verdict.Service)
		return ok && slices.Contains(s.Sites, v.Verdict.Site)
	})
	a.Slots = keep(a.Slots, func(x slot) bool {
		p, ok := a.Table.Place(x.Site)
		return ok && p.has(x.ID.Node)
	})
	a.Orders = keep(a.Orders, func(o StandingOrder) bool {
		return slices.ContainsFunc(a.Units, func(u unitState) bool { return o.covers(u.Unit) })
	})
	a.settleNodeOrders()
	a.settleGone()
	a.settleMoves()
	a.settlePlans()
	a.Freezes = keep(a.Freezes, func(f StandingFreeze) bool {
		return f.Scope == Scope{} || slices.ContainsFunc(a.Units, func(u unitState) bool { return f.Scope.Covers(u.Unit) })
	})
}
