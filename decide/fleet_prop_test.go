package decide

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestFleetInvariants lets random fleets live: sites that are honest about
// themselves, but late, forgetful and restarted, under people who order things.
// After every step it holds the machine against what really happened.
func TestFleetInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFleetWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"time":     w.time,
			"verdict":  w.verdict,
			"withdraw": w.withdraw,
			"return":   w.comeBack,
			"batch":    w.batch,
			"execute":  w.execute,
			"prove":    w.prove,
			"giveup":   w.giveUp,
			"loss":     w.loss,
			"order":    w.order,
			"scope":    w.scope,
			"silence":  w.silence,
			"hear":     w.hear,
			"garbage":  w.garbage,
			"copy":     w.keepCopy,
			"recover":  w.recover,
			"learn":    w.learns,
			"truth":    w.tellTruth,
		})
	})
}

// fleetWorld is what really is, beside what the machine believes.
type fleetWorld struct {
	f    *Fleet
	lt   Time
	t    Table
	on   map[steadycast.Unit]bool // the route is announced
	lost map[steadycast.Unit]bool // taken by an accident, not by a permit
	held map[steadycast.Unit]steadycast.Permit
	seq  map[string]uint64

	grants []grant                     // automatic withdrawals that were not voided
	used   map[string]steadycast.Fence // unit and id → the only permit it may ever have
	auto   map[steadycast.Unit]bool    // out by automation
	back   map[steadycast.Unit]bool    // and proven in again: the next grant ends a cycle
	cycles map[steadycast.Unit][]Time
	locked map[steadycast.Unit]bool

	was     []unitState                          // and all of the units
	marks   []Gone                               // and who was gone
	life    map[steadycast.Unit][]moment         // of each unit, entry by entry
	before  []byte                               // snapshot before the entry
	phase   map[steadycast.Unit]steadycast.Phase // and the phases
	unheard map[steadycast.Unit]bool             // that nobody may act on

	copied *fleetCopy      // what a recovery would go on from
	epoch  uint64          // of the ledger
	knows  map[string]bool // the site has heard of the newest epoch
}

type grant struct {
	lt Time
	u  steadycast.Unit
	id steadycast.RequestID
}

func newFleetWorld(t *rapid.T) *fleetWorld {
	w := &fleetWorld{
		f: NewFleet(), lt: 1, on: map[steadycast.Unit]bool{}, lost: map[steadycast.Unit]bool{}, held: map[steadycast.Unit]steadycast.Permit{},
		seq: map[string]uint64{}, auto: map[steadycast.Unit]bool{}, used: map[string]steadycast.Fence{},
		cycles: map[steadycast.Unit][]Time{}, back: map[steadycast.Unit]bool{}, locked: map[steadycast.Unit]bool{},
		life:  map[steadycast.Unit][]moment{},
		epoch: 1, knows: map[string]bool{},
	}
	table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	if rapid.Bool().Draw(t, "two prefixes") {
		table.Services[0].Prefixes = append(table.Services[0].Prefixes, netip.MustParsePrefix("2001:db8::/32"))
	}
	drawServices(t, &table)
	for i := range rapid.IntRange(1, 6).Draw(t, "sites") {
		table.Sites = append(table.Sites, Place{Name: string(rune('a' + i))})
	}
	// One guard at a time: with all of them on, budgets hide what the floor lets through.
	g := &table.Guards
	g.Cooldown = time.Duration(rapid.SampledFrom([]int{1, 10, 60}).Draw(t, "cooldown")) * time.Second
	if rapid.Bool().Draw(t, "wide budgets") {
		g.SiteBudget, g.SiteLongBudget, g.FleetBudget, g.LockCycles = 1000, 1000, 1000, 100
		g.BreakerPercent = 100
	} else {
		g.FleetBudget = rapid.IntRange(1, 3).Draw(t, "fleet budget")
		g.SiteWindow, g.SiteLongWindow = time.Minute, 10*time.Minute
		g.FleetWindow, g.LockWindow = time.Minute, 10*time.Minute
	}
	g.BreakerWindow = time.Second
	w.t = table.WithDefaults()
	e := w.entry(KindGenesis)
	e.Table = &table
	w.apply(t, e)
	if rapid.IntRange(0, 3).Draw(t, "empty") > 0 {
		w.boot(t)
	}
	return w
}

