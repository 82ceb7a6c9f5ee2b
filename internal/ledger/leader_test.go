package ledger

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// bench is a leader with a clock in the test's hand and no journal.
type bench struct {
	t   *testing.T
	l   *leader
	now time.Duration
}

func newBench(t *testing.T, names ...string) *bench {
	f := decide.NewFleet()
	b := &bench{t: t, l: newLeader(f, "n1", 0)}
	e := b.l.entry(0, decide.KindGenesis)
	table := policy(names...)
	table.Revision = 1
	e.Table = &table
	b.apply(e)
	return b
}

func (b *bench) apply(e decide.Entry) decide.Reply {
	b.t.Helper()
	r, err := b.l.fleet.Apply(e)
	if err != nil || r.Invalid != "" {
		b.t.Fatal(err, r.Invalid)
	}
	b.l.applied(b.now)
	return r
}

// duties applies what the leader proposes by itself and gives its kinds.
func (b *bench) duties() (kinds []decide.Kind) {
	b.t.Helper()
	for range 100 {
		e, ok := b.l.duties(b.now)
		if !ok {
			return kinds
		}
		kinds = append(kinds, e.Kind)
		b.apply(e)
	}
	b.t.Fatalf("the duties never end: %v", kinds)
	return nil
}

func (b *bench) ask(name string, seq uint64, a steadycast.Action) decide.Answer {
	b.t.Helper()
	s := site{t: b.t, name: name, seq: seq - 1}
	e, write, answers, err := b.l.propose(b.now, []steadycast.Request{s.request(a)})
	if err != nil {
		b.t.Fatal(err)
	}
	if write {
		answers = append(answers, b.apply(e).Answers...)
		b.l.answered(b.now, answers)
	}
	return answers[0]
}

func (b *bench) beat(name string, inc uint64, dead steadycast.RequestID, announcing bool) {
	beat := decide.Beat{Site: name, Incarnation: inc, DeadThrough: dead}
	if announcing {
		u := steadycast.Unit{Site: name, Prefix: netip.MustParsePrefix("192.0.2.0/24")}
		beat.Announcing = []steadycast.Unit{u}
		beat.Returned = []decide.ReturnProof{{Unit: u, ID: b.unit(name).Return}}
	}
	b.l.hear(b.now, beat)
}

func (b *bench) unit(name string) decide.UnitView {
	for _, u := range b.l.view.Units {
		if u.Unit.Site == name {
			return u
		}
	}
	b.t.Fatalf("no unit of %s", name)
	return decide.UnitView{}
}

func (b *bench) up(names ...string) {
	for _, n := range names {
		e := b.l.entry(b.now, decide.KindVerdict)
		e.Verdicts = []steadycast.Verdict{{Site: n, Service: "web", State: steadycast.Healthy}}
		b.apply(e)
		b.ask(n, 1, steadycast.Return)
		b.beat(n, 1, steadycast.RequestID{}, true)
		b.duties()
	}
}

func (b *bench) announcing() []string { return b.l.seen(b.now)[0].Announcing }

// TestSeenIsFreshAndIn: a site counts while a fresh beat names the unit and the
// ledger has it In; either alone does not.
func TestSeenIsFreshAndIn(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	if got := b.announcing(); !slices.Equal(got, []string{"ams", "fra", "lon"}) {
		t.Fatal(got)
	}
	b.now += beatFresh
	b.beat("ams", 1, steadycast.RequestID{}, true)
	b.now += time.Millisecond
	if got := b.announcing(); !slices.Equal(got, []string{"ams"}) {
		t.Errorf("after 5 s without a beat: %v", got)
	}
	b.beat("fra", 1, steadycast.RequestID{}, true)
	b.beat("lon", 1, steadycast.RequestID{}, true)
	if a := b.ask("fra", 2, steadycast.Withdraw); permitted(a) != steadycast.Withdraw {
		t.Fatalf("%+v", a)
	}
	if got := b.announcing(); !slices.Equal(got, []string{"ams", "lon"}) {
		t.Errorf("fra holds a permit, though its beat still names the unit: %v", got)
	}
}

