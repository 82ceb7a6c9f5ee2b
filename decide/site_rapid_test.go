package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

// world drives one site with whatever can happen and checks, after every step,
// what must never happen.
type world struct {
	t     *rapid.T
	o     SiteOptions
	site  *Site
	twin  *Site // gets the same, and needless ticks besides
	eager *Site // gets the same, and brings everything up to date each time
	now   Now
	seq   uint64
	view  View
	known View // as the site was told last
	asked []steadycast.Request
	first []Now // when each was asked
	set   steadycast.RouteSet
	act   steadycast.Actual

	committed, proved bool
	local             bool
	asks, resorts     int
	left              map[netip.Prefix]steadycast.Fence // by which permit it left, until something later lets it come back
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, left: map[netip.Prefix]steadycast.Fence{}}
	w.o = SiteOptions{
		Name: "fra", Incarnation: 3, Solo: rapid.Bool().Draw(t, "solo"),
		Off:        rapid.SampledFrom([]time.Duration{-1, 0, time.Hour}).Draw(t, "off"),
		Jitter:     rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "jitter"),
		Isolated:   rapid.SampledFrom([]string{"", IsolatedFreeze}).Draw(t, "isolated"),
		LastResort: rapid.SampledFrom([]time.Duration{-1, 5 * time.Second, 20 * time.Second}).Draw(t, "last resort"),
	}
	downFor := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "down_for")
	h := Health{DownFor: &downFor, Rise: 4, HoldUp: 3 * time.Second}
	p1, p2, p3 := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:1::/48")
	w.o.Table = Table{
		Sites: []Place{{Name: "fra"}, {Name: "ams"}, {Name: "nyc"}, {Name: "lon"}},
		Services: []Service{
			{Name: "dns", Prefixes: []netip.Prefix{p1, p2}, Health: h},
			{Name: "web", Prefixes: []netip.Prefix{p2, p3}, Health: h},
		},
	}
	if w.o.Solo {
		w.o.Table.Sites = w.o.Table.Sites[:1]
	}
	if rapid.Bool().Draw(t, "any") {
		w.o.Table.Prefixes = []Prefix{{Prefix: p2, Needs: NeedsAny}}
	}
	w.view.Table = w.o.Table.WithDefaults()
	for _, p := range []netip.Prefix{p1, p2, p3} {
		phase := rapid.SampledFrom([]steadycast.Phase{steadycast.In, steadycast.In, steadycast.Out, steadycast.Returning}).Draw(t, "phase")
		w.view.Units = append(w.view.Units, UnitView{Unit: steadycast.Unit{Site: "fra", Prefix: p}, Phase: phase})
		if rapid.Bool().Draw(t, "there") {
			w.act.Sent = append(w.act.Sent, steadycast.Sent{Peer: "p1", Prefix: p, Announced: true, Acked: time.Unix(1, 0)})
		}
	}
	w.act.Peers = []steadycast.Peer{{Name: "p1", State: "established"}, {Name: "p2", State: "idle"}}
	w.site, w.twin, w.eager = NewSite(w.o), NewSite(w.o), NewSite(w.o)
	return w
}

// pass lets time go by: both machines tick when they asked to, and the twin
// also in between.
func (w *world) pass(until Now) {
	for {
		at, ok := w.site.Wake()
		twin, twinOK := w.twin.Wake()
		if at != twin || ok != twinOK {
			w.t.Fatalf("a needless tick changed when to wake: %v %v and %v %v", at, ok, twin, twinOK)
		}
		next := until
		if ok {
			next = min(at, until)
		}
		if next < w.now {
			w.t.Fatalf("wakes at %v, before now %v", next, w.now)
		}
		if next > w.now && rapid.Bool().Draw(w.t, "needless") {
			early := w.now + Now(rapid.Int64Range(0, int64(next-w.now-1)).Draw(w.t, "early"))
			if es := w.twin.Step(early, Tick{}); len(es) > 0 {
				w.t.Fatalf("a tick at %v, before Wake %v, did %+v", early, next, es)
			}
		}
		w.now = next
		if !ok || at > until {
			return
		}
		w.step(Tick{})
		if again, ok := w.site.Wake(); ok && again <= w.now {
			w.t.Fatalf("Wake stays at %v", again)
		}
	}
}

