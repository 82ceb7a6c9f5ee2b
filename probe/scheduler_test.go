package probe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
)

// bench is a scheduler over fake bodies, in a bubble whose clock the test passes.
type bench struct {
	t      *testing.T
	s      *Scheduler
	bodies map[string]fake
	fresh  map[string]func(name string) fake // makes one for each Compile

	mu   sync.Mutex
	seen []seen
}

type seen struct {
	steadycast.Observation
	started, at time.Duration
}

// bubble runs f with a scheduler in a synctest bubble.
func bubble(t *testing.T, o Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, bodies: map[string]fake{}, fresh: map[string]func(string) fake{}}
		o.OnResult = func(ob steadycast.Observation, started time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.seen = append(b.seen, seen{ob, started, b.s.Now()})
		}
		if o.Seed == 0 {
			o.Seed = 1
		}
		b.s = newScheduler(o, func(c Check, _ Env) (*Compiled, error) {
			f, ok := b.bodies[c.Name]
			if fresh := b.fresh[c.Name]; fresh != nil {
				f, ok = fresh(c.Name), true
			}
			if !ok {
				return nil, fmt.Errorf("no body for %s", c.Name)
			}
			return &Compiled{check: c.WithDefaults(), body: f}, nil
		})
		defer b.s.Stop()
		f(b)
	})
}

// always gives a body with one result, after some time.
func always(r steadycast.Result, took time.Duration) fake {
	return func(ctx context.Context) steadycast.Result {
		if took > 0 {
			if err := pause(ctx, took); err != nil {
				return failed(err, "it", "waiting")
			}
		}
		return r
	}
}

func check(name string) Check { return Check{Name: name, Kind: "tcp", Target: "127.0.0.1:1"} }

func (b *bench) set(services ...Service) {
	b.t.Helper()
	if err := b.s.Set(services); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) { <-time.After(d); synctest.Wait() }

// take returns what was seen since the last time.
func (b *bench) take() []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.seen
	b.seen = nil
	return out
}

// count is how many were seen since then.
func (b *bench) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

func (b *bench) wantStarts(got []seen, want ...time.Duration) {
	b.t.Helper()
	var have []time.Duration
	for _, x := range got {
		have = append(have, x.started)
	}
	if !slices.Equal(have, want) {
		b.t.Errorf("rounds began at %v, want %v", have, want)
	}
}

// Rounds keep their grid for a day, however long the probes take: the k-th
// begins at exactly start + k·interval, and each gives one observation.
func TestNoDrift(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["web"] = func(ctx context.Context) steadycast.Result {
			pause(ctx, 37*time.Millisecond)
			return upR
		}
		b.set(Service{Name: "s", Subject: "fra", Vantage: "ams", Checks: []Check{check("web")}, Interval: 10 * time.Second})
		b.pass(24 * time.Hour)
		got := b.take()
		if len(got) != 8640 && len(got) != 8639 {
			t.Fatalf("%d rounds in a day of 10 s", len(got))
		}
		for k, x := range got {
			if x.started != got[0].started+time.Duration(k)*10*time.Second || x.Seq != uint64(k+1) || x.at != x.started+37*time.Millisecond {
				t.Fatalf("round %d: began at %v, told at %v, seq %d", k, x.started, x.at, x.Seq)
			}
			if x.Service != "s" || x.Subject != "fra" || x.Vantage != "ams" || x.Result.Outcome != steadycast.Up || x.Result.Took != 37*time.Millisecond {
				t.Fatalf("%+v", x)
			}
		}
		if n := b.s.Stats(); n.Skipped != 0 || n.LagMax != 0 || n.Rounds != uint64(len(got)) {
			t.Errorf("%+v", n)
		}
	})
}

