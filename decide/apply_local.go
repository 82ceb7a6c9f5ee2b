package decide

import (
	"fmt"
	"net/netip"

	"github.com/steadycast/steadycast"
)

// local records what a person did at a node while it had no ledger: it has
// happened, so no guard is asked. Where an order stands over a unit already, that
// one was signed, and stays; the site follows it.
func (a *applying) local(o steadycast.Order) string {
	if o.Kind != steadycast.OrderWithdraw && o.Kind != steadycast.OrderAnnounce || o.For != 0 {
		return "what was done at a node is to withdraw or to announce, until it is cleared"
	}
	if !a.known(o.Site, o.Prefixes...) || o.Node != "" && !a.knownNode(o.Site, o.Node) || !a.explained(o.Actor, o.Reason) {
		return ""
	}
	var units []*unitState
	var prefixes []netip.Prefix
	standing := ""
	for i := range a.Units {
		u := &a.Units[i]
		if u.Unit.Site != o.Site || !o.Covers(u.Unit.Prefix) {
			continue
		}
		s := a.orderOver(u.Unit)
		if o.Node != "" && s == nil {
			s = a.nodeOrderOver(o.Node, u.Unit)
		}
		if s != nil {
			standing = fmt.Sprintf("%s ordered %s: %s", s.Order.Actor, s.Order.Kind, s.Order.Reason)
			continue
		}
		units, prefixes = append(units, u), append(prefixes, u.Unit.Prefix)
	}
	if len(units) == 0 {
		a.refuse(orderGuard, fmt.Sprintf("an order stands over %s already, and stays: %s", o.Site, standing), "")
		return ""
	}
	o.Force, o.Prefixes = true, prefixes
	switch {
	case o.Node != "":
		a.localNode(o, units)
	case o.Kind == steadycast.OrderAnnounce:
		a.orderAnnounce(o, units)
	default:
		a.orderOut(o, units)
	}
	return ""
}

// localNode records it of one node of several, and moves no other: who else announces
// is not known in the moment in which a ledger is back. What it announces although its
// site is out is announced by the site, which is on its way back by that.
func (a *applying) localNode(o steadycast.Order, units []*unitState) {
	a.standNode(o)
	for _, u := range units {
		from := u.Phase
		if o.Kind == steadycast.OrderAnnounce && from == steadycast.Out {
			a.bringIn(u)
		}
		a.event(nodeOrderEvent(o, u, from.String(), o.Kind.String(), o.Reason))
	}
}