func (w *world) step(in Input) {
	dead := w.site.dead
	anew := false
	switch in := in.(type) {
	case Committed:
		w.committed = true
		w.known = in.View
		for p, f := range w.left {
			if in.View.Fence.Compare(f) >= 0 {
				delete(w.left, p)
			}
		}
	case Answered:
		for _, r := range in.Answer.Rulings {
			if x := r.Permit; x != nil && x.Action == steadycast.Return {
				delete(w.left, r.Unit.Prefix)
			}
		}
	case Local:
		w.local = in.Order != nil
	case Proved:
		anew = w.proved && in.Actual.Started != w.site.actual.Started
		w.proved = true
	}
	effects := w.site.Step(w.now, in)
	if twin := w.twin.Step(w.now, in); fmt.Sprintf("%+v", twin) != fmt.Sprintf("%+v", effects) {
		w.t.Fatalf("a needless tick changed what %T does:\n%+v\n%+v", in, effects, twin)
	}
	w.eager.idle, w.eager.compared = false, false
	if eager := w.eager.Step(w.now, in); fmt.Sprintf("%+v", eager) != fmt.Sprintf("%+v", effects) {
		w.t.Fatalf("saving work changed what %T does:\n%+v\n%+v", in, effects, eager)
	}
	for _, e := range effects {
		switch e := e.(type) {
		case Ask:
			w.checkAsk(e.Request)
		case Announce:
			w.checkSet(e.Set, anew)
		case GiveUp:
			if e.ID.Compare(w.site.dead) > 0 || len(e.Units) == 0 {
				w.t.Fatalf("gives up %v with units %v; dead is %v", e.ID, e.Units, w.site.dead)
			}
		case Note:
			if id := e.Event.Request; strings.HasPrefix(e.Event.Reason, "withdrawn by permit") && id.Compare(dead) <= 0 {
				w.t.Fatalf("carried out %v, although every request up to %v was dead", id, dead)
			}
			if strings.HasPrefix(e.Event.Reason, "withdrawn by permit") {
				w.checkWithdrawal(e.Event)
				w.left[e.Event.Prefix] = w.site.fence
			}
		}
	}
	if w.site.dead.Compare(dead) < 0 {
		w.t.Fatalf("dead went back from %v to %v", dead, w.site.dead)
	}
}

// checkAsk: the ledger's own count of the evidence agrees with the request.
func (w *world) checkAsk(r steadycast.Request) {
	if !w.committed || !w.proved {
		w.t.Fatalf("asked %v before anything was known", r.ID)
	}
	if len(w.asked) > 0 {
		last := w.asked[len(w.asked)-1]
		if c := r.ID.Compare(last.ID); c < 0 || c == 0 && fmt.Sprint(r) != fmt.Sprint(last) {
			w.t.Fatalf("asked %+v after %+v", r, last)
		} else if c == 0 {
			return
		}
	}
	w.asked, w.first = append(w.asked, r), append(w.first, w.now)
	w.asks++
	ledger := applying{state: &state{Table: w.site.table}, e: &Entry{}}
	ballots := ledger.ballots(r)
	down := 0
	for i := range ballots {
		if b := &ballots[i]; b.down() {
			down++
		}
	}
	switch r.Action {
	case steadycast.Withdraw:
		if down == 0 || down < len(ballots) || len(ballots[0].absent) > 0 || !w.o.Solo && ballots[0].voices < 2 {
			w.t.Fatalf("asked to withdraw, and the ledger counts %+v of %+v", ballots, r.Evidence)
		}
	case steadycast.Return:
		if down > 0 {
			w.t.Fatalf("asked to return, and the ledger counts %+v", ballots)
		}
	default:
		w.t.Fatalf("asked for %v", r.Action)
	}
}

// checkWithdrawal: rule P2, in time and while the failure is still seen.
func (w *world) checkWithdrawal(e steadycast.Event) {
	i := slices.IndexFunc(w.asked, func(r steadycast.Request) bool { return r.ID == e.Request })
	if i < 0 || w.now-w.first[i] > 5*time.Second {
		w.t.Fatalf("carried out %v at %v, asked at %v", e.Request, w.now, w.first)
	}
	any := w.site.table.PrefixPolicy(e.Prefix).Needs == NeedsAny
	failing, services := 0, w.site.table.ServicesAt("fra", e.Prefix)
	for _, sv := range services {
		for _, v := range w.site.Verdicts() {
			if v.Service == sv.Name && v.State == steadycast.Unhealthy && v.Bad > 0 && !v.Held {
				failing++
			}
		}
	}
	if failing == 0 || any && failing < len(services) {
		w.t.Fatalf("withdrew %v while %d of %d services fail: %+v", e.Prefix, failing, len(services), w.site.Verdicts())
	}
}

