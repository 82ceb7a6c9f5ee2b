package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// What callers of three real voters were told, while a leader was cut off and
// another was ended, must be what one machine could have told them one after the
// other: each answer given at some instant between its question and its arrival.
// The machine is [decide.Fleet] itself.
//
// The guards' numbers that time changes are left out, and so is who announces:
// the voters hear no beats here, and no guard that counts them is in the way.

// wants is one question to the ledger.
type wants struct {
	ask   *steadycast.Request
	give  *decide.GiveUpEntry
	order *steadycast.Order // with try: what it would come to
	try   bool
	kind  decide.Kind // of a plain entry of a person
	scope decide.Scope
}

func (x wants) String() string {
	switch {
	case x.ask != nil:
		return fmt.Sprintf("%s asks %s to %s", x.ask.Site, x.ask.ID, x.ask.Action)
	case x.give != nil:
		return fmt.Sprintf("%s gives up %s", x.give.Site, x.give.ID)
	case x.order != nil:
		return fmt.Sprintf("order %s %s force=%v try=%v", x.order.Kind, x.order.Site, x.order.Force, x.try)
	default:
		return fmt.Sprintf("%s %s", x.kind, x.scope.Site)
	}
}

// said is the answer as far as it can be compared; empty when nobody knows
// whether the question was carried out.
type said string

// entry is what the leader makes of a question.
func (x wants) entry(f *decide.Fleet) decide.Entry {
	e := decide.Entry{Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: f.Fence().Epoch, LT: f.LT(), Actor: "auto"}
	switch {
	case x.ask != nil:
		e.Kind, e.Decide = decide.KindDecide, &decide.Decide{Requests: []steadycast.Request{*x.ask}}
	case x.give != nil:
		e.Kind, e.Give = decide.KindVoid, x.give
	case x.order != nil:
		e.Kind, e.Order, e.Actor, e.Reason, e.Decide = decide.KindOrder, x.order, x.order.Actor, x.order.Reason, &decide.Decide{}
	default:
		e.Kind, e.Scope, e.Actor, e.Reason = x.kind, &x.scope, "ann", "an exercise"
	}
	return e
}

// put asks a voter.
func (x wants) put(ctx context.Context, v *Voter) (said, error) {
	var r decide.Reply
	var err error
	switch {
	case x.ask != nil:
		var a decide.Answer
		if a, err = v.Ask(ctx, *x.ask); err == nil {
			return worded(a.Rulings, a.Stale, nil, ""), nil
		}
	case x.give != nil:
		err = v.GiveUp(ctx, x.give.Site, x.give.ID, x.give.Units)
	case x.order != nil && x.try:
		r, err = v.Try(ctx, *x.order)
	case x.order != nil:
		r, err = v.Order(ctx, *x.order)
	default:
		r, err = v.Do(ctx, x.kind, x.scope, "ann", "an exercise")
	}
	if invalid, ok := errors.AsType[Invalid](err); ok {
		return worded(nil, false, nil, string(invalid)), nil
	}
	if err != nil {
		return "", err
	}
	return worded(r.Rulings, false, r.Refused, r.Invalid), nil
}

var (
	spans = regexp.MustCompile(`\d[0-9.hms]*(ms|[hms])`)
	leave = regexp.MustCompile(` (withdraw|deprefer|return) r-\d+\.\d+`)
	// counted are the guards whose words tell who was heard announcing.
	counted = []string{"floor", "capacity", "breaker"}
)

func worded(rulings []decide.Ruling, stale bool, refused *steadycast.GuardAnswer, invalid string) said {
	var b strings.Builder
	guard := func(g steadycast.GuardAnswer) {
		text := spans.ReplaceAllString(g.Text, "…")
		if slices.Contains(counted, g.Guard) {
			text = ""
		}
		fmt.Fprintf(&b, " %s:%v:%s", g.Guard, g.Pass, text)
	}
	fmt.Fprintf(&b, "stale=%v invalid=%q", stale, invalid)
	if refused != nil {
		guard(*refused)
	}
	for _, r := range rulings {
		fmt.Fprintf(&b, "\n%s", r.Unit)
		if r.Permit != nil {
			fmt.Fprintf(&b, " %s", r.Permit.Action)
			if r.Permit.ID.Incarnation > 0 { // an order's is its place in the log
				fmt.Fprintf(&b, " %s", r.Permit.ID)
			}
		}
		for _, g := range r.Guards {
			guard(g)
		}
	}
	return said(b.String())
}