// TestBeatsOfOthers: what a beat says of another site's unit counts nowhere, so
// nobody holds up a floor in another's place, proves its return or gives up its permit.
func TestBeatsOfOthers(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	b.now += beatFresh + time.Millisecond
	units := []steadycast.Unit{unitOf("ams"), unitOf("fra"), unitOf("lon")}
	liar := func() {
		far := steadycast.RequestID{Incarnation: 9, Seq: 9}
		beat := decide.Beat{Site: "ams", Incarnation: 2, Seq: uint64(b.now), Announcing: units, DeadThrough: far}
		for _, u := range units {
			beat.Returned = append(beat.Returned, decide.ReturnProof{Unit: u, ID: b.unit(u.Site).Return})
		}
		b.l.hear(b.now, beat)
	}
	liar()
	b.beat("fra", 1, steadycast.RequestID{}, true)
	if got := b.announcing(); !slices.Equal(got, []string{"ams", "fra"}) {
		t.Errorf("lon is silent, ams says that lon announces, and %v are counted", got)
	}
	if a := b.ask("fra", 2, steadycast.Withdraw); permitted(a) == steadycast.Withdraw {
		t.Errorf("with two of a floor of two: %+v", a)
	}
	b.beat("lon", 1, steadycast.RequestID{}, true)
	if a := b.ask("fra", 3, steadycast.Withdraw); permitted(a) != steadycast.Withdraw {
		t.Fatalf("%+v", a)
	}
	liar()
	if k := b.duties(); len(k) > 0 || b.unit("fra").Phase != steadycast.Out {
		t.Errorf("ams gives fra's permit back: %v, %s", k, b.unit("fra").Phase)
	}
	b.now += 6 * time.Minute // longer than a cooldown
	for _, n := range []string{"ams", "lon"} {
		b.beat(n, 3, steadycast.RequestID{}, true)
	}
	if a := b.ask("fra", 4, steadycast.Return); permitted(a) != steadycast.Return {
		t.Fatalf("%+v", a)
	}
	liar()
	if k := b.duties(); slices.Contains(k, decide.KindIn) || b.unit("fra").Phase != steadycast.Returning {
		t.Errorf("ams proves fra's return: %v, %s", k, b.unit("fra").Phase)
	}
}

// TestLostAndFound: beats that name a unit no more make it lost after a while;
// silence does not, for missing data is never failure.
func TestLostAndFound(t *testing.T) {
	b := newBench(t, "ams", "fra")
	b.up("ams", "fra")
	for range 4 {
		b.beat("ams", 1, steadycast.RequestID{}, false)
		if k := b.duties(); len(k) > 0 {
			t.Fatalf("after %s: %v", b.now, k)
		}
		b.now += time.Second
	}
	b.beat("ams", 1, steadycast.RequestID{}, true) // it was a moment only
	b.duties()
	for range 5 {
		b.now += time.Second
		b.beat("ams", 1, steadycast.RequestID{}, false)
		b.duties()
	}
	if b.unit("ams").Lost {
		t.Fatal("lost after 4 s")
	}
	b.now += time.Second
	b.beat("ams", 1, steadycast.RequestID{}, false)
	if k := b.duties(); !slices.Contains(k, decide.KindLost) || !b.unit("ams").Lost || b.unit("ams").Phase != steadycast.In {
		t.Fatalf("%v, %+v", k, b.unit("ams"))
	}
	b.beat("ams", 1, steadycast.RequestID{}, true)
	if k := b.duties(); !slices.Contains(k, decide.KindFound) || b.unit("ams").Lost {
		t.Fatalf("%v, %+v", k, b.unit("ams"))
	}
	b.now += time.Hour
	b.duties()
	if b.unit("fra").Lost {
		t.Error("silence made fra lost")
	}
}

// TestVoidByBeat: a permit comes back only when its holder says that it is dead
// and that the unit announces; and never an order's.
func TestVoidByBeat(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	granted := b.ask("fra", 2, steadycast.Withdraw)
	if permitted(granted) != steadycast.Withdraw {
		t.Fatalf("%+v", granted)
	}
	b.beat("fra", 1, steadycast.RequestID{Incarnation: 1, Seq: 1}, true) // an earlier one is dead
	b.beat("fra", 1, granted.ID, false)                                  // dead, but it does not announce
	if b.duties(); b.unit("fra").Phase != steadycast.Out {
		t.Fatal("the permit came back without proof")
	}
	b.beat("fra", 1, granted.ID, true)
	if k := b.duties(); !slices.Contains(k, decide.KindVoid) || b.unit("fra").Phase != steadycast.In || b.unit("fra").BudgetUsed != 0 {
		t.Fatalf("%v, %+v", k, b.unit("fra"))
	}
	e := b.l.entry(b.now, decide.KindOrder)
	e.Order = &steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test", Force: true}
	b.apply(e)
	b.beat("fra", 9, steadycast.RequestID{Incarnation: 9}, true)
	b.duties()
	e = b.l.entry(b.now, decide.KindOrderClear)
	e.Scope, e.Actor, e.Reason = &decide.Scope{Site: "fra"}, "ann", "test"
	b.apply(e)
	if k := b.duties(); b.unit("fra").Phase != steadycast.Out {
		t.Errorf("an order's permit was given back: %v", k)
	}
}

// TestLateBeat: what an earlier start of the agent said is over.
func TestLateBeat(t *testing.T) {
	b := newBench(t, "ams", "fra")
	b.up("ams", "fra")
	b.beat("fra", 2, steadycast.RequestID{}, false)
	b.beat("fra", 1, steadycast.RequestID{}, true)
	if got := b.announcing(); !slices.Equal(got, []string{"ams"}) {
		t.Error(got)
	}
}

