package decide

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// A ledger that is recovered from an older copy, in the random fleet: what the ledger
// allowed since is forgotten there, and so are the books; what is on the wire is not.

// fleetCopy is the machine as it was, with the books of then.
type fleetCopy struct {
	state  []byte
	grants []grant
	auto   map[steadycast.Unit]bool
	back   map[steadycast.Unit]bool
	cycles map[steadycast.Unit][]Time
	locked map[steadycast.Unit]bool
	life   map[steadycast.Unit][]moment
}

func (w *fleetWorld) keepCopy(*rapid.T) {
	w.copied = &fleetCopy{
		w.f.Snapshot(), slices.Clone(w.grants), maps.Clone(w.auto), maps.Clone(w.back), maps.Clone(w.cycles), maps.Clone(w.locked), map[steadycast.Unit][]moment{},
	}
	for u, life := range w.life {
		w.copied.life[u] = slices.Clone(life)
	}
}

// recover goes on from the copy. Nobody may act on anything in it.
func (w *fleetWorld) recover(t *rapid.T) {
	c := w.copied
	if c == nil {
		return
	}
	w.copied = nil
	if err := w.f.Restore(c.state); err != nil {
		t.Fatal(err)
	}
	w.grants, w.auto, w.back, w.cycles, w.locked, w.life = c.grants, c.auto, c.back, c.cycles, c.locked, c.life
	w.epoch++
	w.knows = map[string]bool{}
	e := w.entry(KindEpoch)
	e.Actor, e.Reason = "ann", "test"
	if r := w.apply(t, e); r.Invalid != "" || r.Refused != nil {
		t.Fatalf("%+v", r)
	}
	for _, u := range w.f.View().Units {
		if !u.Unheard || u.Order != steadycast.OrderNone || u.Decision != 0 || u.Frozen == "" {
			t.Fatalf("after a recovery %+v", u)
		}
	}
	for _, x := range w.f.Guards(Decide{Seen: w.seen(t)}) {
		if _, refused := x.Refusal(); !refused {
			t.Fatalf("after a recovery %s may %s", x.Unit, x.Permit.Action)
		}
	}
}

// learns: a site hears of the recovery, and carries out nothing of before any more.
func (w *fleetWorld) learns(t *rapid.T) { w.learn(w.site(t)) }

func (w *fleetWorld) learn(site string) {
	w.knows[site] = true
	maps.DeleteFunc(w.held, func(u steadycast.Unit, p steadycast.Permit) bool {
		return u.Site == site && p.Fence.Epoch < w.epoch
	})
}

// tellTruth: the ledger hears what a site announces that knows of the recovery. What was
// lost the site may have forgotten, with a disk; then it is lost by the ledger's word.
func (w *fleetWorld) tellTruth(t *rapid.T) {
	site := w.site(t)
	if w.epoch == 1 || !w.knows[site] {
		return
	}
	e := w.entry(KindReconcile)
	for _, u := range w.f.s.Units {
		if u.Unit.Site != site {
			continue
		}
		x := Truth{Unit: u.Unit, Announcing: w.on[u.Unit]}
		knows := rapid.IntRange(0, 4).Draw(t, "forgot") > 0
		x.Wanted = knows && !x.Announcing && w.lost[u.Unit]
		x.Left = knows && !x.Announcing && !w.lost[u.Unit]
		e.Truth = append(e.Truth, x)
	}
	w.apply(t, e)
	for _, x := range e.Truth {
		u := w.f.s.unit(x.Unit.Site, x.Unit.Prefix)
		if !w.unheard[x.Unit] {
			if u.Phase != w.phase[x.Unit] {
				t.Fatalf("%s was heard before, and is moved from %s to %s", x.Unit, w.phase[x.Unit], u.Phase)
			}
			continue
		}
		pinned := w.f.s.orderOver(x.Unit) != nil && w.f.s.orderOver(x.Unit).Order.Kind == steadycast.OrderAnnounce
		in := x.Announcing || x.Wanted || pinned || !x.Left && w.phase[x.Unit] == steadycast.In
		if u.Unheard || in != (u.Phase == steadycast.In) || u.Lost != (in && !x.Announcing) || u.Phase == steadycast.Returning {
			t.Fatalf("%+v is now %s, lost %t, unheard %t", x, u.Phase, u.Lost, u.Unheard)
		}
		switch {
		case x.Announcing || x.Wanted || pinned:
			w.back[x.Unit] = w.back[x.Unit] || w.auto[x.Unit]
			w.auto[x.Unit] = false
		case x.Left && w.phase[x.Unit] != steadycast.Out:
			w.auto[x.Unit] = true
		}
		if in && !x.Announcing {
			w.lost[x.Unit] = true
		}
		for _, o := range w.f.s.Orders {
			if there := x.Announcing || x.Wanted; o.binds(x.Unit) && o.Fence.Epoch < w.epoch && there == outBy(o.Order.Kind) {
				t.Fatalf("an order to %s of before the recovery binds %+v", o.Order.Kind, x)
			}
		}
	}
}
