package probe

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
)

// Options of a scheduler. The callbacks run on its one goroutine, one at a
// time: they must return soon, and may call Set, Pace and Hurry but not Stop.
type Options struct {
	// Concurrency bounds the attempts that run at one time; default 1024.
	Concurrency int
	// OnResult gets one observation a round. started is when the round began, or
	// the oldest attempt that it waited for or took over: monotonic, since the
	// scheduler was made. The age of the observation counts from it. (A result
	// that is used again within its check's own interval may be older.)
	OnResult func(o steadycast.Observation, started time.Duration)
	// OnCheck gets the state of a check after each attempt.
	OnCheck func(CheckStatus)
	Env     Env
	// Seed of the jitter, for tests; 0 takes a random one.
	Seed uint64
}

// patience is how long an attempt waits for a free slot before its round takes
// it as unknown.
const patience = 500 * time.Millisecond

// Scheduler runs services in rounds.
//
// One goroutine, in loop, owns everything below "owned by the loop". The rest
// of the world leaves word in inbox, which is bounded by what runs and by its
// callers, and reads snapshots. One timer wakes the loop for the next round
// that is due, whatever the number of services; rounds of one interval fall on
// a common tick so that a wake-up starts several.
//
// A service has at most one round at a time. It is closed as soon as its
// expression is decided, and what is still running then is left to end by
// itself. While it is open its slots pass by, skipped and counted, and only
// serve to look again at what has answered already. An attempt is never begun
// while the last one of the same check has not ended.
type Scheduler struct {
	opts    Options
	epoch   time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	wires   sync.WaitGroup // tripwires
	crew    *crew
	compile func(Check, Env) (*Compiled, error)

	mu    sync.Mutex
	inbox []func(now time.Duration)
	wake  chan struct{} // holds one

	published atomic.Pointer[[]*task]
	stats     atomic.Pointer[Stats]

	// Owned by the loop.
	rng      *rand.Rand
	timer    *time.Timer
	services map[serviceKey]*service
	due      dueHeap
	queue    []waiting
	together []errand // to begin at the end of this turn
	gate     gate
	seqMax   uint64
	base     time.Duration // where the ticks lie
	n        Stats
}

type serviceKey struct{ name, subject string }

// controlsKey is that of the controls, which are about no subject.
var controlsKey = Controls{}.Service("").key()

func (s Service) key() serviceKey { return serviceKey{s.Name, s.Subject} }

// NewScheduler starts a scheduler that has no services yet.
func NewScheduler(o Options) *Scheduler { return newScheduler(o, Compile) }

func newScheduler(o Options, compile func(Check, Env) (*Compiled, error)) *Scheduler {
	if o.Concurrency <= 0 {
		o.Concurrency = 1024
	}
	if o.OnResult == nil {
		o.OnResult = func(steadycast.Observation, time.Duration) {}
	}
	if o.OnCheck == nil {
		o.OnCheck = func(CheckStatus) {}
	}
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	s := &Scheduler{
		opts: o, epoch: time.Now(), done: make(chan struct{}), compile: compile,
		wake: make(chan struct{}, 1), services: map[serviceKey]*service{},
		rng: rand.New(rand.NewPCG(seed, seed)), timer: time.NewTimer(time.Hour),
	}
	s.n.Concurrency = o.Concurrency
	s.base = time.Duration(s.rng.Int64N(int64(maxTick)))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.crew = newCrew(s.ctx.Done())
	s.published.Store(&[]*task{})
	s.publish()
	go s.loop()
	return s
}

// Now is the scheduler's time: monotonic, since it was made.
func (s *Scheduler) Now() time.Duration { return time.Since(s.epoch) }

