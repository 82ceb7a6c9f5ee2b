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

	// The grid is phase + k·interval. next is when something is due: the next
	// round or, while one is open, another look; slot is where the newest round
	// was due, and onGrid whether next is a place of the grid.
	phase, next, slot time.Duration
	onGrid            bool
	at                int // place in the heap, -1 when not in it

	fast      bool          // until told otherwise
	once      bool          // fast, for one more round
	hurried   bool          // a round is wanted now
	lastHurry time.Duration // when the newest hurried round began

	// The newest round.
	rounds  uint64
	open    bool
	was     bool          // it was due on the grid
	started time.Duration // when it began
	oldest  time.Duration // when the oldest attempt that it rests on began
	pending int           // attempts that are waited for
	results []steadycast.Result
	seq     uint64
	failing int // rounds in a row, while this vantage can be believed
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
	part    part          // what it is to the open round
	queued  bool          // it waits for a slot
}

// part is what a task is to the open round.
type part uint8

const (
	settled  part = iota // its result stands, and may be replaced by a newer one
	awaited              // the round waits for its attempt
	leftover             // an earlier round's attempt still runs: taken if it ends in time, not waited for
)

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

// act does what is due for a service: a round or, while one is open, another
// look at what the round has an answer from already.
func (s *Scheduler) act(sv *service, now time.Duration) {
	if sv.open {
		s.lookAgain(sv, now)
	} else {
		s.begin(sv, now)
	}
	if sv.open {
		s.planLook(sv, now)
	}
}

// begin opens a round.
func (s *Scheduler) begin(sv *service, now time.Duration) {
	lag := now - sv.next
	s.n.Lag, s.n.LagMax, s.n.LagTotal = lag, max(s.n.LagMax, lag), s.n.LagTotal+lag
	sv.slot, sv.was = sv.next, sv.onGrid
	anew := sv.anew()
	if sv.hurried {
		sv.hurried, sv.lastHurry = false, now
	}
	sv.rounds++
	sv.open, sv.started, sv.oldest, sv.pending = true, now, now, 0
	for i, t := range sv.tasks {
		t.part = settled
		if !anew && t.have && sv.slot < t.nextDue {
			sv.results[i] = t.status.Load().Last
			continue
		}
		t.plan(sv.slot, sv.cfg.Interval)
		if t.run.Running() {
			t.part = leftover
			last := t.status.Load()
			t.count(func(c *CheckStatus) { c.Busy++ })
			sv.results[i] = unknown("still running since %v ago", (now - last.LastStart).Round(time.Millisecond))
			continue
		}
		t.part = awaited
		sv.results[i] = steadycast.Result{Reason: "not waited for"}
		sv.pending++
		if s.free(t) {
			s.launch(t, now, !anew)
		} else if !t.queued {
			t.queued = true
			s.queue = append(s.queue, waiting{t, now + patience})
		}
	}
	s.close(sv, now)
}

// anew reports whether every check looks, whatever its own interval: a failure
// that is being confirmed, and an event, want that, so that one failing look
// never counts as several.
func (sv *service) anew() bool { return sv.fast || sv.once || sv.hurried || sv.confirming() }

// confirming: another subject has begun to fail. Whoever judges it cannot set the
// pace of all that look at it, so each looks fast by itself for a while.
func (sv *service) confirming() bool {
	return sv.cfg.Subject != sv.cfg.Vantage && !sv.cfg.Controls && sv.failing > 0 && sv.failing < eager
}

// lookAgain asks those checks again that the open round has an answer from. A
// slow check keeps the round open, but must not keep a failure of another from
// being seen.
func (s *Scheduler) lookAgain(sv *service, now time.Duration) {
	if sv.hurried { // and a round of its own comes when this one is closed
		sv.lastHurry = now
	}
	for _, t := range sv.tasks {
		if t.part == settled && !t.queued && !t.run.Running() && (sv.anew() || sv.next >= t.nextDue) && s.free(t) {
			t.plan(sv.next, sv.cfg.Interval)
			s.launch(t, now, false)
		}
	}
}

