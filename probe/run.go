package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
)

// body makes one attempt. It should stop at ctx's deadline; it is not trusted to.
type body interface {
	probe(ctx context.Context) steadycast.Result
}

// Compiled is a check that is ready to run. It may be used from many
// goroutines; at most one attempt runs at a time.
type Compiled struct {
	check Check // with defaults
	body  body
	// glance makes a [glance] of an attempt; nil where there is no such thing.
	glance func() glance

	running   atomic.Bool
	abandoned atomic.Uint64
}

// Compile makes a check ready. Everything that can be wrong with a check is
// found here, all of it at once, with the path of each problem.
func Compile(c Check, env Env) (*Compiled, error) {
	c = c.WithDefaults()
	if ps := c.Problems(); len(ps) > 0 {
		return nil, problems(ps)
	}
	b, err := kinds[c.Kind].compile(c, env)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", c.Name, err)
	}
	x := &Compiled{check: c, body: b}
	if g, ok := b.(glancer); ok && g.glances() {
		x.glance = g.glance
	}
	return x, nil
}

// problems joins what is wrong into one error.
func problems(ps []Problem) error {
	text := make([]string, len(ps))
	for i, p := range ps {
		text[i] = p.String()
	}
	return errors.New(strings.Join(text, "\n"))
}

// Check returns the settings, with defaults filled in.
func (c *Compiled) Check() Check { return c.check }

// Abandoned counts the attempts that did not stop at their deadline.
func (c *Compiled) Abandoned() uint64 { return c.abandoned.Load() }

// Running reports whether an attempt has not ended, an abandoned one included.
func (c *Compiled) Running() bool { return c.running.Load() }

// Run makes one attempt and returns within the check's timeout and a little
// more, whatever the attempt does. While another attempt runs it gives unknown.
func (c *Compiled) Run(ctx context.Context) steadycast.Result {
	out := make(chan steadycast.Result, 1)
	if !c.start(ctx, func(f func()) { go f() }, func(r steadycast.Result) { out <- r }) {
		return unknown("still running")
	}
	return <-out
}

// grace is how long after its deadline a body may take to say what it was doing.
func grace(timeout time.Duration) time.Duration {
	return min(max(timeout/4, 50*time.Millisecond), 250*time.Millisecond)
}

// admit reserves the one attempt that may run at a time; what begins it must
// deliver it.
func (c *Compiled) admit() bool { return c.running.CompareAndSwap(false, true) }

// start begins an attempt in a goroutine that run gives, and calls deliver exactly
// once, from another goroutine. It returns false, and does nothing, while an
// attempt runs.
func (c *Compiled) start(ctx context.Context, run func(func()), deliver func(steadycast.Result)) bool {
	if !c.admit() {
		return false
	}
	c.begin(ctx, run, deliver, time.Now(), c.body.probe)
	return true
}

// begin runs an attempt that was admitted, and began then, in a goroutine that run gives.
func (c *Compiled) begin(ctx context.Context, run func(func()), deliver func(steadycast.Result), began time.Time, probe func(context.Context) steadycast.Result) {
	timeout := c.check.Timeout
	var told atomic.Bool
	late := time.AfterFunc(max(time.Until(began.Add(timeout)), 0)+grace(timeout), func() {
		if told.CompareAndSwap(false, true) {
			c.abandoned.Add(1)
			deliver(steadycast.Result{
				Reason: fmt.Sprintf("the probe did not stop at its deadline of %v and was abandoned", timeout),
				Took:   time.Since(began),
			})
		}
	})
	run(func() {
		r := c.attempt(ctx, began, probe)
		c.running.Store(false)
		if late.Stop(); told.CompareAndSwap(false, true) {
			deliver(r)
		}
	})
}

// attempt runs probe once in this goroutine.
func (c *Compiled) attempt(ctx context.Context, began time.Time, probe func(context.Context) steadycast.Result) steadycast.Result {
	ctx, cancel := context.WithDeadline(ctx, began.Add(c.check.Timeout))
	defer cancel()
	r, _ := guarded(func() (steadycast.Result, bool) { return probe(ctx), true })
	r.Took = time.Since(began)
	switch {
	case r.Outcome == steadycast.Down && errors.Is(context.Cause(ctx), context.Canceled):
		// We were stopped; what was cut short says nothing about the service.
		r.Outcome, r.Class, r.Reason = steadycast.Unknown, steadycast.NoFailure, "stopped before it had ended"
	case r.Outcome == steadycast.Down && r.Took > c.check.Timeout+grace(c.check.Timeout):
		// The deadline was noticed well after it had passed: it was this host that
		// stood still, and perhaps the service with it for all we know.
		r.Reason = fmt.Sprintf("this host was late: its %v deadline ran out after %v (%s)",
			c.check.Timeout, r.Took.Round(time.Millisecond), r.Reason)
		r.Outcome, r.Class = steadycast.Unknown, steadycast.NoFailure
	}
	return r
}

// guarded runs a part of an attempt: a parser that breaks on what a server sent
// must not take the process along. What broke is over.
func guarded(part func() (steadycast.Result, bool)) (r steadycast.Result, over bool) {
	defer func() {
		if p := recover(); p != nil {
			r, over = unknown("the probe failed inside: %v", p), true
		}
	}()
	return part()
}
