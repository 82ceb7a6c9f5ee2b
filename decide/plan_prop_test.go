package decide

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestPlans lets plans live under nodes that are slow, lost and repeat
// themselves, and under people who change their minds. Every entry is also
// applied to a machine restored from a snapshot, as after a crash, and the whole
// log once more at the end. The test keeps its own account of who has which step,
// and knows of each word of a node whether it is taken.
func TestPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newPlanWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        w.check,
			"time":    w.time,
			"take":    w.take,
			"say":     w.say,
			"stale":   w.stale,
			"wish":    w.wish,
			"verdict": w.verdict,
			"return":  w.returns,
			"order":   w.order,
			"freeze":  w.freeze,
			"table":   w.table,
		})
		w.end(t)
	})
}

// crashEvery is after how many entries the twin crashes: not a divisor of what
// the test does in turn.
const crashEvery = 7

// planWorld is what the test knows beside the machine.
type planWorld struct {
	f    *Fleet
	twin *Fleet // that crashes again and again
	lt   Time
	seq  uint64
	held map[heldStep]planTry // who has which step, by the test's own account
	said []StepWord           // words that were said once, to be said again
}

type heldStep struct {
	run  uint64
	step int
}

type planTry struct {
	node, site string
	try        uint64
	until      Time
}

func newPlanWorld(t *rapid.T) *planWorld {
	w := &planWorld{f: NewFleet(), twin: NewFleet(), held: map[heldStep]planTry{}}
	table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	for i := range 4 {
		table.Sites = append(table.Sites, Place{Name: string(rune('a' + i))})
	}
	table.Guards = Guards{SiteBudget: 1000, SiteLongBudget: 1000, FleetBudget: 1000, LockCycles: 100, BreakerPercent: 100, BreakerSites: 4}
	table.Plans = []Plan{drawPlan(t, "p", "a", "b"), drawPlan(t, "q", "c", "b")}
	if ps := table.Problems(); len(ps) > 0 {
		t.Fatalf("the drawn plans: %v", ps)
	}
	e := w.entry(KindGenesis)
	e.Table = &table
	w.apply(t, e)
	for _, p := range table.Sites {
		w.heal(t, p.Name)
	}
	return w
}

