package decide

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// What the ledger does for a plan is what it does for a person: orders, which
// floor and capacity can refuse.

// orderOf is the order that a step gives.
func (r *PlanRun) orderOf(k int) steadycast.Order {
	p := r.Plan.Steps[k]
	o := steadycast.Order{
		Kind: steadycast.OrderDrain, Site: p.Site, Prefixes: p.Prefixes, Actor: r.Actor,
		Reason: r.because(k),
	}
	switch p.Do {
	case DoWithdraw:
		o.Kind = steadycast.OrderWithdraw
	case DoAnnounce:
		o.Kind = steadycast.OrderAnnounce
	}
	return o
}

// orderStep gives the order of a step; what refuses it, "" if nothing.
func (a *applying) orderStep(r *PlanRun, k int) string {
	o := r.orderOf(k)
	s := &r.Steps[k]
	var took []steadycast.Unit
	for i := range a.Units {
		u := &a.Units[i]
		if u.Unit.Site != o.Site || !o.Covers(u.Unit.Prefix) {
			continue
		}
		if x := a.orderOver(u.Unit); x != nil && o.Kind != steadycast.OrderAnnounce && !r.ordered(x.Fence) {
			return fmt.Sprintf("%s ordered %s over %s: %s", x.Order.Actor, x.Order.Kind, u.Unit, x.Order.Reason)
		}
		out := u.Phase == steadycast.Out
		if o.Kind != steadycast.OrderAnnounce && !out || o.Kind == steadycast.OrderAnnounce && out && !r.tookOut(u.Unit) {
			took = append(took, u.Unit)
		}
	}
	if no := a.tryOrder(o); no != "" {
		return no
	}
	s.Ordered, s.Took = a.Fence, took
	return ""
}

// tookOut reports whether a step of the run took the unit out, so that it is no
// change of the world when another brings it back.
func (r *PlanRun) tookOut(u steadycast.Unit) bool {
	for k, s := range r.Steps {
		if r.Plan.Steps[k].Do != DoAnnounce && slices.Contains(s.Took, u) {
			return true
		}
	}
	return false
}

// ordered reports whether the run itself gave the order.
func (r *PlanRun) ordered(at steadycast.Fence) bool {
	return slices.ContainsFunc(r.Steps, func(s StepRun) bool { return s.Ordered == at })
}

// tryOrder gives an order, whole or not at all; what refuses it, "" if nothing.
func (a *applying) tryOrder(o steadycast.Order) string {
	invalid := a.order(o)
	no := a.reply.Refused
	a.reply.Refused = nil // of the step, not of the entry
	switch {
	case invalid != "":
		return invalid
	case no != nil:
		return no.Guard + ": " + no.Text
	}
	return ""
}

// wouldRefuse says which guard would refuse what the plan still moves, "" if
// none: it is carried out on a copy, and what is announced counts as there.
func (a *applying) wouldRefuse(r *PlanRun, from int) string {
	s, run := a.clone(), *r
	r = &run
	r.Steps = slices.Clone(r.Steps)
	e := *a.e
	seen := Decide{}
	if e.Decide != nil {
		seen = *e.Decide
		seen.Seen = slices.Clone(seen.Seen)
	}
	e.Decide = &seen
	b := &applying{state: &s, e: &e}
	for k := from; k < len(r.Steps); k++ {
		p := r.Plan.Steps[k]
		switch p.Do {
		case DoDrain, DoWithdraw:
			if no := b.tryOrder(r.orderOf(k)); no != "" {
				return fmt.Sprintf("step %d, %s: %s", k+1, p.Name, no)
			}
		case DoShift, DoWarm:
			if no := b.shareStep(r, k); no != "" {
				return fmt.Sprintf("step %d, %s: %s", k+1, p.Name, no)
			}
			r.Steps[k].Stage = 0
			b.setShares(r, k)
		case DoAnnounce:
			b.assume(r.orderOf(k))
		}
	}
	return ""
}

// assume has what is ordered announced and seen.
func (a *applying) assume(o steadycast.Order) {
	for i := range a.Units {
		u := &a.Units[i]
		if u.Unit.Site != o.Site || !o.Covers(u.Unit.Prefix) {
			continue
		}
		u.Phase, u.Lost = steadycast.In, false
		for k := range a.e.Decide.Seen {
			x := &a.e.Decide.Seen[k]
			if x.Prefix != u.Unit.Prefix {
				continue
			}
			if !slices.Contains(x.Announcing, o.Site) {
				x.Announcing = grow(x.Announcing, o.Site)
			}
			if !slices.Contains(x.Healthy, o.Site) && a.health(u.Unit).ok {
				x.Healthy = grow(x.Healthy, o.Site)
			}
		}
	}
}

