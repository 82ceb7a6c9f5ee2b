package probe

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// A refusal is told at once, and does not wait for another check's timeout.
func TestDecidedAtOnce(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["refuses"] = always(hardR, 2*time.Millisecond)
		b.bodies["hangs"] = always(upR, time.Hour)
		b.set(Service{Name: "s", Checks: []Check{check("refuses"), check("hangs")}, Interval: 10 * time.Second})
		for b.count() < 2 {
			b.pass(100 * time.Millisecond)
		}
		b.pass(2 * time.Second)
		got := b.take()
		if len(got) != 2 {
			t.Fatalf("%d rounds: %v", len(got), got)
		}
		for _, x := range got {
			expect(t, x.Result, "down hard: refuses: refused")
			if x.at-x.started != 2*time.Millisecond {
				t.Errorf("told after %v", x.at-x.started)
			}
			if s := x.Result.Why.String(); s != "and(refuses=down, hangs=unknown)=down" || x.Result.Why.Kids[1].Reason != "not waited for" {
				t.Errorf("why: %s", s)
			}
		}
		// What was not waited for is known all the same when it ends.
		if st := b.s.Status(); st[1].Runs != 2 || st[1].Last.Outcome != steadycast.Down {
			t.Errorf("%+v", st[1])
		}
	})
}

// A check that still runs from an earlier round is unknown in this one, and is
// not started a second time.
func TestStillRunning(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		var running, most atomic.Int32
		b.bodies["quick"] = always(upR, 0)
		b.bodies["slow"] = func(ctx context.Context) steadycast.Result {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			pause(ctx, 3500*time.Millisecond)
			return softR
		}
		slow := check("slow")
		slow.Timeout = 5 * time.Second
		b.set(Service{Name: "s", Checks: []Check{check("quick"), slow}, Up: "quick or slow"})
		b.pass(8500 * time.Millisecond)
		var why []string
		for _, x := range b.take() {
			expect(t, x.Result, "up")
			why = append(why, x.Result.Why.Kids[1].Reason)
		}
		want := []string{"not waited for", "still running since 1s ago", "still running since 2s ago", "still running since 3s ago"}
		want = append(want, want...)
		if !slices.Equal(why[:8], want) {
			t.Errorf("%q", why)
		}
		if most.Load() != 1 {
			t.Errorf("%d attempts of one check at a time", most.Load())
		}
		if st := b.s.Status(); st[1].Busy != 6 {
			t.Errorf("%+v", st[1])
		}
	})
}

// A round that is open lets its slots pass: they are counted, none is made up
// for, and the grid stays where it was.
func TestSkippedSlots(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["slow"] = always(upR, 2500*time.Millisecond)
		slow := check("slow")
		slow.Timeout = 4 * time.Second
		b.set(Service{Name: "s", Checks: []Check{slow}})
		b.pass(12 * time.Second)
		got := b.take()
		for k, x := range got {
			if x.started != got[0].started+time.Duration(k)*3*time.Second {
				t.Errorf("round %d at %v", k, x.started)
			}
		}
		if n := b.s.Stats(); len(got) < 3 || n.Skipped != 2*uint64(len(got)) {
			t.Errorf("%d rounds: %+v", len(got), n)
		}
	})
}

// A slow check keeps its round open, but no failure of another from being seen:
// what has answered is asked again at every slot.
func TestSlowCheckHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		steer func(s *Scheduler)
		most  time.Duration // from the failure to the observation
	}{
		"at its pace":      {func(*Scheduler) {}, time.Second},
		"at the fast pace": {func(s *Scheduler) { s.Pace("s", true) }, 200 * time.Millisecond},
		"by an event":      {func(s *Scheduler) { s.Hurry("s") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(b *bench) {
				var dead atomic.Bool
				b.bodies["web"] = func(context.Context) steadycast.Result {
					if dead.Load() {
						return hardR
					}
					return upR
				}
				b.bodies["slow"] = always(upR, 8*time.Second)
				slow := check("slow")
				slow.Timeout = 10 * time.Second
				b.set(Service{Name: "s", Checks: []Check{check("web"), slow}})
				b.s.Hurry("s")
				b.pass(3100 * time.Millisecond)
				if b.count() != 0 {
					t.Fatalf("decided without the slow check: %v", b.take())
				}
				dead.Store(true)
				at := b.s.Now()
				c.steer(b.s)
				b.pass(1100 * time.Millisecond)
				got := b.take()
				if len(got) == 0 {
					t.Fatal("the failure was not seen")
				}
				expect(t, got[0].Result, "down hard: web: refused")
				if took := got[0].at - at; took > c.most {
					t.Errorf("seen after %v", took)
				}
				// And the one that is slow, started before, is neither started twice
				// nor lost: it is taken over by the round that is open when it ends.
				dead.Store(false)
				b.s.Pace("s", false)
				b.pass(8*time.Second - b.s.Now())
				if st := b.s.Status(); st[1].Runs != 1 || st[1].Busy == 0 {
					t.Errorf("%+v", st[1])
				}
			})
		})
	}
}

