package decide

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// A step is carried out by the node that took it: one entry gives it the try,
// for so long by ledger time, and only its holder can say what came of it. A
// holder that is not heard has lost it when the time is over, and another takes
// it. What the step moves is ordered by the ledger itself in the entry that
// gives the first try, so who takes it over has nothing to do again.

// step takes what a node says of a step; what is wrong with it, "" if nothing.
func (a *applying) step(w StepWord) string {
	w = w.Sound()
	if w.Site == "" || w.Node == "" {
		return "who says it is missing"
	}
	if _, ok := a.Table.Place(w.Site); !ok {
		return fmt.Sprintf("the table has no site %s", w.Site)
	}
	i := slices.IndexFunc(a.Plans.Runs, func(r PlanRun) bool { return r.Number == w.Run })
	if i < 0 || w.Step < 0 || w.Step >= len(a.Plans.Runs[i].Steps) {
		return fmt.Sprintf("no step %d of run %d is known", w.Step+1, w.Run)
	}
	if w.Say == SayTake {
		return a.take(i, w)
	}
	r := &a.Plans.Runs[i]
	if s := &r.Steps[w.Step]; !s.Held() || s.Try != w.Try || s.Node != w.Node || s.Site != w.Site {
		return fmt.Sprintf("a result of a try that is not at hand: try %d of step %d of run %d by %s", w.Try, w.Step+1, w.Run, w.Node)
	}
	switch w.Say {
	case SayNote, SayOn, SayDone, SayFail, SayDrop:
	default:
		return fmt.Sprintf("%q is nothing that a node says; allowed: take, note, on, done, fail, drop", w.Say)
	}
	return a.told(a.edit(i), w)
}

// take gives a node the step.
func (a *applying) take(i int, w StepWord) string {
	r := &a.Plans.Runs[i]
	open, ok := r.Open()
	s := &r.Steps[w.Step]
	switch p := r.Plan.Steps[w.Step]; {
	case r.Hold != nil:
		return r.name() + " stands still: " + r.Hold.Reason
	case !ok || open != w.Step:
		return fmt.Sprintf("step %d of %s is not to be taken now", w.Step+1, r.name())
	case s.Held():
		return fmt.Sprintf("%s has step %d of %s already", s.Node, w.Step+1, r.name())
	case w.Try != s.Try+1:
		return fmt.Sprintf("try %d of step %d of %s comes next, not %d", s.Try+1, w.Step+1, r.name(), w.Try)
	case p.At != "" && p.At != w.Site:
		return fmt.Sprintf("step %d of %s is carried out at %s, not at %s", w.Step+1, r.name(), p.At, w.Site)
	}
	r = a.edit(i)
	s = &r.Steps[w.Step]
	s.Try, s.Tries = w.Try, s.Tries+1
	s.Node, s.Site, s.Until, s.Token = w.Node, w.Site, a.LT+r.Plan.Steps[w.Step].lease(), a.Fence
	s.Who = w.Node
	if s.Then == "" {
		s.Then = w.Then
	}
	a.stepEvent(r, w.Step, "taken", w.Node, fmt.Sprintf("try %d", s.Try))
	a.carryOut(r, w.Step)
	return ""
}

// carryOut does the ledger's own part of a step that was just taken.
func (a *applying) carryOut(r *PlanRun, k int) {
	s := &r.Steps[k]
	if r.State == PlanBack {
		if r.Plan.Steps[k].Do == DoAnnounce && s.Ordered == (steadycast.Fence{}) {
			a.outAgain(r, k)
		}
		return
	}
	switch p := r.Plan.Steps[k]; p.Do {
	case DoCheck:
		if no := a.wouldRefuse(r, k); no != "" {
			a.failed(r, k, no)
		} else {
			a.done(r, k, StepWord{Text: "every guard lets it pass", Then: s.Then, Now: s.Then})
		}
	case DoDrain, DoWithdraw, DoAnnounce, DoShift, DoWarm:
		give := a.orderStep
		if p.Do == DoShift || p.Do == DoWarm {
			give = a.shareStep
		}
		if s.Ordered == (steadycast.Fence{}) {
			if no := give(r, k); no != "" {
				a.failed(r, k, no)
			}
		}
	}
}