// checkSet: nothing is announced that the phase does not allow (I20), nothing
// leaves without a decision (I21), and the set is in order.
func (w *world) checkSet(set steadycast.RouteSet, anew bool) {
	if !w.committed && !w.local || !w.proved {
		w.t.Fatal("announced before the ledger and the speaker were known")
	}
	if set.Version <= w.set.Version || set.Incarnation != w.o.Incarnation || set.Fence.Compare(w.set.Fence) < 0 {
		w.t.Fatalf("set %+v after %+v", set, w.set)
	}
	if !slices.IsSortedFunc(set.Routes, func(a, b steadycast.Route) int { return comparePrefix(a.Prefix, b.Prefix) }) {
		w.t.Fatalf("not in order: %+v", set.Routes)
	}
	for _, u := range w.site.units {
		_, is := set.Find(u.id.Prefix)
		_, was := w.set.Find(u.id.Prefix)
		v := u.view
		allowed := v.Phase != steadycast.Out || v.Order == steadycast.OrderAnnounce || v.Order == steadycast.OrderDrain && u.draining || u.undone()
		if ended := v.Phase == steadycast.Out && v.Order == steadycast.OrderNone && v.Permit.Action == steadycast.Withdraw && v.Permit.ID == (steadycast.RequestID{}); ended && was {
			allowed = allowed || u.draining // a drain outlives its order, and the agent that began it
		}
		if is && !was && u.resort {
			allowed = true
			if w.site.ledgerGone == "" || w.now < w.site.ledgerSince+w.o.LastResort || v.Order != steadycast.OrderNone || v.Frozen != "" || w.o.LastResort <= 0 {
				w.t.Fatalf("announced %v as a last resort: ledger gone %q since %v, now %v, order %v, frozen %q", u.id, w.site.ledgerGone, w.site.ledgerSince, w.now, v.Order, v.Frozen)
			}
			w.resorts++
		}
		allowed = allowed || was && (u.resort || !w.committed) // of what a person began nothing is known without a view
		if is && (!allowed || v.Order == steadycast.OrderWithdraw) {
			w.t.Fatalf("announced %v in phase %v under order %v", u.id, v.Phase, v.Order)
		}
		if f, ok := w.left[u.id.Prefix]; ok && is && !was && !u.resort && v.Order != steadycast.OrderAnnounce {
			w.t.Fatalf("announced %v again, which left at %v, and knows nothing later than %v", u.id, f, w.known.Fence)
		}
		decided := v.Phase == steadycast.Out || v.Order == steadycast.OrderWithdraw || v.Order == steadycast.OrderDrain || anew
		if was && !is && !decided {
			w.t.Fatalf("%v left in phase %v under order %v: %s", u.id, v.Phase, v.Order, u.reason)
		}
	}
	w.set = set
}

func (w *world) observe(outcomes ...int) {
	vantages := []string{"fra"}
	if !w.o.Solo {
		vantages = []string{"fra", "ams", "nyc", "lon"}
	}
	w.seq++
	o := steadycast.Observation{
		Subject: "fra", Seq: w.seq,
		Service: rapid.SampledFrom([]string{"dns", "web"}).Draw(w.t, "service"),
		Result:  steadycast.Result{Outcome: steadycast.Outcome(rapid.SampledFrom(outcomes).Draw(w.t, "outcome"))},
	}
	if o.Result.Outcome == steadycast.Down {
		o.Result.Class = rapid.SampledFrom([]steadycast.Class{steadycast.Soft, steadycast.Hard}).Draw(w.t, "class")
	}
	times := rapid.IntRange(1, 8).Draw(w.t, "rounds")
	for range times {
		for _, v := range vantages {
			if rapid.IntRange(0, 9).Draw(w.t, "silent") == 0 {
				continue
			}
			w.seq++
			o.Vantage, o.Seq, o.Ineligible = v, w.seq, ""
			if rapid.IntRange(0, 19).Draw(w.t, "controls") == 0 {
				o.Ineligible = "2 of 3 anchors do not answer"
			}
			w.step(Observed{Observation: o, From: w.now})
		}
		w.pass(w.now + 300*time.Millisecond)
	}
}