// drawPlan makes a plan that moves site from, or announces site to.
func drawPlan(t *rapid.T, name, from, to string) Plan {
	p := Plan{Name: name, OnFailure: rapid.SampledFrom([]string{OnFailureHold, OnFailureRollback}).Draw(t, "on failure")}
	if rapid.Bool().Draw(t, "called") {
		p.Start = &PlanStart{Do: rapid.SampledFrom([]string{StartPropose, StartRun}).Draw(t, "start"), For: 10 * time.Second,
			When: []Sign{{Site: from, Service: "web", State: steadycast.Unhealthy}}}
	}
	writers := rapid.Bool().Draw(t, "writers")
	if writers {
		p.Steps = append(p.Steps, Step{Do: DoRun, Name: "fence", At: from, Effect: EffectFence, Undoes: true},
			Step{Do: DoRun, Name: "promote", At: to, Effect: EffectPromote, Undoes: true})
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		s := Step{Name: fmt.Sprintf("s%d", i), Do: rapid.SampledFrom([]string{
			DoCheck, DoGuard, DoDrain, DoWithdraw, DoAnnounce, DoWait, DoApprove, DoVerify, DoRun, DoShift, DoShift, DoWarm,
		}).Draw(t, "do")}
		switch s.Do {
		case DoDrain, DoWithdraw:
			s.Site = from
		case DoShift:
			s.Site = from
			s.Percent = ptrTo(rapid.SampledFrom([]int{0, 0, 3, 50, 100}).Draw(t, "percent"))
			s.Canary = ptrTo(rapid.SampledFrom([]int{0, 5}).Draw(t, "canary"))
		case DoWarm:
			s.Site = from
		case DoAnnounce:
			s.Site = rapid.SampledFrom([]string{from, to}).Draw(t, "site")
		case DoRun:
			s.Undoes = rapid.Bool().Draw(t, "undo")
		case DoGuard:
			s.At = rapid.SampledFrom([]string{"", to}).Draw(t, "at")
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

func (w *planWorld) entry(k Kind) Entry {
	return Entry{Kind: k, Schema: Schema, Rules: RulesLevel, Epoch: 1, LT: w.lt, Proposer: "p", Actor: "auto"}
}

// apply applies an entry to the machine and to its twin that was restored just
// now, and keeps the account of who has what.
func (w *planWorld) apply(t *rapid.T, e Entry) Reply {
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	before := w.f.View()
	// Now and then one crashes, and goes on from its snapshot.
	crash := w.f.Fence().Index%crashEvery == 1
	shown := ""
	if crash {
		shown = text(before)
		twin := NewFleet()
		if err := twin.Restore(w.twin.Snapshot()); err != nil {
			t.Fatal(err)
		}
		w.twin = twin
	}
	r, err := w.f.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.twin.Apply(read)
	if err != nil {
		t.Fatal(err)
	}
	if crash {
		if text(r) != text(again) || !bytes.Equal(w.f.Snapshot(), w.twin.Snapshot()) {
			t.Fatalf("restored and read back it says\n%s\nnot\n%s", text(again), text(r))
		}
		if text(before) != shown {
			t.Fatal("a view that was given out has changed")
		}
	}
	w.account(t, e, r, before)
	return r
}

// account holds who has which step after an entry against who had it before, and
// what the entry allows.
func (w *planWorld) account(t *rapid.T, e Entry, r Reply, before View) {
	for at, x := range w.held {
		if x.until <= w.f.LT() {
			delete(w.held, at) // nothing was heard in time
		}
	}
	if e.Kind == KindStep {
		w.heard(t, *e.Step, r)
	}
	for _, run := range w.f.View().Plans {
		had := slices.IndexFunc(before.Plans, func(x PlanRun) bool { return x.Number == run.Number })
		turned := (run.State == PlanBack || run.State == PlanRolledBack) && had >= 0 && before.Plans[had].State != PlanBack
		for k, s := range run.Steps {
			at := heldStep{run.Number, k}
			x, ours := w.held[at]
			p := run.Plan.Steps[k]
			// A look that turned back or took too long is over; a run never is but by
			// its node's word or by time.
			if ours && !s.Held() && p.Do != DoRun && (turned || s.State == StepFailed || run.Hold != nil && run.Hold.Failed) {
				delete(w.held, at)
				continue
			}
			if ours != s.Held() || ours && (x.node != s.Node || x.try != s.Try || x.until != s.Until) {
				t.Fatalf("run %d step %d is held by %q in try %d until %d; by the test's account %+v (%t)", run.Number, k, s.Node, s.Try, s.Until, x, ours)
			}
		}
	}
}

// heard books a node's word that was taken.
func (w *planWorld) heard(t *rapid.T, word StepWord, r Reply) {
	at := heldStep{word.Run, word.Step}
	if r.Invalid != "" {
		return
	}
	i := slices.IndexFunc(w.f.View().Plans, func(x PlanRun) bool { return x.Number == word.Run })
	p := w.f.View().Plans[i].Plan.Steps[word.Step]
	x, ours := w.held[at]
	switch {
	case word.Say == SayTake && ours:
		t.Fatalf("%s took what %s has", word.Node, x.node)
	case word.Say == SayTake:
		if w.f.View().Plans[i].Steps[word.Step].Held() { // else the ledger did it at once
			w.held[at] = planTry{word.Node, word.Site, word.Try, w.f.LT() + p.lease()}
		}
	case !ours || x.node != word.Node || x.try != word.Try || x.site != word.Site:
		t.Fatalf("a word of %s in try %d was taken; %+v has it (%t)", word.Node, word.Try, x, ours)
	case word.Say == SayNote || word.Say == SayOn:
		if p.Do != DoRun {
			x.until = w.f.LT() + p.lease()
			w.held[at] = x
		}
	default:
		delete(w.held, at)
	}
}

// word says something, and knows whether it must be taken: the test's rules for
// every refusal.
func (w *planWorld) word(t *rapid.T, word StepWord) Reply {
	e := w.entry(KindStep)
	e.Step, e.Decide = &word, &Decide{Seen: w.seen()}
	want := w.refusal(word)
	r := w.apply(t, e)
	if (r.Invalid != "") != (want != "") {
		t.Fatalf("%+v: the machine says %q, the test %q", word, r.Invalid, want)
	}
	w.said = append(w.said, word)
	return r
}

// refusal says why a word is not taken, "" if it is.
func (w *planWorld) refusal(word StepWord) string {
	v := w.f.View()
	i := slices.IndexFunc(v.Plans, func(x PlanRun) bool { return x.Number == word.Run })
	if i < 0 || word.Step >= len(v.Plans[i].Steps) {
		return "unknown"
	}
	run := v.Plans[i]
	s, p := run.Steps[word.Step], run.Plan.Steps[word.Step]
	x, ours := w.held[heldStep{word.Run, word.Step}]
	ours = ours && x.until > max(w.lt, w.f.LT())
	if word.Say == SayTake {
		open, ok := run.Open()
		switch {
		case run.Hold != nil:
			return "it stands still"
		case !ok || open != word.Step:
			return "not now"
		case ours:
			return "another has it"
		case word.Try != s.Try+1:
			return "not the next try"
		case p.At != "" && p.At != word.Site:
			return "not there"
		}
		return ""
	}
	if !ours || x.node != word.Node || x.try != word.Try || x.site != word.Site {
		return "not its holder"
	}
	if word.Say == SayDone && s.Stage == 1 && run.State == PlanRunning {
		return "only the canary is moved"
	}
	if word.Say == SayDone && p.Do == DoAnnounce && run.State == PlanRunning {
		for _, u := range s.Took {
			if w.f.s.unit(u.Site, u.Prefix).Phase != steadycast.In {
				return "not in yet"
			}
		}
	}
	return ""
}

func (w *planWorld) seen() []Seen {
	var seen []Seen
	for _, p := range w.f.View().Table.AllPrefixes() {
		x := Seen{Prefix: p}
		for _, u := range w.f.View().Units {
			if u.Unit.Prefix == p && u.Phase == steadycast.In {
				x.Announcing = append(x.Announcing, u.Unit.Site)
				if w.f.s.health(u.Unit).ok {
					x.Healthy = append(x.Healthy, u.Unit.Site)
				}
			}
		}
		seen = append(seen, x)
	}
	return seen
}

func (w *planWorld) time(t *rapid.T) {
	w.lt += Time(rapid.SampledFrom([]int{1, 1000, 9999, 30_000, 75_000, 600_000}).Draw(t, "ms"))
	w.apply(t, w.entry(KindTick))
}

// open are the live runs that have a step to be taken.
func (w *planWorld) open() (runs []PlanRun) {
	for _, r := range w.f.View().Plans {
		if _, ok := r.Open(); ok && r.State.Live() {
			runs = append(runs, r)
		}
	}
	return runs
}

func (w *planWorld) take(t *rapid.T) {
	runs := w.open()
	if len(runs) == 0 {
		return
	}
	r := runs[rapid.IntRange(0, len(runs)-1).Draw(t, "run")]
	k, _ := r.Open()
	site := r.Plan.Steps[k].At
	if site == "" || rapid.IntRange(0, 9).Draw(t, "elsewhere") == 0 {
		site = rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "site")
	}
	w.word(t, StepWord{Run: r.Number, Step: k, Try: r.Steps[k].Try + 1, Site: site, Node: site + "-1", Say: SayTake, Then: "1"})
}

// say lets whoever has a step say something, most often that it is done.
func (w *planWorld) say(t *rapid.T) {
	var at []heldStep
	for _, r := range w.f.View().Plans {
		for k := range r.Steps {
			if _, ok := w.held[heldStep{r.Number, k}]; ok {
				at = append(at, heldStep{r.Number, k})
			}
		}
	}
	if len(at) == 0 {
		return
	}
	h := rapid.SampledFrom(at).Draw(t, "held")
	x := w.held[h]
	w.word(t, StepWord{Run: h.run, Step: h.step, Try: x.try, Site: x.site, Node: x.node, Text: "seen",
		Say: rapid.SampledFrom([]string{SayDone, SayDone, SayDone, SayDone, SayNote, SayOn, SayFail, SayDrop}).Draw(t, "say")})
}

// stale says once more what was said before, or something of a step and a try
// that may not be.
func (w *planWorld) stale(t *rapid.T) {
	if len(w.said) > 0 && rapid.Bool().Draw(t, "again") {
		w.word(t, rapid.SampledFrom(w.said).Draw(t, "word"))
		return
	}
	site := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "site")
	w.word(t, StepWord{
		Run: rapid.Uint64Range(0, 5).Draw(t, "run"), Step: rapid.IntRange(0, 8).Draw(t, "step"), Try: rapid.Uint64Range(0, 4).Draw(t, "try"),
		Site: site, Node: site + "-1", Say: rapid.SampledFrom([]string{SayTake, SayNote, SayOn, SayDone, SayFail, SayDrop}).Draw(t, "say"),
	})
}

func (w *planWorld) wish(t *rapid.T) {
	w.tell(t, rapid.SampledFrom([]string{PlanRunIt, PlanRunIt, PlanPause, PlanResume, PlanResume, PlanStep, PlanApprove, PlanApprove, PlanRollback, PlanDismiss, PlanGiveUp}).Draw(t, "wish"),
		rapid.SampledFrom([]string{"p", "q"}).Draw(t, "plan"))
}

func (w *planWorld) tell(t *rapid.T, do, plan string) Reply {
	e := w.entry(KindPlan)
	e.Actor, e.Reason, e.Plan = "ann", "test", &PlanWish{Do: do, Plan: plan, Force: do == PlanGiveUp}
	return w.apply(t, e)
}

func (w *planWorld) verdict(t *rapid.T) {
	e := w.entry(KindVerdict)
	e.Verdicts = []steadycast.Verdict{{
		Site: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "site"), Service: "web",
		State: rapid.SampledFrom([]steadycast.State{steadycast.Healthy, steadycast.Healthy, steadycast.Unhealthy}).Draw(t, "state"),
	}}
	w.apply(t, e)
}

