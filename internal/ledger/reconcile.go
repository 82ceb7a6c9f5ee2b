package ledger

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// reconcile tells the machine what sites announce, where it was recovered and has not
// heard that yet: by their fresh beats, and only by those that rest on the new epoch.
// Who said them knows of the recovery, and carries out nothing that was granted before.
func (l *leader) reconcile(now time.Duration) (decide.Entry, bool) {
	if !slices.ContainsFunc(l.view.Units, func(u decide.UnitView) bool { return u.Unheard }) {
		return decide.Entry{}, false
	}
	var truth []decide.Truth
	for _, c := range l.fresh(now) {
		c = slices.DeleteFunc(c, func(b decide.Beat) bool { return b.At.Epoch < l.view.Fence.Epoch })
		if len(c) == 0 {
			continue
		}
		place, _ := l.view.Table.Place(c[0].Site)
		for _, u := range l.view.Units {
			if u.Unit.Site != c[0].Site || !u.Unheard {
				continue
			}
			if x, ok := c.truth(place, u); ok {
				truth = append(truth, x)
			}
		}
	}
	if len(truth) == 0 {
		return decide.Entry{}, false
	}
	e := l.entry(now, decide.KindReconcile)
	e.Truth = truth
	return e, true
}

// truth is what nodes of one site say together of a unit. That none announces it only
// all of them can say.
func (c chorus) truth(p decide.Place, u decide.UnitView) (x decide.Truth, ok bool) {
	x.Unit = u.Unit
	if several(p) {
		c = slices.DeleteFunc(slices.Clone(c), func(b decide.Beat) bool {
			return !slices.ContainsFunc(p.Nodes, func(n decide.Node) bool { return n.Name == b.Node })
		})
	}
	for _, b := range c {
		on := slices.Contains(b.Announcing, u.Unit)
		x.Announcing = x.Announcing || on
		x.Wanted = x.Wanted || slices.Contains(b.Wanted, u.Unit)
		x.Left = x.Left || slices.Contains(b.Left, u.Unit)
		switch {
		case !several(p):
		case on:
			x.On = append(x.On, b.Node)
		default:
			x.Idle = append(x.Idle, b.Node)
		}
	}
	x.Wanted = x.Wanted && !x.Announcing
	x.Left = x.Left && !x.Announcing && !x.Wanted
	return x, x.Announcing || len(c) >= max(len(p.Nodes), 1)
}
