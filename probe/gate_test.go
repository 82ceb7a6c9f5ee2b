package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// three are controls over fake bodies.
func three() Controls {
	return Controls{Interval: time.Second, Positive: []Check{check("p1"), check("p2"), check("p3")}, Negative: []Check{check("n1")}}
}

// TestEligible is the truth table: every way in which three anchors and one
// wrong endpoint can come out.
func TestEligible(t *testing.T) {
	s := three().Service("ams")
	if ps := s.Problems(); len(ps) > 0 {
		t.Fatal(ps)
	}
	names := []string{"p1", "p2", "p3", "n1"}
	expr, err := ParseExpr(s.Up, names)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := []steadycast.Result{upR, softR, hardR, unkR}
	for n := range 256 {
		of := map[string]steadycast.Result{}
		up := 0
		for i, name := range names {
			of[name] = outcomes[n>>(2*i)&3]
			if i < 3 && of[name].Outcome == steadycast.Up {
				up++
			}
		}
		want := up >= 2 && of["n1"].Outcome == steadycast.Down
		got := expr.Eval(func(name string) steadycast.Result { return of[name] })
		if eligible := got.Outcome == steadycast.Up; eligible != want {
			t.Errorf("%v: eligible is %v", of, eligible)
		}
		if !want && got.Reason == "" {
			t.Errorf("%v: no reason", of)
		}
	}
}

// TestMajorityOfAnchors: of any number of anchors more than half must answer.
func TestMajorityOfAnchors(t *testing.T) {
	for n := 3; n < 9; n++ {
		var c Controls
		for i := range n {
			c.Positive = append(c.Positive, check(fmt.Sprint("p", i)))
		}
		c.Negative = []Check{check("n0"), check("n1")}
		s := c.Service("ams")
		var names []string
		for _, x := range s.Checks {
			names = append(names, x.Name)
		}
		expr, err := ParseExpr(s.Up, names)
		if err != nil {
			t.Fatal(err)
		}
		for up := range n + 1 {
			got := expr.Eval(func(name string) steadycast.Result {
				var i int
				fmt.Sscan(name[1:], &i)
				if name[0] == 'p' && i < up {
					return upR
				}
				return hardR
			})
			if (got.Outcome == steadycast.Up) != (2*up > n) {
				t.Errorf("%d of %d anchors answer: %v", up, n, got.Outcome)
			}
		}
	}
}

// world is a network around one vantage that can be cut, and some subjects
// behind it.
type world struct {
	mu   sync.Mutex
	cut  bool
	lies bool // everything is seen up
	dead map[string]bool
	rtt  time.Duration
	slow time.Duration // of the subjects, when not rtt
}

