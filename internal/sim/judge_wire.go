package sim

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// changed judges a route that appeared on the wire or vanished from it.
func (j *judge) changed(p *place, prefix int, on bool, why cause) {
	w, h, own := j.w, j.unit(p, prefix), j.host(p, prefix)
	w.mix(uint64(p.i)<<8 | uint64(prefix)<<1)
	w.say("%s: wire %s announced=%v", p.node, w.prefixes[prefix], on)
	if p.several() && j.ofNode(p, prefix, on, &why) {
		return // the site as a whole announces it as before
	}
	if on {
		if why.kind == byNobody { // the speaker was gone when it was decided, say
			why = own.added
		}
		if why.kind == byResume {
			j.resumed(p, prefix, h, why)
		}
		own.added, own.removed = cause{}, cause{}
		if h.onPurpose {
			j.holds(iAttributes, why.kind != byNobody || w.now-h.offAt > time.Second, "%s %s was withdrawn for %v, and nobody decided so", p.name, w.prefixes[prefix], w.now-h.offAt)
			j.holds(iRestart, why.kind != byNobody, "%s announces %s again, and nobody decided so", p.name, w.prefixes[prefix])
		}
		if why.kind == byReturn {
			j.holds(iLock, !h.locked, "%s %s returns after %d cycles, and no person unlocked it", p.name, w.prefixes[prefix], len(h.cycles))
			j.happen("returned")
		}
		j.holds(iHand, !p.byHand(steadycast.OrderWithdraw, w.prefixes[prefix]), "%s announces %s, which a person at the node withdrew", p.name, w.prefixes[prefix])
		h.onPurpose, h.forced, h.lost, h.forgotten, h.hand = false, false, false, false, false
		return
	}
	h.offAt = w.now
	if why.kind == byNobody { // the set that said so was overtaken by the next
		why = own.removed
	}
	switch why.kind {
	case byLoss, byRestart:
		h.lost, h.lostAt = true, w.now
		j.happen("lost against its will")
		return
	case byMutation:
		j.holds(iDeath, false, "%s loses %s: %s", p.name, w.prefixes[prefix], why.reason)
		return
	case byNobody:
		j.holds(iAttributes, false, "%s: %s vanishes from the wire for a change of attributes", p.name, w.prefixes[prefix])
	}
	j.holds(iHand, !p.byHand(steadycast.OrderAnnounce, w.prefixes[prefix]), "%s withdraws %s, which a person at the node announced: %s", p.name, w.prefixes[prefix], why.reason)
	h.onPurpose, h.lost, h.hand = true, false, p.byHand(steadycast.OrderWithdraw, w.prefixes[prefix])
	if why.kind == byPermit || why.kind == bySite || why.kind == byUpgrade {
		j.floors(p, prefix, why.id)
	} else {
		j.happen("withdrawn by a person's order")
	}
	h.forced = h.hand || why.kind == byOrder && j.forcedOut(p, prefix) || (why.kind == byPhase || why.kind == byOrder) && h.forcing
	j.purposes(prefix)
	if u := phaseOf(&j.view, w.unit(p, prefix)); u != nil && !u.Unheard && !h.hand {
		j.holds(iCounted, u.Phase != steadycast.In, "%s left on purpose and the ledger counts it in", u.Unit)
	}
}

// floors: who is left when an automatic withdrawal reaches the wire.
func (j *judge) floors(p *place, prefix int, id steadycast.RequestID) {
	w := j.w
	left, healthy := 0, 0
	for _, q := range w.sites() {
		if q.s == p.s || q.witness {
			continue
		}
		h := j.unit(q, prefix)
		if !q.out(prefix) && !j.believed(h) {
			continue
		}
		left++
		if j.well(q, prefix) {
			healthy++
		}
	}
	floor, least := w.table.Floor(w.prefixes[prefix]), w.table.HealthyFloor(w.prefixes[prefix])
	got := j.grants[grantKey{w.unit(p, prefix), id}]
	if got != nil && got.uncounted {
		return
	}
	j.holds(iFloor, left >= floor, "%s leaves %s by %s: %d announce it; floor %d", p.name, w.prefixes[prefix], id, left, floor)
	j.holds(iHealthyFloor, healthy >= least, "%s leaves %s by %s: %d of %d that announce it are healthy; healthy floor %d", p.name, w.prefixes[prefix], id, healthy, left, least)
}

