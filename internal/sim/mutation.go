package sim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// mutation is a rule that was considered and rejected. A simulator that does not
// break with it would not have found the fault in it.
type mutation struct {
	name, rule string
	// breaks are the invariants that catch it, by name; which of them first is luck.
	breaks string
	// policy leaves one guard tight, so that no other hides the fault; empty for
	// each seed's own.
	policy string
	// faults leaves those that bring it out; nil for all.
	faults []string
}

// The rejected rules.
const (
	clockWall              = "clock-wall"
	clockDelta             = "clock-delta"
	clockFastest           = "clock-fastest"
	noTTL                  = "no-ttl"
	permitLease            = "permit-lease"
	permitReclaim          = "permit-reclaim"
	beatsOnly              = "beats-only"
	phaseOnly              = "phase-only"
	staleBeats             = "stale-beats"
	countReturning         = "count-returning"
	voidSilent             = "void-silent"
	voidOnRestart          = "void-on-restart"
	returnOnce             = "return-once"
	answerFromRead         = "answer-from-read"
	isolatedWithdraw       = "isolated-withdraw"
	oneVoice               = "one-voice"
	twoVoices              = "two-voices"
	absenceIsFailure       = "absence-is-failure"
	groupVotes             = "group-votes"
	noControls             = "no-controls"
	ageByReceipt           = "age-by-receipt"
	noEvidence             = "no-evidence"
	restartWithdraws       = "restart-withdraws"
	resumeAtOnce           = "resume-at-once"
	resumeOut              = "resume-out"
	attributesByWithdrawal = "attributes-by-withdrawal"
	oldViews               = "old-views"
	startUnfenced          = "start-unfenced"
	refuseFlat             = "refuse-flat"
	noFloor                = "no-floor"
	noHealthyFloor         = "no-healthy-floor"
	noFleetBudget          = "no-fleet-budget"
	noSiteBudget           = "no-site-budget"
	noLock                 = "no-lock"
	noCooldown             = "no-cooldown"
	noBreaker              = "no-breaker"
	snapshotForgets        = "snapshot-forgets"
	backupSameEpoch        = "backup-same-epoch"
	sameIncarnation        = "same-incarnation"
	unsigned               = "unsigned"
	ownCheckDecides        = "own-check-decides"
	ordersUnguarded        = "orders-unguarded"
	upgradeUnasked         = "upgrade-unasked"
	gracefulRestart        = "graceful-restart"
	localForgets           = "local-forgets"
	activateUnasked        = "activate-unasked"
	noSignatures           = "no-signatures"
	modeUnasked            = "mode-unasked"
	noCapacity             = "no-capacity"
	spillEven              = "spill-even"
	oldVerdict             = "old-verdict"
	setBackUnheard         = "set-back-unheard"
	promiseUnfit           = "promise-unfit"
	promiseUnbound         = "promise-unbound"
	promiseUnseen          = "promise-unseen"
	silenceStays           = "silence-stays"
	permitAlone            = "permit-alone"
	siblingVoids           = "sibling-voids"
	copyBinds              = "copy-binds"
	unheardCounts          = "unheard-counts"
)

