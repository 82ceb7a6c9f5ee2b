package decide

import (
	"fmt"

	"github.com/steadycast/steadycast"
)

// orderGuard: what people said stands above automation. An order decides alone;
// a service may also be told to act only with a person (mode approve), never
// (mode observe), or to return only when a person says so (return hold, only_new).
func (q *asking) orderGuard() verdictOf {
	u := q.u
	if o := q.orderOver(u.Unit); o != nil {
		if o.Order.Kind != steadycast.OrderAnnounce || q.action != steadycast.Return {
			return refuses(max(o.Until-q.LT, 0), fmt.Sprintf("clear the order: steadycast undrain %s", u.Unit),
				"%s ordered %s: %s", o.Order.Actor, o.Order.Kind, o.Order.Reason)
		}
		return pass("%s ordered announce", o.Order.Actor)
	}
	for _, i := range q.services(u.Unit) {
		s := &q.Table.Services[i]
		switch {
		case s.Mode == ModeObserve && q.needsPerson():
			verb := "withdraw"
			if q.action == steadycast.Return {
				verb = "announce"
			}
			return refuses(0, fmt.Sprintf("steadycast %s %s", verb, u.Unit),
				"service %s has mode observe: it only says what it would do", s.Name)
		}
	}
	if q.action == steadycast.Return && q.onHold() {
		if why := q.holds(u); why != "" {
			return refuses(0, fmt.Sprintf("steadycast announce %s", u.Unit), "%s", why)
		}
	}
	for _, i := range q.services(u.Unit) {
		if s := &q.Table.Services[i]; s.Mode == ModeApprove && q.needsPerson() {
			return q.approval(s.Name)
		}
	}
	return pass("no order stands over it")
}

// onHold: automation took the unit out, and no person has said that it may return.
func (q *asking) onHold() bool {
	return q.u.Phase == steadycast.Out && q.u.Auto && !q.u.Resumed && q.pardoned() == noPardon
}