// heal has a site well, back and proven, as far as the ledger lets it.
func (w *planWorld) heal(t *rapid.T, site string) {
	e := w.entry(KindVerdict)
	e.Verdicts = []steadycast.Verdict{{Site: site, Service: "web", State: steadycast.Healthy}}
	w.apply(t, e)
	w.seq++
	e = w.entry(KindDecide)
	e.Decide = &Decide{Seen: w.seen(), Requests: []steadycast.Request{{
		ID: steadycast.RequestID{Incarnation: 1, Seq: w.seq}, Site: site, Action: steadycast.Return, Service: "web",
		Prefixes: w.f.View().Table.AllPrefixes(), Evidence: w.f.View().Table.evidence(site, "web", w.seq, steadycast.Result{Outcome: steadycast.Up}),
	}}}
	w.apply(t, e)
	for _, u := range w.f.View().Units {
		if u.Phase == steadycast.Returning {
			e := w.entry(KindIn)
			e.Return = &ReturnProof{Unit: u.Unit, ID: u.Return}
			w.apply(t, e)
		}
	}
}

func (w *planWorld) returns(t *rapid.T) {
	w.heal(t, rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "site"))
}

func (w *planWorld) order(t *rapid.T) {
	o := steadycast.Order{Site: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "site"), Actor: "joe", Reason: "works",
		Kind: rapid.SampledFrom([]steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderAnnounce, steadycast.OrderAnnounce}).Draw(t, "order")}
	e := w.entry(KindOrder)
	e.Order, e.Actor, e.Reason, e.Decide = &o, o.Actor, o.Reason, &Decide{Seen: w.seen()}
	w.apply(t, e)
}

