package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// How a person ends a run that does not end by itself, or closes one that did.

// dismissPlan closes a run of which nothing is to be done: one that is only proposed,
// which is then not proposed again until its signs have gone and come back, or one
// that has ended, which can then not be taken back any more.
func (a *applying) dismissPlan(i int) {
	r := &a.Plans.Runs[i]
	switch {
	case r.State.Live():
		a.refuse(planGuard, r.name()+" is "+string(r.State)+"; what is under way is not dismissed", "steadycast plan rollback "+r.Plan.Name)
		return
	case r.State == PlanDismissed:
		a.refuse(planGuard, r.name()+" is dismissed already", "")
		return
	}
	r = a.edit(i)
	was := string(r.State)
	if r.State == PlanProposed {
		r.Ended = a.LT
	}
	r.State = PlanDismissed
	a.planEvent(r, was, string(PlanDismissed), a.e.Actor, a.e.Reason)
}

// giveUp ends a run that cannot go on, nor be taken back: one that stands still, and
// of which no node has a step. What it did and did not take back stays as it is, and
// is named: that is for a person, who says so by force.
func (a *applying) giveUp(i int, force bool) {
	r := &a.Plans.Runs[i]
	left := a.leaves(r)
	verb := "steadycast plan give-up " + r.Plan.Name
	switch held := slices.IndexFunc(r.Steps, func(s StepRun) bool { return s.Held() }); {
	case !r.State.Live():
		a.refuse(planGuard, fmt.Sprintf("%s is %s: there is nothing to give up", r.name(), r.State), "")
		return
	case r.Hold == nil:
		a.refuse(planGuard, r.name()+" goes on by itself; what stands still is given up", "steadycast plan pause "+r.Plan.Name)
		return
	case held >= 0:
		a.refuse(planGuard, fmt.Sprintf("%s is at step %d of %s, and has not said what came of it; wait until it has, or its time is over",
			r.Steps[held].Node, held+1, r.name()), "")
		return
	case !force && left != "":
		a.refuse(planGuard, fmt.Sprintf("%s would end where it stands: %s", r.name(), left), verb+" --force: "+left)
		return
	}
	r = a.edit(i)
	was := string(r.State)
	r.State, r.Ended, r.Hold, r.Single = PlanGivenUp, a.LT, nil, false
	a.planEvent(r, was, string(PlanGivenUp), a.e.Actor, a.e.Reason+"; "+cmp.Or(left, "it leaves nothing behind"))
}

// leaves says what of a run stays as it is when it ends where it stands, "" if nothing.
func (a *applying) leaves(r *PlanRun) string {
	var out []string
	for k, s := range r.Steps {
		p := r.Plan.Steps[k]
		switch {
		case s.State == StepWaiting || s.State == StepUndone || s.Try == 0:
		case p.Do == DoRun:
			out = append(out, "what "+p.Name+" ran")
		case len(s.Was) > 0:
			out = append(out, "the share of "+p.Site)
		case s.Ordered != (steadycast.Fence{}) && slices.ContainsFunc(s.Took, func(u steadycast.Unit) bool {
			o := a.orderOver(u)
			return o != nil && o.Fence == s.Ordered
		}):
			out = append(out, fmt.Sprintf("the order to %s %s", p.Do, p.Site))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "to settle by hand: " + strings.Join(slices.Compact(out), ", ")
}
