package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// plan carries out what a person wants of a plan.
func (a *applying) plan(w PlanWish) string {
	if !slices.Contains(PlanVerbs, w.Do) {
		return fmt.Sprintf("%q is nothing that a plan can be told; allowed: %s", w.Do, strings.Join(PlanVerbs, ", "))
	}
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	if w.Do == PlanRunIt {
		a.runPlan(w.Plan)
		return ""
	}
	i := a.newestRun(w.Plan)
	if i < 0 {
		a.refuse(wellFormed, fmt.Sprintf("no run of a plan %q is known; runs: %s", w.Plan, list(a.runNames())), "steadycast plan list")
		return ""
	}
	r := a.Plans.Runs[i]
	switch w.Do {
	case PlanRollback:
		a.rollback(i)
		return ""
	case PlanDismiss:
		a.dismissPlan(i)
		return ""
	case PlanGiveUp:
		a.giveUp(i, w.Force)
		return ""
	}
	switch {
	case !r.State.Live():
		a.refuse(planGuard, fmt.Sprintf("%s is %s", r.name(), r.State), "")
	case w.Do == PlanPause && r.Hold != nil:
		a.refuse(planGuard, fmt.Sprintf("%s stands still already: %s", r.name(), r.Hold.Reason), "")
	case (w.Do == PlanResume || w.Do == PlanStep) && r.Hold == nil:
		a.refuse(planGuard, fmt.Sprintf("%s goes on by itself; pause it first to go by single steps", r.name()), "")
	case w.Do == PlanStep && r.State == PlanBack:
		a.refuse(planGuard, r.name()+" is rolling back, which goes as a whole", "")
	case w.Do == PlanApprove && !r.asks():
		a.refuse(planGuard, r.name()+" does not wait for a yes now", "")
	default:
		a.steer(i, w.Do)
	}
	return ""
}

// asks reports whether the run waits for a person's yes.
func (r *PlanRun) asks() bool {
	return r.State == PlanRunning && r.At < len(r.Steps) && r.Plan.Steps[r.At].Do == DoApprove && r.Steps[r.At].State == StepRunning
}

// name is the run for people.
func (r *PlanRun) name() string { return fmt.Sprintf("run %d of plan %s", r.Number, r.Plan.Name) }

func (s *state) runNames() []string {
	var names []string
	for _, r := range s.Plans.Runs {
		if !slices.Contains(names, r.Plan.Name) {
			names = append(names, r.Plan.Name)
		}
	}
	return names
}

// runPlan begins a plan, or the run of it that is proposed.
func (a *applying) runPlan(name string) {
	p, ok := a.Table.Plan(name)
	if !ok {
		var names []string
		for _, q := range a.Table.Plans {
			names = append(names, q.Name)
		}
		a.refuse(wellFormed, fmt.Sprintf("no plan %q; plans: %s", name, list(names)), "steadycast plan list")
		return
	}
	if why := a.inTheWay(p); why != "" {
		a.refuse(planGuard, why, "")
		return
	}
	if i := a.newestRun(name); i >= 0 && a.Plans.Runs[i].State == PlanProposed {
		a.beginRun(i, a.e.Actor, a.e.Reason)
		return
	}
	i := a.addRun(p, a.e.Actor, a.e.Reason)
	a.beginRun(i, a.e.Actor, a.e.Reason)
}

// inTheWay says what keeps a plan from being begun, "" if nothing: another that
// moves the same site.
func (a *applying) inTheWay(p Plan) string {
	live, sites := 0, p.Sites()
	for i := range a.Plans.Runs {
		r := &a.Plans.Runs[i]
		if !r.State.Live() {
			continue
		}
		live++
		if r.Plan.Name == p.Name {
			return r.name() + " is under way"
		}
		for _, site := range r.Plan.Sites() {
			if slices.Contains(sites, site) {
				return fmt.Sprintf("%s is under way and moves %s, too", r.name(), site)
			}
		}
	}
	if live >= runsMost {
		return fmt.Sprintf("%d plans are under way, the most there may be", live)
	}
	return ""
}

