package decide

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// order carries out a person's wish, whole or not at all.
func (a *applying) order(o steadycast.Order) string {
	if o.Kind != steadycast.OrderWithdraw && o.Kind != steadycast.OrderDrain && o.Kind != steadycast.OrderAnnounce {
		return fmt.Sprintf("order of kind %s; allowed: withdraw, drain, announce", o.Kind)
	}
	if o.For < 0 || lt(o.For) > maxTime {
		return fmt.Sprintf("an order for %s; give a positive time of at most %s, or none", o.For, wait(maxTime))
	}
	if o.Site == "" {
		a.refuse(wellFormed, "an order names its site; there is none for all sites at once", "")
		return ""
	}
	if !a.known(o.Site, o.Prefixes...) || !a.explained(o.Actor, o.Reason) {
		return ""
	}
	o.Prefixes = slices.Clone(o.Prefixes)
	slices.SortFunc(o.Prefixes, comparePrefix)
	o.Prefixes = slices.Compact(o.Prefixes)
	var units []*unitState
	for i := range a.Units {
		if u := &a.Units[i]; u.Unit.Site == o.Site && o.Covers(u.Unit.Prefix) {
			units = append(units, u)
		}
	}
	switch {
	case o.Node != "":
		a.orderNode(o, units)
	case o.Kind == steadycast.OrderAnnounce:
		a.orderAnnounce(o, units)
	default:
		a.orderOut(o, units)
	}
	return ""
}

// orderOut takes units out: withdraw at once, or drain, which is the same to
// the ledger; the site holds GSHUT (RFC 8326) for a while before it withdraws.
func (a *applying) orderOut(o steadycast.Order, units []*unitState) {
	for _, u := range units {
		q := asking{applying: a, r: steadycast.Request{Site: o.Site}, u: u, action: steadycast.Withdraw, sight: a.sees(u.Unit.Prefix), order: &o}
		r := Ruling{Unit: u.Unit, Guards: q.all()}
		if g, refused := r.Refusal(); refused && a.reply.Refused == nil {
			a.reply.Refused = &g
		}
		a.reply.Rulings = append(a.reply.Rulings, r)
	}
	if a.reply.Refused != nil {
		return
	}
	a.stand(o)
	for i, u := range units {
		from := u.Phase
		a.takeSite(o, u, &a.reply.Rulings[i])
		a.event(orderEvent(o, u, from.String(), o.Kind.String(), o.Reason))
	}
}

// orderAnnounce lets units go back to automation, owing nothing and unlocked:
// the site asks for the return when they are healthy. With Force it pins them:
// announced whatever their health until cleared, and returning at once.
func (a *applying) orderAnnounce(o steadycast.Order, units []*unitState) {
	if o.Force {
		a.stand(o)
	} else {
		a.lift(Scope{Site: o.Site}, o.Prefixes)
	}
	for _, u := range units {
		r := Ruling{Unit: u.Unit, Guards: []steadycast.GuardAnswer{{
			Guard: orderGuard, Pass: true, Text: fmt.Sprintf("%s ordered announce", o.Actor),
		}}}
		from, to := u.Phase.String(), "automatic"
		switch {
		case o.Force:
			to = "announce"
			p := a.bringIn(u)
			r.Permit = &p
		case u.Phase != steadycast.In || u.Unheard:
			u.Pardon, u.Locked, u.Cycles = sparesAll, false, nil
		}
		a.reply.Rulings = append(a.reply.Rulings, r)
		a.event(orderEvent(o, u, from, to, o.Reason))
	}
}

// bringIn lets a unit return at once. No site asked, so the id that its beats must
// prove is made here: incarnation 0, which no agent has.
func (a *applying) bringIn(u *unitState) steadycast.Permit {
	id := steadycast.RequestID{Seq: a.Fence.Index}
	u.Permit = steadycast.Permit{Unit: u.Unit, ID: id, Action: steadycast.Return, Fence: a.Fence}
	u.Depreferred, u.Guard = false, ""
	if u.Phase != steadycast.In {
		u.move(a.state, steadycast.Returning)
		u.Return = id
	}
	return u.Permit
}