// told takes what the holder says.
func (a *applying) told(r *PlanRun, w StepWord) string {
	s, p := &r.Steps[w.Step], r.Plan.Steps[w.Step]
	if w.Say == SayDone {
		if no := a.notYet(r, w.Step); no != "" {
			return no
		}
	}
	s.Evidence, s.Effective, s.Nodes = w.Text, w.Effective, w.Nodes
	if w.Now != "" {
		s.Now = w.Now
	}
	switch w.Say {
	case SayNote, SayOn:
		if p.Do != DoRun { // which ends within its lease
			s.Until = a.LT + p.lease()
		}
		if w.Say == SayOn {
			a.canary(r, w.Step)
		}
		return ""
	case SayDrop:
		s.let()
		a.stepEvent(r, w.Step, "dropped", w.Node, w.Text)
		return ""
	}
	if r.State == PlanBack && s.State != StepUndoing { // it was done, or not, before the turn
		s.let()
		if s.State = StepFailed; w.Say == SayDone {
			s.State = StepDone
		}
		s.Ended = a.LT
		a.stepEvent(r, w.Step, string(s.State), w.Node, "after the turn: "+w.Text)
		return ""
	}
	if w.Say == SayDone {
		a.done(r, w.Step, w)
	} else {
		a.failed(r, w.Step, w.Text)
	}
	return ""
}

// let ends a try.
func (s *StepRun) let() { s.Node, s.Site, s.Until = "", "", 0 }

// notYet says why a step cannot be done yet by what is committed, "" if it can.
func (a *applying) notYet(r *PlanRun, k int) string {
	if r.State == PlanRunning && r.Steps[k].Stage == 1 {
		return "only the canary is moved yet"
	}
	if r.State != PlanRunning || r.Plan.Steps[k].Do != DoAnnounce {
		return ""
	}
	for _, unit := range r.Steps[k].Took {
		if u := a.unit(unit.Site, unit.Prefix); u != nil && u.Phase != steadycast.In {
			return fmt.Sprintf("%s is %s, not in yet", unit, u.Phase)
		}
	}
	return ""
}

// done ends a step well, forwards or backwards.
func (a *applying) done(r *PlanRun, k int, w StepWord) {
	s := &r.Steps[k]
	s.let()
	s.Ended, s.Evidence, s.Now = a.LT, w.Text, w.Now
	if r.State == PlanBack {
		s.State = StepUndone
		a.stepEvent(r, k, string(StepUndone), s.Who, w.Text)
		return
	}
	s.State = StepDone
	a.stepEvent(r, k, string(StepDone), s.Who, w.Text)
	a.next(r)
}

// failed ends a step badly. Forwards the plan says what follows; what cannot be
// taken back waits for a person.
func (a *applying) failed(r *PlanRun, k int, why string) {
	s := &r.Steps[k]
	s.let()
	s.Ended, s.Evidence = a.LT, cut(why, stepText)
	a.stepEvent(r, k, string(StepFailed), s.Who, why)
	if r.State == PlanRunning {
		s.State = StepFailed
		if r.Plan.OnFailure == OnFailureRollback {
			a.turnBack(r, "auto", fmt.Sprintf("step %d, %s, has failed: %s", k+1, r.Plan.Steps[k].Name, why))
			return
		}
	}
	r.Hold = &PlanHold{Reason: cut(fmt.Sprintf("step %d, %s, has failed: %s", k+1, r.Plan.Steps[k].Name, why), stepText), Failed: true, Since: a.LT}
	a.planEvent(r, string(r.State), "failed", "auto", r.Hold.Reason)
}

