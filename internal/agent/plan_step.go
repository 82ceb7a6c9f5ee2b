package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/probe"
)

// badLooks in a row end a step whose check must hold meanwhile.
const badLooks = 3

// cutLooks in a row that find a cut failed end a verification: who takes over may be
// unwell for a moment.
const cutLooks = 10

// work carries out one try, and gives what is to be said of it. since is when this
// node asked for it: the ledger counts the lease from later, so a run that ends
// by that clock has ended before another may begin it.
func (s *steps) work(ctx context.Context, t stepTry, r decide.PlanRun, since time.Time) decide.StepWord {
	plan, step, ok := s.details(&r, t.step)
	if !ok {
		return decide.StepWord{Say: decide.SayDrop, Text: "the table here says something else of this step"}
	}
	var out decide.StepWord
	p := r.Plan.Steps[t.step]
	back := r.State == decide.PlanBack
	switch {
	case p.Do == decide.DoRun:
		run, cancel := context.WithDeadline(ctx, since.Add(p.Lease()-stepSpare))
		out = s.runs(run, r, t, step, p.Timeout)
		cancel()
	case p.Do == decide.DoGuard:
		out = s.watch(ctx, t, func() (string, bool, bool) {
			x := s.look(ctx, *step.Check)
			return x.Reason, x.Outcome == steadycast.Up, false
		})
	case p.Do == decide.DoAnnounce && !back:
		out = s.watch(ctx, t, func() (string, bool, bool) { return s.routes(ctx, t, true) })
	case p.Do == decide.DoDrain, p.Do == decide.DoWithdraw, p.Do == decide.DoAnnounce:
		out = s.watch(ctx, t, func() (string, bool, bool) { return s.routes(ctx, t, false) })
	case p.Do == decide.DoWarm, p.Do == decide.DoShift:
		out = s.clients(ctx, t, p, step)
	case p.Do == decide.DoVerify:
		bad := 0
		out = s.stays(ctx, t, p.For, step, func() (string, bool, bool) {
			text, so, failed := s.carriedOut(ctx, t, p.Site)
			if bad++; !failed {
				bad = 0
			}
			return text, so, bad >= cutLooks
		})
	default:
		out = decide.StepWord{Say: decide.SayDrop, Text: fmt.Sprintf("this node does not know how to %s", p.Do)}
	}
	out.Now = s.measure(context.WithoutCancel(ctx), plan.Metric)
	out.Effective, out.Nodes = s.effective(ctx, t)
	return out
}

// watch looks until it is so, saying in between what is missing.
func (s *steps) watch(ctx context.Context, t stepTry, look func() (text string, so, failed bool)) decide.StepWord {
	var noted time.Time
	for {
		text, so, failed := look()
		switch {
		case ctx.Err() != nil:
			return decide.StepWord{Say: decide.SayDrop, Text: text}
		case failed:
			return decide.StepWord{Say: decide.SayFail, Text: text}
		case so:
			return decide.StepWord{Say: decide.SayDone, Text: text}
		}
		if time.Since(noted) >= stepNote {
			noted = time.Now()
			w := s.word(t, decide.SayNote, text)
			w.Effective, w.Nodes = s.effective(ctx, t)
			s.tell(ctx, w)
		}
		pause(ctx, stepLook)
	}
}

// stays looks until it is so for a while without a break, and the step's check is
// up all that time; a check that fails again and again ends it.
func (s *steps) stays(ctx context.Context, t stepTry, d time.Duration, step config.PlanStep, so func() (string, bool, bool)) decide.StepWord {
	var since time.Time
	bad := 0
	return s.watch(ctx, t, func() (string, bool, bool) {
		text, ok, failed := so()
		if ok && step.Check != nil {
			x := s.look(ctx, *step.Check)
			text, ok = x.Reason, x.Outcome == steadycast.Up
			if bad++; x.Outcome != steadycast.Down {
				bad = 0
			}
			failed = bad >= badLooks
		}
		if !ok {
			since = time.Time{}
			return text, false, failed
		}
		if since.IsZero() {
			since = time.Now()
		}
		if left := d - time.Since(since); left > 0 {
			return fmt.Sprintf("%s; for %s more", text, left.Round(time.Second)), false, false
		}
		return fmt.Sprintf("%s; for %s", text, d), true, false
	})
}

