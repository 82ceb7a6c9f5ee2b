package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// grantKey names one permit.
type grantKey struct {
	unit steadycast.Unit
	id   steadycast.RequestID
}

// grant is a permit as it was committed.
type grant struct {
	action steadycast.Action
	lt     decide.Time
	used   bool
	// uncounted: the unit was returning, and missed by no floor.
	uncounted bool
}

// wanted is what automation would do to a unit.
type wanted struct {
	unit   steadycast.Unit
	action steadycast.Action
}

// history is what the judge knows of one unit.
type history struct {
	onPurpose bool          // out, and not against its will
	forced    bool          // by an order with force
	forcing   bool          // such an order put it out, and may be over when its site hears of it
	lost      bool          // against its will, since lostAt
	lostAt    time.Duration // when it was announced last before that
	offAt     time.Duration
	executed  []time.Duration // automatic withdrawals
	granted   []decide.Time   // leaves for them, carried out or not
	left      bool            // automation took it out
	back      bool            // and it was proven in again
	cycles    []decide.Time
	locked    bool
	returning decide.Time // ledger time of an automatic return that is under way; 0 for none
	returned  decide.Time // and of the last that was proven
	pardoned  bool        // an order stood over it since it was in
	forgotten bool        // the ledger was recovered from an older copy, which may know nothing of why it is out
	said      bool        // a person, or leave that was given, has said since what is to become of it
	full      bool        // it was refused last because others could not carry its load
	hand      bool        // out because a person at the node wanted it so
}

// asking is a request as it was sent first.
type asking struct {
	at       time.Duration
	evidence []steadycast.Observation
}

// judge watches from outside: it knows the truth, which no machine does. It
// holds everybody to the table as people wrote it.
type judge struct {
	w         *world
	tallies   [nInvariants]Tally
	violation *Violation
	happened  map[string]uint64

	index    uint64 // the newest that any replica applied
	view     decide.View
	replies  map[uint64]decide.Reply // what applying each index gave
	states   map[uint64]string
	slack    time.Duration // least of ledger time less real time so far
	begun    bool
	grants   map[grantKey]*grant
	asks     map[grantKey]asking
	sawFail  [][]time.Duration // [vantage][subject]: when an honest one saw it fail last
	units    [][]history       // [site][prefix]
	hosts    [][]hostHistory   // [place][prefix]
	spent    []execution
	heard    []time.Duration // the newest answer or view of each place
	thawed   time.Duration
	epoch    uint64                 // which the ledger was recovered to; 0 if it never was
	since    time.Duration          // when
	blackout time.Duration          // since when there is no observation
	yes      map[string]bool        // what each place said last of each staged table
	tables   []int64                // those in force one after the other, by MED
	entered  map[string]bool        // what was signed and entered, by its text
	forged   map[uint64]bool        // parcels that nobody meant
	fell     []time.Duration        // when the ledger heard that a place, well before, is in trouble
	poor     []bool                 // it is
	agreed   map[wanted]decide.Time // what a person said yes to, and when
}

// execution is one automatic withdrawal.
type execution struct {
	at     time.Duration
	place  *place
	prefix int
	id     steadycast.RequestID
	onset  time.Duration
}

const never = -time.Hour

func newJudge(w *world) *judge {
	n, hosts := len(w.table.Sites), len(w.places)
	j := &judge{
		w: w, happened: map[string]uint64{}, replies: map[uint64]decide.Reply{}, states: map[uint64]string{}, grants: map[grantKey]*grant{},
		asks: map[grantKey]asking{},
		yes:  map[string]bool{}, entered: map[string]bool{}, forged: map[uint64]bool{}, agreed: map[wanted]decide.Time{},
		sawFail: make([][]time.Duration, n), units: make([][]history, n),
		hosts: make([][]hostHistory, hosts), heard: make([]time.Duration, hosts), fell: slices.Repeat([]time.Duration{never}, n), poor: make([]bool, n), thawed: never, blackout: never,
	}
	for i := range n {
		j.sawFail[i] = make([]time.Duration, n)
		for k := range j.sawFail[i] {
			j.sawFail[i][k] = never
		}
		j.units[i] = make([]history, len(w.prefixes))
		for k := range j.units[i] {
			j.units[i][k].lostAt, j.units[i][k].offAt = never, never
		}
	}
	for i := range hosts {
		j.hosts[i] = slices.Repeat([]hostHistory{{lostAt: never}}, len(w.prefixes))
	}
	return j
}