// machine is the state between two questions. Two that are equal are the same.
type machine struct {
	snapshot string
	// denied is what each site was refused last. The leader spares the log most
	// refusals, so a request that comes again may be judged anew, or be told the same.
	denied [3]refusal
}

type refusal struct {
	id    steadycast.RequestID
	words said
}

func (m machine) fleet() *decide.Fleet {
	f := decide.NewFleet()
	if err := f.Restore([]byte(m.snapshot)); err != nil {
		panic(err)
	}
	return f
}

// with is the machine after an entry.
func (m machine) with(e decide.Entry) machine {
	f := m.fleet()
	if _, err := f.Apply(e); err != nil {
		panic(err)
	}
	m.snapshot = string(f.Snapshot())
	return m
}

// step answers one question: the machines that may be after it, none if it
// cannot be answered so.
func (m machine) step(in, out any) []any {
	x, told := in.(wants), out.(said)
	f := m.fleet()
	e := x.entry(f)
	try := f.Try
	if x.try {
		try = f.Rehearse
	}
	r, err := try(e)
	if err != nil {
		panic(err)
	}
	if x.ask != nil {
		return m.asked(x, told, e, r)
	}
	words := worded(r.Rulings, false, r.Refused, r.Invalid)
	switch {
	case told != "" && told != words:
		return nil
	case x.try, r.Refused != nil, r.Invalid != "":
		return []any{m}
	default:
		return []any{m.with(e)}
	}
}

func (m machine) asked(x wants, told said, e decide.Entry, r decide.Reply) (after []any) {
	a := r.Answers[0]
	words := worded(a.Rulings, a.Stale, nil, "")
	d := &m.denied[slices.Index(sitesOfTest, x.ask.Site)]
	if d.id == x.ask.ID && (told == "" || told == d.words) {
		after = append(after, m)
	}
	if told != "" && told != words {
		return after
	}
	if slices.ContainsFunc(a.Rulings, func(ruling decide.Ruling) bool { return ruling.Permit != nil && ruling.Permit.Fence == r.Fence }) {
		return append(after, m.with(e))
	}
	d.id, d.words = x.ask.ID, words
	return append(after, m)
}

var sitesOfTest = []string{"ams", "fra", "lon"}

// asIs is what a question may find: the states that a machine which begins at
// one can be in.
func asIs(begin machine) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{begin} },
		Step:  func(state, in, out any) []any { return state.(machine).step(in, out) },
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%s → %s", in, out)
		},
	}
	return m.ToModel()
}

// asker asks one question after the other, of whoever leads.
type asker struct {
	c     *cluster
	n     int
	start time.Time
	tell  func(porcupine.Operation)
	next  func(told said) wants
	at    int // the voter that answered last
}

// ask puts one question until somebody takes it, and records it.
func (a *asker) ask(ctx context.Context, x wants) (said, bool) {
	for ctx.Err() == nil {
		v := a.c.voter(a.c.peers[a.at%len(a.c.peers)].Node)
		if v == nil {
			a.at++
			a.rest(ctx)
			continue
		}
		call, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		began := time.Since(a.start)
		out, err := x.put(call, v)
		cancel()
		_, not := errors.AsType[*NotLeader](err)
		op := porcupine.Operation{ClientId: a.n, Input: x, Call: int64(began), Output: out, Return: int64(time.Since(a.start))}
		switch {
		case err == nil:
			a.tell(op)
			return out, true
		case not: // it was not carried out
			a.at++
			a.rest(ctx)
		default: // it may have been, or may be yet
			op.Output, op.Return = said(""), math.MaxInt64
			a.tell(op)
			a.at++
			return "", false
		}
	}
	return "", false
}

// rest waits a little: nobody leads perhaps, for a while.
func (a *asker) rest(ctx context.Context) {
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
	}
}