func (w *world) set(change func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// body answers as the world is when the question and the answer pass.
func (w *world) body(name string, alive steadycast.Result) fake {
	rtt := w.rtt
	if name == "web" && w.slow > 0 {
		rtt = w.slow
	}
	return func(ctx context.Context) steadycast.Result {
		for range 2 {
			w.mu.Lock()
			cut, lies, dead := w.cut, w.lies, w.dead[name]
			w.mu.Unlock()
			switch {
			case lies:
				return upR
			case cut:
				<-ctx.Done()
				return softR
			case dead:
				return hardR
			}
			pause(ctx, rtt/2)
		}
		return alive
	}
}

// fleet sets a vantage with controls that looks at two subjects and itself.
func (b *bench) fleet(w *world, controls bool) {
	for _, p := range []string{"p1", "p2", "p3"} {
		b.bodies[p] = w.body(p, upR)
	}
	b.bodies["n1"] = w.body("n1", hardR)
	b.bodies["own"] = w.body("own", upR)
	b.bodies["web"] = w.body("web", upR)
	all := []Service{
		{Name: "web", Subject: "ams", Vantage: "ams", Checks: []Check{check("own")}},
		{Name: "web", Subject: "fra", Vantage: "ams", Checks: []Check{check("web")}},
		{Name: "web", Subject: "iad", Vantage: "ams", Checks: []Check{check("web")}},
	}
	if controls {
		all = append(all, three().Service("ams"))
	}
	b.set(all...)
}

// TestGate: what is told of others, and when.
func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		controls bool
		change   func(*world)
		want     func(t *testing.T, x seen)
	}{
		"all is well": {true, func(*world) {}, func(t *testing.T, x seen) {
			expect(t, x.Result, "up")
			if x.Ineligible != "" || x.at != x.started+20*time.Millisecond {
				t.Errorf("%q, told %v after its start", x.Ineligible, x.at-x.started)
			}
		}},
		"another fails": {true, func(w *world) { w.dead["web"] = true }, func(t *testing.T, x seen) {
			if x.Local() {
				return
			}
			expect(t, x.Result, "down hard")
			// one round trip of controls, begun at once or after one that was open
			if late := x.at - x.started; x.Ineligible != "" || late > hurried+2*20*time.Millisecond {
				t.Errorf("%q, told %v after its start", x.Ineligible, late)
			}
		}},
		"itself fails": {true, func(w *world) { w.dead["own"] = true }, func(t *testing.T, x seen) {
			if x.Local() && (x.Result.Outcome != steadycast.Down || x.at != x.started || x.Ineligible != "") {
				t.Errorf("%+v told at %v", x, x.at)
			}
		}},
		"its network is lost": {true, func(w *world) { w.cut = true }, func(t *testing.T, x seen) {
			if !x.Local() && !strings.HasPrefix(x.Ineligible, "controls: p") {
				t.Errorf("%v is told as %q", x.Result.Outcome, x.Ineligible)
			}
		}},
		"two anchors are lost": {true, func(w *world) { w.dead["p1"], w.dead["p3"] = true, true }, func(t *testing.T, x seen) {
			if !x.Local() && x.Ineligible == "" {
				t.Errorf("%v is told as eligible", x.Result.Outcome)
			}
		}},
		"one anchor is lost": {true, func(w *world) { w.dead["p2"] = true }, func(t *testing.T, x seen) {
			if x.Ineligible != "" {
				t.Error(x.Ineligible)
			}
		}},
		"it is lied to": {true, func(w *world) { w.lies = true }, func(t *testing.T, x seen) {
			if !x.Local() && x.Ineligible != "controls: n1: is up" {
				t.Errorf("%q", x.Ineligible)
			}
		}},
		"without controls": {false, func(w *world) { w.dead["web"] = true }, func(t *testing.T, x seen) {
			if !x.Local() && (x.Result.Outcome != steadycast.Down || x.at != x.started || x.Ineligible != "") {
				t.Errorf("%+v told at %v", x, x.at)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(b *bench) {
				w := &world{dead: map[string]bool{}, rtt: 20 * time.Millisecond}
				b.fleet(w, c.controls)
				b.pass(3 * time.Second)
				w.set(c.change)
				b.pass(2500 * time.Millisecond) // what was open ends, and the controls know
				b.take()
				b.pass(10 * time.Second)
				got := b.take()
				if len(got) < 20 {
					t.Fatalf("%d rounds", len(got))
				}
				for _, x := range got {
					c.want(t, x)
				}
			})
		})
	}
}

// TestFirstControls: before the controls have answered nothing counts.
func TestFirstControls(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		w := &world{dead: map[string]bool{"web": true}, rtt: 1500 * time.Millisecond} // until then the controls are on their way
		long := three()
		for _, cs := range [][]Check{long.Positive, long.Negative} {
			for i := range cs {
				cs[i].Timeout = 2 * time.Second
			}
		}
		for _, p := range long.Positive {
			b.bodies[p.Name] = w.body(p.Name, upR)
		}
		b.bodies["n1"] = w.body("n1", hardR)
		b.bodies["web"] = w.body("web", upR)
		b.set(Service{Name: "web", Subject: "fra", Vantage: "ams", Checks: []Check{check("web")}}, long.Service("ams"))
		if n := b.s.Stats(); n.Ineligible != NotYet {
			t.Errorf("%+v", n)
		}
		b.pass(1400 * time.Millisecond)
		got := b.take()
		for _, x := range got {
			if x.Ineligible != NotYet {
				t.Errorf("%v: %q", x.at, x.Ineligible)
			}
		}
		if len(got) == 0 {
			t.Error("nothing was told")
		}
		b.pass(10 * time.Second)
		if n := b.s.Stats(); n.Ineligible != "" {
			t.Errorf("%+v", n)
		}
	})
}