func (j *judge) happen(what string) { j.happened[what]++ }

// holds checks one statement; the first that does not hold ends the schedule.
func (j *judge) holds(inv int, ok bool, format string, args ...any) bool {
	t := &j.tallies[inv]
	t.Checked++
	if ok || j.violation != nil {
		return ok
	}
	t.Violated++
	j.violation = &Violation{Seed: j.w.seed, Invariant: invariants[inv].name, At: j.w.now, Text: fmt.Sprintf(format, args...)}
	j.w.say("VIOLATED %s (%s): %s", invariants[inv].name, invariants[inv].text, j.violation.Text)
	return ok
}

func (j *judge) unit(p *place, prefix int) *history { return &j.units[p.s][prefix] }

// host is what the judge knows of a unit at one host of its site.
func (j *judge) host(p *place, prefix int) *hostHistory { return &j.hosts[p.i][prefix] }

// evidenceAge bounds how long before a withdrawal its failure was seen: the
// window of an observation, the right to act, and the way there.
func (j *judge) evidenceAge() time.Duration {
	return 3*j.w.table.Services[0].Health.Interval + time.Second + j.w.table.Guards.PermitTTL + 3*time.Second
}

// justLost is how long after its loss a site may still be believed to announce.
func (j *judge) justLost() time.Duration { return j.w.table.Guards.PermitTTL + 7*time.Second }

// drift is what two clocks can disagree by within a span.
func drift(d time.Duration) time.Duration { return d * 2 * maxDrift / 1_000_000 }

func (j *judge) sawFailing(v, subject *place) { j.sawFail[v.s][subject.s] = j.w.now }

// asked notes a request when it is sent first.
func (j *judge) asked(a *agent, r steadycast.Request) {
	for _, p := range r.Prefixes {
		k := grantKey{steadycast.Unit{Site: r.Site, Prefix: p}, r.ID}
		if _, again := j.asks[k]; !again {
			j.asks[k] = asking{j.w.now, r.Evidence}
			j.happen("asked to " + r.Action.String())
		}
	}
}

func (j *judge) answered(a *agent, ans decide.Answer) {
	j.heard[a.p.i] = j.w.now
	for _, x := range ans.Rulings {
		if i := j.w.prefixAt(x.Unit.Prefix); i >= 0 {
			g, refused := x.Refusal()
			j.unit(a.p, i).full = refused && g.Guard == "capacity"
		}
	}
}

// decided judges a set that a site's machine wants: who took away what it lacks.
func (j *judge) decided(a *agent, set steadycast.RouteSet, causes []cause) {
	w := j.w
	if a.given {
		j.holds(iFence, set.Fence.Compare(a.wanted.Fence) >= 0, "%s: a set rests on %v after one on %v", a.p.name, set.Fence, a.wanted.Fence)
	}
	j.oneTable(a, set)
	for i, prefix := range w.prefixes {
		_, was := a.wanted.Find(prefix)
		if !a.given {
			was = a.p.speaker.out[i]
		}
		if _, is := set.Find(prefix); is || !was {
			continue
		}
		c := cause{prefix: i}
		for _, x := range causes {
			if x.prefix == i {
				c = x
			}
		}
		if !a.given {
			j.holds(iDeath, c.kind != byNobody, "%s: a new agent's first set lacks %s, which was announced, and nobody decided so", a.p.name, prefix)
		}
		j.holds(iAlone, c.kind != byNobody, "%s: %s leaves and nobody decided so", a.p.name, prefix)
		j.afresh(a, i, set.Fence.Epoch, c)
		j.host(a.p, i).removed = c
		if c.kind == byPermit {
			j.executed(a, i, c)
		}
	}
	for _, c := range causes {
		if _, is := set.Find(w.prefixes[c.prefix]); is {
			j.host(a.p, c.prefix).added = c
		}
	}
}

