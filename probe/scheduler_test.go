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