// mutations are in the order of what they are about: ledger time, what a permit
// is and who counts, an isolated site, who has a voice, restarts, the ledger's
// readers, the guards, the log and its copies, people.
//
// Rejected, and not here, because nothing that could break is in the simulator:
// that fewer than 60 % of the voices may judge (the machine holds, and whoever
// hears so few hears no ledger either; the count is held against a naive one in
// decide), a negative control (a prober that passes everything can only keep a
// quorum from forming), a local failure that is certain where only a dependency
// failed (probes are not simulated), evidence that the leader does not open or
// hold against what it hears (internal/ledger and decide test that cross-check),
// guards that only the proposer asks (a desk has one entry on its way, so what it
// judged is what the entry finds; that a leader who is none any more answers by
// what it judged is answer-from-read), and the two rules about returns alone, one
// at a time and at once under the floor: they hold back or hasten what is safe, so
// no invariant is about them, and decide's tables hold them (testdata/fleet).
var mutations = []mutation{
	{clockWall, "ledger time is the leader's wall clock, which is skewed and stepped", "I7 I2", "fleet-budget", nil},
	{clockDelta, "each entry adds the time since its proposer applied one: two on their way count the same time twice", "I7 I2", "fleet-budget", []string{"service", "together", "flap", "voter", "slow"}},
	{clockFastest, "each replica follows the fastest estimate of ledger time it has seen: catching up makes two grants look further apart than they were", "I7 I2", "fleet-budget", nil},
	{noTTL, "the right to act on a permit does not expire", "I3", "none", []string{"service", "slow", "one-way", "voter", "stall"}},
	{permitLease, "a permit is a lease: its accounting ends by time, and every site without one counts as announcing", "I10 I1", "floor", nil},
	{permitReclaim, "a permit's accounting ends by time; counting still needs evidence", "I10 I1", "floor", nil},
	{beatsOnly, "who announces is what beats say, and not the ledger's phase", "I10 I1", "floor", nil},
	{phaseOnly, "who announces is what the ledger's phase says, without fresh evidence", "I1", "floor", []string{"service", "together", "flap", "power"}},
	{staleBeats, "a beat counts until the next one comes, however old", "I1", "floor", []string{"service", "together", "flap", "power"}},
	{countReturning, "a site that may return counts as announcing", "I10 I1", "floor", nil},
	{voidSilent, "a permit is given back by a site that does not announce", "I10 I1", "floor", nil},
	{voidOnRestart, "an agent that starts gives back whatever permits there are", "I10 I1 I8", "none", nil},
	{returnOnce, "a return cannot be asked for again while one is under way", "I8", "none", nil},
	{answerFromRead, "the leader answers from what it reads, before the entry is committed", "I3 I10", "none", nil},
	{isolatedWithdraw, "a site that cannot reach the ledger decides by itself", "I6 I16", "none", []string{"service", "partition", "one-way"}},
	{oneVoice, "one voice that says down is a quorum", "I5 I13", "none", nil},
	{twoVoices, "two voices that say down are a quorum", "I5 I13", "none", nil},
	{absenceIsFailure, "a vantage that is not heard says down", "I5 I13", "none", nil},
	{groupVotes, "every vantage has a voice, also those of one independence group", "I5", "groups", nil},
	{noControls, "a prober whose controls fail still votes", "I5", "none", nil},
	{ageByReceipt, "an observation's age counts from when it was received", "I5 I13", "none", []string{"service", "flap", "slow"}},
	{noEvidence, "the ledger believes that a site which asks to leave has evidence", "I5 I13", "none", nil},
	{restartWithdraws, "the speaker lives and dies with the agent", "I16", "none", nil},
	{resumeAtOnce, "after a restart one passing round is enough to announce", "I20", "none", nil},
	{resumeOut, "after a restart a site announces, whatever its phase", "I20 I10", "none", nil},
	{attributesByWithdrawal, "other attributes are announced by a withdrawal and an announcement", "I21", "floor", nil},
	{oldViews, "an agent believes whatever view of the ledger came last", "I12 I8 I20 I10 I11", "none", nil},
	{startUnfenced, "an agent that starts believes a voter that lags behind what its speaker has carried out", "I8 I20 I10", "none", []string{"flap", "service", "agent", "behind"}},
	{refuseFlat, "a withdrawal that floor or budget refuses is refused, and the dead site stays as attractive as it was", "I9", "fleet-budget", nil},
	{noFloor, "there is no floor", "I1", "floor", nil},
	{noHealthyFloor, "there is no healthy floor", "I1h", "healthy-floor", nil},
	{noFleetBudget, "there is no fleet budget", "I2", "fleet-budget", nil},
	{noSiteBudget, "there is no site budget", "I2s", "site-budget", nil},
	{noLock, "there is no lock", "I14", "lock", nil},
	{noCooldown, "there is no cooldown", "cooldown", "cooldown", nil},
	{noBreaker, "there is no breaker", "breaker", "breaker", nil},
	{snapshotForgets, "a snapshot holds the phases, and not what was spent and answered", "I4", "fleet-budget", nil},
	{backupSameEpoch, "a ledger recovered from an older copy goes on counting where that stood", "I11", "none", []string{"backup", "flap", "service", "together"}},
	{copyBinds, "the phases and orders of an older copy are in force as soon as the ledger is recovered from it", "recovery I1 I10", "none", []string{"backup", "order", "upgrade", "flap", "service", "partition"}},
	{unheardCounts, "after a recovery a floor counts who is in by the older copy, before he was heard", "I1", "floor", []string{"backup", "order", "upgrade", "together", "partition", "one-way"}},
	{sameIncarnation, "an agent that starts counts its requests from one again", "I8 I3 I11 I9", "none", []string{"agent", "flap", "service"}},
	{unsigned, "observations are not bound to who makes them: a liar speaks for others too", "I5", "none", []string{"lie", "service"}},
	{ownCheckDecides, "a site leaves when its own check fails, whatever the others see", "I5", "none", []string{"self", "service"}},
	{ordersUnguarded, "a person's order meets no guard", "I1", "floor", []string{"order", "service", "together", "flap"}},
	{upgradeUnasked, "a planned restart of a speaker needs no leave", "I10 I1", "floor", []string{"upgrade", "together", "service"}},
	{gracefulRestart, "routers keep the routes of a speaker that died (BGP graceful restart)", "I9", "none", []string{"power"}},
	{localForgets, "an order at a node without a ledger takes everything there anew from the view that it has", "I20 I10 by-hand", "none", []string{"glass", "flap", "service", "behind"}},
	{activateUnasked, "a staged table comes into force although nodes cannot carry it out", "staged", "none", []string{"table", "one-way"}},
	{noSignatures, "orders are taken from whoever can write to the ledger", "authority", "none", []string{"forgery", "order"}},
	{modeUnasked, "where the mode is approve automation does not wait for a person", "mode", "approve", []string{"service", "flap"}},
	{noCapacity, "nobody asks whether the others can carry what a site leaves", "I15", "capacity", []string{"service", "together", "flap"}},
	{spillEven, "of clients of whom the table does not say where they go, each site is assumed to get its part", "I15", "capacity", []string{"service", "together", "flap"}},
	{oldVerdict, "a permit is carried out within its time, whatever the verdict says by then", "I5 I10", "none", []string{"service", "flap", "slow", "stall", "voter"}},
	{setBackUnheard, "of two beats the one with the higher numbers is newer, also when the node was set back to an older disk", "I8 breaker I9", "none", []string{"restore-host", "agent"}},
	{promiseUnfit, "a sibling promises to stay although it is not well, or objects", "nodes", "nodes", []string{"service", "together", "flap", "one-way"}},
	{promiseUnbound, "a sibling that promised to stay may ask to leave", "nodes", "nodes", []string{"service", "together", "flap", "one-way"}},
	{promiseUnseen, "a node leaves although no sibling sees it fail", "nodes", "nodes", []string{"self", "service"}},
	{silenceStays, "a sibling that does not answer stays", "nodes", "nodes", []string{"service", "together", "flap", "one-way", "partition"}},
	{permitAlone, "a permit is for the node that asked for it", "nodes I9", "nodes", []string{"together", "service"}},
	{siblingVoids, "a permit is given back by any node of the site that still announces", "nodes I10 I1 I3", "nodes", []string{"together", "service"}},
}

