package probe

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
)

// fake is a body made of a function.
type fake func(ctx context.Context) steadycast.Result

func (f fake) probe(ctx context.Context) steadycast.Result { return f(ctx) }

func faked(name string, timeout time.Duration, f fake) *Compiled {
	return &Compiled{check: Check{Name: name, Kind: "tcp", Target: "it", Timeout: timeout}, body: f}
}

// pause waits in a way that the bubble's clock can pass, and ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestRunDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := faked("obedient", time.Second, func(ctx context.Context) steadycast.Result {
			return failed(pause(ctx, time.Hour), "it", "waiting")
		})
		began := time.Now()
		r := c.Run(t.Context())
		expect(t, r, "down soft: timeout while waiting")
		if took := time.Since(began); took != time.Second || r.Took != time.Second || c.Abandoned() != 0 {
			t.Errorf("took %v, says %v, abandoned %d", took, r.Took, c.Abandoned())
		}
	})
}

// A body that does not stop is left behind, counted, told of, and not started
// again before it has ended.
func TestRunAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var runs atomic.Int32
		c := faked("deaf", time.Second, func(context.Context) steadycast.Result { runs.Add(1); <-end; return up("") })
		began := time.Now()
		expect(t, c.Run(t.Context()), "unknown: the probe did not stop at its deadline of 1s and was abandoned")
		if took := time.Since(began); took != time.Second+grace(time.Second) {
			t.Errorf("took %v", took)
		}
		expect(t, c.Run(t.Context()), "unknown: still running")
		if runs.Load() != 1 || c.Abandoned() != 1 || !c.Running() {
			t.Errorf("%d runs, %d abandoned, running %v", runs.Load(), c.Abandoned(), c.Running())
		}
		close(end)
		synctest.Wait()
		expect(t, c.Run(t.Context()), "up")
		if runs.Load() != 2 || c.Abandoned() != 1 || c.Running() {
			t.Errorf("%d runs, %d abandoned, running %v", runs.Load(), c.Abandoned(), c.Running())
		}
	})
}

// When the deadline itself was noticed well after it had passed, the time was
// lost on this host, and nothing is known of the service: a stall of the host
// must not read as the death of everything on it.
func TestRunLate(t *testing.T) {
	for took, want := range map[time.Duration]string{
		1200 * time.Millisecond: "down soft: timeout",
		2 * time.Second:         "unknown: this host was late: its 1s deadline ran out after 2s",
	} {
		c := faked("late", time.Second, func(context.Context) steadycast.Result { return soft("timeout") })
		r := c.attempt(t.Context(), time.Now().Add(-took), c.body.probe)
		if took == 2*time.Second && r.Outcome == steadycast.Unknown {
			r.Reason = strings.Replace(r.Reason, r.Took.Round(time.Millisecond).String(), "2s", 1)
		}
		expect(t, r, want)
	}
	c := faked("late", time.Second, func(context.Context) steadycast.Result { return up("") })
	expect(t, c.attempt(t.Context(), time.Now().Add(-time.Hour), c.body.probe), "up") // what was seen was seen
}

func TestRunPanicsAreUnknown(t *testing.T) {
	c := faked("broken", time.Second, func(context.Context) steadycast.Result { panic("index out of range") })
	expect(t, c.Run(t.Context()), "unknown: the probe failed inside: index out of range")
	if c.Running() {
		t.Error("it counts as running")
	}
}

func TestRunStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := faked("stopped", time.Second, func(ctx context.Context) steadycast.Result { return failed(pause(ctx, time.Hour), "it", "waiting") })
		time.AfterFunc(100*time.Millisecond, cancel)
		expect(t, c.Run(ctx), "unknown: stopped before it had ended")
	})
}
