package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// Whatever happens in whatever order, these hold: no check runs twice at a
// time; of what obeys its deadline no more runs than there are slots; counts go
// up by one; an observation is never older than what can be in it, nor from the
// future; every service that is set gets its rounds.
func TestScheduleInvariants(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, Options{Seed: seed + 1, Concurrency: 3}, func(b *bench) {
			rng := rand.New(rand.NewPCG(seed, 7))
			var running atomic.Int32
			body := func(name string) fake { // one for each time it is set: what was dropped may be deaf
				var mine atomic.Int32
				own := rand.New(rand.NewPCG(seed, uint64(len(name))+uint64(name[len(name)-1])))
				deaf := own.IntN(8) == 0
				return func(ctx context.Context) steadycast.Result {
					if mine.Add(1) > 1 {
						t.Errorf("seed %d: %s runs twice at a time", seed, name)
					}
					defer mine.Add(-1)
					if !deaf {
						if n := running.Add(1); n > 3 {
							t.Errorf("seed %d: %d attempts in 3 slots", seed, n)
						}
						defer running.Add(-1)
					}
					took := time.Duration(own.Int64N(int64(200 * time.Millisecond)))
					switch own.IntN(10) {
					case 0:
						took = 3 * time.Second
					case 1:
						took = 0
					}
					if deaf {
						<-time.After(2 * took)
					} else if err := pause(ctx, took); err != nil {
						return failed(err, "it", "waiting")
					}
					return []steadycast.Result{upR, upR, softR, hardR, unkR}[own.IntN(5)]
				}
			}
			var all []Service
			for i := range 6 {
				s := Service{Name: fmt.Sprint("s", i), Interval: time.Duration(1+rng.IntN(4)) * 500 * time.Millisecond}
				for j := range 1 + rng.IntN(4) {
					c := check(fmt.Sprintf("c%d_%d", i, j))
					c.Timeout = time.Duration(1+rng.IntN(20)) * 100 * time.Millisecond
					if rng.IntN(4) == 0 {
						c.Interval = s.Interval * 5 / 2
					}
					b.fresh[c.Name] = body
					s.Checks = append(s.Checks, c)
				}
				if n := len(s.Checks); n > 1 && rng.IntN(2) == 0 {
					s.Up = fmt.Sprintf("at_least(%d, c%d_0, not c%[2]d_1)", 1+rng.IntN(2), i)
				}
				all = append(all, s)
			}
			b.set(all...)
			seq := map[string]uint64{}
			judge := func() {
				for _, x := range b.take() {
					if last, ok := seq[x.Service]; ok && x.Seq <= last {
						t.Errorf("seed %d: %s: seq %d after %d", seed, x.Service, x.Seq, last)
					}
					seq[x.Service] = x.Seq
					if x.started > x.at || x.at-x.started > 7*time.Second {
						t.Errorf("seed %d: %s: rests on %v, told at %v", seed, x.Service, x.started, x.at)
					}
					if x.Result.Outcome != steadycast.Up && x.Result.Reason == "" || (x.Result.Outcome == steadycast.Down) != (x.Result.Class != steadycast.NoFailure) {
						t.Errorf("seed %d: %+v", seed, x.Result)
					}
				}
			}
			for range 300 {
				name := fmt.Sprint("s", rng.IntN(7)) // one of them is not there
				switch rng.IntN(8) {
				case 0:
					b.s.Pace(name, rng.IntN(2) == 0)
				case 1:
					b.s.Hurry(name)
				case 2:
					b.s.tell(func(now time.Duration) {
						for _, sv := range b.s.own(name) {
							b.s.tripped(sv, now)
						}
					})
				case 3:
					if rng.IntN(8) == 0 {
						b.set(all[:1+rng.IntN(len(all))]...)
					}
				case 4:
					b.s.Status()
				}
				b.pass(time.Duration(rng.IntN(150)) * time.Millisecond)
				judge()
			}
			b.set(all...)
			for i := range all {
				b.s.Pace(fmt.Sprint("s", i), false)
			}
			b.pass(time.Minute)
			got := b.take()
			for _, s := range all {
				n := len(slices.DeleteFunc(slices.Clone(got), func(x seen) bool { return x.Service != s.Name }))
				if n < 8 || n > int(time.Minute/s.Interval)+4 { // the last events have theirs
					t.Errorf("seed %d: %s had %d rounds of %v in a minute", seed, s.Name, n, s.Interval)
				}
			}
			if n := b.s.Stats(); n.Running > 3+len(b.s.Status()) || n.Queued > len(b.s.Status()) {
				t.Errorf("seed %d: %+v", seed, n)
			}
			b.s.Stop()
			b.pass(10 * time.Second) // for those that are deaf
		})
	}
}
