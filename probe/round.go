package probe

import (
	"container/heap"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
)

// service is one Service at work. It belongs to the scheduler's loop, but for
// what is immutable: cfg, expr, tasks.
type service struct {
	cfg    Service
	expr   *Expr
	tasks  []*task
	ctx    context.Context
	cancel context.CancelFunc
	gone   bool

	// The grid is phase + k·interval. next is when the next round is due, while
	// none is open; slot is where the newest was due, and onGrid whether that is
	// (will be) a place of the grid.
	phase, next, slot time.Duration
	onGrid            bool
	at                int // place in the heap, -1 when a round is open

	fast      bool          // until told otherwise
	once      bool          // fast, for one more round
	hurried   bool          // a round is wanted now
	lastHurry time.Duration // when the newest hurried round began

	// The newest round.
	rounds  uint64
	open    bool
	started time.Duration
	pending int
	results []steadycast.Result
	seq     uint64
}

// task is one check of a service at work.
type task struct {
	service *service
	index   int
	run     *Compiled
	wire    *tripwire // nil when there is none

	status atomic.Pointer[CheckStatus] // replaced by the loop, read by all

	// Owned by the loop.
	have    bool          // a result that may be used again
	nextDue time.Duration // when a check with an interval of its own runs again
	queued  bool          // it waits for a slot …
	wanted  uint64        // … for this round
}

// waiting is an attempt for which no slot was free.
type waiting struct {
	task  *task
	until time.Duration
}

// prepare compiles a service; it runs on the caller's goroutine.
func (s *Scheduler) prepare(cfg Service) (*service, error) {
	if ps := cfg.Problems(); len(ps) > 0 {
		return nil, problems(ps)
	}
	sv := &service{cfg: cfg, at: -1, lastHurry: -time.Hour, results: make([]steadycast.Result, len(cfg.Checks))}
	names := make([]string, len(cfg.Checks))
	for i, c := range cfg.Checks {
		names[i] = c.Name
		run, err := s.compile(c, s.opts.Env)
		if err != nil {
			return nil, err
		}
		t := &task{service: sv, index: i, run: run}
		t.status.Store(&CheckStatus{Service: cfg.Name, Subject: cfg.Subject, Check: c.Name, Kind: c.Kind, Target: c.Target})
		if c.Tripwire {
			t.wire = newTripwire(run.check, s.opts.Env)
		}
		sv.tasks = append(sv.tasks, t)
	}
	sv.expr = All(names)
	if cfg.Up != "" {
		var err error
		if sv.expr, err = ParseExpr(cfg.Up, names); err != nil {
			return nil, err
		}
	}
	return sv, nil
}

// result gives what the round knows of a check; what is pending is unknown.
func (sv *service) result(name string) steadycast.Result {
	for i := range sv.tasks {
		if sv.tasks[i].run.check.Name == name {
			return sv.results[i]
		}
	}
	return steadycast.Result{}
}

// begin opens a round.
func (s *Scheduler) begin(sv *service, now time.Duration) {
	lag := now - sv.next
	s.n.Lag, s.n.LagMax, s.n.LagTotal = lag, max(s.n.LagMax, lag), s.n.LagTotal+lag
	sv.slot = sv.next
	// A failure that is being confirmed, and an event, want every check to look anew.
	anew := sv.fast || sv.once || sv.hurried
	if sv.hurried {
		sv.hurried, sv.lastHurry = false, now
	}
	sv.rounds++
	sv.open, sv.started, sv.pending = true, now, 0
	for i, t := range sv.tasks {
		if !anew && t.have && sv.slot < t.nextDue {
			sv.results[i] = t.status.Load().Last
			continue
		}
		t.plan(sv.slot, sv.cfg.Interval)
		if t.run.Running() {
			last := t.status.Load()
			t.count(func(c *CheckStatus) { c.Busy++ })
			sv.results[i] = unknown("still running since %v ago", (now - last.LastStart).Round(time.Millisecond))
			continue
		}
		sv.results[i] = steadycast.Result{Reason: "not waited for"}
		sv.pending++
		if s.n.Running < s.opts.Concurrency && len(s.queue) == 0 {
			s.launch(t, now)
			continue
		}
		if t.wanted = sv.rounds; !t.queued {
			t.queued = true
			s.queue = append(s.queue, waiting{t, now + patience})
		}
	}
	s.close(sv, now)
}

// plan sets when a check with an interval of its own is due again.
func (t *task) plan(slot, rounds time.Duration) {
	own := t.run.check.Interval
	if own <= rounds {
		t.nextDue = 0
		return
	}
	if t.nextDue += own; t.nextDue <= slot || t.nextDue > slot+own {
		t.nextDue = slot + own
	}
}

func (t *task) count(change func(*CheckStatus)) {
	c := *t.status.Load()
	change(&c)
	t.status.Store(&c)
}