// First rounds are spread over the interval, on few common ticks, so that
// neither do all services start at once nor does each cost a wake-up.
func TestJitter(t *testing.T) {
	bubble(t, Options{Concurrency: 5000}, func(b *bench) {
		b.bodies["web"] = always(upR, 0)
		var all []Service
		for i := range 2000 {
			all = append(all, Service{Name: fmt.Sprint("s", i), Checks: []Check{check("web")}, Interval: 10 * time.Second})
		}
		b.set(all...)
		b.pass(10 * time.Second)
		got := slices.DeleteFunc(b.take(), func(x seen) bool { return x.Seq > 1 })
		if len(got) != 2000 {
			t.Fatalf("%d first rounds within the interval", len(got))
		}
		var second [10]int
		ticks := map[time.Duration]bool{}
		for _, x := range got {
			second[x.started/time.Second]++
			ticks[x.started] = true
		}
		for i, n := range second {
			if n < 130 || n > 270 { // 200 expected, 14 the deviation
				t.Errorf("second %d has %d of 2000 first rounds", i, n)
			}
		}
		if len(ticks) > 200 {
			t.Errorf("%d wake-ups for 2000 services", len(ticks))
		}
	})
	// Another seed, other times; the wait for a first round is bounded.
	first := map[time.Duration]bool{}
	for seed := range uint64(4) {
		bubble(t, Options{Seed: seed + 1}, func(b *bench) {
			b.bodies["web"] = always(upR, 0)
			b.set(Service{Name: "s", Checks: []Check{check("web")}, Interval: time.Hour})
			b.pass(maxJitter)
			if got := b.take(); len(got) != 1 {
				t.Errorf("%d rounds", len(got))
			} else {
				first[got[0].started] = true
			}
		})
	}
	if len(first) < 3 {
		t.Errorf("first rounds of four seeds: %v", first)
	}
}

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

// The pace: fast from the start of the newest round, then back on the old grid.
func TestPace(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["web"] = always(upR, 30*time.Millisecond)
		b.set(Service{Name: "s", Checks: []Check{check("web")}, Interval: 10 * time.Second, FastInterval: 300 * time.Millisecond},
			Service{Name: "other", Checks: []Check{check("web")}, Interval: time.Minute})
		b.pass(11 * time.Second)
		rounds := slices.DeleteFunc(b.take(), func(x seen) bool { return x.Service != "s" })
		first := rounds[0].started
		b.pass(first + 10*time.Second + 100*time.Millisecond - b.s.Now())
		b.take()
		b.s.Pace("s", true) // 100 ms after the start of the second round
		b.s.Pace("s", true) // twice is once
		b.pass(time.Second)
		at := first + 10*time.Second
		b.wantStarts(b.take(), at+300*time.Millisecond, at+600*time.Millisecond, at+900*time.Millisecond)
		b.s.Pace("s", false)
		b.pass(20 * time.Second)
		b.wantStarts(slices.DeleteFunc(b.take(), func(x seen) bool { return x.Service != "s" }), first+20*time.Second, first+30*time.Second)
		if n := b.s.Stats(); n.Skipped != 0 {
			t.Errorf("%d slots skipped", n.Skipped)
		}
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

// A first round keeps its jitter whatever the pace, but an event overrules it.
func TestHurry(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["web"] = always(upR, 5*time.Millisecond)
		b.set(Service{Name: "s", Checks: []Check{check("web")}, Interval: 10 * time.Second, FastInterval: 200 * time.Millisecond})
		b.s.Pace("s", true)
		synctest.Wait()
		b.s.Pace("s", false)
		synctest.Wait()
		if b.count() != 0 {
			t.Fatal("the pace took the jitter away")
		}
		b.s.Hurry("s")
		b.pass(10 * time.Millisecond)
		b.wantStarts(b.take(), 0)

		// The grid stays.
		b.pass(20 * time.Second)
		got := b.take()
		if len(got) != 2 || got[1].started != got[0].started+10*time.Second {
			t.Fatalf("%v", got)
		}
		// Many events make few rounds: one at once, then one a fast interval.
		b.pass(got[1].started + 15*time.Second - b.s.Now())
		b.take()
		now := b.s.Now()
		for range 100 {
			b.s.Hurry("s")
			b.pass(10 * time.Millisecond)
		}
		got = b.take()
		if len(got) != 5 || got[0].started != now {
			t.Errorf("100 events within 1 s: %d rounds", len(got))
		}
		for k, x := range got {
			if x.started != now+time.Duration(k)*200*time.Millisecond {
				t.Errorf("round %d of the event at +%v", k, x.started-now)
			}
		}
	})
}

