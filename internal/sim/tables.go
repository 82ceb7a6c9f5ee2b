package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// tables is what people know of the tables that they made. Each new content has
// another MED on every prefix, by which the judge tells it on the wire.
type tables struct {
	med uint32
	was []decide.Table // each that was staged
}

// reviseTable stages a new table, or the content of an earlier one, and activates
// it when every node has said yes. Some nodes cannot carry it out; then a person
// lets them go without, or leaves it.
func (w *world) reviseTable(f *fault) {
	for i, p := range w.places {
		p.unfit = f.x>>(20+2*i)&15 == 0
	}
	t := &w.people.tables
	var next decide.Table
	if n := len(t.was); n > 1 && f.x&3 == 0 {
		next = t.was[int(f.x>>8%uint64(n-1))]
		w.judge.happen("rolled back")
	} else {
		t.med++
		med := t.med
		next = w.inForce()
		next.Prefixes = slices.Clone(next.Prefixes)
		for i := range next.Prefixes {
			next.Prefixes[i].MED = &med
		}
	}
	w.apply(next, f.x>>4&1 == 0)
}

// apply stages a table and brings it into force.
func (w *world) apply(next decide.Table, waive bool) {
	next.Revision = 0
	w.people.tables.was = append(w.people.tables.was, next)
	w.wish(theAdmin, decide.KindStage, "another table", func(x *decide.Wish) { x.Table = &next })
	tries := 0
	var look func()
	look = func() {
		d := w.leader()
		if tries++; tries > 20 {
			return
		}
		w.in(2*time.Second, look)
		if d == nil || d.v.view.Staged == nil {
			return
		}
		v := d.v.view
		var waived []string
		switch {
		case w.is(activateUnasked):
			for _, s := range v.Table.Sites {
				waived = append(waived, s.Name)
			}
		case len(v.Unready) > 0 && (!waive || tries < 10):
			return
		case len(v.Unready) > 0:
			waived = v.Table.Announcers()
		}
		w.wish(theAdmin, decide.KindActivate, "all have said yes", func(x *decide.Wish) {
			x.Revision, x.Waive = v.Staged.Table.Revision, waived
		})
	}
	w.in(2*time.Second, look)
}

// try says of the table that is staged what it would do here, until the ledger
// has noted it.
func (a *agent) try() {
	v := a.client.shown
	if v == nil || v.Staged == nil {
		return
	}
	k := decide.Ack{Revision: v.Staged.Table.Revision, Site: a.p.name, Node: a.p.node}
	if a.p.unfit {
		k.Refusal = "a program is missing"
	}
	if acked(v, k) {
		return
	}
	a.w.judge.said(a.p, k)
	a.client.tell(call{ack: &k})
}

// said notes whether a node said yes of a staged table.
func (j *judge) said(p *place, k decide.Ack) {
	key := fmt.Sprint(p.s, k.Revision)
	j.yes[key] = j.yes[key] || k.Refusal == ""
}

// activated: a table comes into force by the word of everybody who announces, or
// of a person who goes without.
func (j *judge) activated(before *decide.View, e decide.Entry) {
	waived := e.Waive
	if j.w.is(activateUnasked) {
		waived = nil
	}
	for _, u := range before.Units {
		if u.Phase != steadycast.In || u.Lost || slices.Contains(waived, u.Unit.Site) {
			continue
		}
		p := j.w.placeOf(u.Unit.Site)
		j.holds(iStaged, j.yes[fmt.Sprint(p.s, e.Revision)], "revision %d comes into force, and %s, which announces, has not said yes", e.Revision, p.name)
	}
}

// medOf is by what MED a table is known; 0 for the first.
func medOf(t decide.Table) int64 {
	for _, p := range t.Prefixes {
		if p.MED != nil {
			return int64(*p.MED)
		}
	}
	return 0
}

// force notes which table is in force from now on.
func (j *judge) force(v decide.View) {
	if m := medOf(v.Table); len(j.tables) == 0 || j.tables[len(j.tables)-1] != m {
		j.tables = append(j.tables, m)
	}
}

// oneTable: what a set rests on is one table, and no earlier one than before.
func (j *judge) oneTable(a *agent, set steadycast.RouteSet) {
	least, most := int64(1<<40), int64(-1)
	for _, r := range set.Routes {
		m := int64(0)
		if r.MED != nil {
			m = int64(*r.MED)
		}
		least, most = min(least, m), max(most, m)
	}
	if most < 0 || len(j.tables) == 0 {
		return
	}
	j.holds(iTable, least == most, "%s: a set with MED %d and %d", a.p.name, least, most)
	k := slices.Index(j.tables[a.table:], least)
	if j.holds(iTable, k >= 0, "%s: a set with MED %d after one with %d; in force were %v", a.p.name, least, j.tables[a.table], j.tables) {
		a.table += k
	}
}