// TestOffsetIsFixed: a new leader goes on from the last entry; what passed
// between is lost, and never caught up with.
func TestOffsetIsFixed(t *testing.T) {
	b := newBench(t, "fra")
	b.now = 5 * time.Second
	b.apply(b.l.entry(b.now, decide.KindTick))
	if got := b.l.fleet.LT(); got != 5000 {
		t.Fatal(got)
	}
	next := newLeader(b.l.fleet, "n2", 3*time.Hour) // its own monotonic clock
	if got := next.lt(3*time.Hour + 2*time.Second); got != 7000 {
		t.Errorf("two seconds later it is %d", got)
	}
	if at := next.tickAt(); at < 3*time.Hour || at > 3*time.Hour+tickIdle {
		t.Errorf("the next tick is at %s", at)
	}
}

// TestDenialOfEachIncident: the first refusal by a guard is written, the next
// ones only after the incident.
func TestDenialOfEachIncident(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	e := b.l.entry(b.now, decide.KindFreeze)
	e.Scope, e.Actor, e.Reason = &decide.Scope{}, "ann", "test"
	b.apply(e)
	index := func() uint64 { return b.l.fleet.Fence().Index }
	written := func(seq uint64) bool {
		from := index()
		if a := b.ask("fra", seq, steadycast.Withdraw); permitted(a) != steadycast.NoAction {
			t.Fatalf("%+v", a)
		}
		return index() > from
	}
	for i, want := range []bool{true, false, false} {
		if got := written(uint64(10 + i)); got != want {
			t.Errorf("refusal %d written: %t", i+1, got)
		}
	}
	b.now += incidentOver
	if !written(20) {
		t.Error("the refusal of a new incident was not written")
	}
}

// TestLateBeats: over a link that reorders, what was said last counts, and what
// was said before it is neither believed nor makes it look newer.
func TestLateBeats(t *testing.T) {
	unit := unitOf("fra")
	says := func(inc, seq uint64, announcing bool) decide.Beat {
		b := decide.Beat{Site: "fra", Incarnation: inc, Seq: seq}
		if announcing {
			b.Announcing = []steadycast.Unit{unit}
		}
		return b
	}
	type heardBeat struct {
		at   time.Duration
		beat decide.Beat
	}
	const s, ms = time.Second, time.Millisecond
	for _, x := range []struct {
		name  string
		beats []heardBeat
		fresh bool // at 10 s
		says  bool
	}{
		{"in order", []heardBeat{{7 * s, says(1, 1, false)}, {8 * s, says(1, 2, true)}}, true, true},
		{"late, and younger by its age", []heardBeat{{7 * s, says(1, 2, true)}, {8 * s, says(1, 1, false)}}, true, true},
		{"late, and the newest is old", []heardBeat{{3 * s, says(1, 2, true)}, {8 * s, says(1, 1, true)}}, false, false},
		{"of an earlier start", []heardBeat{{7 * s, says(2, 1, true)}, {8 * s, says(1, 99, false)}}, true, true},
		{"of a later start", []heardBeat{{7 * s, says(1, 99, false)}, {8 * s, says(2, 1, true)}}, true, true},
		{"said later with an older nonce", []heardBeat{{8 * s, says(1, 1, false)}, {3 * s, says(1, 2, true)}}, true, true},
		// A node that was set back to an older disk counts from there again.
		{"set back: an earlier start, once the later one is silent", []heardBeat{{2 * s, says(7, 9, true)}, {8 * s, says(5, 1, false)}}, true, false},
		{"set back: the same start and an earlier number", []heardBeat{{2 * s, says(7, 900, false)}, {8 * s, says(7, 1, true)}}, true, true},
		{"set back: and so on", []heardBeat{{2 * s, says(7, 9, true)}, {7500 * ms, says(5, 1, true)}, {8 * s, says(5, 2, false)}}, true, false},
		{"set back: not yet, for the later start may speak still", []heardBeat{{3 * s, says(7, 9, true)}, {8 * s, says(5, 1, false)}}, false, true},
		{"set back: what the later start had said comes late", []heardBeat{{0, says(7, 8, false)}, {8 * s, says(5, 1, true)}, {2 * s, says(7, 9, false)}}, true, true},
		{"two with one name: the higher start is heard", []heardBeat{{7 * s, says(7, 9, true)}, {8 * s, says(5, 300, false)}, {9 * s, says(7, 10, true)}, {9 * s, says(5, 301, false)}}, true, true},
		{"replayed: an earlier start with its own old nonce", []heardBeat{{9 * s, says(7, 1, true)}, {2 * s, says(5, 300, false)}}, true, true},
		{"replayed while the node is silent: as old as ever", []heardBeat{{1 * s, says(7, 1, true)}, {500 * ms, says(5, 300, false)}}, false, true},
	} {
		var box beatBox
		box.wake = make(chan struct{}, 1)
		lead := newLeader(decide.NewFleet(), "led", 0)
		for _, h := range x.beats {
			box.put(heard{beat: h.beat, at: h.at})
			lead.hear(h.at, h.beat)
		}
		for _, got := range [][]heard{box.take(), lead.beats} {
			if len(got) != 1 {
				t.Fatalf("%s: %+v", x.name, got)
			}
			fresh, announcing := 10*s-got[0].at <= beatFresh, len(got[0].beat.Announcing) > 0
			if fresh != x.fresh || x.fresh && announcing != x.says {
				t.Errorf("%s: %+v", x.name, got)
			}
		}
	}
}