// Set gives the whole set of services. A service that is as it was keeps its
// state, its phase and its place in the count; the first round of a new one
// comes at a random time within its interval. When anything is wrong nothing
// changes and the error names all of it.
func (s *Scheduler) Set(services []Service) error {
	if s.ctx.Err() != nil {
		return errors.New("the scheduler has been stopped")
	}
	fresh := make([]*service, len(services))
	var errs []error
	seen := map[serviceKey]bool{}
	for i, cfg := range services {
		cfg = cfg.WithDefaults()
		at := fmt.Sprintf("services[%d] (%s)", i, cfg.Name)
		if seen[cfg.key()] {
			errs = append(errs, fmt.Errorf("%s: another service has this name and subject", at))
		}
		seen[cfg.key()] = true
		sv, err := s.prepare(cfg)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at, err))
		}
		fresh[i] = sv
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	s.tell(func(now time.Duration) { s.replace(now, fresh) })
	return nil
}

// Pace sets how often this node's own service is looked at: fast from the start
// of its newest round, or back on its grid. Other subjects have a pace of their
// own: fast while their first failures are confirmed.
func (s *Scheduler) Pace(service string, fast bool) {
	s.tell(func(now time.Duration) {
		for _, sv := range s.own(service) {
			if sv.fast != fast {
				sv.fast = fast
				s.repace(sv, now)
			}
		}
	})
}

// Hurry runs a round of every check of this node's own service now, or right after the one that is open,
// which may have looked before what the caller knows of. Hurried rounds are at
// least the fast interval apart.
func (s *Scheduler) Hurry(service string) {
	s.tell(func(now time.Duration) {
		for _, sv := range s.own(service) {
			s.hurry(sv, now)
		}
	})
}

// Status gives the state of every check, in the order they were set.
func (s *Scheduler) Status() []CheckStatus {
	tasks := *s.published.Load()
	out := make([]CheckStatus, len(tasks))
	for i, t := range tasks {
		out[i] = *t.status.Load()
		if t.wire != nil {
			out[i].Tripwire = t.wire.state()
		}
	}
	return out
}

// Stats gives the scheduler's own numbers.
func (s *Scheduler) Stats() Stats { return *s.stats.Load() }

// Stop ends all attempts and returns when each has ended or been abandoned.
// No callback runs after it.
func (s *Scheduler) Stop() {
	s.cancel()
	<-s.done
	s.wires.Wait()
}

// tell leaves word for the loop and wakes it.
func (s *Scheduler) tell(f func(now time.Duration)) {
	s.leave(f, false)
}

// leave leaves word for the loop. Quietly: it is not woken for that; whoever
// leaves it so pokes it soon.
func (s *Scheduler) leave(f func(now time.Duration), quietly bool) {
	s.mu.Lock()
	s.inbox = append(s.inbox, f)
	s.mu.Unlock()
	if !quietly {
		s.poke()
	}
}

// poke wakes the loop.
func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Scheduler) loop() {
	defer close(s.done)
	defer s.timer.Stop()
	stopping := s.ctx.Done()
	for {
		select {
		case <-s.wake:
		case <-s.timer.C:
		case <-stopping:
			stopping = nil
		}
		s.mu.Lock()
		words := s.inbox
		s.inbox = nil
		s.mu.Unlock()
		now := s.Now()
		for _, word := range words {
			word(now)
		}
		if s.ctx.Err() != nil {
			s.publish()
			if s.n.Running == 0 {
				return
			}
			continue
		}
		now = s.Now()
		for len(s.due) > 0 && s.due[0].next <= now {
			s.act(heap.Pop(&s.due).(*service), now)
		}
		s.serveQueue(now)
		s.lookTogether()
		s.publish()
		s.arm()
	}
}

// arm sets the timer for whatever comes first.
func (s *Scheduler) arm() {
	next := s.Now() + time.Hour
	if len(s.due) > 0 {
		next = s.due[0].next
	}
	if len(s.queue) > 0 {
		next = min(next, s.queue[0].until)
	}
	s.timer.Reset(max(0, next-s.Now()))
}

func (s *Scheduler) publish() {
	n := s.n
	n.Queued = len(s.queue)
	n.Ineligible, n.Held = s.gate.state()
	s.stats.Store(&n)
}