// An event while a round is open makes another right after it, because the
// open one may have looked before.
func TestHurryWhileOpen(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["web"] = always(upR, 500*time.Millisecond)
		b.set(Service{Name: "s", Checks: []Check{check("web")}, Interval: 10 * time.Second})
		b.s.Hurry("s")
		b.pass(100 * time.Millisecond)
		b.s.Hurry("s")
		b.s.Hurry("s")
		b.pass(1100 * time.Millisecond)
		b.wantStarts(b.take()[:2], 0, 500*time.Millisecond)
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

// What is unchanged keeps its state, phase and count; what changed counts on.
func TestSet(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["web"] = always(upR, 0)
		a := func() Service { return Service{Name: "a", Subject: "fra", Checks: []Check{check("web")}} } // equal, and not the same
		b.set(a(), Service{Name: "b", Checks: []Check{check("web")}})
		b.pass(3 * time.Second)
		rounds := slices.DeleteFunc(b.take(), func(x seen) bool { return x.Service != "a" })
		b.set(a(), Service{Name: "c", Checks: []Check{check("web")}})
		b.pass(3 * time.Second)
		for _, x := range b.take() {
			switch x.Service {
			case "a":
				rounds = append(rounds, x)
			case "b":
				t.Errorf("a service that is gone was looked at: %+v", x)
			}
		}
		for k, x := range rounds {
			if x.started != rounds[0].started+time.Duration(k)*time.Second || x.Seq != uint64(k+1) {
				t.Errorf("round %d at %v, seq %d", k, x.started, x.Seq)
			}
		}
		changed := a()
		changed.Interval = 2 * time.Second
		b.set(changed)
		b.pass(10 * time.Second)
		last := rounds[len(rounds)-1].Seq
		for _, x := range b.take() {
			if x.Seq <= last {
				t.Errorf("seq %d after %d: a reader would drop it", x.Seq, last)
			}
			last = x.Seq
		}
		if st := b.s.Status(); len(st) != 1 || st[0].Service != "a" || st[0].LastUp == 0 {
			t.Errorf("%+v", st)
		}

		// A set with a fault changes nothing and names all of it.
		err := b.s.Set([]Service{{Name: "x"}, {Name: "y", Checks: []Check{check("web")}}, {Name: "y", Checks: []Check{check("web")}}})
		if err == nil || err.Error() != "services[0] (x): checks: empty; a service without a check would never be seen up or down\n"+
			"services[2] (y): another service has this name and subject" {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if st := b.s.Status(); len(st) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// The same service may be looked at in several sites: each has its own count.
func TestSubjects(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		b.bodies["web"] = always(upR, 0)
		b.set(Service{Name: "a", Subject: "fra", Checks: []Check{check("web")}}, Service{Name: "a", Subject: "ams", Checks: []Check{check("web")}})
		b.pass(5 * time.Second)
		seq := map[string]uint64{}
		for _, x := range b.take() {
			if x.Seq != seq[x.Subject]+1 {
				t.Errorf("%s: seq %d after %d", x.Subject, x.Seq, seq[x.Subject])
			}
			seq[x.Subject] = x.Seq
		}
		if seq["fra"] != 5 || seq["ams"] != 5 {
			t.Errorf("%v", seq)
		}
	})
}

// Callbacks may steer the scheduler, and Stop ends it without another word.
func TestCallbacksAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Scheduler
		var n atomic.Int64
		s = newScheduler(Options{Seed: 1, OnResult: func(steadycast.Observation, time.Duration) {
			s.Pace("s", n.Add(1)%2 == 0)
			s.Hurry("s")
			s.Status()
			s.Stats()
		}}, func(c Check, _ Env) (*Compiled, error) {
			return faked("web", time.Second, always(upR, time.Hour)), nil
		})
		if err := s.Set([]Service{{Name: "s", Checks: []Check{check("web")}}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		was := n.Load()
		if was < 5 {
			t.Errorf("%d rounds", was)
		}
		s.Stop()
		s.Stop()
		s.Hurry("s")
		if err := s.Set(nil); err == nil {
			t.Error("a stopped scheduler took a set")
		}
		<-time.After(10 * time.Second)
		if n.Load() != was {
			t.Error("a callback ran after Stop")
		}
	})
}

// A host that stood still for a while neither makes up for slots nor calls the
// service down: it begins late, says so, and goes on with the grid.
func TestHostStoodStill(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		block := make(chan struct{})
		b.bodies["web"] = always(upR, 0)
		b.set(Service{Name: "s", Checks: []Check{check("web")}})
		b.pass(2 * time.Second)
		rounds := b.take()
		// The loop stands still, as it would if the process did not run.
		b.s.tell(func(time.Duration) { <-block })
		b.pass(5300 * time.Millisecond)
		close(block)
		b.pass(2 * time.Second)
		rounds = append(rounds, b.take()...)
		late := 0
		for _, x := range rounds {
			if (x.started-rounds[0].started)%time.Second != 0 {
				late++
			}
		}
		n := b.s.Stats()
		if late != 1 || n.Skipped < 4 || n.Skipped > 5 || n.LagMax < 4*time.Second {
			t.Errorf("%d rounds off the grid, %+v", late, n)
		}
	})
}
