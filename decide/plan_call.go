package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// callPlans notes which plans are called for, and proposes or begins those that
// are for long enough: once, until the signs are gone.
func (a *applying) callPlans() {
	var calls []planCall
	for _, p := range a.Table.Plans {
		if p.Start == nil {
			continue
		}
		why, called := a.signs(p.Start.When)
		if !called {
			a.uncalled(p.Name)
			continue
		}
		c := planCall{Plan: p.Name, Since: a.LT}
		if i := slices.IndexFunc(a.Plans.Calls, func(x planCall) bool { return x.Plan == p.Name }); i >= 0 {
			c = a.Plans.Calls[i]
		}
		if !c.Answered && a.LT-c.Since >= lt(p.Start.For) {
			c.Answered = a.answerCall(p, why)
		}
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(x, y planCall) int { return cmp.Compare(x.Plan, y.Plan) })
	a.Plans.Calls = calls
}

// signs reports whether all of them are there, and says so in words.
func (a *applying) signs(when []Sign) (string, bool) {
	var said []string
	for _, w := range when {
		i, ok := a.verdict(w.Site, w.Service)
		if !ok || a.Verdicts[i].Verdict.State != w.State || a.Verdicts[i].Verdict.Held {
			return "", false
		}
		said = append(said, fmt.Sprintf("%s of %s is %s", w.Service, w.Site, w.State))
	}
	return strings.Join(said, ", "), true
}

// uncalled takes a proposal back that nothing calls for any more.
func (a *applying) uncalled(plan string) { a.unpropose(plan, "auto", "nothing calls for it any more") }

// unpropose ends the proposal of a plan, if there is one. Where the plan is called for
// still, it is proposed once more.
func (a *applying) unpropose(plan, actor, why string) {
	i := a.newestRun(plan)
	if i < 0 || a.Plans.Runs[i].State != PlanProposed {
		return
	}
	r := a.Plans.Runs[i]
	a.Plans.Runs = slices.Concat(a.Plans.Runs[:i], a.Plans.Runs[i+1:])
	if len(a.Plans.Runs) == 0 {
		a.Plans.Runs = nil
	}
	a.Plans.Calls = keep(a.Plans.Calls, func(c planCall) bool { return c.Plan != plan })
	a.planEvent(&r, string(PlanProposed), "ended", actor, why)
}

// answerCall proposes a plan, or begins it; false if neither can be now.
func (a *applying) answerCall(p Plan, why string) bool {
	if a.inTheWay(p) != "" {
		return false
	}
	if i := a.newestRun(p.Name); i >= 0 && a.Plans.Runs[i].State == PlanProposed {
		return true
	}
	reason := fmt.Sprintf("%s for %s", why, p.Start.For)
	i := a.addRun(p, "auto", reason)
	r := a.edit(i)
	hinder := a.hinders(p, r.Number)
	if p.Start.Do == StartRun && hinder == "" {
		r.Auto = true
		a.beginRun(i, "auto", reason)
		return true
	}
	if p.Start.Do == StartRun {
		reason += "; not begun by itself: " + hinder
		r.Reason = cut(reason, stepText)
	}
	a.planEvent(r, "", string(PlanProposed), "auto", reason)
	return true
}

// hinders says why a plan is only proposed that would begin by itself, "" if nothing.
func (a *applying) hinders(p Plan, but uint64) string {
	if f := a.frozenPlan(p); f != nil {
		return "automation is frozen by " + f.Actor + ": " + f.Reason
	}
	for _, r := range a.Plans.Runs {
		if r.Plan.Name == p.Name && r.Number != but && !r.State.Live() && a.within(r.Ended, a.Table.Guards.Cooldown) {
			return fmt.Sprintf("%s ended less than %s ago", r.name(), a.Table.Guards.Cooldown)
		}
	}
	return ""
}

// settlePlans holds the runs of plans that a new table has not, or has otherwise, and
// ends what was only proposed of them: what a person begins is the plan as it is.
func (a *applying) settlePlans() {
	for _, r := range a.Plans.Runs {
		if p, ok := a.Table.Plan(r.Plan.Name); r.State == PlanProposed && !(ok && samePlan(p, r.Plan)) {
			a.unpropose(r.Plan.Name, a.e.Actor, fmt.Sprintf("revision %d of the table changed the plan", a.Table.Revision))
		}
	}
	for i := range a.Plans.Runs {
		r := a.Plans.Runs[i]
		if !r.State.Live() || r.Hold != nil {
			continue
		}
		if p, ok := a.Table.Plan(r.Plan.Name); ok && samePlan(p, r.Plan) {
			continue
		}
		x := a.edit(i)
		x.Hold = &PlanHold{Actor: a.e.Actor, Reason: fmt.Sprintf("revision %d of the table changed the plan", a.Table.Revision), Since: a.LT}
		a.planEvent(x, string(x.State), "paused", a.e.Actor, x.Hold.Reason)
	}
}

// holdPlans holds every run.
func (a *applying) holdPlans(why string) {
	for i := range a.Plans.Runs {
		if r := a.Plans.Runs[i]; r.State.Live() && r.Hold == nil {
			x := a.edit(i)
			x.Hold = &PlanHold{Actor: a.e.Actor, Reason: why, Since: a.LT}
			a.planEvent(x, string(x.State), "paused", a.e.Actor, why)
		}
	}
}

// planEnd is the earliest ledger time at which something about plans ends.
func (s *state) planEnd() (at Time, ok bool) {
	note := func(t Time) {
		if t > s.LT && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, c := range s.Plans.Calls {
		if p, known := s.Table.Plan(c.Plan); known && p.Start != nil && !c.Answered {
			note(c.Since + lt(p.Start.For))
		}
	}
	for i := range s.Plans.Runs {
		r := &s.Plans.Runs[i]
		if !r.State.Live() {
			continue
		}
		for k := range r.Steps {
			if r.Steps[k].Held() {
				note(r.Steps[k].Until)
			}
		}
		if r.Hold != nil {
			continue
		}
		if open, any := r.Open(); any {
			st, p := &r.Steps[open], r.Plan.Steps[open]
			if p.Do == DoRun {
				note(st.Began + p.lease() + lt(lookLease))
			} else {
				note(st.Began + lt(p.Timeout))
			}
		} else if r.State == PlanRunning && r.Plan.Steps[r.At].Do == DoWait {
			note(r.Steps[r.At].Began + lt(r.Plan.Steps[r.At].For))
		}
	}
	return at, ok
}

// samePlan compares what two plans with their defaults say.
func samePlan(p, q Plan) bool {
	x, errX := json.Marshal(p)
	y, errY := json.Marshal(q)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
