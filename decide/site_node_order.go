package decide

import (
	"fmt"

	"github.com/steadycast/steadycast"
)

// What a person ordered of this node alone. It goes as its siblings let it: they
// promise to stay, as when its instance had died, but nobody has to see it fail, and
// what damps automation (a quarter in ten minutes) does not bind it.

// ordered takes from a view what people ordered of single nodes of this site.
func (s *Site) ordered() {
	for i := range s.units {
		u := &s.units[i]
		was := u.mine
		u.mine = s.mineOf(u)
		s.forgets(u, was)
		if was.Kind != u.mine.Kind && u.announced && u.mine.Kind == steadycast.OrderNone {
			u.reason = "no order stands over this node any more"
			if u.draining && u.view.Order == steadycast.OrderNone {
				u.draining = false
				s.route(u, "draining", "announced")
			}
		}
	}
	for i := range s.services {
		h := &s.services[i].jury.home
		h.away = make([]bool, len(h.nodes))
		for k := range h.nodes {
			h.away[k] = s.view.TakenOut(s.name, h.nodes[k].name, s.services[i].conf.Name)
		}
	}
}

// mineOf is the order that stands over this node's part of a unit. What was done here
// without the ledger stands above it.
func (s *Site) mineOf(u *unit) steadycast.Order {
	if s.me == "" || s.local != nil && s.local.Covers(u.id.Prefix) {
		return steadycast.Order{}
	}
	return s.nodeOrder(s.me, u.id)
}

func (s *Site) nodeOrder(node string, u steadycast.Unit) steadycast.Order {
	for i := range s.view.NodeOrders {
		if o := &s.view.NodeOrders[i]; !o.Recovered && o.over(node, u) {
			return o.Order
		}
	}
	return steadycast.Order{}
}

// sentOut: a person wants this node's routes of the unit out.
func (u *unit) sentOut() bool { return u.kin != nil && outBy(u.mine.Kind) }

// goOut takes this node's routes out by order:
//
//	withdraw   promises ──▶ withdrawn
//	drain      promises ──▶ GSHUT, drain_wait ──▶ promises ──▶ withdrawn
//
// Its siblings are asked in node; with --force nobody is. The mark, too, waits for
// them, since it sends the traffic there; and it ends if they have none left then.
func (s *Site) goOut(now Now, u *unit) {
	switch {
	case !u.announced:
		u.reason = mineText(u, doneText(u.mine.Kind))
	case u.draining && u.mine.Kind == steadycast.OrderDrain && now < u.leaveAt && s.well(u, func(sv *service) bool { return !sv.dead(now) }):
	default:
		u.goes = true
		if !u.draining {
			u.reason = mineText(u, "to leave, as soon as enough of its siblings promise to stay,")
		}
	}
}

// went: the siblings let it go.
func (s *Site) went(now Now, u *unit, why string) {
	u.goes = false
	if u.mine.Kind == steadycast.OrderDrain && !u.draining {
		u.draining, u.leaveAt = true, now+s.table.DrainWait
		u.reason = mineText(u, "draining") + " (" + why + ")"
		s.route(u, "announced", "draining")
		return
	}
	s.takeOut(u, mineText(u, doneText(u.mine.Kind))+" ("+why+")")
}

// kept: they do not, for now.
func (s *Site) kept(u *unit) {
	if u.draining {
		u.draining = false
		u.reason = mineText(u, "to leave, and no more draining since too few of its siblings promise to stay,")
		s.route(u, "draining", "announced")
	}
}

func doneText(k steadycast.OrderKind) string {
	if k == steadycast.OrderDrain {
		return "drained"
	}
	return "withdrawn"
}

// mineText says whose order it is, beside what it does.
func mineText(u *unit, done string) string {
	return fmt.Sprintf("%s by order of %s over this node: %s", done, u.mine.Actor, u.mine.Reason)
}