// launch begins an attempt for the round that is open.
func (s *Scheduler) launch(t *task, now time.Duration) {
	sv, round := t.service, t.service.rounds
	t.count(func(c *CheckStatus) { c.LastStart, c.Lag = now, now-sv.slot })
	s.n.Running++
	abandoned := t.run.Abandoned()
	t.run.start(sv.ctx, func(r steadycast.Result) {
		s.tell(func(at time.Duration) {
			s.n.Running--
			lost := t.run.Abandoned() - abandoned
			s.ended(t, round, r, lost, at)
		})
	})
}

// ended takes an attempt's result.
func (s *Scheduler) ended(t *task, round uint64, r steadycast.Result, lost uint64, now time.Duration) {
	s.n.Runs++
	s.n.Abandoned += lost
	sv := t.service
	if sv.gone || s.ctx.Err() != nil {
		return
	}
	t.have = true
	t.count(func(c *CheckStatus) {
		c.Last = r
		c.Runs++
		c.Abandoned += lost
		switch r.Outcome {
		case steadycast.Up:
			c.Ups++
			c.LastUp = c.LastStart
		case steadycast.Down:
			c.Downs++
		default:
			c.Unknowns++
		}
	})
	s.opts.OnCheck(*t.status.Load())
	if sv.open && sv.rounds == round {
		sv.results[t.index] = r
		sv.pending--
		s.close(sv, now)
	}
}

// serveQueue gives free slots to those who wait, and tells those who have
// waited too long.
func (s *Scheduler) serveQueue(now time.Duration) {
	for len(s.queue) > 0 {
		w := s.queue[0]
		sv, t := w.task.service, w.task
		wanted := sv.open && t.wanted == sv.rounds
		switch {
		case !wanted:
		case s.n.Running < s.opts.Concurrency:
			s.launch(t, now)
		case now >= w.until:
			s.n.Saturated++
			t.count(func(c *CheckStatus) { c.Saturated++ })
			t.nextDue = 0
			sv.results[t.index] = unknown("prober saturated: %d attempts run, and none ended within %v", s.n.Running, patience)
			sv.pending--
		default:
			return
		}
		t.queued = false
		s.queue = slices.Delete(s.queue, 0, 1)
		if wanted && sv.open {
			s.close(sv, now)
		}
	}
}

// close ends the round when its expression is decided, or nothing is pending,
// and plans the next.
func (s *Scheduler) close(sv *service, now time.Duration) {
	if sv.pending > 0 && sv.expr.outcome(sv.result) == steadycast.Unknown {
		return
	}
	sv.open = false
	sv.seq++
	s.seqMax = max(s.seqMax, sv.seq)
	s.n.Rounds++
	s.planNext(sv, now)
	s.opts.OnResult(steadycast.Observation{
		Vantage: sv.cfg.Vantage, Subject: sv.cfg.Subject, Service: sv.cfg.Name,
		Result: sv.expr.Eval(sv.result), Seq: sv.seq,
	}, sv.started)
}

// planNext sets when the next round is due, after one has been closed.
func (s *Scheduler) planNext(sv *service, now time.Duration) {
	f := sv.cfg.FastInterval
	was := sv.onGrid
	switch {
	case sv.hurried:
		sv.next, sv.onGrid = max(now, sv.lastHurry+f), false
	case sv.fast || sv.once:
		sv.next, sv.onGrid = max(now, sv.started+f), false
	default:
		sv.next, sv.onGrid = sv.nextSlot(now), true
		if missed := (sv.next-sv.slot)/sv.cfg.Interval - 1; was && missed > 0 {
			s.n.Skipped += uint64(missed)
		}
	}
	sv.once = false
	heap.Push(&s.due, sv)
}

// nextSlot is the first place of the grid that is not before now and after the
// newest round's.
func (sv *service) nextSlot(now time.Duration) time.Duration {
	every := sv.cfg.Interval
	k := max(0, (now-sv.phase+every-1)/every)
	slot := sv.phase + k*every
	if slot <= sv.slot && sv.rounds > 0 {
		slot += every
	}
	return slot
}

// replan moves the next round after the pace has changed.
func (s *Scheduler) replan(sv *service, now time.Duration) {
	if sv.open || sv.rounds == 0 {
		return // taken up when the round closes; a first round keeps its jitter
	}
	heap.Remove(&s.due, sv.at)
	s.planNext(sv, now)
}

func (s *Scheduler) hurry(sv *service, now time.Duration) {
	sv.hurried = true
	if sv.open {
		return
	}
	heap.Remove(&s.due, sv.at)
	once := sv.once
	s.planNext(sv, now)
	sv.once = once
}

// tripped: an idle connection was lost. The probes look now, and once more soon.
func (s *Scheduler) tripped(sv *service, now time.Duration) {
	if sv.gone || s.ctx.Err() != nil {
		return
	}
	s.n.Trips++
	sv.once = true
	s.hurry(sv, now)
}
