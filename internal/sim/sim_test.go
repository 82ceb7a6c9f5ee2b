package sim

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// short is long enough for faults to matter and for all to recover.
const short = 7*time.Minute + 30*time.Second

// TestReplay: the same seed gives the same events, bit by bit, however many
// schedules run beside it, and another seed gives others.
func TestReplay(t *testing.T) {
	t.Parallel()
	seen := map[uint64]uint64{}
	for round := range 2 {
		_, err := RunMany(Many{Options: Options{Length: 10 * time.Minute}, First: 7, Seeds: 4, Each: func(out Outcome) {
			if was, ok := seen[out.Seed]; ok && was != out.Hash {
				t.Errorf("seed %d gave %x, then %x", out.Seed, was, out.Hash)
			} else if ok != (round == 1) {
				t.Errorf("seed %d in round %d: seen before %v", out.Seed, round, ok)
			}
			seen[out.Seed] = out.Hash
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	hashes := map[uint64]bool{}
	for _, h := range seen {
		hashes[h] = true
	}
	if len(hashes) != 4 {
		t.Errorf("4 seeds gave %d different schedules", len(hashes))
	}
}

// TestReplayTraced: watching a schedule does not change it.
func TestReplayTraced(t *testing.T) {
	t.Parallel()
	plain, err := Run(3, Options{Length: short})
	if err != nil {
		t.Fatal(err)
	}
	var trace strings.Builder
	traced, err := Run(3, Options{Length: short, Trace: &trace})
	if err != nil {
		t.Fatal(err)
	}
	if plain.Hash != traced.Hash || !strings.Contains(trace.String(), "fault #0") {
		t.Errorf("hash %x, and %x with %d bytes of trace", plain.Hash, traced.Hash, trace.Len())
	}
}

// TestSchedules: no schedule breaks an invariant, and enough happens in them to
// have broken each.
func TestSchedules(t *testing.T) {
	t.Parallel()
	rep, err := RunMany(Many{Options: Options{Length: short}, First: 1, Seeds: 200})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Violations > 0 || rep.Schedules != 200 {
		var b strings.Builder
		rep.Write(&b)
		t.Errorf("%s", b.String())
	}
	for _, i := range invariants {
		if rep.Invariants[i.name].Checked == 0 {
			t.Errorf("%s was never checked", i.name)
		}
	}
	for _, k := range faultKinds {
		if rep.Happened["fault "+k.name] == 0 {
			t.Errorf("no fault of kind %s happened", k.name)
		}
	}
	for _, what := range []string{
		"withdrawn", "returned", "granted deprefer", "permit given up", "ledger lost", "lost against its will", "voter dies",
		"agent dies", "refused by evidence", "refused by breaker", "refused by cooldown", "refused by site budget", "refused by phase",
		"entry void", "entry in", "entry lost", "entry found", "entry tick", "table activated", "rolled back",
		"forged", "refused by authority", "approved return", "approved withdraw", "glass broken to withdraw", "glass broken to announce", "glass mended", "a node left alone", "host set back", "order withdraw", "order drain", "order announce",
	} {
		if rep.Happened[what] == 0 {
			t.Errorf("never happened: %s", what)
		}
	}
	t.Logf("%.1f virtual hours, %d events, %d withdrawn, %d returned", rep.VirtualHours, rep.Events, rep.Happened["withdrawn"], rep.Happened["returned"])
}

// TestSizes: small and larger fleets, with a witness, with the site's own voice,
// and with assigned vantages.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, sites := range []int{2, 3, 4, 5, 12, 24} {
		n := 24 / sites
		rep, err := RunMany(Many{Options: Options{Sites: sites, Length: short}, First: 500, Seeds: 4 + n})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Violations > 0 {
			var b strings.Builder
			rep.Write(&b)
			t.Errorf("%d sites: %s", sites, b.String())
		}
		if rep.Happened["granted deprefer"]+rep.Happened["withdrawn"] == 0 {
			t.Errorf("%d sites: nothing happened", sites)
		}
	}
}

// TestNodes: sites of two and three nodes, whose nodes leave alone, and which leave
// as a whole.
func TestNodes(t *testing.T) {
	t.Parallel()
	rep, err := RunMany(Many{Options: Options{Length: short, Policy: "nodes"}, First: 700, Seeds: 8})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Violations > 0 {
		var b strings.Builder
		rep.Write(&b)
		t.Errorf("%s", b.String())
	}
	if rep.Happened["a node left alone"] == 0 || rep.Happened["withdrawn"] == 0 {
		t.Errorf("%d nodes left alone, %d sites withdrew", rep.Happened["a node left alone"], rep.Happened["withdrawn"])
	}
}

// TestMutations: each rejected rule breaks an invariant within 200 schedules.
func TestMutations(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 200; seed++ {
				out, err := Run(seed, Options{Length: short, Mutation: m.name})
				if err != nil {
					t.Fatal(err)
				}
				if v := out.Violation; v != nil {
					if !slices.Contains(strings.Fields(m.breaks), v.Invariant) {
						t.Errorf("caught by %s, and should be by %s", v.Invariant, m.breaks)
					}
					t.Logf("schedule %d, policy %s: %s: %s", seed, out.Policy, v.Invariant, v.Text)
					return
				}
			}
			t.Errorf("200 schedules and no invariant broken by: %s", m.rule)
		})
	}
}

