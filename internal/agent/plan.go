package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/probe"
)

// How this node carries out steps of plans.
const (
	// stepRank is how much later than the node before it a node asks for a step:
	// usually the first is there, and the others ask for nothing.
	stepRank     = 500 * time.Millisecond
	stepRankMost = 10 * time.Second
	// stepLook is the time between two looks of a step, stepNote between two words
	// that it goes on.
	stepLook = time.Second
	stepNote = 10 * time.Second
	// stepSpare is how long before its lease ends a run has ended here.
	stepSpare = 5 * time.Second
	stepCall  = 5 * time.Second // one call of the ledger
)

// stepTry is one try of a step of a run.
type stepTry struct {
	run  uint64
	step int
	try  uint64
}

// taken is what came of a take. One that the ledger refused is not this start's,
// whoever the ledger names as its holder: an earlier start of the node may have it,
// which this one did not see yet when it asked, and what that one ran may still run.
// Where it was our own and only its answer was lost, another try costs little.
type taken struct {
	stepTry
	refused bool
}

// steps carries out what the ledger gave this node of plans. It follows the
// committed state and nothing else: a step is its own while the ledger says so,
// what came of it is said until the ledger has it, and a try that an earlier
// start of this node took is dropped. Its fields belong to the goroutine of run,
// but for those of works.
type steps struct {
	site, node, fleet string
	ledger            ledger.Ledger
	plan              func() *Plan
	env               probe.Env
	log               *slog.Logger

	wanted map[stepTry]time.Time // open steps, since when this node knows of them
	sent   map[stepTry]time.Time // takes that this start of the node sent, and when
	works  map[stepTry]context.CancelCauseFunc
	ended  chan stepTry // works that have ended
	asked  chan taken   // takes that were answered
	asking map[stepTry]bool
	all    sync.WaitGroup
}

func newSteps(a *Agent) *steps {
	return &steps{
		site: a.o.Site, node: a.o.Node, fleet: a.o.Fleet, ledger: a.o.Ledger, plan: a.plan.Load, env: a.env(), log: a.o.Logger,
		wanted: map[stepTry]time.Time{}, sent: map[stepTry]time.Time{}, works: map[stepTry]context.CancelCauseFunc{},
		ended: make(chan stepTry), asked: make(chan taken), asking: map[stepTry]bool{},
	}
}

// run follows the ledger until ctx ends, and returns when nothing runs any more.
func (s *steps) run(ctx context.Context) {
	defer s.all.Wait()
	changed, stop := s.ledger.Watch()
	defer stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-due.C:
		case t := <-s.ended:
			s.works[t](nil)
			delete(s.works, t)
			delete(s.sent, t) // where the view lags it is not begun once more
		case x := <-s.asked:
			delete(s.asking, x.stepTry)
			if x.refused {
				delete(s.sent, x.stepTry)
			}
		}
		if next, ok := s.follow(ctx, s.ledger.View()); ok {
			due.Reset(next)
		}
	}
}

// errNotOurs: the ledger does not count this node as the holder any more.
var errNotOurs = errors.New("the step is not this node's any more")

// follow does what the committed state calls for, and says when to look again.
func (s *steps) follow(ctx context.Context, v decide.View) (next time.Duration, ok bool) {
	held, open := map[stepTry]bool{}, map[stepTry]bool{}
	for _, r := range v.Plans {
		if !r.State.Live() {
			continue
		}
		for k, st := range r.Steps {
			if st.Node != s.node || st.Site != s.site {
				continue
			}
			t := stepTry{r.Number, k, st.Try}
			held[t] = true
			s.hold(ctx, t, r)
		}
		k, can := r.Open()
		if !can || r.Hold != nil || r.Steps[k].Held() || !s.may(&r, k) {
			continue
		}
		t := stepTry{r.Number, k, r.Steps[k].Try + 1}
		open[t] = true
		if _, known := s.wanted[t]; !known {
			s.wanted[t] = time.Now()
		}
		wait := s.rank(&v, t, r.Plan.Steps[k].At) - time.Since(s.wanted[t])
		switch {
		case wait > 0:
			if !ok || wait < next {
				next, ok = wait, true
			}
		case !s.asking[t]:
			s.take(ctx, t, r.Plan.Name)
			fallthrough
		default:
			next, ok = stepLook, true // so that a take that failed is made again
		}
	}
	for t, cancel := range s.works {
		if !held[t] {
			cancel(errNotOurs)
		}
	}
	for t := range s.wanted {
		if !open[t] {
			delete(s.wanted, t)
		}
	}
	for t := range s.sent {
		if !open[t] && !held[t] && !s.asking[t] {
			delete(s.sent, t)
		}
	}
	return next, ok
}

// may: the step can be carried out from here, and its details are those that
// this node knows.
func (s *steps) may(r *decide.PlanRun, k int) bool {
	if at := r.Plan.Steps[k].At; at != "" && at != s.site {
		return false
	}
	_, _, known := s.details(r, k)
	return known
}