// clients follows a warming or a shift: the canary for a while, then the rest.
func (s *steps) clients(ctx context.Context, t stepTry, p decide.Step, step config.PlanStep) decide.StepWord {
	acted := func() (string, bool, bool) {
		n, of := s.effective(ctx, t)
		return fmt.Sprintf("%d of %d sites act on the share", n, of), n == of, false
	}
	if p.Do == decide.DoWarm {
		return s.stays(ctx, t, p.For, step, acted)
	}
	if st, ok := s.current(t); ok && st.Stage == 1 {
		out := s.stays(ctx, t, p.For, step, acted)
		if out.Say != decide.SayDone {
			return out
		}
		for { // until it is seen to be moved on
			s.tell(ctx, s.word(t, decide.SayOn, out.Text))
			if st, ok = s.current(t); !ok || st.Stage != 1 {
				break
			}
			if !pause(ctx, stepLook) {
				return decide.StepWord{Say: decide.SayDrop, Text: out.Text}
			}
		}
	}
	return s.stays(ctx, t, 0, step, acted)
}

// current is the step as it is committed now; ok is false once it is not this
// node's any more.
func (s *steps) current(t stepTry) (st decide.StepRun, ok bool) {
	for _, r := range s.ledger.View().Plans {
		if r.Number == t.run && t.step < len(r.Steps) {
			st = r.Steps[t.step]
			return st, st.Try == t.try && st.Node == s.node
		}
	}
	return st, false
}

// effective is how many sites act on what the step ordered, of those that are there;
// a site acts when every node of it does.
func (s *steps) effective(ctx context.Context, t stepTry) (n, of int) {
	st, _ := s.current(t)
	at := st.Ordered
	if at == (steadycast.Fence{}) {
		at = st.Token
	}
	v, heard := s.ledger.View(), s.sites(ctx)
	for _, site := range v.Table.Announcers() {
		switch x, ok := decide.Together(heard, site, stepCall); {
		case ok && x.At.Compare(at) >= 0:
			n, of = n+1, of+1
		case ok || countsIn(&v, site):
			of++
		}
	}
	return n, of
}

// countsIn: the ledger counts the site as announcing something. One that is neither
// heard nor counted is gone, and nothing waits for it: it may be what the plan is for.
func countsIn(v *decide.View, site string) bool {
	return slices.ContainsFunc(v.Units, func(u decide.UnitView) bool {
		return u.Unit.Site == site && u.Phase == steadycast.In && !u.Lost
	})
}

// sites are what the ledger heard of each site just now.
func (s *steps) sites(ctx context.Context) []decide.SiteNow {
	ctx, cancel := context.WithTimeout(ctx, stepCall)
	defer cancel()
	all, err := s.ledger.Sites(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(x decide.SiteNow) bool { return x.AgeMS > stepCall.Milliseconds() })
}

// routes looks whether what the step moves is out, or in, and proven: by the
// ledger's count, by what its site announces, and by what its routers acknowledged.
func (s *steps) routes(ctx context.Context, t stepTry, in bool) (text string, so, failed bool) {
	st, _ := s.current(t)
	if len(st.Took) == 0 {
		return "there was nothing to move", true, false
	}
	v, now := s.ledger.View(), s.sites(ctx)
	for _, unit := range st.Took {
		i := slices.IndexFunc(v.Units, func(u decide.UnitView) bool { return u.Unit == unit })
		if i < 0 {
			continue
		}
		if phase := v.Units[i].Phase; (phase == steadycast.In) != in {
			return fmt.Sprintf("%s is %s", unit, phase), false, false
		}
		if text := lacks(now, unit, st.Ordered, in); text != "" {
			return text, false, false
		}
	}
	word := "out"
	if in {
		word = "in"
	}
	return fmt.Sprintf("%s %s, and every router that is up has acknowledged it", routesAre(len(st.Took)), word), true, false
}