// TestShrink: what is printed of a violation shows it again, and no fault of it
// can be left out.
func TestShrink(t *testing.T) {
	t.Parallel()
	o := Options{Length: short, Mutation: twoVoices}
	rep, err := RunMany(Many{Options: o, First: 1, Seeds: 200, Stop: true})
	if err != nil {
		t.Fatal(err)
	}
	v := rep.Violated
	if v == nil || len(v.Only) == 0 || len(v.Only) != len(v.Faults) {
		t.Fatalf("no violation, or none with faults: %+v", v)
	}
	for leave := -1; leave < len(v.Only); leave++ {
		o.Only = slices.Clone(v.Only)
		if leave >= 0 {
			o.Only = slices.Delete(o.Only, leave, leave+1)
		}
		out, err := Run(v.Seed, o)
		if err != nil {
			t.Fatal(err)
		}
		again := out.Violation != nil && out.Violation.Invariant == v.Invariant
		if again != (leave < 0) {
			t.Errorf("without fault %d of %v: violated again %v", leave, v.Faults, again)
		}
	}
	if !strings.HasPrefix(v.Replay, "steadycast simulate --seed ") || !strings.Contains(v.Replay, "--mutate two-voices") {
		t.Errorf("replay by %q", v.Replay)
	}
}

// TestAgenda: events come out in order of time, and in order of entry where
// times are equal.
func TestAgenda(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	var a agenda
	last := event{at: -1}
	for range 20_000 {
		if dice.IntN(5) < 3 {
			a.push(last.at+time.Duration(dice.IntN(50)), nil)
			continue
		}
		e, ok := a.pop()
		if !ok {
			continue
		}
		if e.at < last.at || e.at == last.at && e.seq < last.seq {
			t.Fatalf("%v #%d came after %v #%d", e.at, e.seq, last.at, last.seq)
		}
		last = e
	}
}

// TestClock: a clock never goes back, and its alarm is on time.
func TestClock(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := clock{zero: time.Duration(dice.Int64N(int64(time.Hour))) - time.Hour, ppm: dice.Int64N(2*maxDrift+1) - maxDrift}
		x := time.Duration(dice.Int64N(int64(10 * time.Hour)))
		if c.at(x+1) < c.at(x) {
			t.Fatalf("%+v shows %v at %v, and less a nanosecond later", c, c.at(x), x)
		}
		shown := c.at(x)
		if late := c.when(shown) - x; late < -40*time.Millisecond || late > 40*time.Millisecond {
			t.Fatalf("%+v shows %v at %v, and rings %v late", c, shown, x, late)
		}
	}
}

// TestOptions: what cannot be simulated is refused with what can.
func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"1 sites; allowed: 2…300":                                  {Sites: 1},
		"a schedule of 1m0s; allowed: 5m…720h":                     {Length: time.Minute},
		`no fault is named "fire"; allowed: all, service`:          {Faults: []string{"service", "fire"}},
		`no mutation is named "none"; ` + "`--mutate list` names":  {Mutation: "none"},
		`no policy is named "lax"; allowed: all, floor`:            {Policy: "lax"},
		`a schedule of 721h0m0s; allowed: 5m…720h`:                 {Length: 721 * time.Hour},
		`no fault is named "service flap"; allowed: all, service,`: {Faults: []string{"service flap"}, Trace: io.Discard},
	} {
		if _, err := Run(1, o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s…", o, errors.Unwrap(err), want)
		}
	}
}

func BenchmarkSchedule(b *testing.B) {
	var virtual time.Duration
	for i := range b.N {
		out, err := Run(uint64(i)+1, Options{})
		if err != nil {
			b.Fatal(err)
		}
		virtual += out.Ended
	}
	b.ReportMetric(virtual.Minutes()/b.Elapsed().Seconds(), "virtual-min/s")
}