// believed: it was lost, or left by hand, so lately that the ledger may not know.
func (j *judge) believed(h *history) bool {
	return h.lost && j.w.now-h.lostAt <= j.justLost() || h.hand && j.w.now-h.offAt <= j.justLost()
}

// obeyed: what a person at a node wants is so on the wire a second later, or when
// agent, speaker and session are there, whatever the node knows of the ledger.
func (j *judge) obeyed(p *place) {
	g, a := p.glass, p.agent
	if g == nil {
		return
	}
	j.w.in(time.Second, func() {
		if p.glass != g || p.agent != a {
			return
		}
		if !p.speaker.up || !p.speaker.session {
			j.obeyed(p)
			return
		}
		for i, prefix := range j.w.prefixes {
			if g.order.Covers(prefix) {
				j.holds(iHand, p.speaker.out[i] == (g.order.Kind == steadycast.OrderAnnounce), "a second after a person at %s ordered %s, %s is announced: %v",
					p.name, g.order.Kind, prefix, p.speaker.out[i])
			}
		}
	})
}

// well: the services of a prefix that it needs are healthy by the site's own
// verdict, or were until so lately that the ledger may not know.
func (j *judge) well(q *place, prefix int) bool {
	for _, x := range q.group[1:] {
		if j.wellAt(x, prefix) {
			return true
		}
	}
	return j.wellAt(q, prefix)
}

func (j *judge) wellAt(q *place, prefix int) bool {
	if q.agent == nil {
		return true // nobody knows better
	}
	any := j.w.table.PrefixPolicy(j.w.prefixes[prefix]).Needs == decide.NeedsAny
	for i, sv := range j.w.table.Services {
		if slices.Contains(sv.Prefixes, j.w.prefixes[prefix]) {
			if well := q.agent.sick[i] == never || j.w.now-q.agent.sick[i] < 20*time.Second; well == any {
				return any
			}
		}
	}
	return !any
}

// purposes: never are more out on purpose than the floor allows, whatever else was lost.
func (j *judge) purposes(prefix int) {
	out, n := 0, 0
	for _, q := range j.w.sites() {
		if q.witness {
			continue
		}
		n++
		if h := j.unit(q, prefix); h.onPurpose && !h.forced {
			out++
		}
	}
	floor := j.w.table.Floor(j.w.prefixes[prefix])
	j.holds(iFloor, n-out >= min(floor, n), "%d of %d sites are out of %s on purpose; floor %d", out, n, j.w.prefixes[prefix], floor)
}

// forcedOut: a person took it out with force.
func (j *judge) forcedOut(p *place, prefix int) bool {
	for _, o := range j.view.Orders {
		if o.Order.Site == p.name && !o.Recovered && o.Order.Covers(j.w.prefixes[prefix]) && forced(o.Order) {
			return true
		}
	}
	return false
}

// schedule plans what the judge looks at by itself: the quiet end.
func (j *judge) schedule() {
	end := j.w.o.Length
	j.w.at(end-20*time.Second, j.back)
	j.w.at(end-19*time.Second, j.fail)
	j.w.at(end-time.Second, j.gone)
}

