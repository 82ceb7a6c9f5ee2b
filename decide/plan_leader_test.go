package decide

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// twelve is a plan over 50 sites.
func twelve(onFailure string) Plan {
	return Plan{Name: "move", OnFailure: onFailure, Steps: []Step{
		{Do: DoCheck},
		{Do: DoGuard, Name: "lag", At: "s10"},
		{Do: DoRun, Name: "fence", At: "s00", Effect: EffectFence, Undoes: true},
		{Do: DoRun, Name: "promote", At: "s10", Effect: EffectPromote, Undoes: true},
		{Do: DoAnnounce, Name: "spare", Site: "s49"},
		{Do: DoShift, Site: "s00", Percent: ptrTo(0)},
		{Do: DoDrain, Name: "first", Site: "s00"},
		{Do: DoWait, For: 10 * time.Second},
		{Do: DoApprove},
		{Do: DoDrain, Name: "second", Site: "s01"},
		{Do: DoVerify, Name: "stable"},
		{Do: DoWithdraw, Site: "s02"},
	}}
}

// reign is a ledger whose leaders die: voters apply one log, the leader speaks.
type reign struct {
	t      *testing.T
	log    []Entry
	voters [3]*Fleet
	leads  int
	lt     Time
	kills  int
	seq    uint64
	fails  string // the step at which the nodes say that it cannot be done
}

func newReign(t *testing.T, plan Plan) *reign {
	table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}, Plans: []Plan{plan}}
	for i := range 50 {
		table.Sites = append(table.Sites, Place{Name: fmt.Sprintf("s%02d", i)})
	}
	r := &reign{t: t, voters: [3]*Fleet{NewFleet(), NewFleet(), NewFleet()}}
	e := r.entry(KindGenesis)
	e.Table = &table
	r.commit(e)
	for _, p := range table.Sites[:49] {
		r.back(p.Name)
	}
	return r
}

func (r *reign) leader() *Fleet { return r.voters[r.leads] }

func (r *reign) entry(k Kind) Entry {
	return Entry{Kind: k, Schema: Schema, Rules: RulesLevel, Epoch: 1, LT: r.lt, Proposer: fmt.Sprint(r.leads), Actor: "auto"}
}

// commit writes an entry to the log; a voter that lags applies it when it leads.
func (r *reign) commit(e Entry) Reply {
	r.log = append(r.log, e)
	return r.catchUp()
}

func (r *reign) catchUp() (reply Reply) {
	f := r.leader()
	for f.Fence().Index < uint64(len(r.log)) {
		var err error
		if reply, err = f.Apply(r.log[f.Fence().Index]); err != nil {
			r.t.Fatal(err)
		}
	}
	return reply
}

// kill ends the leader: the next voter goes on from a snapshot of its own and the
// log. What was on its way is committed without an answer, or lost.
func (r *reign) kill(onItsWay *Entry) {
	if r.kills++; onItsWay != nil && r.kills%2 == 0 {
		r.log = append(r.log, *onItsWay)
	}
	r.leads = (r.leads + 1) % len(r.voters)
	if was := r.leader(); was.Fence().Index > 0 {
		next := NewFleet()
		if err := next.Restore(was.Snapshot()); err != nil {
			r.t.Fatal(err)
		}
		r.voters[r.leads] = next
	}
	r.catchUp()
	r.lt = r.leader().LT() + 1000 // an election; ledger time never runs ahead of it
}

