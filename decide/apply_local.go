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
	if !a.known(o.Site, o.Prefixes...) || !a.explained(o.Actor, o.Reason) {
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
		if s := a.orderOver(u.Unit); s != nil {
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
	if o.Kind == steadycast.OrderAnnounce {
		a.orderAnnounce(o, units)
	} else {
		a.orderOut(o, units)
	}
	return ""
}