// An attempt of an earlier round that ends while a later one is open is taken
// by it, and the observation says how old it is.
func TestLeftoverIsTakenOver(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		n := 0
		b.bodies["web"] = always(upR, 0)
		b.bodies["slow"] = always(softR, 1500*time.Millisecond)
		b.bodies["other"] = func(ctx context.Context) steadycast.Result {
			if n++; n > 1 { // up at first, then slow to tell
				pause(ctx, 900*time.Millisecond)
				return hardR
			}
			return upR
		}
		slow := check("slow")
		slow.Timeout = 3 * time.Second
		b.set(Service{Name: "s", Checks: []Check{slow, check("other")}, Up: "slow or other"})
		for b.count() == 0 {
			b.pass(10 * time.Millisecond)
		}
		b.pass(2 * time.Second)
		got := b.take()
		expect(t, got[0].Result, "up")
		expect(t, got[1].Result, "down soft: slow: slow; other: refused")
		if got[1].started != got[0].started || got[1].at != got[0].started+1900*time.Millisecond {
			t.Errorf("rests on attempts from %v, told at %v; the first round began at %v", got[1].started, got[1].at, got[0].started)
		}
	})
}

// What asks only this node needs no slot: an address that is gone is seen even
// while every slot hangs.
func TestNodeChecksNeedNoSlot(t *testing.T) {
	bubble(t, Options{Concurrency: 1}, func(b *bench) {
		b.bodies["hangs"] = always(upR, time.Hour)
		b.bodies["address"] = always(hardR, 0)
		address := Check{Name: "address", Kind: "vip", Target: "192.0.2.53"}
		b.set(Service{Name: "hangs", Checks: []Check{check("hangs")}}, Service{Name: "s", Checks: []Check{address}})
		b.s.Hurry("hangs")
		b.s.Hurry("s")
		b.pass(10 * time.Millisecond)
		got := b.take()
		if len(got) != 1 {
			t.Fatalf("%v", got)
		}
		expect(t, got[0].Result, "down hard: address: refused")
	})
}

// A failure found late, by a timeout, is confirmed at once: the fast interval
// counts from the start of the round that found it.
func TestHangIsConfirmedSerially(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["hangs"] = always(upR, time.Hour)
		b.set(Service{Name: "s", Checks: []Check{check("hangs")}, Interval: 10 * time.Second, FastInterval: 200 * time.Millisecond})
		b.s.Hurry("s")
		b.pass(time.Second)
		got := b.take()
		start := got[0].started
		b.s.Pace("s", true) // in the same moment as the result
		b.pass(2500 * time.Millisecond)
		b.wantStarts(append(got, b.take()...), start, start+1*time.Second, start+2*time.Second) // T each, not T + f
	})
}

