package decide

import (
	"slices"

	"github.com/steadycast/steadycast"
)

// unheardText is why nothing is asked for a unit that is Unheard, and nothing done.
const unheardText = "the ledger was recovered from an older copy, and has not heard yet what is announced here"

// recovered notes, when the view of a recovered ledger comes, what was known before it:
// that a unit is out because the ledger had it so. The copy may not know that.
func (s *Site) recovered(u *unit, old UnitView) {
	switch {
	case !u.view.Unheard || u.announced:
		u.left = false
	case !old.Unheard:
		u.left = old.Ever && old.Phase != steadycast.In
	}
}

// stayAsIs: the phase is that of an older copy, and no reason to move a route; nor is an
// order that the ledger does not know any more reason to go on with a drain. What was
// lost against its will is announced again as ever, where it was in.
func (s *Site) stayAsIs(now Now, u *unit) {
	u.draining, u.emptying = false, false
	switch {
	case u.announced:
		u.reason = "kept: " + unheardText
	case u.view.Phase == steadycast.In && !u.left && u.aside == "" && !s.sentOutBefore(u):
		s.resume(now, u)
	default:
		u.reason = "not announced: " + unheardText
	}
}

// sentOutBefore: before the ledger was recovered a person had ordered this node out. That
// takes nothing away now; but what is out by it stays out: where the copy has the order,
// until it is given anew or ended, and where it does not, until automation goes on.
func (s *Site) sentOutBefore(u *unit) bool {
	if u.announced || !s.several() {
		return false
	}
	o, until := u.forgot, "automation is thawed"
	if i := slices.IndexFunc(s.view.NodeOrders, func(o StandingOrder) bool {
		return o.Recovered && outBy(o.Order.Kind) && o.over(s.me, u.id)
	}); i >= 0 {
		o, until = s.view.NodeOrders[i].Order, "the order is given anew or ended"
	}
	if o.Kind == steadycast.OrderNone {
		return false
	}
	u.reason = "not announced: " + o.Actor + " ordered this node out before the ledger was recovered, and it stays so until " + until
	return true
}

// forgets notes an order over this node that a recovered ledger does not know any more.
func (s *Site) forgets(u *unit, was steadycast.Order) {
	v := viewOf(&s.view, u.id)
	switch {
	case !v.Unheard && v.Frozen == "", u.mine.Kind != steadycast.OrderNone:
		u.forgot = steadycast.Order{}
	case v.Unheard && outBy(was.Kind) && !u.announced:
		u.forgot = was
	}
}
