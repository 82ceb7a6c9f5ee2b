package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// An order on one node of a site of several. It stands beside those on sites, which
// say nothing of it, and it of them:
//
//	withdraw, drain   that node's routes leave by its siblings' promises ([Siblings]);
//	                  the site stays in, and its names lead to it as before
//	announce --force  it announces whatever its own instance says, while its site does
//	announce          ends what stands over the node
//
// The guard min_nodes counts, by fresh beats, who would go on announcing. Where
// nobody would, it is the site that leaves: its guards are asked, and its units go
// out with the order, as if the site had been ordered.

// SeenNodes is which nodes of a site announce these prefixes, by fresh beats.
type SeenNodes struct {
	Site       string         `json:"site"`
	Prefixes   []netip.Prefix `json:"prefixes"`
	Announcing []string       `json:"announcing,omitempty"` // in order of name
	// Unheard are those that said nothing lately: nobody knows whether they announce.
	Unheard []string `json:"unheard,omitempty"`
}

// Target is what the order is about, as a person writes it: SITE, or SITE/NODE.
func (s Scope) Target() string { return steadycast.Order{Site: s.Site, Node: s.Node}.Target() }

// outBy: an order takes it out.
func outBy(k steadycast.OrderKind) bool {
	return k == steadycast.OrderWithdraw || k == steadycast.OrderDrain
}

// over: the order is about that node and prefix.
func (o *StandingOrder) over(node string, u steadycast.Unit) bool {
	return o.Order.Node == node && o.covers(u)
}

// nodeOrderOver finds the order that stands over a node's part of a unit and binds it.
func (s *state) nodeOrderOver(node string, u steadycast.Unit) *StandingOrder {
	for i := range s.NodeOrders {
		if o := &s.NodeOrders[i]; !o.Recovered && o.over(node, u) {
			return o
		}
	}
	return nil
}

// TakenOut: orders take a node of a site of several out for every prefix of a service.
func (v *View) TakenOut(site, node, service string) bool {
	sv, _ := v.Table.Service(service)
	some := false
	for _, p := range sv.Prefixes {
		some = slices.ContainsFunc(v.NodeOrders, func(o StandingOrder) bool {
			return outBy(o.Order.Kind) && !o.Recovered && o.over(node, steadycast.Unit{Site: site, Prefix: p})
		})
		if !some {
			return false
		}
	}
	return some
}

// knownNode refuses an entry about a node that the table does not have, or that is
// all there is of its site.
func (a *applying) knownNode(site, node string) bool {
	p, _ := a.Table.Place(site)
	switch {
	case !p.several():
		a.refuse(wellFormed, fmt.Sprintf("%s has one node: what is ordered of it is ordered of the site", site), "")
	case node == "" || !p.has(node):
		var names []string
		for _, n := range p.Nodes {
			names = append(names, n.Name)
		}
		a.refuse(wellFormed, fmt.Sprintf("%s has no node %s; nodes: %s", site, node, list(names)), "")
	default:
		return true
	}
	return false
}

// nodesSeen are the nodes that announce a unit and that no order takes out, and those
// that may, by what the proposer saw.
func (a *applying) nodesSeen(u steadycast.Unit, except string) (announce, unheard []string) {
	if a.e.Decide == nil {
		return nil, nil
	}
	stays := func(node string) bool {
		o := a.nodeOrderOver(node, u)
		return node != except && (o == nil || !outBy(o.Order.Kind))
	}
	for _, x := range a.e.Decide.Nodes {
		if x.Site == u.Site && slices.Contains(x.Prefixes, u.Prefix) {
			announce, unheard = keep(x.Announcing, stays), keep(x.Unheard, stays)
		}
	}
	return announce, unheard
}

// orderNode carries out a person's wish of one node, whole or not at all.
func (a *applying) orderNode(o steadycast.Order, units []*unitState) {
	if !a.knownNode(o.Site, o.Node) {
		return
	}
	if outBy(o.Kind) {
		a.orderNodeOut(o, units)
		return
	}
	was, to := a.NodeOrders, "automatic"
	if o.Force {
		a.standNode(o)
		to = "announce"
	} else {
		a.liftNode(Scope{Site: o.Site, Node: o.Node}, o.Prefixes)
	}
	for _, u := range units {
		if a.freed(was, o.Node, u) {
			u.Pardon = sparesAll
		}
		a.reply.Rulings = append(a.reply.Rulings, Ruling{Unit: u.Unit, Guards: []steadycast.GuardAnswer{{
			Guard: orderGuard, Pass: true, Text: fmt.Sprintf("%s ordered announce", o.Actor),
		}}})
		a.event(nodeOrderEvent(o, u, "", to, o.Reason))
	}
}