// details are what the text of the table says of a step.
func (s *steps) details(r *decide.PlanRun, k int) (p config.Plan, step config.PlanStep, ok bool) {
	plan := s.plan()
	i := slices.IndexFunc(plan.Table.Plans, func(x decide.Plan) bool { return x.Name == r.Plan.Name })
	j := slices.IndexFunc(plan.Plans, func(x config.Plan) bool { return x.Name == r.Plan.Name })
	if i < 0 || j < 0 || len(plan.Table.Plans[i].Steps) != len(r.Steps) || len(plan.Plans[j].Steps) != len(r.Steps) ||
		plan.Table.Plans[i].Steps[k].Details != r.Plan.Steps[k].Details || plan.Plans[j].Steps[k].Name != r.Plan.Steps[k].Name {
		return p, step, false
	}
	return plan.Plans[j], plan.Plans[j].Steps[k], true
}

// rank is how long this node waits before it asks for a step: the nodes stand in
// another order for each try, so that one that is gone delays each but once.
func (s *steps) rank(v *decide.View, t stepTry, at string) time.Duration {
	var nodes []string
	for _, p := range v.Table.Sites {
		if at != "" && p.Name != at {
			continue
		}
		for _, n := range p.Nodes {
			nodes = append(nodes, n.Name)
		}
		if len(p.Nodes) == 0 {
			nodes = append(nodes, p.Name+"-1")
		}
	}
	i := slices.Index(nodes, s.node)
	if i < 0 {
		return stepRankMost
	}
	first := int((t.run + uint64(t.step) + t.try) % uint64(len(nodes)))
	return min(stepRankMost, time.Duration((i-first+len(nodes))%len(nodes))*stepRank)
}

// take asks the ledger for a step, with what the metric reads now.
func (s *steps) take(ctx context.Context, t stepTry, plan string) {
	s.asking[t] = true
	if _, again := s.sent[t]; !again {
		s.sent[t] = time.Now()
	}
	var metric *probe.Check
	for _, p := range s.plan().Plans {
		if p.Name == plan {
			metric = p.Metric
		}
	}
	s.all.Go(func() {
		w := s.word(t, decide.SayTake, "")
		w.Then = s.measure(ctx, metric)
		heard, err := s.tell(ctx, w)
		select {
		case s.asked <- taken{t, heard && err != nil}:
		case <-ctx.Done():
		}
	})
}

func (s *steps) word(t stepTry, say, text string) decide.StepWord {
	return decide.StepWord{Run: t.run, Step: t.step, Try: t.try, Site: s.site, Node: s.node, Say: say, Text: text}
}

// tell says something to the ledger once; false where nothing is known of it.
func (s *steps) tell(ctx context.Context, w decide.StepWord) (heard bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepCall)
	defer cancel()
	_, err = s.ledger.Step(ctx, w)
	_, invalid := errors.AsType[ledger.Invalid](err)
	if err != nil {
		s.log.Debug("a word of a step was not taken", "run", w.Run, "step", w.Step+1, "say", w.Say, "why", err)
	}
	return err == nil || invalid, err
}

// hold works on a try that the ledger gave this node.
func (s *steps) hold(ctx context.Context, t stepTry, r decide.PlanRun) {
	if _, busy := s.works[t]; busy || s.asking[t] {
		return // as soon as the take is answered
	}
	work, cancel := context.WithCancelCause(ctx)
	s.works[t] = cancel
	since, ours := s.sent[t]
	s.all.Go(func() {
		defer func() {
			select {
			case s.ended <- t:
			case <-ctx.Done():
			}
		}()
		out := decide.StepWord{Say: decide.SayDrop, Text: s.node + " was started anew and does not know what came of it"}
		if ours {
			out = s.work(work, t, r, since)
		}
		s.result(ctx, work, t, out)
	})
}

// result is said until the ledger has it, or has given the step to another.
func (s *steps) result(ctx, work context.Context, t stepTry, out decide.StepWord) {
	w := s.word(t, out.Say, out.Text)
	w.Now, w.Effective, w.Nodes = out.Now, out.Effective, out.Nodes
	for ctx.Err() == nil && !errors.Is(context.Cause(work), errNotOurs) {
		if heard, err := s.tell(ctx, w); heard {
			if err != nil { // it may be so in a moment: a route that is not in yet
				w.Say = decide.SayDrop
				if _, again := s.tell(ctx, w); again == nil {
					return
				}
			}
			return
		}
		pause(ctx, stepLook)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// measure reads the plan's metric; empty where it has none.
func (s *steps) measure(ctx context.Context, metric *probe.Check) string {
	if metric == nil {
		return ""
	}
	r := s.look(ctx, *metric)
	return fmt.Sprintf("%s: %s", r.Outcome, r.Reason)
}