// A check with a longer interval of its own is asked in some rounds and its
// result used again in the others; but when the pace is fast every check looks anew, so
// that one failing look never counts as several.
func TestOwnInterval(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		var n atomic.Int64
		b.bodies["web"] = always(upR, 0)
		b.bodies["rare"] = func(context.Context) steadycast.Result { return up(fmt.Sprint("run ", n.Add(1))) }
		rare := check("rare")
		rare.Interval = 2500 * time.Millisecond
		b.set(Service{Name: "s", Checks: []Check{check("web"), rare}})
		reasons := func(rounds []seen) (out []string) {
			for _, x := range rounds {
				out = append(out, x.Result.Why.Kids[1].Reason)
			}
			return out
		}
		b.s.Hurry("s")
		b.pass(0)
		b.take()
		b.pass(11 * time.Second)
		// 2.5 s on a grid of 1 s: every third and every second round in turn.
		same, runs := 1, []int{}
		got := reasons(b.take())
		for i := 1; i < len(got); i++ {
			if got[i] == got[i-1] {
				same++
			} else {
				runs, same = append(runs, same), 1
			}
		}
		if !slices.Equal(runs[1:4], []int{2, 3, 2}) && !slices.Equal(runs[1:4], []int{3, 2, 3}) {
			t.Errorf("%d runs: %v, each used %v times", n.Load(), got, runs)
		}
		before := n.Load()
		b.s.Pace("s", true)
		b.pass(time.Second)
		if rounds := int64(len(b.take())); n.Load()-before != rounds || rounds < 4 {
			t.Errorf("%d runs in %d fast rounds", n.Load()-before, rounds)
		}
	})
}

// When no slot is free in time the result is unknown, never down, and what
// waited is served in order.
func TestSaturated(t *testing.T) {
	bubble(t, Options{Concurrency: 2}, func(b *bench) {
		hold := always(upR, 700*time.Millisecond)
		for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
			b.bodies[n] = hold
		}
		b.set(Service{Name: "s", Checks: []Check{check("a"), check("b"), check("c"), check("d"), check("e"), check("f")}, Interval: 30 * time.Second})
		b.s.Hurry("s")
		b.pass(800 * time.Millisecond)
		got := b.take()
		if len(got) == 0 {
			t.Fatal("no round")
		}
		expect(t, got[0].Result, "unknown: c: prober saturated: 2 attempts run, and none ended within 500ms")
		if took := got[0].at - got[0].started; took != 700*time.Millisecond {
			t.Errorf("told after %v", took)
		}
		if n := b.s.Stats(); n.Saturated != 4 || n.Queued != 0 || n.Running != 0 {
			t.Errorf("%+v", n)
		}
		if st := b.s.Status(); st[2].Saturated != 1 || st[0].Saturated != 0 || st[2].Runs != 0 {
			t.Errorf("%+v", st[2])
		}
	})
	// A wait that ends in time harms nobody, and shows as lag.
	bubble(t, Options{Concurrency: 1}, func(b *bench) {
		b.bodies["a"], b.bodies["b"] = always(upR, 400*time.Millisecond), always(hardR, 0)
		b.set(Service{Name: "s", Checks: []Check{check("a"), check("b")}, Interval: 30 * time.Second})
		b.s.Hurry("s")
		b.pass(time.Second)
		expect(t, b.take()[0].Result, "down hard: b: refused")
		if st := b.s.Status(); st[1].Lag != 400*time.Millisecond {
			t.Errorf("%+v", st[1])
		}
	})
}

// An abandoned attempt gives its slot back, is counted, and is never doubled.
func TestAbandonedInRounds(t *testing.T) {
	bubble(t, Options{Concurrency: 1}, func(b *bench) {
		var running atomic.Int32
		release := make(chan struct{})
		defer close(release)
		b.bodies["deaf"] = func(context.Context) steadycast.Result { running.Add(1); <-release; return up("") }
		b.bodies["web"] = always(upR, 0)
		b.set(Service{Name: "deaf", Checks: []Check{check("deaf")}}, Service{Name: "web", Checks: []Check{check("web")}})
		b.pass(10 * time.Second)
		deaf := 0
		for _, x := range b.take() {
			if x.Service == "deaf" {
				if deaf++; deaf == 1 {
					expect(t, x.Result, "unknown: deaf: the probe did not stop at its deadline")
				} else {
					expect(t, x.Result, "unknown: deaf: still running")
				}
			}
		}
		n, st := b.s.Stats(), b.s.Status()
		if n.Abandoned != 1 || n.Running != 0 || running.Load() != 1 || st[0].Abandoned != 1 || st[1].Ups < 8 || deaf < 5 {
			t.Errorf("%+v %+v", n, st)
		}
	})
}
