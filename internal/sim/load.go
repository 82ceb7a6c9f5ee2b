package sim

import (
	"cmp"
	"slices"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Load: each site's clients ask for so much, and go elsewhere when it leaves: by
// the table's spill rows as far as those say, and of the rest all to one site,
// which is the worst there is. Where no site states a capacity there is no load.

// loaded reports whether the table of the schedule counts load.
func (w *world) loaded() bool { return w.table.Sites[0].Capacity > 0 }

// gone are the places without a route, in the order in which they left.
func (w *world) gone() []*place {
	var out []*place
	for _, p := range w.places {
		if !p.witness && !p.speaker.out[0] {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *place) int { return cmp.Compare(w.judge.unit(a, 0).offAt, w.judge.unit(b, 0).offAt) })
	return out
}

// carried is what each place carries when some have left, one after the other:
// each leaves all that it carried then to those that are left.
func (w *world) carried(gone []*place) []int64 {
	load, here := make([]int64, len(w.places)), make([]bool, len(w.places))
	for i, p := range w.places {
		load[i], here[i] = p.demand, !p.witness
	}
	for _, p := range gone {
		here[p.i] = false
		left := load[p.i]
		for _, s := range w.table.Sites[p.i].Spill {
			if q := w.placeOf(s.Site); here[q.i] {
				part := load[p.i] * int64(s.Percent) / 100
				load[q.i] += part
				left -= part
			}
		}
		for k := range w.places { // the next one takes what nobody knows of
			if q := (p.i + 1 + k) % len(w.places); here[q] {
				load[q] += left
				break
			}
		}
		load[p.i] = 0
	}
	return load
}

// measure tells the machine what its site carries.
func (a *agent) measure() {
	if w := a.w; w.loaded() {
		a.step(decide.Loaded{Load: w.carried(w.gone())[a.p.i], From: a.now()})
	}
}

// bears: with one more gone, and all who were let go before, no site that the
// ledger counts carries more than its limit. What was lost, or left by hand, so
// lately that no report can show it, counts as being there.
func (j *judge) bears(u steadycast.Unit, certain bool, seen []decide.Seen) {
	w := j.w
	if !w.loaded() {
		return
	}
	leaver := w.placeOf(u.Site)
	gone := slices.DeleteFunc(w.gone(), func(p *place) bool { return p == leaver || j.believed(j.unit(p, 0)) })
	for _, p := range w.places { // let go, and not gone yet
		x := phaseOf(&j.view, w.unit(p, 0))
		if x != nil && p != leaver && x.Phase == steadycast.Out && p.speaker.out[0] && !p.byHand(steadycast.OrderAnnounce, w.prefixes[0]) {
			gone = append(gone, p)
		}
	}
	limit := int64(w.table.Guards.CapacityRed)
	if certain {
		limit = 100
	}
	load := w.carried(append(gone, leaver))
	for _, s := range seen {
		for _, site := range s.Announcing {
			p := w.placeOf(site)
			x := phaseOf(&j.view, w.unit(p, 0))
			if p == leaver || x == nil || x.Phase != steadycast.In || !p.speaker.out[0] {
				continue
			}
			pct := load[p.i] * 100 / w.table.Sites[p.i].Capacity
			j.holds(iLoad, pct <= limit, "%s may leave, and %s carries %d%% of its capacity then; limit %d%%", u, site, pct, limit)
		}
	}
}