// siteAsks is what a site asks: to leave, to come back, and that leave is dead.
// What got no answer is asked again.
func siteAsks(name string, dice *rand.Rand) func(said) wants {
	s := &site{name: name, seq: 100}
	last := wants{}
	return func(told said) wants {
		switch {
		case told == "" && last.ask != nil, last.ask != nil && dice.IntN(8) == 0:
		case last.ask != nil && last.ask.Action == steadycast.Withdraw && dice.IntN(2) == 0:
			last = wants{give: &decide.GiveUpEntry{Site: name, ID: last.ask.ID, Units: []steadycast.Unit{{Site: name, Prefix: prefix}}}}
		default:
			r := s.request([]steadycast.Action{steadycast.Withdraw, steadycast.Withdraw, steadycast.Return}[dice.IntN(3)])
			last = wants{ask: &r}
		}
		return last
	}
}

// personAsks is what people want.
func personAsks(names []string, dice *rand.Rand) func(said) wants {
	return func(said) wants {
		name := names[dice.IntN(len(names))]
		order := steadycast.Order{Site: name, Actor: "ann", Reason: "an exercise", Force: dice.IntN(2) == 0}
		switch dice.IntN(8) {
		case 0:
			return wants{kind: decide.KindFreeze, scope: decide.Scope{Site: name}}
		case 1, 2:
			return wants{kind: decide.KindThaw}
		case 3:
			return wants{kind: decide.KindOrderClear, scope: decide.Scope{Site: name}}
		case 4:
			return wants{kind: decide.KindUnlock, scope: decide.Scope{Site: name}}
		case 5:
			order.Kind = steadycast.OrderAnnounce
		case 6:
			order.Kind = steadycast.OrderWithdraw
		default:
			order.Kind = steadycast.OrderWithdraw
			return wants{order: &order, try: true}
		}
		return wants{order: &order}
	}
}

// TestLinear asks three voters, of which one is cut off while it leads and
// another is ended while it leads.
func TestLinear(t *testing.T) {
	t.Parallel()
	names := sitesOfTest
	c := newCluster(t, nil, names...)
	table := policy(names...)
	zero := 0
	table.Prefixes = []decide.Prefix{{Prefix: prefix, Floor: &zero, HealthyFloor: &zero}}
	table.Guards.FleetBudget, table.Guards.BreakerSites, table.Guards.BreakerPercent = 2, 1000, 100
	if err := c.voter(c.peers[0].Node).Init(t.Context(), table, "ann", "begin"); err != nil {
		t.Fatal(err)
	}
	lead := c.leader()
	for _, n := range names {
		v := steadycast.Verdict{Site: n, Service: "web", State: steadycast.Healthy, Reason: "all is well"}
		if err := lead.Report(t.Context(), []steadycast.Verdict{v}); err != nil {
			t.Fatal(err)
		}
	}
	c.agree()
	lead.replica.mu.Lock()
	begin := machine{snapshot: string(lead.replica.fleet.Snapshot())}
	lead.replica.mu.Unlock()

	const each = 150 // questions of each asker
	var history []porcupine.Operation
	var mu sync.Mutex
	var asked atomic.Int64
	tell := func(op porcupine.Operation) {
		mu.Lock()
		defer mu.Unlock()
		history = append(history, op)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	start := time.Now()
	for n, next := range []func(said) wants{
		siteAsks("ams", rand.New(rand.NewPCG(1, 1))), siteAsks("fra", rand.New(rand.NewPCG(1, 2))), siteAsks("lon", rand.New(rand.NewPCG(1, 3))),
		personAsks(names, rand.New(rand.NewPCG(1, 4))), personAsks(names, rand.New(rand.NewPCG(1, 5))),
	} {
		wg.Go(func() {
			a := &asker{c: c, n: n, start: start, tell: tell, next: next}
			told := said("nothing yet")
			for range each {
				x := next(told)
				var known bool
				if told, known = a.ask(ctx, x); !known {
					a.n += 10 // what was asked before is still open
				}
				asked.Add(1)
			}
		})
	}
	after := func(n int64) {
		until(t, fmt.Sprint(n, " questions"), func() bool { return asked.Load() >= n })
	}
	all := int64(5 * each)
	after(all / 5)
	old := c.leader()
	c.split(old.opts.Node, true, true)
	c.leader(old.opts.Node)
	after(2 * all / 5)
	c.split(old.opts.Node, false, false)
	after(3 * all / 5)
	old = c.leader()
	c.stop(old.opts.Node)
	after(4 * all / 5)
	c.start(old.opts.Node)
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatalf("after 2 minutes only %d of %d questions were asked", asked.Load(), all)
	}
	c.agree()

	open := 0
	granted := 0
	for _, op := range history {
		if op.Output == said("") {
			open++
		} else if op.Input.(wants).ask != nil && leave.MatchString(string(op.Output.(said))) {
			granted++
		}
	}
	t.Logf("%d questions in %v, %d of them open, %d times leave", len(history), time.Since(start).Round(time.Millisecond), open, granted)
	if granted < 10 || open > 60 {
		t.Errorf("this shows nothing: %d granted, %d open", granted, open)
	}
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(asIs(begin), history, time.Minute)
	t.Logf("%s, found in %v", result, time.Since(began).Round(time.Millisecond))
	if result != porcupine.Ok {
		t.Errorf("no order of these questions explains the answers: %s", result)
		explain(t, begin, history)
	}
}