// free reports whether an attempt may start now. What asks only this process
// and its kernel needs no slot.
func (s *Scheduler) free(t *task) bool {
	switch t.run.check.Kind {
	case "vip", "link", "bgp":
		return true
	}
	return s.n.Running < s.opts.Concurrency && len(s.queue) == 0
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

// launch begins an attempt for the round that is open. calm: nothing has happened,
// so it may take turns with others that are due now.
func (s *Scheduler) launch(t *task, now time.Duration, calm bool) {
	sv, round := t.service, t.service.rounds
	t.count(func(c *CheckStatus) { c.LastStart, c.Lag = now, now-sv.slot })
	s.n.Running++
	abandoned := t.run.Abandoned()
	deliver := func(r steadycast.Result, quiet bool) {
		s.leave(func(at time.Duration) {
			s.n.Running--
			lost := t.run.Abandoned() - abandoned
			s.ended(t, round, r, lost, at)
		}, quiet)
	}
	if calm && t.run.glance != nil && t.run.admit() {
		s.together = append(s.together, errand{ctx: sv.ctx, run: t.run, deliver: deliver})
		return
	}
	t.run.start(sv.ctx, s.crew.run, func(r steadycast.Result) { deliver(r, false) })
}

// lookTogether begins those attempts that may take turns.
func (s *Scheduler) lookTogether() {
	if len(s.together) > 0 {
		all := s.together
		s.together = nil
		s.crew.run(func() { together(all, s.crew.run); s.poke() })
	}
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
	if !sv.open || sv.rounds != round && t.part != leftover {
		return
	}
	if t.part == awaited {
		sv.pending--
	}
	t.part = settled
	sv.results[t.index] = r
	sv.oldest = min(sv.oldest, t.status.Load().LastStart)
	s.close(sv, now)
}

// serveQueue gives free slots to those who wait, and tells those who have
// waited too long.
func (s *Scheduler) serveQueue(now time.Duration) {
	for len(s.queue) > 0 {
		w := s.queue[0]
		sv, t := w.task.service, w.task
		wanted := sv.open && t.part == awaited
		switch {
		case !wanted:
		case s.n.Running < s.opts.Concurrency:
			s.launch(t, now, false)
		case now >= w.until:
			s.n.Saturated++
			t.count(func(c *CheckStatus) { c.Saturated++ })
			t.nextDue, t.part = 0, settled
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
	r := sv.expr.Eval(sv.result)
	if why, _ := s.gate.state(); r.Outcome != steadycast.Down || why != "" {
		sv.failing = 0
	} else {
		sv.failing++
	}
	s.planNext(sv, now)
	if missed := (sv.next-sv.slot)/sv.cfg.Interval - 1; sv.was && sv.onGrid && missed > 0 {
		s.n.Skipped += uint64(missed)
	}
	s.say(sv, r, now)
}

// say tells what a round found.
func (s *Scheduler) say(sv *service, r steadycast.Result, now time.Duration) {
	wanted := false
	if sv.cfg.Controls {
		wanted = s.gate.judged(r, sv.oldest, now, s.opts.OnResult)
	} else {
		wanted = s.gate.pass(held{
			key: sv.cfg.key(),
			o: steadycast.Observation{Vantage: sv.cfg.Vantage, Subject: sv.cfg.Subject, Service: sv.cfg.Name,
				Result: r, Seq: sv.seq},
			started: sv.oldest, seen: now,
		}, sv.failing <= eager, s.opts.OnResult)
	}
	if wanted {
		s.hurry(s.services[controlsKey], now)
	}
}

// planNext sets when the next round is due, after one has been closed.
func (s *Scheduler) planNext(sv *service, now time.Duration) {
	f := sv.cfg.FastInterval
	switch {
	case sv.hurried:
		s.schedule(sv, max(now, sv.lastHurry+f), false)
	case sv.fast || sv.once || sv.confirming():
		s.schedule(sv, max(now, sv.started+f), false)
	default:
		s.schedule(sv, sv.nextSlot(now), true)
	}
	sv.once = false
}

// planLook sets when an open round looks again.
func (s *Scheduler) planLook(sv *service, now time.Duration) {
	if sv.fast || sv.once || sv.confirming() {
		s.schedule(sv, now+sv.cfg.FastInterval, false)
	} else {
		s.schedule(sv, sv.nextSlot(now+1), true)
	}
}

// schedule puts the service into the heap, or moves it there.
func (s *Scheduler) schedule(sv *service, next time.Duration, onGrid bool) {
	sv.next, sv.onGrid = next, onGrid
	if sv.at >= 0 {
		heap.Fix(&s.due, sv.at)
	} else {
		heap.Push(&s.due, sv)
	}
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

// repace follows a change of the pace. A first round keeps its jitter.
func (s *Scheduler) repace(sv *service, now time.Duration) {
	switch {
	case sv.rounds == 0:
	case sv.open:
		s.planLook(sv, now)
	default:
		s.planNext(sv, now)
	}
}

// hurry wants a look at once, and a round of its own if one is open.
func (s *Scheduler) hurry(sv *service, now time.Duration) {
	sv.hurried = true
	s.schedule(sv, min(sv.next, max(now, sv.lastHurry+sv.cfg.FastInterval)), false)
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