func (r *reign) seen() []Seen {
	x := Seen{Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	for _, u := range r.leader().View().Units {
		if u.Phase == steadycast.In {
			x.Announcing, x.Healthy = append(x.Announcing, u.Unit.Site), append(x.Healthy, u.Unit.Site)
		}
	}
	return []Seen{x}
}

// back has a site come back by itself, as sites do that are well and may.
func (r *reign) back(site string) {
	e := r.entry(KindVerdict)
	e.Verdicts = []steadycast.Verdict{{Site: site, Service: "web", State: steadycast.Healthy}}
	r.commit(e)
	r.seq++
	table := r.leader().View().Table
	e = r.entry(KindDecide)
	e.Decide = &Decide{Seen: r.seen(), Requests: []steadycast.Request{{
		ID: steadycast.RequestID{Incarnation: 1, Seq: r.seq}, Site: site, Action: steadycast.Return, Service: "web", Prefixes: table.AllPrefixes(),
		Evidence: table.evidence(site, "web", r.seq, steadycast.Result{Outcome: steadycast.Up}),
	}}}
	r.commit(e)
	u := r.leader().s.unit(site, table.AllPrefixes()[0])
	e = r.entry(KindIn)
	e.Return = &ReturnProof{Unit: u.Unit, ID: u.Return}
	r.commit(e)
}

func (r *reign) tell(do string) {
	e := r.entry(KindPlan)
	e.Actor, e.Reason, e.Plan = "ann", "test", &PlanWish{Do: do, Plan: "move"}
	if reply := r.commit(e); reply.Refused != nil || reply.Invalid != "" {
		r.t.Fatalf("%s: %v %s", do, reply.Refused, reply.Invalid)
	}
}

func (r *reign) run() PlanRun { return r.leader().View().Plans[0] }

// turn is one second: every node and person does what is to be done now. dies, if
// set, says whether the leader dies while a word is on its way.
func (r *reign) turn(dies func(StepWord) bool) {
	r.lt += 1000
	r.commit(r.entry(KindTick))
	for _, u := range r.leader().View().Units {
		if u.Phase == steadycast.Out && u.Order == steadycast.OrderNone && (u.Ever || u.Recalled) {
			r.back(u.Unit.Site)
		}
	}
	run := r.run()
	if run.State == PlanRunning && run.At < len(run.Steps) && run.Plan.Steps[run.At].Do == DoApprove && run.Hold == nil {
		r.tell(PlanApprove)
		return
	}
	k, ok := run.Open()
	for i := range run.Steps { // who runs something when it is turned back says what came of it
		if run.Steps[i].Held() {
			k, ok = i, true
		}
	}
	if !ok || run.Hold != nil {
		return
	}
	s, p := run.Steps[k], run.Plan.Steps[k]
	w := StepWord{Run: run.Number, Step: k, Try: s.Try, Site: s.Site, Node: s.Node, Say: SayDone, Text: "seen"}
	switch {
	case !s.Held():
		site := p.At
		if site == "" {
			site = "s20"
		}
		w.Try, w.Site, w.Node, w.Say = s.Try+1, site, site+"-1", SayTake
	case p.Name == r.fails && run.State == PlanRunning:
		w.Say = SayFail
	case s.Stage == 1:
		w.Say = SayOn
	}
	e := r.entry(KindStep)
	e.Step, e.Decide = &w, &Decide{Seen: r.seen()}
	if dies != nil && dies(w) {
		r.kill(&e)
		return
	}
	if reply := r.commit(e); reply.Invalid != "" {
		r.t.Fatalf("%+v: %s", w, reply.Invalid)
	}
}

func (r *reign) until(what string, dies func(StepWord) bool, done func(PlanRun) bool) {
	r.t.Helper()
	for range 300 {
		if done(r.run()) {
			return
		}
		r.turn(dies)
	}
	r.t.Fatalf("%s did not come: %s", what, text(r.run()))
}

// agree brings every voter to the end of the log; all have one state.
func (r *reign) agree() {
	for i := range r.voters {
		r.leads = i
		r.catchUp()
	}
	for _, v := range r.voters[1:] {
		if !bytes.Equal(v.Snapshot(), r.voters[0].Snapshot()) {
			r.t.Fatal("the voters have different states")
		}
	}
}

// onceEach kills the leader once for each step and word.
func onceEach() func(StepWord) bool {
	done := map[string]bool{}
	return func(w StepWord) bool {
		key := fmt.Sprint(w.Step, w.Say)
		was := done[key]
		done[key] = true
		return !was
	}
}

// TestPlanLeaderKilled carries out a plan of 12 steps over 50 sites while the
// leader dies with every word that a node says for the first time: it completes,
// each step done once and in order; and where a step fails, all is taken back.
func TestPlanLeaderKilled(t *testing.T) {
	r := newReign(t, twelve(OnFailureRollback))
	r.tell(PlanRunIt)
	r.until("the end", onceEach(), func(x PlanRun) bool { return x.State == PlanComplete })
	last := Time(0)
	for k, s := range r.run().Steps {
		if s.State != StepDone || s.Began < last || s.Ended < s.Began {
			t.Errorf("step %d: %s", k+1, text(s))
		}
		last = s.Ended
	}
	for _, u := range r.leader().View().Units {
		out := u.Unit.Site == "s00" || u.Unit.Site == "s01" || u.Unit.Site == "s02"
		if (u.Phase == steadycast.Out) != out {
			t.Errorf("%s is %s", u.Unit, u.Phase)
		}
	}
	if r.kills < 20 { // ten takes, the canary, and a result of each but the ledger's own check
		t.Errorf("only %d leaders died", r.kills)
	}
	r.agree()

	for _, s := range twelve("").Steps {
		if s.Do == DoWait || s.Do == DoApprove || s.Do == DoCheck {
			continue // no node says that they fail
		}
		r := newReign(t, twelve(OnFailureRollback))
		r.fails = s.Name
		if r.fails == "" {
			r.fails = s.Do
		}
		r.tell(PlanRunIt)
		r.until("the way back from "+r.fails, onceEach(), func(x PlanRun) bool { return x.State == PlanRolledBack })
		r.asItWas()
		r.agree()
	}
}

// asItWas: every site but the spare one is in, and nothing is ordered but that.
func (r *reign) asItWas() {
	r.t.Helper()
	for _, u := range r.leader().View().Units {
		if (u.Phase == steadycast.In) != (u.Unit.Site != "s49") {
			r.t.Errorf("%s is %s after the way back", u.Unit, u.Phase)
		}
	}
	if left := r.leader().View().Shares; len(left) > 0 {
		r.t.Errorf("shares stand after the way back: %s", text(left))
	}
	for _, o := range r.leader().View().Orders {
		if o.Order.Site != "s49" {
			r.t.Errorf("an order stands after the way back: %s", text(o))
		}
	}
}

// TestPlanRollbackTime takes the plan back from every moment of it: the way back
// takes no longer than the way there, by ledger time.
func TestPlanRollbackTime(t *testing.T) {
	whole := newReign(t, twelve(OnFailureHold))
	whole.tell(PlanRunIt)
	began := whole.lt
	whole.until("the end", nil, func(x PlanRun) bool { return x.State == PlanComplete })
	for at := Time(0); at <= whole.lt-began; at += 1000 {
		r := newReign(t, twelve(OnFailureHold))
		r.tell(PlanRunIt)
		began := r.lt
		r.until("its moment", nil, func(PlanRun) bool { return r.lt-began >= at })
		there, turned := r.lt-began, r.lt
		r.tell(PlanRollback)
		r.until("the way back", nil, func(x PlanRun) bool { return x.State == PlanRolledBack })
		if back := r.lt - turned; back > there {
			t.Errorf("%d ms there, %d ms back, from step %d", there, back, r.run().At+1)
		}
		r.asItWas()
	}
}