func (w *world) commit() {
	w.view.Fence.Epoch = 1
	w.view.Fence.Index++
	v := w.view
	v.Units = slices.Clone(v.Units)
	w.step(Committed{View: v})
}

// answer lets the ledger say something to the newest request, or to an older
// one, with or without the site hearing of it.
func (w *world) answer() {
	if len(w.asked) == 0 {
		return
	}
	r := w.asked[len(w.asked)-1]
	if rapid.IntRange(0, 5).Draw(w.t, "older") == 0 {
		r = rapid.SampledFrom(w.asked).Draw(w.t, "request")
	}
	w.view.Fence.Index++
	a := Answer{ID: r.ID, Site: "fra"}
	kind := rapid.SampledFrom([]string{"grant", "grant", "deprefer", "refuse"}).Draw(w.t, "kind")
	for _, p := range r.Prefixes {
		g := Ruling{Unit: steadycast.Unit{Site: "fra", Prefix: p}, Guards: []steadycast.GuardAnswer{{Guard: "floor", Text: "2 of 2"}}}
		permit := steadycast.Permit{Unit: g.Unit, ID: r.ID, Action: r.Action, Fence: w.view.Fence}
		i := slices.IndexFunc(w.view.Units, func(u UnitView) bool { return u.Unit == g.Unit })
		u := &w.view.Units[i]
		switch {
		case u.Order != steadycast.OrderNone || kind == "refuse":
		case kind == "deprefer" && r.Action == steadycast.Withdraw:
			permit.Action = steadycast.Deprefer
			g.Permit, u.Permit, u.Depreferred = &permit, permit, true
		case r.Action == steadycast.Withdraw && u.Phase != steadycast.Out:
			g.Permit, u.Permit, u.Phase = &permit, permit, steadycast.Out
			g.Guards = nil
		case r.Action == steadycast.Return && u.Phase != steadycast.In:
			g.Permit, u.Permit, u.Phase, u.Return = &permit, permit, steadycast.Returning, r.ID
			g.Guards = nil
		}
		a.Rulings = append(a.Rulings, g)
	}
	if rapid.IntRange(0, 4).Draw(w.t, "lost") > 0 {
		w.step(Answered{Answer: a})
	}
}

// people order, freeze and clear; the ledger takes the site's proofs and statements.
func (w *world) ledger() {
	b := w.site.Beat()
	for _, r := range b.Returned {
		for i := range w.view.Units {
			if u := &w.view.Units[i]; u.Unit == r.Unit && u.Phase == steadycast.Returning && u.Return == r.ID {
				u.Phase = steadycast.In
			}
		}
	}
	u := &w.view.Units[rapid.IntRange(0, len(w.view.Units)-1).Draw(w.t, "unit")]
	switch rapid.SampledFrom([]string{"void", "void", "order", "clear", "freeze", "thaw", "lock", "nothing"}).Draw(w.t, "ledger") {
	case "void":
		if u.Phase == steadycast.Out && u.Permit.ID.Compare(b.DeadThrough) <= 0 && slices.Contains(b.Announcing, u.Unit) && u.Order == steadycast.OrderNone {
			u.Phase = steadycast.In
		}
	case "order":
		u.Order = rapid.SampledFrom([]steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderDrain, steadycast.OrderAnnounce}).Draw(w.t, "order")
		u.Permit = steadycast.Permit{Unit: u.Unit, Action: steadycast.Withdraw, Fence: w.view.Fence}
		u.Phase = steadycast.Out
		if u.Order == steadycast.OrderAnnounce {
			u.Permit.Action, u.Phase, u.Return = steadycast.Return, steadycast.Returning, steadycast.RequestID{Seq: w.view.Fence.Index + 1}
		}
	case "clear":
		u.Order = steadycast.OrderNone
	case "freeze":
		u.Frozen = "a person"
	case "thaw":
		u.Frozen = ""
	case "lock":
		u.Locked = !u.Locked
	}
	w.commit()
}