// next goes to the step after a done one.
func (a *applying) next(r *PlanRun) {
	r.At++
	if r.At == len(r.Steps) {
		r.State, r.Ended, r.Hold, r.Single = PlanComplete, a.LT, nil, false
		a.planEvent(r, string(PlanRunning), string(PlanComplete), r.Actor, r.Reason)
		return
	}
	if r.Single && r.Hold == nil {
		r.Single = false
		r.Hold = &PlanHold{Actor: r.Actor, Reason: "one step, as asked", Since: a.LT}
	}
}

// goPlans lets every run go as far as it does without a node: it is called after
// every entry, whatever it was.
func (a *applying) goPlans() {
	for i := range a.Plans.Runs {
		if a.Plans.Runs[i].State.Live() {
			a.goPlan(i)
		}
	}
}

func (a *applying) goPlan(i int) {
	r := a.edit(i)
	a.overdue(r)
	if f := a.frozenRun(r); f != nil && r.Hold == nil {
		r.Hold = &PlanHold{Actor: f.Actor, Reason: "it began by itself, and automation is frozen: " + f.Reason, Since: a.LT}
		a.planEvent(r, string(r.State), "paused", f.Actor, r.Hold.Reason)
	}
	for r.Hold == nil && r.State == PlanRunning {
		s, p := &r.Steps[r.At], r.Plan.Steps[r.At]
		if s.State == StepWaiting {
			s.State, s.Began = StepRunning, a.LT
		}
		if p.Do != DoWait || a.LT-s.Began < lt(p.For) {
			break
		}
		s.Who, s.Evidence = "ledger", fmt.Sprintf("%s have passed", p.For)
		a.done(r, r.At, StepWord{Text: s.Evidence})
	}
	if r.Hold == nil && r.State == PlanBack {
		a.goBack(r)
	}
}

// lapseTries ends the tries whose time is over, before anything else is heard.
func (a *applying) lapseTries() {
	for i := range a.Plans.Runs {
		for k := range a.Plans.Runs[i].Steps {
			if s := &a.Plans.Runs[i].Steps[k]; s.Held() && s.Until <= a.LT {
				r := a.edit(i)
				a.stepEvent(r, k, "lost", s.Node, fmt.Sprintf("nothing was heard of try %d in time", s.Try))
				r.Steps[k].let()
			}
		}
	}
}

// overdue ends the step whose time is over.
func (a *applying) overdue(r *PlanRun) {
	for k := range r.Steps {
		s, p := &r.Steps[k], r.Plan.Steps[k]
		if r.Hold != nil || !a.atWork(r, k) || !p.byNode() {
			continue
		}
		switch {
		case p.Do == DoRun && !s.Held() && s.Tries >= triesMost:
			a.failed(r, k, fmt.Sprintf("%d tries, and no result of any", s.Tries))
		case p.Do == DoRun && !s.Held() && s.Tries == 0 && a.LT-s.Began >= p.lease()+lt(lookLease):
			a.failed(r, k, "no node took it")
		case p.Do != DoRun && a.LT-s.Began >= lt(p.Timeout):
			why := s.Evidence
			if s.Tries == 0 {
				why = "no node took it"
			}
			a.failed(r, k, fmt.Sprintf("not within %s: %s", p.Timeout, why))
		}
	}
}

// atWork reports whether the step is what the run is at, forwards or backwards.
func (a *applying) atWork(r *PlanRun, k int) bool {
	open, ok := r.Open()
	return ok && open == k
}

// frozenRun is the freeze over a run that began by itself.
func (a *applying) frozenRun(r *PlanRun) *StandingFreeze {
	if !r.Auto {
		return nil
	}
	return a.frozenPlan(r.Plan)
}

func (a *applying) frozenPlan(p Plan) *StandingFreeze {
	sites := p.Sites()
	for i := range a.Freezes {
		f := &a.Freezes[i]
		if f.Scope == (Scope{}) || slices.ContainsFunc(a.Units, func(u unitState) bool {
			return f.Scope.Covers(u.Unit) && slices.Contains(sites, u.Unit.Site)
		}) {
			return f
		}
	}
	return nil
}