// TestNoFalseWitness: while all subjects are well, a vantage whose network goes
// and comes back tells no failure as if it could be believed. Its cuts are longer
// than a look may take; a single lost answer is a failure like any.
func TestNoFalseWitness(t *testing.T) {
	for seed := range uint64(200) {
		bubble(t, Options{Seed: seed + 1}, func(b *bench) {
			rng := rand.New(rand.NewPCG(seed, 11))
			w := &world{dead: map[string]bool{}, rtt: time.Duration(1+rng.IntN(150)) * time.Millisecond}
			w.slow = time.Duration(1+rng.IntN(900)) * time.Millisecond
			b.fleet(w, true)
			b.pass(time.Duration(rng.IntN(4000)) * time.Millisecond)
			told, seq := 0, map[string]uint64{}
			for range 6 {
				w.set(func(w *world) { w.cut = true })
				b.pass(2500*time.Millisecond + time.Duration(rng.IntN(4000))*time.Millisecond)
				w.set(func(w *world) { w.cut = false })
				b.pass(time.Duration(rng.IntN(3000)) * time.Millisecond)
				for _, x := range b.take() {
					if x.Local() {
						continue
					}
					if told++; x.Result.Outcome == steadycast.Down && x.Ineligible == "" {
						t.Errorf("seed %d: at %v a failure of %s seen from %v is told", seed, x.at, x.Subject, x.started)
					}
					if x.Seq <= seq[x.Subject] {
						t.Errorf("seed %d: %s: %d after %d", seed, x.Subject, x.Seq, seq[x.Subject])
					}
					seq[x.Subject] = x.Seq
				}
			}
			b.pass(5 * time.Second)
			last := b.take()
			if x := last[len(last)-1]; told < 20 || x.Ineligible != "" || b.s.Stats().Held != 0 {
				t.Errorf("seed %d: %d told, and at last %+v", seed, told, x)
			}
		})
	}
}

// TestEager: another subject that begins to fail is looked at fast for a while,
// each time with controls, and then as before.
func TestEager(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		w := &world{dead: map[string]bool{}, rtt: 4 * time.Millisecond}
		b.fleet(w, true)
		b.pass(5 * time.Second)
		b.take()
		w.set(func(w *world) { w.dead["web"] = true })
		b.pass(30 * time.Second)
		var starts []time.Duration
		for _, x := range b.take() {
			if x.Subject == "fra" && x.Result.Outcome == steadycast.Down {
				starts = append(starts, x.started)
			}
		}
		for i := 1; i < len(starts); i++ {
			want := 200 * time.Millisecond
			if i >= eager {
				want = time.Second
			}
			if got := starts[i] - starts[i-1]; got > want || i < eager && got != want || i > eager && got != want {
				t.Errorf("round %d came %v after the one before, want %v", i+1, got, want)
			}
		}
		if len(starts) < 30 || len(starts) > 42 {
			t.Errorf("%d rounds", len(starts))
		}
	})
}