// goBack takes back what the ledger can by itself, all of it at once: waits,
// looks and a person's yes are for the way there.
func (a *applying) goBack(r *PlanRun) {
	pending := false
	for _, k := range r.undoOrder() {
		s := &r.Steps[k]
		switch {
		case s.State == StepUndone || s.State == StepWaiting || s.Try == 0 || !r.Plan.Steps[k].undoes() && !s.Held():
			if s.State == StepRunning { // the turn came while it was at it
				if s.State = StepWaiting; r.Plan.Steps[k].Do == DoRun && s.Try > 0 {
					s.State, s.Ended = StepFailed, a.LT
				}
			}
			continue // nothing was done, or what was done stays
		case s.Held() && s.State != StepUndoing: // who runs it has not said what came of it
			return
		case pending && r.undoTakes(k):
			return
		case r.nodeUndoes(k):
			if s.State != StepUndoing {
				s.State, s.Began, s.Ended, s.Tries, s.Ordered = StepUndoing, a.LT, 0, 0, steadycast.Fence{}
			}
			return
		}
		if s.State != StepUndoing {
			if no := a.takeBack(r, k); no != "" {
				a.failed(r, k, no) // a person looks, and lets it go on
				return
			}
			s.State, s.Began, s.Ended = StepUndoing, a.LT, 0
		}
		if why := a.stillOut(r, k); why != "" {
			s.Evidence, pending = why, true
			continue
		}
		s.State, s.Ended, s.Evidence, s.Effective, s.Nodes = StepUndone, a.LT, "", 0, 0
		a.stepEvent(r, k, string(StepUndone), "ledger", "")
	}
	if !pending {
		r.State, r.Ended = PlanRolledBack, a.LT
		a.planEvent(r, string(PlanBack), string(PlanRolledBack), r.Actor, r.Reason)
	}
}

// takeBack ends the order of a step, as far as nobody else has ordered since.
// The units owe nothing: they are back as soon as they are well. What refuses it, ""
// if nothing.
func (a *applying) takeBack(r *PlanRun, k int) string {
	s, p := &r.Steps[k], r.Plan.Steps[k]
	if p.Do == DoShift || p.Do == DoWarm {
		return a.shareBack(r, k)
	}
	if p.Do != DoDrain && p.Do != DoWithdraw || s.Ordered == (steadycast.Fence{}) {
		return ""
	}
	var prefixes []netip.Prefix
	for i := range a.Units {
		u := &a.Units[i]
		if o := a.orderOver(u.Unit); u.Unit.Site == p.Site && o != nil && o.Fence == s.Ordered {
			prefixes = append(prefixes, u.Unit.Prefix)
		}
	}
	if len(prefixes) == 0 {
		return ""
	}
	a.lift(Scope{Site: p.Site}, prefixes)
	for _, x := range prefixes {
		u := a.unit(p.Site, x)
		if u.Phase != steadycast.In {
			u.Pardon, u.Locked, u.Cycles = sparesAll, false, nil
		}
		a.event(orderEvent(r.orderOf(k), u, r.orderOf(k).Kind.String(), "automatic", r.name()+" rolls back"))
	}
	return ""
}

// stillOut says what of a step is not back yet, "" if nothing. What somebody else
// ordered out since, cannot serve or is not in the table any more is not waited for.
func (a *applying) stillOut(r *PlanRun, k int) string {
	if p := r.Plan.Steps[k]; p.Do != DoDrain && p.Do != DoWithdraw {
		return ""
	}
	for _, unit := range r.Steps[k].Took {
		u := a.unit(unit.Site, unit.Prefix)
		if u == nil || u.Phase == steadycast.In || a.orderOver(unit) != nil || a.troubledVerdict(unit) {
			continue
		}
		return fmt.Sprintf("%s is %s, not back yet", unit, u.Phase)
	}
	return ""
}

// outAgain takes away what a step had announced that was out before.
func (a *applying) outAgain(r *PlanRun, k int) {
	s := &r.Steps[k]
	o := steadycast.Order{
		Kind: steadycast.OrderDrain, Site: r.Plan.Steps[k].Site, Actor: r.Actor,
		Reason: fmt.Sprintf("%s rolls back step %d, %s", r.name(), k+1, r.Plan.Steps[k].Name),
	}
	for _, u := range s.Took {
		if a.unit(u.Site, u.Prefix) != nil && a.orderOver(u) == nil {
			o.Prefixes = append(o.Prefixes, u.Prefix)
		}
	}
	if len(o.Prefixes) == 0 {
		a.done(r, k, StepWord{Text: "nothing of it is announced by this plan any more"})
		return
	}
	if no := a.tryOrder(o); no != "" {
		a.failed(r, k, no)
		return
	}
	s.Ordered = a.Fence
}

// rollsBack reports whether a plan that took the unit out is giving it back.
func (s *state) rollsBack(u steadycast.Unit) bool {
	return slices.ContainsFunc(s.Plans.Runs, func(r PlanRun) bool { return r.State == PlanBack && r.tookOut(u) })
}