func orderEvent(o steadycast.Order, u *unitState, from, to, reason string) steadycast.Event {
	if o.Force {
		reason += " (forced)"
	}
	return steadycast.Event{
		Kind: steadycast.EventOrder, Site: u.Unit.Site, Prefix: u.Unit.Prefix, Actor: o.Actor, From: from, To: to, Reason: reason,
	}
}

// stand makes an order the one over its units.
func (a *applying) stand(o steadycast.Order) {
	a.lift(Scope{Site: o.Site}, o.Prefixes)
	s := StandingOrder{Order: o, Fence: a.Fence}
	if o.For > 0 {
		s.Until = a.LT + max(lt(o.For), 1)
	}
	a.Orders = grow(a.Orders, s)
}

// lift takes every order off the units of a scope (and, if given, only off
// these prefixes), and returns what was lifted: a part of an order may stand on.
func (a *applying) lift(s Scope, prefixes []netip.Prefix) (lifted []steadycast.Unit) {
	a.Orders, lifted = a.without(a.Orders, func(_ *StandingOrder, u steadycast.Unit) bool {
		return s.Covers(u) && (len(prefixes) == 0 || slices.Contains(prefixes, u.Prefix))
	})
	return lifted
}

// without are orders without those parts of them that cover what is taken off.
func (s *state) without(orders []StandingOrder, off func(*StandingOrder, steadycast.Unit) bool) (stay []StandingOrder, lifted []steadycast.Unit) {
	for _, o := range orders {
		var left []netip.Prefix
		hit := false
		for i := range s.Units {
			switch u := s.Units[i].Unit; {
			case !o.covers(u):
			case off(&o, u):
				hit, lifted = true, append(lifted, u)
			default:
				left = append(left, u.Prefix)
			}
		}
		if hit {
			o.Order.Prefixes = left
		}
		if !hit || len(left) > 0 {
			stay = append(stay, o)
		}
	}
	return stay, lifted
}

func (o *StandingOrder) covers(u steadycast.Unit) bool {
	return o.Order.Site == u.Site && o.Order.Covers(u.Prefix)
}

// binds: it covers the unit, and is in force.
func (o *StandingOrder) binds(u steadycast.Unit) bool { return !o.Recovered && o.covers(u) }

// endOrders ends those whose time has come.
func (a *applying) endOrders() {
	for {
		i := slices.IndexFunc(a.Orders, func(o StandingOrder) bool { return o.Until != 0 && o.Until <= a.LT })
		if i < 0 {
			return
		}
		was := a.Orders[i]
		o := was.Order
		a.Orders = slices.Concat(a.Orders[:i], a.Orders[i+1:])
		for j := range a.Units {
			if u := &a.Units[j]; was.covers(u.Unit) {
				a.ended(u, &was)
				a.event(orderEvent(o, u, o.Kind.String(), "automatic", fmt.Sprintf("its %s are over", o.For)))
			}
		}
	}
}

// ended lets a unit return without owing what automation would owe.
func (a *applying) ended(u *unitState, o *StandingOrder) {
	if u.Phase == steadycast.Out && outBy(o.Order.Kind) && !o.Recovered && u.Pardon == noPardon {
		u.Pardon = sparesDamping
	}
}

// orderClear ends orders before their time.
func (a *applying) orderClear(s Scope) string {
	if !a.scope(s) || !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	if s.Node != "" {
		a.clearNode(s)
		return ""
	}
	was := a.Orders
	lifted := a.lift(s, nil)
	if len(lifted) == 0 {
		a.refuse(orderGuard, fmt.Sprintf("no order stands over %s", s), a.undrainNodes(s))
		return ""
	}
	for _, unit := range lifted {
		u := a.unit(unit.Site, unit.Prefix)
		for i := range was {
			if o := &was[i]; o.covers(unit) {
				a.ended(u, o)
				a.event(steadycast.Event{
					Kind: steadycast.EventOrder, Site: unit.Site, Prefix: unit.Prefix, Actor: a.e.Actor,
					From: o.Order.Kind.String(), To: "automatic", Reason: a.e.Reason,
				})
			}
		}
	}
	return ""
}