func findMutation(name string) (mutation, bool) {
	for _, m := range mutations {
		if m.name == name {
			return m, true
		}
	}
	return mutation{}, false
}

// Mutations lists the name and the rule of each mutation.
func Mutations() [][2]string {
	var all [][2]string
	for _, m := range mutations {
		all = append(all, [2]string{m.name, m.rule})
	}
	return all
}

// What follows are the places where a rejected rule takes hold: between the
// machines and the world, never in the machines.

// bendDeaf leaves out the minute for which a site that heard nobody holds
// everything: it hides what old words do that look new, and who decides alone.
func (w *world) bendDeaf() time.Duration {
	if w.is(ageByReceipt) || w.is(isolatedWithdraw) {
		return -1
	}
	return 0
}

// bendTable is the table that the machines are given.
func (w *world) bendTable(t decide.Table) decide.Table {
	t = t.WithDefaults()
	g := &t.Guards
	switch w.mut {
	case noTTL:
		g.PermitTTL = time.Minute
	case resumeAtOnce:
		for i := range t.Services {
			t.Services[i].Health.ResumeRounds = 1
		}
	case groupVotes:
		for i := range t.Sites {
			t.Sites[i].Group = t.Sites[i].Name
		}
	case noFloor:
		setFloor(&t, 0, 0)
	case noHealthyFloor:
		setFloor(&t, 0, 0)
	case noFleetBudget:
		g.FleetBudget = loose
	case noSiteBudget:
		g.SiteBudget, g.SiteLongBudget = loose, loose
	case noLock:
		g.LockCycles = loose
	case noCapacity:
		for i := range t.Sites {
			t.Sites[i].Capacity = 0
		}
	case spillEven:
		for i := range t.Sites {
			if p := &t.Sites[i]; !p.Witness && len(p.Spill) == 0 {
				for _, q := range t.Announcers() {
					if q != p.Name {
						p.Spill = append(p.Spill, decide.Spill{Site: q, Percent: 100 / (len(t.Announcers()) - 1)})
					}
				}
			}
		}
	case noCooldown:
		g.Cooldown = time.Millisecond
	case noBreaker:
		g.BreakerSites, g.BreakerPercent = loose, 100
	}
	return t
}

