package decide

import (
	"net/netip"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// What happens in the world, one step each.

// boot has every unit announced for the first time, and proven.
func (w *fleetWorld) boot(t *rapid.T) {
	for _, site := range w.t.Announcers() {
		e := w.entry(KindVerdict)
		e.Verdicts = []steadycast.Verdict{{Site: site, Service: "web", State: steadycast.Healthy}}
		w.apply(t, e)
		w.seq[site]++
		e = w.entry(KindDecide)
		e.Decide = &Decide{Requests: []steadycast.Request{{
			ID: steadycast.RequestID{Incarnation: 1, Seq: w.seq[site]}, Site: site, Action: steadycast.Return, Prefixes: w.t.AllPrefixes(),
		}}}
		for _, r := range w.apply(t, e).Answers[0].Rulings {
			if r.Permit == nil {
				t.Fatalf("the first return of %s: %+v", r.Unit, r.Guards)
			}
			w.on[r.Unit] = true
		}
		w.prove(t)
	}
}

func (w *fleetWorld) site(t *rapid.T) string {
	return rapid.SampledFrom(w.t.Announcers()).Draw(t, "site")
}

func (w *fleetWorld) unit(t *rapid.T) steadycast.Unit {
	return steadycast.Unit{Site: w.site(t), Prefix: rapid.SampledFrom(w.t.AllPrefixes()).Draw(t, "prefix")}
}

func (w *fleetWorld) time(t *rapid.T) {
	w.lt += Time(rapid.SampledFrom([]int{1, 999, 1000, 10_000, 59_999, 60_000, 300_000, 3_600_000}).Draw(t, "ms"))
	w.apply(t, w.entry(KindTick))
}

func (w *fleetWorld) verdict(t *rapid.T) {
	e := w.entry(KindVerdict)
	v := steadycast.Verdict{Site: w.site(t), Service: rapid.SampledFrom(w.t.Services).Draw(t, "service").Name}
	v.State = rapid.SampledFrom([]steadycast.State{
		steadycast.Healthy, steadycast.Healthy, steadycast.Suspect, steadycast.Unhealthy, steadycast.Recovering,
	}).Draw(t, "state")
	if v.State.Troubled() {
		v.Class = steadycast.Hard
		v.Reason = rapid.SampledFrom([]string{"refused", "slow", "wrong content"}).Draw(t, "reason")
	}
	e.Verdicts = []steadycast.Verdict{v}
	w.apply(t, e)
}

// seen is what an honest proposer could have seen: some of what announces.
func (w *fleetWorld) seen(t *rapid.T) []Seen {
	var seen []Seen
	for _, p := range w.t.AllPrefixes() {
		x := Seen{Prefix: p}
		for _, site := range w.t.SitesOf(p) {
			u := steadycast.Unit{Site: site, Prefix: p}
			if w.on[u] && rapid.IntRange(0, 9).Draw(t, "unseen") > 0 {
				x.Announcing = append(x.Announcing, site)
				if w.f.s.health(u).ok {
					x.Healthy = append(x.Healthy, site)
				}
			}
		}
		seen = append(seen, x)
	}
	return seen
}

func (w *fleetWorld) request(t *rapid.T, a steadycast.Action) steadycast.Request {
	site := w.site(t)
	w.seq[site]++
	r := steadycast.Request{
		ID: steadycast.RequestID{Incarnation: 1, Seq: w.seq[site]}, Site: site, Action: a, Service: "web",
		Prefixes: w.t.AllPrefixes(), Class: rapid.SampledFrom([]steadycast.Class{steadycast.Soft, steadycast.Hard}).Draw(t, "class"),
	}
	if rapid.Bool().Draw(t, "first prefix only") {
		r.Prefixes = r.Prefixes[:1]
	}
	result := steadycast.Result{Outcome: steadycast.Up}
	if a == steadycast.Withdraw {
		result = steadycast.Result{Outcome: steadycast.Down, Class: r.Class}
	}
	r.Evidence = w.t.evidence(site, "web", r.ID.Seq, result)
	return r
}

func (w *fleetWorld) ask(t *rapid.T, requests ...steadycast.Request) {
	e := w.entry(KindDecide)
	e.Decide = &Decide{Requests: requests, Seen: w.seen(t)}
	w.apply(t, e)
}

func (w *fleetWorld) withdraw(t *rapid.T) { w.ask(t, w.request(t, steadycast.Withdraw)) }
func (w *fleetWorld) comeBack(t *rapid.T) { w.ask(t, w.request(t, steadycast.Return)) }

func (w *fleetWorld) batch(t *rapid.T) {
	var rs []steadycast.Request
	for range rapid.IntRange(2, 5).Draw(t, "requests") {
		a := rapid.SampledFrom([]steadycast.Action{steadycast.Withdraw, steadycast.Withdraw, steadycast.Return, steadycast.Deprefer}).Draw(t, "action")
		rs = append(rs, w.request(t, a))
	}
	if rapid.Bool().Draw(t, "one twice") {
		rs = append(rs, rs[0])
	}
	w.ask(t, rs...)
}

// execute carries out the newest permit of a unit, as late as it pleases.
func (w *fleetWorld) execute(t *rapid.T) {
	u := w.unit(t)
	if p, ok := w.held[u]; ok && p.Fence.Epoch == w.epoch {
		w.learn(u.Site)
	}
	switch w.held[u].Action {
	case steadycast.Withdraw:
		w.on[u], w.lost[u] = false, false
	case steadycast.Return:
		w.on[u], w.lost[u] = true, false
	}
}

// prove shows returns by their id; a wrong id proves nothing.
func (w *fleetWorld) prove(t *rapid.T) {
	for _, x := range w.f.s.Units {
		if x.Phase != steadycast.Returning || !w.on[x.Unit] || x.Unheard {
			continue
		}
		e := w.entry(KindIn)
		e.Return = &ReturnProof{Unit: x.Unit, ID: steadycast.RequestID{Incarnation: 7, Seq: 7}}
		if r := w.apply(t, e); r.Invalid == "" {
			t.Fatalf("%s was proven by a wrong id", x.Unit)
		}
		e.Return = &ReturnProof{Unit: x.Unit, ID: x.Return}
		w.apply(t, e)
	}
}

// giveUp: a site that will carry out nothing any more says so, and what it announces.
func (w *fleetWorld) giveUp(t *rapid.T) {
	site := w.site(t)
	e := w.entry(KindVoid)
	e.Give = &GiveUpEntry{Site: site, ID: steadycast.RequestID{Incarnation: 1, Seq: w.seq[site]}}
	for _, p := range w.t.AllPrefixes() {
		u := steadycast.Unit{Site: site, Prefix: p}
		if w.on[u] {
			e.Give.Units = append(e.Give.Units, u)
		} else if w.held[u].Action == steadycast.Return && w.held[u].ID.Incarnation > 0 {
			delete(w.held, u) // dead too: it will not be carried out
		}
	}
	w.apply(t, e)
}

// loss takes a route away by accident, or brings it back, with or without the
// ledger being told.
func (w *fleetWorld) loss(t *rapid.T) {
	u := w.unit(t)
	x := w.f.s.unit(u.Site, u.Prefix)
	e := w.entry(KindLost)
	switch {
	case x.Phase == steadycast.In && w.on[u]:
		w.on[u], w.lost[u] = false, true
	case x.Phase == steadycast.In && w.lost[u]:
		w.on[u], w.lost[u], e.Kind = true, false, KindFound
	default:
		return
	}
	if rapid.Bool().Draw(t, "told") {
		e.Units = []steadycast.Unit{u}
		w.apply(t, e)
	}
}

func (w *fleetWorld) order(t *rapid.T) {
	o := steadycast.Order{
		Site: w.site(t), Actor: "ann", Reason: "test",
		Kind:  rapid.SampledFrom([]steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderDrain, steadycast.OrderAnnounce}).Draw(t, "order"),
		For:   time.Duration(rapid.SampledFrom([]int{0, 1, 60}).Draw(t, "for")) * time.Second,
		Force: rapid.IntRange(0, 3).Draw(t, "force") == 0,
	}
	if rapid.Bool().Draw(t, "one prefix") {
		o.Prefixes = []netip.Prefix{rapid.SampledFrom(w.t.AllPrefixes()).Draw(t, "prefix")}
	}
	e := w.entry(KindOrder)
	e.Order, e.Actor, e.Reason, e.Decide = &o, o.Actor, o.Reason, &Decide{Seen: w.seen(t)}
	w.apply(t, e)
}

