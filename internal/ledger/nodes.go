package ledger

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// nodes is which nodes of some sites announce what, by their own fresh beats. Who was
// not heard may announce or not.
func (l *leader) nodes(now time.Duration, counts func(decide.Place) bool) (out []decide.SeenNodes) {
	fresh := l.fresh(now)
	for _, p := range l.view.Table.Sites {
		if !counts(p) {
			continue
		}
		var c chorus
		if i := slices.IndexFunc(fresh, func(c chorus) bool { return c[0].Site == p.Name }); i >= 0 {
			c = fresh[i]
		}
		first := len(out)
		for _, u := range l.view.Units {
			if u.Unit.Site != p.Name {
				continue
			}
			x := nodesAt(p, c, u.Unit, u.Phase == steadycast.In || u.Unheard)
			if i := slices.IndexFunc(out[first:], func(y decide.SeenNodes) bool {
				return slices.Equal(x.Announcing, y.Announcing) && slices.Equal(x.Unheard, y.Unheard)
			}); i >= 0 {
				out[first+i].Prefixes = append(out[first+i].Prefixes, u.Unit.Prefix)
			} else {
				out = append(out, x)
			}
		}
	}
	return out
}

// several: the site has more than one node.
func several(p decide.Place) bool { return len(p.Nodes) > 1 }

// countsNodes tells of which sites an entry counts the nodes: the one whose node is ordered out; and where a
// table comes into force, all that have several nodes, or are to have.
func (l *leader) countsNodes(e *decide.Entry) func(decide.Place) bool {
	order, next := e.Order, e.Table
	if e.Signed != nil {
		if w, err := e.Signed.Wish(); err == nil {
			order, next = w.Order, w.Table
		}
	}
	if next == nil && l.view.Staged != nil {
		next = &l.view.Staged.Table
	}
	return func(p decide.Place) bool {
		switch e.Kind {
		case decide.KindOrder, decide.KindLocal:
			return order != nil && order.Node != "" && order.Site == p.Name
		case decide.KindStage, decide.KindActivate, decide.KindRevert:
			if len(p.Nodes) == 1 && next != nil {
				n, _ := next.Place(p.Name)
				return n.MinNodes > 1
			}
			return several(p)
		}
		return false
	}
}

// nodesAt is what the nodes of one site say of one unit. The only node of a site says
// it without its name.
func nodesAt(p decide.Place, c chorus, u steadycast.Unit, in bool) decide.SeenNodes {
	x := decide.SeenNodes{Site: p.Name, Prefixes: []netip.Prefix{u.Prefix}}
	for _, n := range p.Nodes {
		i := slices.IndexFunc(c, func(b decide.Beat) bool { return b.Node == n.Name || len(p.Nodes) == 1 && b.Node == "" })
		switch {
		case i < 0:
			x.Unheard = append(x.Unheard, n.Name)
		case in && slices.Contains(c[i].Announcing, u):
			x.Announcing = append(x.Announcing, n.Name)
		}
	}
	slices.Sort(x.Announcing)
	slices.Sort(x.Unheard)
	return x
}
