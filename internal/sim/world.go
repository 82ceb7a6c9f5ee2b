package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// maxDrift is by how many parts of a million a host's clock may be wrong.
const maxDrift = 1000

// world is one schedule: everything that exists in it. It belongs to the
// goroutine that runs it.
type world struct {
	o    Options
	seed uint64
	mut  string

	agenda agenda
	now    time.Duration // real time; no machine ever sees it
	calm   time.Duration // from here on there are no faults
	events uint64
	hash   uint64 // of everything that happened

	// dice decides what is random while the schedule runs. What the schedule is
	// comes from others, so that leaving out a fault leaves the rest as it was.
	dice *rand.Rand

	table    decide.Table // as people wrote it: what the judge holds everybody to
	prefixes []netip.Prefix
	net      network
	places   []*place // hosts: the first of each site, in the order of the table, then the others
	voters   []*voter
	plan     []fault
	blackout time.Duration // no observation arrives before
	lost     []byte        // the copy of the ledger that a disaster leaves
	people   people

	// parcels are entries as they were read, by where their bytes begin.
	parcels map[*byte]parcel

	judge *judge
}

// Violation is one broken invariant.
type Violation struct {
	Seed      uint64        `json:"seed"`
	Invariant string        `json:"invariant"`
	At        time.Duration `json:"at_ns"`
	Text      string        `json:"text"`
	Policy    string        `json:"policy"`
	// Faults are those without which it does not happen, Only their numbers.
	Faults []string `json:"faults,omitempty"`
	Only   []int    `json:"only,omitempty"`
	// Replay is the command that shows it again.
	Replay string `json:"replay,omitempty"`
}

// Tally counts one invariant.
type Tally struct {
	Checked  uint64 `json:"checked"`
	Violated uint64 `json:"violated"`
}

// Outcome is what came of one schedule.
type Outcome struct {
	Seed      uint64
	Policy    string
	Events    uint64
	Hash      uint64
	Ended     time.Duration
	Violation *Violation
	Tallies   map[string]Tally
	// Happened counts what happened: a schedule in which nothing did proves nothing.
	Happened map[string]uint64
}

// seeds of the streams of random numbers of one schedule.
const (
	streamTable = iota + 1
	streamPlan
	streamDice
)

func stream(seed uint64, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }

// Run runs one schedule to its end, or to the first broken invariant.
func Run(seed uint64, o Options) (Outcome, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Outcome{}, err
	}
	w := newWorld(seed, o)
	w.run()
	return w.outcome(), nil
}

func newWorld(seed uint64, o Options) *world {
	w := &world{o: o, seed: seed, mut: o.Mutation, hash: seed, dice: stream(seed, streamDice), parcels: map[*byte]parcel{}}
	shape := stream(seed, streamTable)
	if o.Policy == "" {
		w.o.Policy = policies[shape.IntN(len(policies))].name
	}
	w.table = newTable(o, findPolicy(w.o.Policy), shape)
	w.prefixes = w.table.AllPrefixes()
	w.calm = o.Length - calmFor(w.table)
	w.settle(shape)
	w.net = newNetwork(len(w.places))
	w.judge = newJudge(w)
	for _, p := range w.places {
		p.meet()
	}
	voters := 3
	if len(w.sites()) >= 5 {
		voters = 5
	}
	for i := range voters {
		w.voters = append(w.voters, newVoter(w, i, voters, shape))
	}
	w.people = newPeople(seed)
	w.plan = drawPlan(w, stream(seed, streamPlan))
	return w
}

// calmFor is how long it takes until whatever may come back has come back.
func calmFor(t decide.Table) time.Duration {
	g, h := t.Guards, t.Services[0].Health
	return g.SiteWindow + g.Cooldown + h.HoldUp + g.BreakerWindow + g.BreakerClear + 15*time.Second
}

func (w *world) run() {
	for _, v := range w.voters {
		v.start()
	}
	for _, p := range w.places {
		w.in(time.Duration(w.dice.IntN(1000))*time.Millisecond, func() { p.boot(-1) })
	}
	for i := range w.plan {
		if f := &w.plan[i]; w.chosen(i) {
			w.at(f.at, func() { w.strike(f) })
		}
	}
	w.at(w.calm, w.goHome)
	if w.later() {
		w.at(firstFault-6*time.Second, func() { w.apply(w.inForce(), true) })
		w.answerDecisions()
	}
	w.judge.schedule()
	for w.judge.violation == nil {
		e, ok := w.agenda.pop()
		if !ok || e.at > w.o.Length {
			break
		}
		w.now = e.at
		w.events++
		w.mix(uint64(e.at))
		e.do()
	}
}

// later reports whether the table that the schedule is decided by comes into force
// only when all have come up.
func (w *world) later() bool { return findPolicy(w.o.Policy).later != nil }

// inForce is the table that the machines are to be given, now.
func (w *world) inForce() decide.Table {
	t := w.bendTable(w.table)
	if p := findPolicy(w.o.Policy); p.later != nil && !w.is(modeUnasked) {
		p.later(&t)
	}
	return t
}

// chosen reports whether a fault of the plan is to happen.
func (w *world) chosen(i int) bool {
	if w.o.Only == nil {
		return true
	}
	return contains(w.o.Only, i)
}

func (w *world) at(at time.Duration, do func())   { w.agenda.push(max(at, w.now), do) }
func (w *world) in(wait time.Duration, do func()) { w.agenda.push(w.now+wait, do) }

// between draws a span of time.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.dice.Int64N(int64(most-least)+1))
}

// is reports whether the schedule runs with a rejected rule.
func (w *world) is(mutation string) bool { return w.mut == mutation }

// mix makes x part of what happened (FNV-1a, by words).
func (w *world) mix(x uint64) { w.hash = (w.hash ^ x) * 1099511628211 }

// say writes one line of the trace.
func (w *world) say(format string, args ...any) {
	if w.o.Trace != nil {
		fmt.Fprintf(w.o.Trace, "%10.3fs  "+format+"\n", append([]any{w.now.Seconds()}, args...)...)
	}
}

// outcome sums up.
func (w *world) outcome() Outcome {
	j := w.judge
	out := Outcome{
		Seed: w.seed, Policy: w.o.Policy, Events: w.events, Hash: w.hash, Ended: w.now,
		Violation: j.violation, Tallies: map[string]Tally{}, Happened: j.happened,
	}
	for i, t := range j.tallies {
		out.Tallies[invariants[i].name] = t
	}
	return out
}

// prefixAt is the number of a prefix.
func (w *world) prefixAt(p netip.Prefix) int {
	for i, q := range w.prefixes {
		if p == q {
			return i
		}
	}
	return -1
}

// placeOf finds a place by name; nil if there is none.
func (w *world) placeOf(name string) *place {
	for _, p := range w.places {
		if p.name == name {
			return p
		}
	}
	return nil
}

// leader is the desk of the voter that leads; nil while none does.
func (w *world) leader() *desk {
	for _, v := range w.voters {
		if v.up && v.desk != nil && w.now >= v.stalled {
			return v.desk
		}
	}
	return nil
}

// unit names a prefix at a place.
func (w *world) unit(p *place, prefix int) steadycast.Unit {
	return steadycast.Unit{Site: p.name, Prefix: w.prefixes[prefix]}
}