func (w *fleetWorld) scope(t *rapid.T) {
	e := w.entry(rapid.SampledFrom([]Kind{KindOrderClear, KindOrderClear, KindThaw, KindThaw, KindUnlock, KindResume, KindFreeze}).Draw(t, "kind"))
	e.Actor, e.Reason, e.Scope = "ann", "test", &Scope{}
	if rapid.Bool().Draw(t, "of a site") {
		e.Scope.Site = w.site(t)
	}
	if rapid.Bool().Draw(t, "of a prefix") {
		e.Scope.Prefix = rapid.SampledFrom(w.t.AllPrefixes()).Draw(t, "prefix")
	}
	w.apply(t, e)
}

// garbage is an entry that means nothing. It must change nothing but the
// position and the time (I18).
func (w *fleetWorld) garbage(t *rapid.T) {
	e := w.entry(rapid.SampledFrom(kinds).Draw(t, "kind").kind)
	e.LT = rapid.SampledFrom([]Time{w.lt, w.lt + 1, -1, 0, maxTime + 1, 1<<63 - 1}).Draw(t, "lt")
	e.Epoch = rapid.SampledFrom([]uint64{0, 1, 2}).Draw(t, "epoch")
	odd := steadycast.Unit{Site: rapid.SampledFrom([]string{"", "a", "zz"}).Draw(t, "who"), Prefix: netip.Prefix{}}
	if rapid.Bool().Draw(t, "bodies") {
		e.Units = []steadycast.Unit{odd}
		e.Return = &ReturnProof{Unit: odd}
		e.Give = &GiveUpEntry{Site: odd.Site, Units: []steadycast.Unit{odd}}
	} else {
		switch e.Kind {
		case KindDecide:
			e.Decide = &Decide{Requests: []steadycast.Request{{Site: odd.Site, Action: 99, Prefixes: []netip.Prefix{{}}}}, Seen: []Seen{{}}, Loads: []Load{{Site: odd.Site, Load: -5}}}
		case KindVoid:
			e.Give = &GiveUpEntry{Site: odd.Site, Units: []steadycast.Unit{odd}}
		case KindIn:
			e.Return = &ReturnProof{Unit: odd}
		case KindLost, KindFound:
			e.Units = []steadycast.Unit{odd}
		case KindVerdict:
			e.Verdicts = []steadycast.Verdict{{Site: odd.Site}}
		case KindTable, KindGenesis:
			e.Table = &Table{Revision: 9}
		case KindOrder:
			e.Order = &steadycast.Order{Site: odd.Site, Kind: 77}
		}
	}
	before := w.f.Snapshot()
	r, err := w.f.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	if r.Invalid == "" && r.Refused == nil {
		for _, a := range r.Answers {
			if len(a.Rulings) != 1 || a.Rulings[0].Permit != nil {
				t.Fatalf("garbage was answered with %+v", a)
			}
		}
	}
	twin := NewFleet()
	if err := twin.Restore(before); err != nil {
		t.Fatal(err)
	}
	tick := w.entry(KindTick)
	tick.LT = 0
	if e.LT >= 0 && e.LT <= maxTime {
		tick.LT = e.LT
	}
	if _, err := twin.Apply(tick); err != nil {
		t.Fatal(err)
	}
	if e.Kind != KindTick && twin.Hash() != w.f.Hash() {
		t.Fatalf("garbage of kind %s changed the machine:\n%s\n%s", e.Kind, twin.Snapshot(), w.f.Snapshot())
	}
	w.lt = max(w.lt, w.f.LT())
}