func (w *planWorld) freeze(t *rapid.T) {
	e := w.entry(rapid.SampledFrom([]Kind{KindFreeze, KindThaw, KindThaw}).Draw(t, "kind"))
	e.Actor, e.Reason, e.Scope = "joe", "looking", &Scope{}
	w.apply(t, e)
}

// table changes one plan's words, or none.
func (w *planWorld) table(t *rapid.T) {
	table := w.f.View().Table
	table.Revision++
	table.Plans = slices.Clone(table.Plans)
	if rapid.Bool().Draw(t, "change") {
		table.Plans[0].About += "x"
	}
	e := w.entry(KindTable)
	e.Table, e.Actor, e.Reason, e.Decide = &table, "joe", "test", &Decide{Seen: w.seen()}
	w.apply(t, e)
}

// check holds after every step.
func (w *planWorld) check(t *rapid.T) {
	if err := w.f.s.sound(); err != nil {
		t.Fatal(err)
	}
	live := map[string]uint64{}
	for _, r := range w.f.View().Plans {
		holders := 0
		for _, s := range r.Steps {
			if s.Held() {
				holders++
			}
		}
		if r.State.Live() {
			for _, site := range r.Plan.Sites() {
				if live[site] != 0 {
					t.Fatalf("runs %d and %d move %s at once", live[site], r.Number, site)
				}
				live[site] = r.Number
			}
		}
		if r.State == PlanRunning && holders > 1 || !r.State.Live() && holders > 0 {
			t.Fatalf("run %d is %s and has %d holders", r.Number, r.State, holders)
		}
		w.writers(t, &r)
	}
}