// TestControlsChange: controls that are taken away let go of what waited, and
// other ones have to answer first.
func TestControlsChange(t *testing.T) {
	bubble(t, Options{}, func(b *bench) {
		w := &world{dead: map[string]bool{}, rtt: 20 * time.Millisecond}
		b.fleet(w, true)
		b.pass(3 * time.Second)
		slow := func(ctx context.Context) steadycast.Result { return always(upR, 900*time.Millisecond)(ctx) }
		for _, p := range []string{"p1", "p2", "p3"} {
			b.bodies[p] = slow
		}
		c := three()
		c.Interval = 2 * time.Second
		web := Service{Name: "web", Subject: "fra", Vantage: "ams", Checks: []Check{check("web")}}
		b.set(web, c.Service("ams"))
		if n := b.s.Stats(); n.Ineligible != NotYet {
			t.Errorf("other controls, and already %+v", n)
		}
		b.pass(5 * time.Second)
		b.take()
		w.set(func(w *world) { w.dead["web"] = true })
		b.pass(1100 * time.Millisecond)
		if n := b.s.Stats(); n.Held == 0 || n.Ineligible != "" {
			t.Fatalf("nothing waits: %+v", n)
		}
		b.take()
		b.set(web)
		if got := b.take(); len(got) == 0 || got[0].Ineligible != "" {
			t.Errorf("told without controls: %+v", got)
		}
		if n := b.s.Stats(); n.Held != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestHeldIsBounded: whatever waits, it does not grow.
func TestHeldIsBounded(t *testing.T) {
	var g gate
	g.on = true
	n := 0
	out := func(steadycast.Observation, time.Duration) { n++ }
	for i := range 3 * maxHeld {
		g.pass(held{key: serviceKey{"web", fmt.Sprint(i)}, seen: 1, o: steadycast.Observation{Subject: "x", Result: hardR}}, true, out)
	}
	if len(g.waiting) != maxHeld || g.waiting[0].key.subject != fmt.Sprint(2*maxHeld) || n != 0 {
		t.Errorf("%d wait, the first is %v, %d were told", len(g.waiting), g.waiting[0].key, n)
	}
}

// greeter says hello to who connects, while it is well.
type greeter struct {
	addr string
	well atomic.Bool
}

func greets(t *testing.T, well bool) *greeter {
	g := &greeter{}
	g.well.Store(well)
	g.addr = server(t, func(c net.Conn) {
		if g.well.Load() {
			fmt.Fprintln(c, "hello")
		}
	})
	return g
}

func (g *greeter) check(name string) Check {
	return Check{Name: name, Kind: "tcp", Target: g.addr, Timeout: 2 * time.Second, TCP: &TCP{Expect: "^hello"}}
}

// TestRealControls: real servers as anchors, as something wrong, and as subjects.
func TestRealControls(t *testing.T) {
	a, b, c, wrong := greets(t, true), greets(t, true), greets(t, true), greets(t, false)
	subject := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Site", "iad") }))
	defer subject.Close()

	heard := make(chan steadycast.Observation, 1024)
	s := NewScheduler(Options{OnResult: func(o steadycast.Observation, _ time.Duration) {
		select {
		case heard <- o:
		default:
		}
	}})
	defer s.Stop()
	controls := Controls{Interval: 100 * time.Millisecond,
		Positive: []Check{a.check("a"), b.check("b"), c.check("c")}, Negative: []Check{wrong.check("wrong")}}
	if ps := controls.Problems(); len(ps) > 0 {
		t.Fatal(ps)
	}
	look := func(site string) Service {
		return Service{Name: "web", Subject: site, Vantage: "ams", Interval: 100 * time.Millisecond, Checks: []Check{
			{Name: "page", Kind: "http", Target: subject.URL, Timeout: 10 * time.Second, HTTP: &HTTP{Identity: "X-Site: " + site}}}}
	}
	if err := s.Set([]Service{look("iad"), look("fra"), controls.Service("ams")}); err != nil {
		t.Fatal(err)
	}
	wait := func(what string, ok func(steadycast.Observation) bool) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case o := <-heard:
				if ok(o) {
					return
				}
			case <-limit:
				t.Fatalf("never told: %s; %+v", what, s.Stats())
			}
		}
	}
	wait("iad is well", func(o steadycast.Observation) bool {
		return o.Subject == "iad" && o.Result.Outcome == steadycast.Up && o.Ineligible == ""
	})
	wait("somebody else answers for fra", func(o steadycast.Observation) bool {
		return o.Subject == "fra" && o.Result.Class == steadycast.Hard && o.Ineligible == "" && strings.Contains(o.Result.Reason, "somebody else answered")
	})
	absent := func(why string) func(steadycast.Observation) bool {
		return func(o steadycast.Observation) bool { return strings.HasPrefix(o.Ineligible, why) }
	}
	voice := func(o steadycast.Observation) bool { return o.Ineligible == "" }
	b.well.Store(false)
	wait("with one anchor lost it is a voice", voice)
	c.well.Store(false)
	wait("with two anchors lost it is none", absent("controls: b: "))
	c.well.Store(true)
	wait("with one of them back it is one again", voice)
	wrong.well.Store(true)
	wait("what sees everything up is none", absent("controls: wrong: is up"))
}
