package decide

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// The test's own books: a second, naive account of what the machine allowed,
// against which the invariants are held. Numbers are those of the protocol.

// book enters one reply.
func (w *fleetWorld) book(t *rapid.T, e Entry, r Reply) {
	for _, ans := range r.Answers {
		for _, ru := range ans.Rulings {
			if ru.Permit != nil && ru.Permit.Fence == r.Fence {
				w.permit(t, r, *ru.Permit)
			}
		}
	}
	switch {
	case r.Invalid != "" || r.Refused != nil:
	case e.Kind == KindVoid:
		w.voided(*e.Give)
	case e.Kind == KindIn:
		u := e.Return.Unit
		w.back[u] = w.back[u] || w.auto[u]
		w.auto[u] = false
	case e.Kind == KindOrder:
		w.ordered(t, *e.Order, r)
	case e.Kind == KindUnlock:
		for u := range w.locked {
			if e.Scope.Covers(u) && w.locked[u] {
				w.locked[u], w.cycles[u] = false, nil
			}
		}
	}
}

// permit enters a new permit of automation.
func (w *fleetWorld) permit(t *rapid.T, r Reply, p steadycast.Permit) {
	key := fmt.Sprint(p.Unit, p.ID)
	if f, ok := w.used[key]; ok { // I3
		if f != p.Fence {
			t.Fatalf("%s has permit %s already, now %s", key, f, p.Fence)
		}
		return // the same request twice in one entry
	}
	w.used[key] = p.Fence
	if w.unheard[p.Unit] {
		t.Fatalf("%s was permitted to %s by a phase of before a recovery", p.Unit, p.Action)
	}
	if p.Action == steadycast.Deprefer {
		return // it takes nothing away
	}
	if w.locked[p.Unit] { // I14
		t.Fatalf("%s is locked and was permitted to %s", p.Unit, p.Action)
	}
	if p.Action == steadycast.Withdraw {
		w.leaves(t, p.Unit)
		w.charge(t, grant{r.LT, p.Unit, p.ID})
		w.auto[p.Unit] = true
	}
	w.held[p.Unit] = p
}

// leaves is I1 and I1h: who would still announce if every permit given so far
// were carried out, by what really is.
func (w *fleetWorld) leaves(t *rapid.T, u steadycast.Unit) {
	if w.phase[u] != steadycast.In && !w.unheard[u] {
		return // it was not counted, so nobody is missed
	}
	others, healthy := 0, 0
	for _, site := range w.t.SitesOf(u.Prefix) {
		o := steadycast.Unit{Site: site, Prefix: u.Prefix}
		if site != u.Site && w.on[o] && w.held[o].Action != steadycast.Withdraw {
			others++
			if w.f.s.health(o).ok {
				healthy++
			}
		}
	}
	if floor := w.t.Floor(u.Prefix); others < floor {
		t.Fatalf("%s may leave and %d others announce; floor %d", u, others, floor)
	}
	if floor := w.t.HealthyFloor(u.Prefix); healthy < floor {
		t.Fatalf("%s may leave and %d healthy others announce; floor %d", u, healthy, floor)
	}
}

// charge is I2: no window holds more than its budget, for the fleet and for each
// unit; and it counts the cycles for I14.
func (w *fleetWorld) charge(t *rapid.T, last grant) {
	g, u := w.t.Guards, last.u
	w.grants = append(w.grants, last)
	fleet, unit, long := map[string]bool{}, 0, 0
	for _, x := range w.grants {
		age := last.lt - x.lt
		if age < lt(g.FleetWindow) {
			fleet[fmt.Sprint(x.u.Site, x.id)] = true
		}
		if x.u == u && age < lt(g.SiteWindow) {
			unit++
		}
		if x.u == u && age < lt(g.SiteLongWindow) {
			long++
		}
	}
	alone := len(w.t.Announcers()) == 1 // no fleet, and no budget of one
	if len(fleet) > g.FleetBudget && !alone || unit > g.SiteBudget || long > g.SiteLongBudget {
		t.Fatalf("%d withdrawals of the fleet, %d and %d of %s within their windows", len(fleet), unit, long, u)
	}
	if w.back[u] {
		w.back[u] = false
		w.cycles[u] = append(w.cycles[u], last.lt)
		young := 0
		for _, at := range w.cycles[u] {
			if last.lt-at < lt(g.LockWindow) {
				young++
			}
		}
		w.locked[u] = young >= g.LockCycles
	}
}

// voided takes back what its holder gave up.
func (w *fleetWorld) voided(g GiveUpEntry) {
	for _, u := range g.Units {
		if w.phase[u] != steadycast.Out || w.f.s.unit(u.Site, u.Prefix).Phase != steadycast.In {
			continue
		}
		id := w.held[u].ID
		i := slices.IndexFunc(w.grants, func(x grant) bool { return x.u == u && x.id == id })
		at := w.grants[i].lt
		w.grants = slices.Delete(w.grants, i, i+1)
		if c := w.cycles[u]; len(c) > 0 && c[len(c)-1] == at {
			w.cycles[u], w.back[u], w.locked[u] = c[:len(c)-1], true, false
		}
		w.auto[u] = false
		delete(w.held, u)
	}
}

// ordered enters a person's order: floors bind it too unless it is forced, and
// then who and why are on record (I17).
func (w *fleetWorld) ordered(t *rapid.T, o steadycast.Order, r Reply) {
	for _, ru := range r.Rulings {
		u := ru.Unit
		if o.Kind == steadycast.OrderAnnounce {
			if ru.Permit != nil {
				w.held[u] = *ru.Permit
			} else if w.phase[u] != steadycast.In || w.unheard[u] {
				w.locked[u], w.cycles[u] = false, nil
			}
			continue
		}
		if !o.Force {
			w.leaves(t, u)
		}
		w.auto[u], w.held[u] = false, *ru.Permit
	}
	for _, ev := range r.Events {
		if ev.Kind == steadycast.EventOrder && (ev.Actor == "" || ev.Reason == "" || o.Force != strings.HasSuffix(ev.Reason, "(forced)")) {
			t.Fatalf("the record of the order is %+v", ev)
		}
	}
}

// check holds after every step.
func (w *fleetWorld) check(t *rapid.T) {
	if err := w.f.s.sound(); err != nil {
		t.Fatal(err)
	}
	v := w.f.View()
	for _, u := range v.Units {
		if u.Phase == steadycast.In && !u.Unheard && !w.on[u.Unit] && !w.lost[u.Unit] { // I10
			t.Fatalf("%s is in, does not announce and was not lost", u.Unit)
		}
		if u.Locked != w.locked[u.Unit] {
			t.Fatalf("%s: locked %t, by the test's own counting %t", u.Unit, u.Locked, w.locked[u.Unit])
		}
		orders := 0
		for _, o := range v.Orders {
			if o.covers(u.Unit) {
				orders++
			}
		}
		if orders > 1 {
			t.Fatalf("%d orders stand over %s", orders, u.Unit)
		}
	}
}