// back: whatever may announce does.
func (j *judge) back() {
	w := j.w
	d := w.leader()
	if !j.holds(iReturn, d != nil, "no voter leads, and all of them have been well for %v", w.now-w.calm) {
		return
	}
	view := *d.v.view
	seen := d.p.Seen(d.v.now())
	if w.o.Policy == "observe" {
		return // who returns there is a person's matter
	}
	for _, p := range w.places {
		if p.witness {
			continue
		}
		for i, prefix := range w.prefixes {
			u := phaseOf(&view, w.unit(p, i))
			if u == nil || u.Locked || u.Order != steadycast.OrderNone || u.Frozen != "" || j.spentAll(p, i) || rejected(&view, u.Unit) {
				continue
			}
			r, _ := p.speaker.set.Find(prefix)
			j.holds(iReturn, !u.Unheard, "%s was not heard since the ledger was recovered; the faults ended %v ago", u.Unit, w.now-w.calm)
			j.holds(iReturn, p.speaker.out[i], "%s is healthy and not announced, phase %s; the faults ended %v ago; verdicts %v", u.Unit, u.Phase, w.now-w.calm, p.agent.words())
			j.holds(iReturn, !p.speaker.out[i] || u.Phase == steadycast.In, "%s is announced and its phase is %s; the faults ended %v ago", u.Unit, u.Phase, w.now-w.calm)
			j.holds(iReturn, !p.speaker.out[i] || u.Phase != steadycast.In || slices.Contains(seen[i].Announcing, p.name), "%s is announced and in, and the ledger does not hear so", u.Unit)
			j.holds(iReturn, !p.speaker.out[i] || r.Stance == steadycast.Normal, "%s is healthy and still %s: %s", u.Unit, r.Stance, r.Reason)
		}
	}
}

// rejected: a person said no.
func rejected(v *decide.View, u steadycast.Unit) bool {
	return slices.ContainsFunc(v.Decisions, func(d decide.Decision) bool { return d.Unit == u && d.Answer == steadycast.Rejected })
}

// spentAll: the site's budget keeps it out, and may do so for hours of ledger time.
func (j *judge) spentAll(p *place, prefix int) bool {
	const soon = 30_000 // ms: it may just have come back
	g, n, long := j.w.table.Guards, 0, 0
	for _, lt := range j.unit(p, prefix).granted {
		if age := time.Duration(j.view.LT-lt-soon) * time.Millisecond; age < g.SiteLongWindow {
			long++
			if age < g.SiteWindow {
				n++
			}
		}
	}
	return n >= g.SiteBudget || long >= g.SiteLongBudget
}

// fail makes the services of sites fail for certain, one after the other, until
// fewer than half are well: the first may leave, and what keeps the last is a
// floor or a budget.
func (j *judge) fail() {
	w := j.w
	d := w.leader()
	sites := w.sites()
	first := w.dice.IntN(len(sites))
	failed := 0
	for k := range sites {
		p := sites[(first+k)%len(sites)]
		if d == nil || w.later() || p.witness || !p.up || failed > len(sites)/2 {
			continue
		}
		free := true
		for i := range w.prefixes {
			u := phaseOf(d.v.view, w.unit(p, i))
			free = free && u != nil && u.Phase == steadycast.In && !u.Locked && u.Order == steadycast.OrderNone && u.Frozen == "" && !slices.ContainsFunc(p.group, func(q *place) bool { return !q.speaker.out[i] })
		}
		if !free {
			continue
		}
		w.in(time.Duration(failed)*300*time.Millisecond, func() {
			w.say("%s: all services fail for certain, at the end", p.name)
			for _, q := range p.group {
				for s := range q.ill {
					q.ill[s].hard++
				}
			}
		})
		w.in(time.Duration(failed)*300*time.Millisecond+10*time.Second, func() { j.left(p) })
		failed++
	}
}

// left: 10 s later it is gone, or as unattractive as it can be made.
func (j *judge) left(p *place) {
	for _, q := range p.group {
		for i, prefix := range j.w.prefixes {
			r, _ := q.speaker.set.Find(prefix)
			j.holds(iLeave, !q.speaker.out[i] || r.Stance != steadycast.Normal || j.unit(q, i).full, "%s failed for certain 10 s ago and still announces %s", q.node, prefix)
		}
	}
}

// gone: at the very end.
func (j *judge) gone() { j.happen("reached its end") }