// bendView is what an agent is told of the ledger.
func (a *agent) bendView(v decide.View) decide.View {
	if a.w.is(permitAlone) && a.p.several() {
		v.Units = slices.Clone(v.Units)
		for i := range v.Units {
			if u := &v.Units[i]; u.Unit.Site == a.p.name && u.Phase == steadycast.Out && u.Permit.Action == steadycast.Withdraw && u.Permit.ID.Incarnation > 0 && u.Permit.ID.Node != a.p.node {
				u.Phase, u.Permit = steadycast.In, steadycast.Permit{}
			}
		}
	}
	if a.w.is(resumeOut) && a.now() < 30*time.Second && a.inc > 1 {
		v.Units = slices.Clone(v.Units)
		for i := range v.Units {
			if u := &v.Units[i]; u.Unit.Site == a.p.name && u.Phase == steadycast.Out {
				u.Phase = steadycast.In
			}
		}
	}
	return v
}

// bendApply changes an entry on its way into every replica.
func (v *voter) bendApply(p *parcel) {
	v.trustCopy(p.entry)
	if v.w.is(clockDelta) {
		p.entry.LT = v.fleet.LT() + decide.Time(p.delta/time.Millisecond)
	}
}

// bendSnapshot changes a snapshot before a replica is set to it.
func (v *voter) bendSnapshot(b []byte) []byte {
	if !v.w.is(snapshotForgets) {
		return b
	}
	var state map[string]json.RawMessage
	must(json.Unmarshal(b, &state))
	delete(state, "charges") // what the fleet's budget was spent on
	delete(state, "slots")   // and what was answered
	b, err := json.Marshal(state)
	must(err)
	return b
}

// afterApply does, in every replica, what a rejected rule would have done as well.
func (v *voter) afterApply(e decide.Entry, r decide.Reply) {
	v.doubtCopy()
	lt := time.Duration(r.LT) * time.Millisecond
	v.offset = max(v.offset, lt-v.now())
	for _, a := range r.Answers {
		for _, x := range a.Rulings {
			if x.Permit == nil || x.Permit.Fence != r.Fence {
				continue
			}
			also := decide.Entry{Schema: e.Schema, Rules: e.Rules, Epoch: e.Epoch, LT: r.LT, Proposer: e.Proposer, Actor: "auto"}
			switch {
			case v.w.is(beatsOnly) && x.Permit.Action == steadycast.Withdraw:
				also.Kind, also.Give = decide.KindVoid, &decide.GiveUpEntry{Site: a.Site, ID: a.ID, Units: []steadycast.Unit{x.Unit}}
			case v.w.is(countReturning) && x.Permit.Action == steadycast.Return:
				also.Kind, also.Return = decide.KindIn, &decide.ReturnProof{Unit: x.Unit, ID: a.ID}
			default:
				continue
			}
			_, err := v.fleet.Apply(also)
			must(err)
		}
	}
}

// bendEntry changes an entry when it is proposed.
func (d *desk) bendEntry(p *parcel) {
	switch d.v.w.mut {
	case clockWall:
		p.entry.LT = decide.Time((d.v.w.now + d.v.wall + 48*time.Hour) / time.Millisecond)
	case unheardCounts:
		d.seeCopy(p)
	case clockFastest:
		p.entry.LT = decide.Time(max(d.v.now()+d.v.offset, 0) / time.Millisecond)
	}
}