// lacks says what is missing before a unit is where it should be, by the word of all
// nodes of its site.
func lacks(now []decide.SiteNow, unit steadycast.Unit, at steadycast.Fence, in bool) string {
	x, ok := decide.Together(now, unit.Site, stepCall)
	switch {
	case !ok:
		return unit.Site + " is not heard"
	case x.At.Compare(at) < 0:
		return unit.Site + " has not acted on it yet"
	case slices.Contains(x.Announcing, unit) != in:
		if in {
			return fmt.Sprintf("%s is not announced yet", unit)
		}
		return fmt.Sprintf("%s is announced still", unit)
	case slices.Contains(x.Unproven, unit):
		return fmt.Sprintf("%s is not acknowledged by every router", unit)
	}
	return ""
}

// carriedOut looks whether all that the run moved so far, of a site or of all, is
// where it was ordered to be, and proven; and of what left, that its cut is complete.
func (s *steps) carriedOut(ctx context.Context, t stepTry, site string) (text string, so, failed bool) {
	v, now := s.ledger.View(), s.sites(ctx)
	seen, said := 0, ""
	for _, r := range v.Plans {
		if r.Number != t.run {
			continue
		}
		for k, st := range r.Steps[:t.step] {
			for _, unit := range st.Took {
				if site != "" && unit.Site != site {
					continue
				}
				i := slices.IndexFunc(v.Units, func(u decide.UnitView) bool { return u.Unit == unit })
				if i < 0 {
					continue
				}
				in := r.Plan.Steps[k].Do == decide.DoAnnounce
				if text := lacks(now, unit, st.Ordered, in); text != "" {
					return text, false, false
				}
				if seen++; in {
					continue
				}
				text, done, bad := cutOf(&v, now, unit)
				if !done {
					return text, false, bad
				}
				if text != "" {
					said = "; " + text
				}
			}
		}
	}
	return routesAre(seen) + " as ordered, and acknowledged" + said, true, false
}

// cutOf says how far the cut of a unit is that was ordered out, by the word of every
// node of its site: done once it is complete, or all is so that can be measured, which
// is then said. What the ledger remembers is asked where the nodes tell nothing any
// more; a unit that was out before there were cuts has none.
func cutOf(v *decide.View, now []decide.SiteNow, unit steadycast.Unit) (text string, done, failed bool) {
	newest := map[string]*decide.Cut{}
	for i := range v.Cuts { // the newest last
		if k := &v.Cuts[i]; k.Unit == unit && !k.Over && !k.Unheard { // which the site is, by now
			newest[k.Node] = &k.Cut
		}
	}
	for i := range now {
		for j := range slices.Backward(now[i].Cuts) { // the newest first
			if c := &now[i].Cuts[j]; c.Unit == unit && !c.Over {
				newest[cmp.Or(now[i].Node, c.Node)] = &c.Cut
			}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(newest)) {
		c := newest[node]
		switch why := strings.Join(c.Why, "; "); c.State {
		case decide.CutInProgress:
			return fmt.Sprintf("the cut of %s is in progress: %s", unit, why), false, false
		case decide.CutFailed:
			return fmt.Sprintf("the cut of %s has failed: %s", unit, why), false, true
		case decide.CutUnmeasured:
			text = fmt.Sprintf("the cut of %s is unmeasured: %s", unit, why)
		}
	}
	return text, true, false
}

func routesAre(n int) string {
	if n == 1 {
		return "1 route is"
	}
	return fmt.Sprintf("%d routes are", n)
}

// look makes one check.
func (s *steps) look(ctx context.Context, c probe.Check) steadycast.Result {
	if c.Exec != nil && len(c.Exec.Argv) > 0 && !s.mayRun(c.Exec.Argv[0]) {
		return steadycast.Result{Reason: s.mayNot(c.Exec.Argv[0])}
	}
	k, err := probe.Compile(c, s.env)
	if err != nil {
		return steadycast.Result{Reason: err.Error()}
	}
	return k.Run(ctx)
}

// mayRun reports whether node.yaml lets a table run the program here.
func (s *steps) mayRun(program string) bool { return slices.Contains(s.plan().Programs, program) }

func (s *steps) mayNot(program string) string {
	return fmt.Sprintf("%s is not among exec: of node.yaml at %s, which says what a table may run", filepath.Clean(program), s.node)
}