// orderNodeOut takes a node's routes out; of units that nobody else would announce,
// the site's.
func (a *applying) orderNodeOut(o steadycast.Order, units []*unitState) {
	last := make([]bool, len(units))
	for i, u := range units {
		r := Ruling{Unit: u.Unit}
		var g steadycast.GuardAnswer
		g, last[i] = a.minNodes(o, u)
		r.Guards = append(r.Guards, g)
		if last[i] {
			site := o
			site.Node = ""
			q := asking{applying: a, r: steadycast.Request{Site: o.Site}, u: u, action: steadycast.Withdraw, sight: a.sees(u.Unit.Prefix), order: &site}
			r.Guards = append(r.Guards, q.all()...)
		}
		if g, refused := r.Refusal(); refused && a.reply.Refused == nil {
			a.reply.Refused = &g
		}
		a.reply.Rulings = append(a.reply.Rulings, r)
	}
	if a.reply.Refused != nil {
		return
	}
	a.standNode(o)
	for i, u := range units {
		from := u.Phase
		if last[i] {
			a.takeSite(o, u, &a.reply.Rulings[i])
		}
		a.event(nodeOrderEvent(o, u, from.String(), o.Kind.String(), o.Reason))
	}
}

// takeSite moves a unit out by order, its last node or the whole site.
func (a *applying) takeSite(o steadycast.Order, u *unitState, r *Ruling) {
	from := u.Phase
	u.Permit = steadycast.Permit{Unit: u.Unit, Action: steadycast.Withdraw, Fence: a.Fence}
	a.leave(u)
	if o.Kind == steadycast.OrderDrain {
		a.beginDrain(u, from)
	}
	u.Auto, u.Resumed, u.Pardon = false, false, noPardon
	p := u.Permit
	r.Permit = &p
}

// minNodes is the guard of that name, for an order on one node; last: nobody else
// announces, so the site leaves with it.
func (a *applying) minNodes(o steadycast.Order, u *unitState) (g steadycast.GuardAnswer, last bool) {
	place, _ := a.Table.Place(o.Site)
	least := place.leastNodes()
	target := o.Target() + " " + u.Unit.Prefix.String()
	g = steadycast.GuardAnswer{Guard: minNodesGuard, Override: fmt.Sprintf("steadycast %s %s --force: fewer nodes than min_nodes will announce it", o.Kind, target)}
	rest, unheard := a.nodesSeen(u.Unit, o.Node)
	switch {
	case u.gone():
		g.Pass, g.Text = true, fmt.Sprintf("%s: the site is not counted, so nobody is missed", u.Phase)
	case len(rest) < least && len(unheard) > 0:
		g.Text = fmt.Sprintf("%d other nodes of %s are known to announce %s, and nothing is heard of %s; min_nodes %d", len(rest), o.Site, u.Unit.Prefix, list(unheard), least)
	case len(rest) == 0:
		g.Pass, last = true, true
		g.Text = fmt.Sprintf("no other node of %s announces %s, so the site leaves with it, and its guards are asked", o.Site, u.Unit.Prefix)
	case len(rest) < least:
		g.Text = fmt.Sprintf("%d of %d nodes of %s would announce %s; min_nodes %d", len(rest), len(place.Nodes), o.Site, u.Unit.Prefix, least)
	default:
		g.Pass = true
		g.Text = fmt.Sprintf("%d of %d nodes of %s would announce %s; min_nodes %d", len(rest), len(place.Nodes), o.Site, u.Unit.Prefix, least)
	}
	if !g.Pass && o.Force {
		g.Pass, g.Text = true, g.Text+"; forced by "+o.Actor
	}
	if g.Pass {
		g.Override = ""
	}
	return g, last
}

// nodesNow says how many nodes of a site of several announce, and may go.
func (a *applying) nodesNow(u *unitState) (g steadycast.GuardAnswer, ok bool) {
	p, _ := a.Table.Place(u.Unit.Site)
	if !p.several() || u.gone() {
		return g, false
	}
	announce, unheard := a.nodesSeen(u.Unit, "")
	text := fmt.Sprintf("%d of %d nodes announce; min_nodes %d, so %d may leave without the site", len(announce), len(p.Nodes),
		p.leastNodes(), max(len(announce)-p.leastNodes(), 0))
	if len(unheard) > 0 {
		text += "; nothing heard of " + list(unheard)
	}
	return steadycast.GuardAnswer{Guard: minNodesGuard, Pass: true, Text: text}, true
}

func nodeOrderEvent(o steadycast.Order, u *unitState, from, to, reason string) steadycast.Event {
	e := orderEvent(o, u, from, to, reason)
	e.Node = o.Node
	return e
}

// standNode makes an order the one over its node.
func (a *applying) standNode(o steadycast.Order) {
	a.liftNode(Scope{Site: o.Site, Node: o.Node}, o.Prefixes)
	s := StandingOrder{Order: o, Fence: a.Fence}
	if o.For > 0 {
		s.Until = a.LT + max(lt(o.For), 1)
	}
	a.NodeOrders = grow(a.NodeOrders, s)
}

// liftNode takes every order off a node (and, if given, only off these prefixes), and
// returns what was lifted: a part of an order may stand on.
func (a *applying) liftNode(s Scope, prefixes []netip.Prefix) (lifted []steadycast.Unit) {
	a.NodeOrders, lifted = a.without(a.NodeOrders, func(o *StandingOrder, u steadycast.Unit) bool {
		return o.over(s.Node, u) && u.Site == s.Site && (!s.Prefix.IsValid() || s.Prefix == u.Prefix) &&
			(len(prefixes) == 0 || slices.Contains(prefixes, u.Prefix))
	})
	return lifted
}