func (w *fleetWorld) entry(k Kind) Entry {
	return Entry{Kind: k, Schema: Schema, Rules: RulesLevel, Epoch: w.epoch, LT: w.lt, Proposer: "p", Actor: "auto"}
}

// apply applies one entry in several worlds at once: tried before, on a machine
// restored from a snapshot, and after a trip through its written form. All must
// agree. Then it keeps its own books of what the reply allows.
func (w *fleetWorld) apply(t *rapid.T, e Entry) Reply {
	w.before, w.phase, w.unheard = w.f.Snapshot(), map[steadycast.Unit]steadycast.Phase{}, map[steadycast.Unit]bool{}
	for _, u := range w.f.s.Units {
		w.phase[u.Unit] = u.Phase
		w.unheard[u.Unit] = u.Unheard
	}
	w.was, w.marks = slices.Clone(w.f.s.Units), slices.Clone(w.f.s.Gone)
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	twin := NewFleet()
	if err := twin.Restore(w.before); err != nil {
		t.Fatal(err)
	}
	tried, err := w.f.Try(e)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.f.Snapshot(), w.before) {
		t.Fatal("Try changed the machine")
	}
	r, err := w.f.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := twin.Apply(read)
	if err != nil {
		t.Fatal(err)
	}
	if text(r) != text(tried) || text(r) != text(again) {
		t.Fatalf("Apply %s\nTry %s\nrestored and read back %s", text(r), text(tried), text(again))
	}
	if !bytes.Equal(w.f.Snapshot(), twin.Snapshot()) {
		t.Fatal("the restored machine went another way")
	}
	if e.Decide != nil {
		w.permuted(t, e, r)
	}
	w.tooOld(t, e, r)
	w.book(t, e, r)
	w.witness(e, r)
	return r
}

// permuted: the order in which requests, sightings and loads stand in an entry
// does not matter.
func (w *fleetWorld) permuted(t *rapid.T, e Entry, want Reply) {
	if len(e.Decide.Requests) < 2 {
		return
	}
	d := *e.Decide
	d.Requests, d.Seen, d.Loads = slices.Clone(d.Requests), slices.Clone(d.Seen), slices.Clone(d.Loads)
	d.Ineligible, d.Passing = slices.Clone(d.Ineligible), slices.Clone(d.Passing)
	rng := rand.New(rand.NewPCG(1, w.f.Fence().Index))
	rng.Shuffle(len(d.Requests), func(i, j int) { d.Requests[i], d.Requests[j] = d.Requests[j], d.Requests[i] })
	rng.Shuffle(len(d.Seen), func(i, j int) { d.Seen[i], d.Seen[j] = d.Seen[j], d.Seen[i] })
	rng.Shuffle(len(d.Loads), func(i, j int) { d.Loads[i], d.Loads[j] = d.Loads[j], d.Loads[i] })
	rng.Shuffle(len(d.Ineligible), func(i, j int) { d.Ineligible[i], d.Ineligible[j] = d.Ineligible[j], d.Ineligible[i] })
	rng.Shuffle(len(d.Passing), func(i, j int) { d.Passing[i], d.Passing[j] = d.Passing[j], d.Passing[i] })
	e.Decide = &d
	twin := NewFleet()
	if err := twin.Restore(w.before); err != nil {
		t.Fatal(err)
	}
	got, err := twin.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	if text(got) != text(want) || !bytes.Equal(twin.Snapshot(), w.f.Snapshot()) {
		t.Fatalf("in another order it says\n%s\nnot\n%s", text(got), text(want))
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