// own are the services of that name which this node looks at in itself.
func (s *Scheduler) own(name string) []*service {
	var out []*service
	for k, sv := range s.services {
		if k.name == name && sv.cfg.Subject == sv.cfg.Vantage {
			out = append(out, sv)
		}
	}
	return out
}

// replace makes fresh the whole set.
func (s *Scheduler) replace(now time.Duration, fresh []*service) {
	if s.ctx.Err() != nil {
		return
	}
	before := s.services
	s.services = make(map[serviceKey]*service, len(fresh))
	tasks := []*task{}
	s.n.Services, s.n.Checks = len(fresh), 0
	rate := 0.0 // rounds a second
	for _, sv := range fresh {
		rate += 1 / sv.cfg.Interval.Seconds()
	}
	for _, sv := range fresh {
		key := sv.cfg.key()
		old := before[key]
		if old != nil && reflect.DeepEqual(old.cfg, sv.cfg) {
			sv = old
			delete(before, key)
		} else {
			sv.seq = s.seqMax // above all that was said before under this name
			if old != nil {
				sv.fast = old.fast
			}
			s.introduce(sv, now, rate)
		}
		s.services[key] = sv
		tasks = append(tasks, sv.tasks...)
		s.n.Checks += len(sv.tasks)
	}
	was := before[controlsKey]
	for _, old := range before {
		s.retire(old)
	}
	controls := s.services[controlsKey]
	s.gate.set(controls != nil, was == nil && controls != nil && controls.rounds > 0, func(k serviceKey) bool { return s.services[k] != nil }, s.opts.OnResult)
	if controls != nil && controls.rounds == 0 { // until they have answered this vantage is no voice
		s.hurry(controls, now)
	}
	s.published.Store(&tasks)
}

// introduce plans the first round of a new service and sets its tripwires up.
func (s *Scheduler) introduce(sv *service, now time.Duration, rate float64) {
	sv.ctx, sv.cancel = context.WithCancel(s.ctx)
	t := tick(sv.cfg.Interval, rate)
	base := s.base % t
	steps := int64(min(sv.cfg.Interval, maxJitter) / t)
	sv.phase = base + (now-base+t-1)/t*t + time.Duration(s.rng.Int64N(max(1, steps)))*t
	s.schedule(sv, sv.phase, true)
	for _, t := range sv.tasks {
		if t.wire != nil {
			s.wires.Go(func() { t.wire.hold(sv.ctx, func() { s.tell(func(now time.Duration) { s.tripped(sv, now) }) }) })
		}
	}
}

const (
	// maxJitter bounds the wait for a first round.
	maxJitter = 10 * time.Second
	// maxTick is the coarsest tick, perTick about how many rounds share one.
	maxTick = 250 * time.Millisecond
	perTick = 25
)

// tick is the step in which rounds of an interval are spread: coarse when there
// are few rounds a second, since most of what a paced probe costs is the waking
// up for it, and fine when there are many, since bursts lose datagrams. Where on
// the clock the ticks lie is random for each scheduler.
func tick(interval time.Duration, rate float64) time.Duration {
	t := maxTick
	for t > time.Millisecond && (t > interval/4 || t.Seconds()*rate > perTick) {
		t /= 2
	}
	return t
}

func (s *Scheduler) retire(sv *service) {
	sv.gone = true
	sv.cancel()
	if sv.at >= 0 {
		heap.Remove(&s.due, sv.at)
	}
	s.queue = slices.DeleteFunc(s.queue, func(w waiting) bool { return w.task.service == sv })
}

// dueHeap orders services by when something is due for them.
type dueHeap []*service

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].next < h[j].next }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *dueHeap) Push(x any) {
	sv := x.(*service)
	sv.at = len(*h)
	*h = append(*h, sv)
}
func (h *dueHeap) Pop() any {
	old := *h
	sv := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	sv.at = -1
	return sv
}