// undrainNodes is how to end the orders that stand over single nodes in a scope, which
// those over sites do not touch; empty where there are none.
func (a *applying) undrainNodes(s Scope) string {
	var how []string
	for i := range a.NodeOrders {
		o := &a.NodeOrders[i]
		if slices.ContainsFunc(a.Units, func(u unitState) bool { return o.covers(u.Unit) && s.Covers(u.Unit) }) {
			how = append(how, "steadycast undrain "+o.Order.Target())
		}
	}
	slices.Sort(how)
	return strings.Join(slices.Compact(how), ", ")
}

// clearNode ends the orders over one node before their time.
func (a *applying) clearNode(s Scope) {
	if !a.knownNode(s.Site, s.Node) {
		return
	}
	was := a.NodeOrders
	lifted := a.liftNode(s, nil)
	if len(lifted) == 0 {
		a.refuse(orderGuard, fmt.Sprintf("no order stands over %s", s), "")
		return
	}
	for _, unit := range lifted {
		u := a.unit(unit.Site, unit.Prefix)
		for i := range was {
			if o := &was[i]; o.over(s.Node, unit) {
				e := nodeOrderEvent(o.Order, u, o.Order.Kind.String(), "automatic", a.e.Reason)
				e.Actor = a.e.Actor
				a.event(e)
			}
		}
		a.freed(was, s.Node, u)
	}
}

// endNodeOrders ends those whose time has come.
func (a *applying) endNodeOrders() {
	for {
		i := slices.IndexFunc(a.NodeOrders, func(o StandingOrder) bool { return o.Until != 0 && o.Until <= a.LT })
		if i < 0 {
			return
		}
		was := a.NodeOrders
		o := was[i].Order
		a.NodeOrders = slices.Concat(was[:i], was[i+1:])
		for j := range a.Units {
			if u := &a.Units[j]; was[i].covers(u.Unit) {
				a.freed(was, o.Node, u)
				a.event(nodeOrderEvent(o, u, o.Kind.String(), "automatic", fmt.Sprintf("its %s are over", o.For)))
			}
		}
	}
}

// freed lets a unit that went out with the last of its nodes, by an order that stood
// over that node and does no more, return without owing what automation would owe.
func (a *applying) freed(was []StandingOrder, node string, u *unitState) bool {
	for i := range was {
		if o := &was[i]; o.over(node, u.Unit) && o.Fence == u.Permit.Fence && u.Phase == steadycast.Out {
			a.ended(u, o)
			return true
		}
	}
	return false
}

// settleNodeOrders ends those over nodes that are no longer one of several. Where such
// a node was the last of its site, the site may return without owing what automation
// would owe.
func (a *applying) settleNodeOrders() {
	was := a.NodeOrders
	stays := func(o StandingOrder) bool {
		p, _ := a.Table.Place(o.Order.Site)
		return p.several() && p.has(o.Order.Node) && slices.ContainsFunc(a.Units, func(u unitState) bool { return o.covers(u.Unit) })
	}
	a.NodeOrders = keep(a.NodeOrders, stays)
	for i := range was {
		if stays(was[i]) {
			continue
		}
		o := was[i].Order
		for j := range a.Units {
			if u := &a.Units[j]; was[i].covers(u.Unit) {
				a.freed(was, o.Node, u)
				a.event(nodeOrderEvent(o, u, o.Kind.String(), "automatic", "by the table it is no longer one of several nodes"))
			}
		}
	}
}

// soundNodeOrders checks of a snapshot what this code relies on.
func (s *state) soundNodeOrders() error {
	for _, o := range s.NodeOrders {
		if p, _ := s.Table.Place(o.Order.Site); o.Order.Node == "" || !p.several() || !p.has(o.Order.Node) {
			return fmt.Errorf("an order over %s, which is no node of a site of several", o.Order.Target())
		}
	}
	return nil
}

// keepsNodes refuses a table that leaves a site with fewer nodes that announce now than
// must: a node that is only in the table answers nobody.
func (a *applying) keepsNodes(t Table) bool {
	for i := range a.Units {
		u := a.Units[i].Unit
		p, stays := t.Place(u.Site)
		old, _ := a.Table.Place(u.Site)
		was, _ := a.nodesSeen(u, "")
		if !stays || p.Witness || len(p.Nodes) == 0 || len(was) == 0 || !slices.Contains(t.PrefixesAt(u.Site), u.Prefix) {
			continue
		}
		stay := len(keep(was, p.has))
		if least := p.leastNodes(); stay < least && (stay < len(was) || least > old.leastNodes()) {
			a.refuse(minNodesGuard, fmt.Sprintf("%d of the %d nodes of %s that announce %s now would after revision %d; min_nodes %d",
				stay, len(was), u.Site, u.Prefix, t.Revision, least),
				"let the nodes that are to stay announce first, or raise min_nodes in a revision of its own, or --force")
			return false
		}
	}
	return true
}
