package decide

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// Truth is what a site does about a unit, by its first word since a recovery: by fresh
// beats that rest on the new epoch, of one node that announces it or of all its nodes.
type Truth struct {
	Unit       steadycast.Unit `json:"unit"`
	Announcing bool            `json:"announcing,omitempty"`
	// It is not announced, and of what the site knew before the recovery that is so
	// against its will (Wanted), or because a permit or an order took it out (Left).
	// Without either nobody knows any more.
	Wanted bool `json:"wanted,omitempty"`
	Left   bool `json:"left,omitempty"`
	// On are the nodes of a site of several that announce it, Idle those that do not,
	// of those heard; each in order of name.
	On   []string `json:"on,omitempty"`
	Idle []string `json:"idle,omitempty"`
}

// reconcile takes sites' words for what they announce. Units of which the ledger knows
// better by now, because a person has moved them since, stay as they are.
//
//	            announces   wanted     left   nobody knows
//	In          in          in, lost   out    in, lost
//	Returning   in          in, lost   out    out
//	Out         in          in, lost   out    out
//
// An order that the copy has is in force again where it is carried out as it is, and
// moves nothing where it is not.
func (a *applying) reconcile(truth []Truth) string {
	for i, x := range truth {
		p, _ := a.Table.Place(x.Unit.Site)
		switch {
		case a.unit(x.Unit.Site, x.Unit.Prefix) == nil:
			return fmt.Sprintf("no unit %s", x.Unit)
		case x.Announcing && x.Wanted, x.Announcing && x.Left, x.Wanted && x.Left:
			return fmt.Sprintf("of %s two things are said, of which one can be", x.Unit)
		case i > 0 && truth[i-1].Unit.Compare(x.Unit) >= 0:
			return fmt.Sprintf("%s is out of order", x.Unit)
		}
		for _, n := range slices.Concat(x.On, x.Idle) {
			if n == "" || !p.has(n) {
				return fmt.Sprintf("%s has no node %s", x.Unit.Site, n)
			}
		}
	}
	truth = keep(truth, func(x Truth) bool { return a.unit(x.Unit.Site, x.Unit.Prefix).Unheard })
	a.Orders = a.rebind(a.Orders, truth)
	a.NodeOrders = a.rebind(a.NodeOrders, truth)
	for _, x := range truth {
		a.hear(x)
	}
	return ""
}

// hear moves one unit to what its site said.
func (a *applying) hear(x Truth) {
	u := a.unit(x.Unit.Site, x.Unit.Prefix)
	from, lost := u.Phase, u.Lost
	o := a.orderOver(u.Unit)
	pinned := o != nil && o.Order.Kind == steadycast.OrderAnnounce
	reason := "by what the site said first after the recovery: "
	switch {
	case x.Announcing, x.Wanted, pinned:
		if u.Auto { // and came back since
			u.Auto, u.Back = false, true
		}
		u.move(a.state, steadycast.In)
		u.Ever, u.Lost, u.Pardon = true, !x.Announcing, noPardon
		if reason += "it announces"; u.Lost {
			reason += ", or would, and no router hears it"
		}
	case x.Left && from != steadycast.Out:
		u.Permit = steadycast.Permit{Unit: u.Unit, Action: steadycast.Withdraw, Fence: a.Fence}
		u.Load = nil
		u.move(a.state, steadycast.Out)
		u.Auto, u.Resumed, u.Cool = true, false, a.LT
		reason += "it had left by a permit or an order"
	case from == steadycast.Returning:
		u.move(a.state, steadycast.Out)
		reason += "it does not announce yet"
	default:
		u.move(a.state, from)
		u.Lost = from == steadycast.In
		reason += "it does not announce, and nothing that it knows of told it to stop"
	}
	switch {
	case u.Lost && !lost:
		a.event(steadycast.Event{Kind: steadycast.EventAlarm, Site: u.Unit.Site, Prefix: u.Unit.Prefix, From: "announcing", To: "lost", Reason: reason})
	case lost && !u.Lost && u.Phase == steadycast.In:
		a.event(steadycast.Event{Kind: steadycast.EventRecovery, Site: u.Unit.Site, Prefix: u.Unit.Prefix, From: "lost", To: "announcing", Reason: reason})
	case u.Phase != from:
		a.event(steadycast.Event{Kind: steadycast.EventProof, Site: u.Unit.Site, Prefix: u.Unit.Prefix, From: from.String(), To: u.Phase.String(), Reason: reason})
	}
	for i := range a.Orders {
		if o := &a.Orders[i]; o.Recovered && o.covers(u.Unit) {
			a.event(steadycast.Event{
				Kind: steadycast.EventAlarm, Site: u.Unit.Site, Prefix: u.Unit.Prefix, Actor: o.Order.Actor, From: o.Order.Kind.String(), To: "from before the recovery",
				Reason: "the copy has this order, and it is not carried out: give it anew or end it. It was for: " + o.Order.Reason,
			})
		}
	}
}

// rebind puts those parts of an older copy's orders into force again that are carried
// out anyway.
func (a *applying) rebind(orders []StandingOrder, truth []Truth) []StandingOrder {
	var out []StandingOrder
	for _, o := range orders {
		var yes, no []netip.Prefix
		for i := range a.Units {
			switch u := a.Units[i].Unit; {
			case !o.Recovered || !o.covers(u):
			case slices.ContainsFunc(truth, func(x Truth) bool { return x.Unit == u && o.doneBy(x) }):
				yes = append(yes, u.Prefix)
			default:
				no = append(no, u.Prefix)
			}
		}
		switch done := o; {
		case len(yes) == 0:
			out = append(out, o)
		case len(no) == 0:
			done.Recovered = false
			out = append(out, done)
		default:
			done.Recovered, done.Order.Prefixes, o.Order.Prefixes = false, yes, no
			out = append(out, done, o)
		}
	}
	return out
}

// doneBy: what was heard is what the order wants.
func (o *StandingOrder) doneBy(x Truth) bool {
	switch {
	case o.Order.Node == "":
		return (x.Announcing || x.Wanted) != outBy(o.Order.Kind)
	case outBy(o.Order.Kind):
		return slices.Contains(x.Idle, o.Order.Node)
	default:
		return slices.Contains(x.On, o.Order.Node)
	}
}
