package probe

import (
	"context"
	"time"

	"github.com/steadycast/steadycast"
)

// glance is an attempt that can be carried on piece by piece without waiting, as
// far as the other side is quick enough: a service on this host, or near. Several
// of them take turns in one goroutine, without a timer, a context or a place in
// the poller for each, which would cost as much as the look itself.
type glance interface {
	// more goes on as far as it can without waiting. over means that r is the result.
	more() (r steadycast.Result, over bool)
	// wait goes on from there, until ctx's deadline.
	wait(ctx context.Context) steadycast.Result
	// drop leaves nothing of it, wherever it stands, and however often.
	drop()
}

// glancer is a body whose attempts may be glances: always or never.
type glancer interface {
	glances() bool
	glance() glance
}

// look makes one attempt of a glance.
func look(ctx context.Context, g glance) steadycast.Result {
	defer g.drop()
	if r, over := g.more(); over {
		return r
	}
	return g.wait(ctx)
}

const (
	// turns is how many attempts take turns in one goroutine, and moment how long
	// those that have no answer after two turns are left alone before the third.
	// Both bound how long an answer lies there until it is read, and so what is said
	// of the time it took: a few milliseconds.
	turns  = 32
	moment = time.Millisecond
)

// errand is an attempt that was admitted and may be made along with others.
type errand struct {
	ctx context.Context
	run *Compiled
	// deliver takes the result; quiet: more come at once, and nothing is wrong.
	deliver func(r steadycast.Result, quiet bool)
	began   time.Time
	glance  glance // nil once it is over
}

// together makes attempts in this goroutine, and gives those that have to be
// waited for to others that run finds. Each is delivered once.
func together(all []errand, run func(func())) {
	for len(all) > 0 {
		some := all[:min(turns, len(all))]
		all = all[len(some):]
		for i := range some {
			e := &some[i]
			e.began, e.glance = time.Now(), e.run.glance()
			e.turn()
		}
		left := 0
		for i := range some {
			if some[i].turn(); some[i].glance != nil {
				left++
			}
		}
		if left > 1 {
			time.Sleep(moment) // costs less than to wait for each by itself
			for i := range some {
				some[i].turn()
			}
		}
		for i := range some {
			if e := &some[i]; e.glance != nil {
				e.run.begin(e.ctx, run, e.loudly, e.began, func(ctx context.Context) steadycast.Result {
					defer e.glance.drop()
					return e.glance.wait(ctx)
				})
			}
		}
	}
}

// turn carries an attempt on, and delivers its result if it has one. One whose
// time is up is left to those that wait, which know what that means.
func (e *errand) turn() {
	if e.glance == nil || e.ctx.Err() != nil || time.Since(e.began) >= e.run.check.Timeout {
		return
	}
	r, over := guarded(e.glance.more)
	if !over {
		return
	}
	e.glance.drop()
	e.glance = nil
	r.Took = time.Since(e.began)
	e.run.running.Store(false)
	e.deliver(r, r.Outcome == steadycast.Up)
}

func (e *errand) loudly(r steadycast.Result) { e.deliver(r, false) }