// addRun enters a run that is proposed.
func (a *applying) addRun(p Plan, actor, reason string) int {
	a.Plans.Numbered++
	r := PlanRun{
		Number: a.Plans.Numbered, Plan: p, Actor: actor, Reason: cut(reason, stepText), Fence: a.Fence, Since: a.LT, State: PlanProposed,
		Steps: make([]StepRun, len(p.Steps)),
	}
	for i := range r.Steps {
		r.Steps[i].State = StepWaiting
	}
	runs := a.Plans.Runs
	ended := 0
	for _, x := range runs {
		if !x.State.Live() && x.State != PlanProposed {
			ended++
		}
	}
	if ended >= runsKept {
		oldest := slices.IndexFunc(runs, func(x PlanRun) bool { return !x.State.Live() && x.State != PlanProposed })
		runs = slices.Concat(runs[:oldest], runs[oldest+1:])
	}
	a.Plans.Runs = grow(runs, r)
	return len(a.Plans.Runs) - 1
}

// beginRun lets a proposed run go.
func (a *applying) beginRun(i int, actor, reason string) {
	r := a.edit(i)
	r.State, r.Actor, r.Reason, r.Fence, r.Since = PlanRunning, actor, cut(reason, stepText), a.Fence, a.LT
	a.planEvent(r, string(PlanProposed), string(PlanRunning), actor, reason)
}

// steer does to a live run what a person wants.
func (a *applying) steer(i int, do string) {
	r := a.edit(i)
	switch do {
	case PlanPause:
		r.Hold = &PlanHold{Actor: a.e.Actor, Reason: cut(a.e.Reason, stepText), Since: a.LT}
		a.planEvent(r, string(r.State), "paused", a.e.Actor, a.e.Reason)
	case PlanResume, PlanStep:
		a.planEvent(r, "paused", string(r.State), a.e.Actor, a.e.Reason)
		r.Hold, r.Single, r.Auto = nil, do == PlanStep, false // from here on it is a person's
		for k := range r.Steps {
			s := &r.Steps[k]
			switch {
			case r.State == PlanRunning && k == r.At && s.State == StepFailed:
				s.State = StepRunning // once more
			case s.State != StepRunning && s.State != StepUndoing:
				continue
			}
			if r.Plan.Steps[k].Do != DoWait {
				s.Began, s.Tries = a.LT, 0
			}
		}
	case PlanApprove:
		s := &r.Steps[r.At]
		s.State, s.Ended, s.Who, s.Evidence = StepDone, a.LT, a.e.Actor, cut(a.e.Reason, stepText)
		a.stepEvent(r, r.At, "approved", a.e.Actor, a.e.Reason)
		a.next(r)
	}
}

// rollback takes back what a run did, from wherever it stands.
func (a *applying) rollback(i int) {
	r := a.Plans.Runs[i]
	switch r.State {
	case PlanRunning, PlanComplete:
	case PlanBack:
		a.refuse(planGuard, r.name()+" is rolling back already", "steadycast plan resume "+r.Plan.Name)
		return
	default:
		a.refuse(planGuard, fmt.Sprintf("%s is %s: there is nothing to take back", r.name(), r.State), "")
		return
	}
	if r.State == PlanComplete {
		if why := a.inTheWay(r.Plan); why != "" {
			a.refuse(planGuard, why, "")
			return
		}
	}
	a.turnBack(a.edit(i), a.e.Actor, a.e.Reason)
}

// turnBack begins to take back. Who only looks has nothing to take back, so he
// lets go; who runs something is waited for.
func (a *applying) turnBack(r *PlanRun, actor, reason string) {
	was := string(r.State)
	r.State, r.Hold, r.Single, r.Ended = PlanBack, nil, false, 0
	for k := range r.Steps {
		if s := &r.Steps[k]; s.Held() && r.Plan.Steps[k].Do != DoRun {
			s.Node, s.Site, s.Until = "", "", 0
		}
	}
	a.planEvent(r, was, string(PlanBack), actor, reason)
}

// planEvent says that a run changed.
func (a *applying) planEvent(r *PlanRun, from, to, actor, reason string) {
	a.event(steadycast.Event{Kind: steadycast.EventPlan, From: from, To: to, Actor: actor, Reason: fmt.Sprintf("%s: %s", r.name(), reason)})
}

// stepEvent says that a step of a run changed.
func (a *applying) stepEvent(r *PlanRun, k int, to, actor, reason string) {
	text := fmt.Sprintf("%s, step %d, %s", r.name(), k+1, r.Plan.Steps[k].Name)
	if reason != "" {
		text += ": " + reason
	}
	a.event(steadycast.Event{Kind: steadycast.EventPlan, Site: r.Plan.Steps[k].Site, From: r.Plan.Steps[k].Do, To: to, Actor: actor, Reason: text})
}