// afresh: after a recovery a route leaves for what was said since, and for nothing else.
func (j *judge) afresh(a *agent, prefix int, epoch uint64, c cause) {
	if j.epoch == 0 || epoch < j.epoch || a.p.glass != nil {
		return // it does not know yet, or does what a person at the node wants
	}
	switch c.kind {
	case byOrder, byPhase, bySite, byPermit:
		j.holds(iRecovery, j.unit(a.p, prefix).said, "%s knows that the ledger was recovered, and takes out %s for what was said before: %s", a.p.node, j.w.prefixes[prefix], c.reason)
	}
}

// executed judges one automatic withdrawal at the moment it is decided.
func (j *judge) executed(a *agent, prefix int, c cause) {
	w, p, now := j.w, a.p, j.w.now
	g := w.table.Guards
	k := grantKey{w.unit(p, prefix), c.id}
	h := j.unit(p, prefix)

	got := j.grants[k]
	j.holds(iOneGrant, got != nil && got.action == steadycast.Withdraw, "%s carries out %s for %s, which was never committed", p.name, c.id, k.unit.Prefix)
	if got == nil {
		return
	}
	j.holds(iOneGrant, !got.used || p.unknowing(), "%s carries out %s twice", p.name, c.id)
	got.used = true
	ask, known := j.asks[k]
	j.holds(iOneGrant, known && c.id.Incarnation == a.inc && now-ask.at <= g.PermitTTL+drift(g.PermitTTL)+time.Millisecond,
		"%s (incarnation %d) carries out %s %v after it was first asked for", p.name, a.inc, c.id, now-ask.at)
	j.holds(iAlone, now-j.heard[p.i] <= 15*time.Second, "%s leaves, and has heard nothing of the ledger for %v", p.name, now-j.heard[p.i])

	j.witnessed(p, c.id, ask)
	j.holds(iEvidence, slices.ContainsFunc(a.site.Verdicts(), func(v steadycast.Verdict) bool { return v.State == steadycast.Unhealthy && !v.Held }),
		"%s carries out %s, and does not hold itself to be failing any more", p.name, c.id)
	if u := phaseOf(&j.view, k.unit); u != nil && !u.Unheard {
		j.holds(iCounted, u.Phase != steadycast.In, "%s leaves by %s while the ledger counts it in", k.unit, c.id)
	}

	j.happen("withdrawn")
	j.whole(a, prefix, c.id)
	j.spent = append(j.spent, execution{now, p, prefix, c.id, a.onset})
	h.executed = append(h.executed, now)
	j.budgets(p, prefix, h)
	j.broken(prefix)
	if h.returned > 0 {
		j.holds(iCooldown, got.lt-h.returned >= decide.Time(g.Cooldown/time.Millisecond), "%s leaves %d ms of ledger time after its return; cooldown %v", k.unit, got.lt-h.returned, g.Cooldown)
	}
	j.cycle(k.unit, h, got.lt)
}

// witnessed: an honest vantage that is part of the evidence saw the failure lately.
func (j *judge) witnessed(p *place, id steadycast.RequestID, ask asking) {
	w, last := j.w, time.Duration(never)
	for _, o := range ask.evidence {
		if v := w.placeOf(o.Vantage); v != nil && o.Result.Outcome == steadycast.Down {
			last = max(last, j.sawFail[v.s][p.s])
		}
	}
	j.holds(iEvidence, w.now-last <= j.evidenceAge(), "%s leaves by %s; no honest vantage of its evidence saw it fail within %v", p.name, id, j.evidenceAge())
	dark := j.blackout != never && w.now < w.blackout && w.now-j.blackout > j.evidenceAge()
	j.holds(iBlackout, !dark, "%s leaves, and nothing was observed for %v", p.name, w.now-j.blackout)
}