// explain logs where the longest explanation ends.
func explain(t *testing.T, begin machine, history []porcupine.Operation) {
	t.Helper()
	_, info := porcupine.CheckOperationsVerbose(asIs(begin), history, 20*time.Second)
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, ops := range part {
			if len(ops) > len(longest) {
				longest = ops
			}
		}
	}
	done := map[int64]bool{} // by when they were asked
	for _, op := range longest {
		done[op.Call] = true
	}
	for _, op := range longest[max(0, len(longest)-6):] {
		t.Logf("explained: %d…%d %s → %s", op.Call, op.Return, op.Input, op.Output)
	}
	left := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool { return done[op.Call] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, op := range left[:min(6, len(left))] {
		t.Logf("not explained: %d…%d %s → %s", op.Call, op.Return, op.Input, op.Output)
	}
}

// TestLinearFinds: an answer from a state that was over already has no explanation,
// and has one while the question that changed it was still on its way.
func TestLinearFinds(t *testing.T) {
	t.Parallel()
	f := decide.NewFleet()
	table := policy(sitesOfTest...)
	table.Revision = 1
	genesis := decide.Entry{Kind: decide.KindGenesis, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: 1, Table: &table, Actor: "ann", Reason: "begin"}
	if r, err := f.Apply(genesis); err != nil || r.Invalid != "" {
		t.Fatal(err, r.Invalid)
	}
	begin := machine{snapshot: string(f.Snapshot())}
	says := func(x wants) said {
		f := begin.fleet()
		r, err := f.Try(x.entry(f))
		if err != nil {
			t.Fatal(err)
		}
		return worded(r.Rulings, false, r.Refused, r.Invalid)
	}
	freeze, thaw := wants{kind: decide.KindFreeze, scope: decide.Scope{Site: "ams"}}, wants{kind: decide.KindThaw}
	first := porcupine.Operation{ClientId: 0, Input: freeze, Call: 0, Output: says(freeze), Return: 10}
	stale := porcupine.Operation{ClientId: 1, Input: thaw, Call: 20, Output: says(thaw), Return: 30} // "nothing is frozen"
	if porcupine.CheckOperations(asIs(begin), []porcupine.Operation{first, stale}) {
		t.Error("an answer from before the freeze was explained")
	}
	stale.Call = 5
	if !porcupine.CheckOperations(asIs(begin), []porcupine.Operation{first, stale}) {
		t.Error("an answer that may have come before the freeze was not explained")
	}
	first.Output, first.Return, stale.Call = said(""), math.MaxInt64, 20 // nobody knows when it was carried out
	if !porcupine.CheckOperations(asIs(begin), []porcupine.Operation{first, stale}) {
		t.Error("a freeze that nobody answered must have been carried out")
	}
}