// speak lets the speaker say what it did: all that is wanted, or part of it.
func (w *world) speak() {
	w.act = steadycast.Actual{Incarnation: w.set.Incarnation, Version: w.set.Version, Started: w.act.Started}
	switch rapid.IntRange(0, 9).Draw(w.t, "speaker") {
	case 0:
		w.act.Started++
		w.act.Version = 0
	case 1:
		w.step(SpeakerLost{Reason: "gone"})
		return
	}
	for _, p := range []string{"p1", "p2"} {
		peer := steadycast.Peer{Name: p, State: rapid.SampledFrom([]string{"established", "established", "idle"}).Draw(w.t, p)}
		w.act.Peers = append(w.act.Peers, peer)
		if !peer.Up() || w.act.Version == 0 {
			continue
		}
		for _, r := range w.set.Routes {
			row := steadycast.Sent{Peer: p, Prefix: r.Prefix, Announced: true}
			if rapid.IntRange(0, 5).Draw(w.t, "acked") > 0 {
				row.Acked = time.Unix(1, 0)
			}
			w.act.Sent = append(w.act.Sent, row)
		}
	}
	w.step(Proved{Actual: w.act})
}

// breakGlass is a person at the node, who orders something there or lets go of it.
func (w *world) breakGlass() {
	if rapid.Bool().Draw(w.t, "let go") {
		w.step(Local{})
		return
	}
	o := steadycast.Order{
		Kind: rapid.SampledFrom([]steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderAnnounce}).Draw(w.t, "local"),
		Site: "fra", Actor: "ada", Reason: "an exercise",
	}
	if rapid.Bool().Draw(w.t, "one prefix") {
		o.Prefixes = []netip.Prefix{rapid.SampledFrom(w.view.Units).Draw(w.t, "unit").Unit.Prefix}
	}
	w.step(Local{Order: &o})
}

// TestSiteNever runs whole lives of a site under anything that can happen.
func TestSiteNever(t *testing.T) {
	asks, sets, resorts := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		if rapid.IntRange(0, 9).Draw(t, "late start") > 0 {
			w.step(Proved{Actual: w.act})
			w.commit()
		}
		do := []string{"fail", "fail", "pass", "pass", "mixed", "answer", "answer", "ledger", "ledger", "commit", "speak", "speak", "wait", "no ledger", "no ledger", "elsewhere", "elsewhere", "load", "local", "local"}
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			switch rapid.SampledFrom(do).Draw(t, "do") {
			case "fail":
				w.observe(-1)
			case "pass":
				w.observe(1)
			case "mixed":
				w.observe(-1, 0, 1)
			case "answer":
				w.answer()
			case "ledger":
				w.ledger()
			case "commit":
				w.commit()
			case "speak":
				w.speak()
			case "wait":
				w.pass(w.now + Now(rapid.SampledFrom([]int{5, 300, 1000, 2500, 6000, 20_000, 70_000}).Draw(t, "ms"))*time.Millisecond)
			case "elsewhere":
				for _, u := range w.view.Units {
					w.step(Elsewhere{Name: "glass", Prefix: u.Unit.Prefix, From: w.now,
						Outcome: steadycast.Outcome(rapid.SampledFrom([]int{-1, -1, 0, 1}).Draw(t, "somebody"))})
				}
			case "load":
				w.step(Loaded{Load: 7, From: w.now})
			case "local":
				w.breakGlass()
			case "no ledger":
				w.step(LedgerLost{Reason: "gone"})
			}
		}
		asks, sets, resorts = asks+w.asks, sets+int(w.set.Version), resorts+w.resorts
	})
	// A last resort is rare among a hundred lives; testdata/site/last_resort.txt has each of its ways.
	if asks == 0 || sets == 0 {
		t.Errorf("in all those lives nothing was asked (%d) or announced (%d, %d as a last resort): the test tests nothing", asks, sets, resorts)
	}
}

// TestUnknownNever: when nobody knows anything, nothing is asked and no route moves.
func TestUnknownNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.step(Proved{Actual: w.act})
		w.commit()
		before := w.set
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			w.observe(0)
			w.pass(w.now + Now(rapid.IntRange(0, 9000).Draw(t, "ms"))*time.Millisecond)
		}
		if w.asks > 0 {
			t.Fatalf("asked %+v", w.asked)
		}
		if len(diff(before.Routes, w.set.Routes)) > 0 {
			t.Fatalf("moved from %+v to %+v", before.Routes, w.set.Routes)
		}
	})
}