// budgets counts executions in the windows, less what execution may lag and clocks differ.
func (j *judge) budgets(p *place, prefix int, h *history) {
	g := j.w.table.Guards
	within := func(at, window time.Duration) bool {
		return at > j.w.now-(window-g.PermitTTL-drift(window))
	}
	type once struct {
		place *place
		id    steadycast.RequestID
	}
	requests := map[once]bool{}
	for i := len(j.spent) - 1; i >= 0 && within(j.spent[i].at, g.FleetWindow); i-- {
		requests[once{j.spent[i].place.group[0], j.spent[i].id}] = true
	}
	j.holds(iFleetBudget, len(requests) <= g.FleetBudget, "%d automatic withdrawals within %v less drift; budget %d", len(requests), g.FleetWindow, g.FleetBudget)
	for _, b := range []struct {
		window time.Duration
		budget int
	}{{g.SiteWindow, g.SiteBudget}, {g.SiteLongWindow, g.SiteLongBudget}} {
		n := 0
		for _, at := range h.executed {
			if within(at, b.window) {
				n++
			}
		}
		j.holds(iSiteBudget, n <= b.budget, "%s left %d times within %v less drift; budget %d", j.w.unit(p, prefix), n, b.window, b.budget)
	}
}

// broken: of the sites that fell into trouble within the window and are in it
// still, no more may have left than trips the breaker.
func (j *judge) broken(prefix int) {
	w, g := j.w, j.w.table.Guards
	since := w.now - (g.BreakerWindow - g.PermitTTL - time.Second)
	if j.thawed >= since {
		return
	}
	n := 0
	for _, x := range j.spent {
		if j.fell[x.place.s] < since {
			continue // an earlier agent of it has told of trouble long before
		}
		if x.prefix == prefix && x.at >= since && x.onset >= since && x.place.agent != nil && x.place.agent.uneasy && x.place.agent.onset == x.onset {
			n++
		}
	}
	limit := max(g.BreakerSites, len(w.table.SitesOf(w.prefixes[prefix]))*g.BreakerPercent/100)
	j.holds(iBreaker, n <= limit, "%d sites left %s within %v of falling into trouble together; limit %d", n, w.prefixes[prefix], w.now-since, limit)
}

// cycle counts leaving and coming back.
func (j *judge) cycle(u steadycast.Unit, h *history, lt decide.Time) {
	g := j.w.table.Guards
	j.holds(iLock, !h.locked, "%s leaves after %d cycles, and no person unlocked it", u, len(h.cycles))
	if h.left && h.back {
		h.cycles = append(h.cycles, lt)
		n := 0
		for _, t := range h.cycles {
			if lt-t < decide.Time(g.LockWindow/time.Millisecond) {
				n++
			}
		}
		h.locked = n >= g.LockCycles
	}
	h.left, h.back = true, false
}

// resumed judges an announcement without a permit, when the speaker has taken it.
func (j *judge) resumed(p *place, prefix int, h *history, why cause) {
	w := j.w
	all, some := true, false
	for s, sv := range w.table.Services {
		if slices.Contains(sv.Prefixes, w.prefixes[prefix]) {
			ok := why.good[s] >= 3
			all, some = all && ok, some || ok
		}
	}
	any := w.table.PrefixPolicy(w.prefixes[prefix]).Needs == decide.NeedsAny
	j.holds(iRestart, all || some && any, "%s announces %s after %d passing local rounds", p.name, w.prefixes[prefix], why.good)
	j.holds(iRecovery, !h.onPurpose || h.hand || h.said || j.epoch == 0 || p.several() || p.agent == nil || p.agent.clock.zero > j.since || p.agent.client.fence.Epoch < j.epoch,
		"%s had left %s on purpose and announces it, for it is in by the copy that the ledger was recovered from", p.name, w.prefixes[prefix])
	if h.hand { // what was taken out by hand, and given back, is as it was before
		return
	}
	// What was lost may be announced although a permit to leave, which never was
	// carried out, has put it out meanwhile: the site says so and it is void.
	u := phaseOf(&j.view, w.unit(p, prefix))
	// A node of several that left alone comes back without a ledger, by what it heard
	// last: a permit that a sibling got since it has to hear of first.
	late := p.several() && u != nil && p.agent != nil && p.agent.client.fence.Compare(u.Permit.Fence) < 0
	j.holds(iRestart, !h.onPurpose || late || p.unknowing() || u != nil && u.Phase == steadycast.In, "%s left %s on purpose and announces it without a permit; its phase is not in", p.name, w.prefixes[prefix])
}