// writers: never is a step promoted, or clients moved to it, while the old one is
// not fenced.
func (w *planWorld) writers(t *rapid.T, r *PlanRun) {
	if r.Plan.Steps[0].Effect != EffectFence {
		return
	}
	fenced, promoted := r.Steps[0], r.Steps[1]
	if promoted.Try > 0 && promoted.State != StepUndone && fenced.State != StepDone {
		t.Fatalf("run %d: promote is %s while fence is %s", r.Number, promoted.State, fenced.State)
	}
	for k, s := range r.Steps[2:] {
		if r.State == PlanRunning && r.Plan.Steps[k+2].moves() && s.State == StepRunning && promoted.State != StepDone {
			t.Fatalf("run %d: clients are moved while promote is %s", r.Number, promoted.State)
		}
		if r.Plan.Steps[k+2].moves() && (s.State == StepUndoing || s.State == StepUndone) && fenced.Try > 0 && fenced.State != StepUndone {
			t.Fatalf("run %d: clients are sent back while fence is %s", r.Number, fenced.State)
		}
	}
}

// end takes everything back, with nodes that do as they are told, and finds the
// world as it was: nothing that a plan ordered stands, and no site is out for it.
func (w *planWorld) end(t *rapid.T) {
	e := w.entry(KindThaw)
	e.Actor, e.Reason, e.Scope = "joe", "end", &Scope{}
	w.apply(t, e)
	for _, o := range w.f.View().Orders { // else what other people ordered out would keep a floor from being met
		if o.Order.Actor == "joe" {
			e := w.entry(KindOrderClear)
			e.Actor, e.Reason, e.Scope = "joe", "end", &Scope{Site: o.Order.Site}
			w.apply(t, e)
		}
	}
	for range 200 {
		busy := false
		for _, r := range w.f.View().Plans {
			switch {
			case r.State == PlanRunning:
				w.tell(t, PlanRollback, r.Plan.Name)
			case r.State == PlanBack && r.Hold != nil:
				w.tell(t, PlanResume, r.Plan.Name)
			}
			busy = busy || r.State.Live()
		}
		if !busy {
			break
		}
		for _, u := range w.f.View().Units {
			if u.Phase != steadycast.In || w.f.s.troubledVerdict(u.Unit) {
				w.heal(t, u.Unit.Site)
			}
		}
		for _, r := range w.open() {
			k, _ := r.Open()
			site := r.Plan.Steps[k].At
			if site == "" {
				site = "d"
			}
			word := StepWord{Run: r.Number, Step: k, Try: r.Steps[k].Try + 1, Site: site, Node: site + "-1", Say: SayTake}
			if w.refusal(word) == "" {
				w.word(t, word)
			}
			word.Say = SayDone
			if w.refusal(word) == "" {
				w.word(t, word)
			}
		}
		w.lt += 1000
		w.apply(t, w.entry(KindTick))
	}
	complete := slices.ContainsFunc(w.f.View().Plans, func(r PlanRun) bool { // also where a person closed it after that
		return r.State == PlanComplete || r.State == PlanDismissed && slices.ContainsFunc(r.Steps, func(s StepRun) bool { return s.State == StepDone })
	})
	if left := w.f.View().Shares; !complete && len(left) > 0 {
		t.Fatalf("all is taken back, and shares stand: %s", text(left))
	}
	for _, r := range w.f.View().Plans {
		if r.State.Live() {
			t.Fatalf("run %d does not end: %s", r.Number, text(r))
		}
		if r.State != PlanRolledBack {
			continue
		}
		for k, s := range r.Steps {
			for _, o := range w.f.View().Orders {
				if p := r.Plan.Steps[k]; p.Do != DoAnnounce && s.Ordered == o.Fence {
					t.Fatalf("run %d is rolled back, and its order stands: %s", r.Number, text(o))
				}
			}
		}
	}
	if !bytes.Equal(w.twin.Snapshot(), w.f.Snapshot()) {
		t.Fatal("the same log gives another state")
	}
}