// bendBeats makes beats last, or adds what the phases say.
func (d *desk) bendBeats() {
	phases := d.v.w.is(phaseOnly) || d.v.w.is(permitLease)
	if !phases && !d.v.w.is(staleBeats) {
		return
	}
	for i := range d.v.beats {
		b := d.v.beats[i]
		if !b.ok {
			continue
		}
		if phases {
			b.beat.Announcing = slices.Clone(b.beat.Announcing)
			for _, u := range d.v.view.Units {
				if u.Unit.Site == b.beat.Site && u.Phase == steadycast.In && !slices.Contains(b.beat.Announcing, u.Unit) {
					b.beat.Announcing = append(b.beat.Announcing, u.Unit)
				}
			}
		}
		d.hear(d.v.now(), b.beat)
	}
}

// bendDuties gives back permits that nobody may give back.
func (d *desk) bendDuties(now time.Duration) (decide.Entry, bool) {
	const lease = 20_000 // ms of ledger time
	e := d.p.Entry(now, decide.KindVoid)
	for _, u := range d.v.view.Units {
		if u.Phase != steadycast.Out || u.Permit.Action != steadycast.Withdraw || u.Permit.ID == (steadycast.RequestID{}) || u.Order != steadycast.OrderNone {
			continue
		}
		over := false
		switch d.v.w.mut {
		case permitLease, permitReclaim:
			over = e.LT-u.Changed > lease
		case voidSilent:
			b := &d.v.beats[d.v.w.placeOf(u.Unit.Site).i]
			over = b.ok && now-b.from < 5*time.Second && u.Permit.ID.Compare(b.beat.DeadThrough) <= 0
		case siblingVoids:
			for _, q := range d.v.w.placeOf(u.Unit.Site).group {
				b := &d.v.beats[q.i]
				over = over || b.ok && now-b.from < 5*time.Second && q.several() && slices.Contains(b.beat.Announcing, u.Unit)
			}
		}
		if over {
			e.Give = &decide.GiveUpEntry{Site: u.Unit.Site, ID: u.Permit.ID, Units: []steadycast.Unit{u.Unit}}
			return e, true
		}
	}
	return e, false
}

// bendRequest gives a request the evidence it lacks.
func (d *desk) bendRequest(r steadycast.Request) steadycast.Request {
	if d.v.w.is(noEvidence) && r.Action == steadycast.Withdraw && len(r.Evidence) == 0 {
		for _, v := range d.v.w.table.Vantages(r.Site) {
			r.Evidence = append(r.Evidence, steadycast.Observation{
				Vantage: v, Subject: r.Site, Service: d.v.w.table.Services[0].Name,
				Result: steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard},
			})
		}
	}
	return r
}

// refusedByMutation answers a return that is asked for again with a refusal.
func (d *desk) refusedByMutation(c call, r steadycast.Request) bool {
	if !d.v.w.is(returnOnce) || r.Action != steadycast.Return {
		return false
	}
	ans := decide.Answer{ID: r.ID, Site: r.Site}
	for _, p := range r.Prefixes {
		unit := steadycast.Unit{Site: r.Site, Prefix: p}
		if u := phaseOf(d.v.view, unit); u != nil && u.Phase == steadycast.Returning && u.Return != r.ID {
			ans.Rulings = append(ans.Rulings, decide.Ruling{Unit: unit, Guards: []steadycast.GuardAnswer{{Guard: "phase", Text: "returning already"}}})
		}
	}
	if len(ans.Rulings) == 0 {
		return false
	}
	d.answer([]call{c}, []decide.Answer{ans})
	return true
}

// bendAnswer takes deprefer permits out of an answer.
func (d *desk) bendAnswer(ans decide.Answer) decide.Answer {
	if !d.v.w.is(refuseFlat) {
		return ans
	}
	ans.Rulings = slices.Clone(ans.Rulings)
	for i := range ans.Rulings {
		if p := ans.Rulings[i].Permit; p != nil && p.Action == steadycast.Deprefer {
			ans.Rulings[i].Permit = nil
		}
	}
	return ans
}
