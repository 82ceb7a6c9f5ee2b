package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// forever is later than every instant.
const forever = Now(1<<63 - 1)

// deadline is the earliest of several instants.
type deadline struct {
	at Now
	ok bool
}

func (d *deadline) by(at Now) {
	if at < forever && (!d.ok || at < d.at) {
		d.at, d.ok = at, true
	}
}

// settle brings everything that follows from verdicts, views and proofs up to
// date. It is the same whatever the input was, and doing it twice changes
// nothing. It finds out until when it need not be done again.
func (s *Site) settle(now Now) {
	var wake deadline
	s.freezeAlone(now, &wake)
	s.report(now, &wake)
	s.overdue(now)
	switch {
	case !s.proved:
	case !s.committed:
		s.byHand(now)
	default:
		s.begin(now)
		for i := range s.units {
			s.place(now, &s.units[i])
			s.node(now, &s.units[i], &wake)
		}
		s.overdue(now)
		s.ask(now, &wake)
		s.giveUp(now, &wake)
		s.announce(now)
		for i := range s.units {
			s.units[i].wakes(s, now, &wake)
		}
		s.watch(now, &wake)
	}
	s.doubtProber()
	s.pace()
	s.idle, s.idleUntil = true, forever
	if wake.ok {
		s.idleUntil = wake.at
	}
}

// begin takes over from an earlier agent, once: what the speaker announces goes
// on, unless the phase or an order says otherwise (see place).
func (s *Site) begin(now Now) {
	if s.begun {
		return
	}
	s.begun = true
	s.compare(now)
	for i := range s.units {
		if u := &s.units[i]; u.onWire {
			u.announced, u.ever, u.reason = true, true, "announced by the speaker before this agent started"
		}
	}
}

// byHand carries out what a person ordered at this node, although no view of the
// ledger can be believed yet, and touches nothing else: breaking the glass is for
// when there is nobody to ask.
func (s *Site) byHand(now Now) {
	if s.local == nil {
		return
	}
	s.begin(now)
	for i := range s.units {
		if u := &s.units[i]; s.local.Covers(u.id.Prefix) {
			s.place(now, u)
		}
	}
	s.announce(now)
}

// wakes names the instants at which the unit changes by itself.
func (u *unit) wakes(s *Site, now Now, wake *deadline) {
	switch {
	case u.draining && !u.goes:
		wake.by(u.leaveAt)
	case u.emptying && now < u.namesUntil:
		wake.by(u.namesUntil)
	case u.emptying:
		wake.by(now + lookAgain)
	}
	if now < u.warm {
		wake.by(u.warm)
	}
	if u.announced && u.view.Phase == steadycast.Out && !u.view.Unheard && s.anothers(u.view.Permit) {
		wake.by(u.anotherAt + s.table.Guards.PermitTTL + 1)
	}
	if at := s.resortAt(); !u.announced && now < at {
		wake.by(at)
	}
	if !u.announced && u.view.Phase == steadycast.In {
		if now < s.o.Jitter {
			wake.by(s.o.Jitter)
		}
		if s.several() && now < helloFor {
			wake.by(helloFor)
		}
	}
}

// report tells the ledger the verdicts that changed, where this node speaks for
// the site.
func (s *Site) report(now Now, wake *deadline) {
	speaks := s.speaks(now, wake)
	if speaks && !s.spoke {
		for i := range s.services {
			s.tellAgain(now, &s.services[i])
		}
	}
	s.spoke = speaks
	var vs []steadycast.Verdict
	for i := range s.services {
		if sv := &s.services[i]; sv.loud {
			sv.loud, sv.reported = false, now
			if !speaks {
				continue
			}
			vs = append(vs, s.verdict(sv))
		}
	}
	if len(vs) > 0 {
		s.out = append(s.out, Report{Verdicts: vs})
	}
}

// pace hurries the probes of a service in suspicion, and keeps them hurrying
// until the first request to withdraw it is concluded, for a permit may be
// carried out only while the failure is still seen.
func (s *Site) pace() {
	for i := range s.services {
		sv := &s.services[i]
		fast := sv.state == steadycast.Suspect || sv.fails() ||
			sv.failed() && !sv.answered && s.asked != nil && s.asked.req.Service == sv.conf.Name
		if fast != sv.fast {
			sv.fast = fast
			s.out = append(s.out, Pace{Service: sv.conf.Name, Fast: fast})
		}
	}
}

// announce gives the speaker the whole set when it differs from the last, or
// when the speaker may have lost it.
func (s *Site) announce(now Now) {
	if s.given && !s.resend && s.unchanged(now) {
		return
	}
	set := steadycast.RouteSet{
		Incarnation: s.o.Incarnation, Version: s.set.Version + 1, Fence: s.fence,
		Routes: make([]steadycast.Route, 0, len(s.units)), VIPs: slices.Clone(s.o.VIPs),
		Path: s.path(),
	}
	if set.Path != "" {
		set.Overlap = s.table.DrainWait
	}
	for r := range s.routes(now) {
		set.Routes = append(set.Routes, r)
	}
	s.changed = append(s.changed, diff(s.set.Routes, set.Routes)...)
	if s.given && s.set.Path != set.Path {
		for _, r := range set.Routes {
			s.changed = append(s.changed, r.Prefix)
		}
	}
	slices.SortFunc(s.changed, comparePrefix)
	s.changed = slices.Compact(s.changed)
	s.set, s.setAt, s.given, s.resend, s.compared = set, now, true, false, false
	s.out = append(s.out, Announce{Set: set})
}

// unchanged: the set that would be given is on the wire the same as the last.
func (s *Site) unchanged(now Now) bool {
	last := s.set.Routes
	for r := range s.routes(now) {
		if len(last) == 0 || last[0].Prefix != r.Prefix || !sameOnWire(last[0], r) {
			return false
		}
		last = last[1:]
	}
	return len(last) == 0 && slices.Equal(s.set.VIPs, s.o.VIPs) && s.set.Path == s.path()
}

func (u *unit) asRoute(now Now) steadycast.Route {
	return steadycast.Route{
		Prefix: u.id.Prefix, Stance: u.stance(now),
		Communities: u.policy.Communities, LargeCommunities: u.policy.LargeCommunities, MED: u.policy.MED,
		Permit: u.permit, Reason: u.reason,
	}
}

// diff names the prefixes whose routes differ between two sorted lists in more
// than their words: the record of a route may age, its attributes may not.
func diff(old, set []steadycast.Route) []netip.Prefix {
	var ps []netip.Prefix
	for len(old) > 0 || len(set) > 0 {
		switch c := headOrder(old, set); {
		case c < 0:
			ps, old = append(ps, old[0].Prefix), old[1:]
		case c > 0:
			ps, set = append(ps, set[0].Prefix), set[1:]
		default:
			if !sameOnWire(old[0], set[0]) {
				ps = append(ps, set[0].Prefix)
			}
			old, set = old[1:], set[1:]
		}
	}
	return ps
}

func headOrder(a, b []steadycast.Route) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	default:
		return comparePrefix(a[0].Prefix, b[0].Prefix)
	}
}

func sameOnWire(a, b steadycast.Route) bool {
	return a.Stance == b.Stance && slices.Equal(a.Communities, b.Communities) &&
		slices.Equal(a.LargeCommunities, b.LargeCommunities) && sameNumber(a.MED, b.MED)
}

func sameNumber(a, b *uint32) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// commit takes a view of the ledger. One with a lower fence than was seen comes
// from an old leader or a restored backup and is not believed.
func (s *Site) commit(now Now, v View) {
	for i := range v.Units {
		if u := &v.Units[i]; u.Unit.Site == s.name {
			s.overtake(u.Permit.ID)
			s.overtake(u.Return)
		}
	}
	if v.Fence.Compare(s.fence) < 0 {
		if !s.committed {
			s.alarm(alarmKey{kind: "old ledger"}, steadycast.Event{Reason: fmt.Sprintf(
				"the ledger stands at %v here, and an earlier agent acted on %v: it lags, or was restored from an older copy (then: steadycast reload --clear-fence); nothing changes meanwhile",
				v.Fence, s.fence)})
		}
		return
	}
	s.raise(v.Fence)
	s.recover(alarmKey{kind: "old ledger"}, steadycast.Event{Reason: "the ledger has caught up with what an earlier agent acted on"})
	if t := v.Table; len(t.Services) > 0 && (t.Revision != s.table.Revision || !s.committed) {
		s.adopt(t)
	}
	s.recount(&v)
	if s.asked != nil && v.Fence.Epoch > s.view.Fence.Epoch {
		s.kill(s.asked.req) // what was granted of it is forgotten, or will be
		s.conclude(now, resendEvery)
	}
	s.view, s.committed = v, true
	s.ramps()
	s.ordered()
	for i := range s.units {
		s.see(&s.units[i])
		s.names(now, &s.units[i])
	}
	if s.ledgerGone != "" && v.Fence.Compare(s.ledgerAt) > 0 { // an older view, seen late, proves nothing
		s.findLedger()
	}
	for i := range s.services {
		sv := &s.services[i]
		if sv.state == steadycast.StateUnknown {
			s.judgeAgain(now, sv)
		}
		s.tellAgain(now, sv)
	}
}

func (s *Site) raise(f steadycast.Fence) {
	if f.Compare(s.fence) > 0 {
		s.fence = f
	}
}

// see takes what the view says of one unit.
func (s *Site) see(u *unit) {
	old := u.view
	u.view = viewOf(&s.view, u.id)
	s.recovered(u, old)
	u.out = u.out || s.view.Fence != steadycast.Fence{} && u.view.Phase != steadycast.In && !u.view.Unheard
	s.obey(u, old)
}

// recount lets a unit that a floor refused ask again at once when the ledger
// counts otherwise for its prefix: time does not help against a floor, and others do.
func (s *Site) recount(v *View) {
	for i := range s.units {
		if u := &s.units[i]; u.guard == floorGuard && u.retryAt > s.now && !slices.Equal(counted(&s.view, u.id.Prefix), counted(v, u.id.Prefix)) {
			u.retryAt = s.now
		}
	}
}

// counted are the sites that a view counts for a prefix, and those of them that it
// holds to be well.
func counted(v *View, p netip.Prefix) []string {
	var sites []string
	for _, u := range v.Units {
		if u.Unit.Prefix == p && u.Phase == steadycast.In && !u.Lost && !u.Unheard {
			sites = append(sites, u.Unit.Site)
		}
	}
	for _, x := range v.Verdicts {
		if sv, ok := v.Table.Service(x.Service); ok && x.State == steadycast.Healthy && slices.Contains(sv.Prefixes, p) {
			sites = append(sites, x.Site+" "+x.Service)
		}
	}
	return sites
}

// viewOf is what a view says of one unit; nothing if it does not know it.
func viewOf(v *View, id steadycast.Unit) UnitView {
	i, ok := slices.BinarySearchFunc(v.Units, id, func(u UnitView, id steadycast.Unit) int { return u.Unit.Compare(id) })
	if !ok {
		return UnitView{Unit: id}
	}
	return v.Units[i]
}

// overrule puts what a person ordered at this node above what the view says, or
// takes it away. Of the rest the unit may know more than the view: what a permit
// changed reaches the site with the answer, and in the view only later.
func (s *Site) overrule(u *unit) {
	old := u.view
	u.view.Unit, u.view.Order = u.id, viewOf(&s.view, u.id).Order
	s.obey(u, old)
}

// obey puts a local order over what is known of a unit, and draws from that what
// differs from before.
func (s *Site) obey(u *unit, old UnitView) {
	v := &u.view
	if s.local != nil && s.local.Covers(u.id.Prefix) {
		v.Order = s.local.Kind
	}
	if u.announced && v.Order == steadycast.OrderNone && v.Phase == steadycast.In &&
		(old.Phase != v.Phase || old.Order != v.Order) {
		u.reason = "the ledger counts it in"
	}
	if v.Phase == steadycast.Out && s.anothers(v.Permit) && (old.Unheard != v.Unheard || old.Phase != v.Phase || old.Permit.ID != v.Permit.ID) {
		u.anotherAt = s.now
	}
	if old.Order != v.Order || old.Locked != v.Locked || old.OnHold != v.OnHold ||
		old.Frozen != v.Frozen || old.Breaker != v.Breaker || old.Recalled != v.Recalled ||
		old.Approved != v.Approved || old.Decision != v.Decision {
		u.retryAt, u.guard = 0, "" // what refused may no longer
	}
	if !u.ever && v.Depreferred && v.Phase == steadycast.In && u.depref == "" && !s.wantIn(u) {
		u.depref = "depreferred, not withdrawn: refused by " + cmp.Or(v.Guard, "the ledger") // before this agent started
	}
}

// tellAgain repeats a verdict that the ledger does not have, for a report can be lost.
// That nothing is known is told only of a path of which something was known before
// this agent started: the ledger would change paths by it, and need not wait for more.
func (s *Site) tellAgain(now Now, sv *service) {
	if sv.loud || sv.reported != 0 && now-sv.reported < resendEvery {
		return
	}
	was, _ := stateOf(s.view.Verdicts, s.name, sv.conf.Name)
	if was == sv.state || sv.state == steadycast.StateUnknown && sv.conf.Path == "" {
		return
	}
	sv.loud = true
}

// loseLedger and freezeAlone: without the ledger for a while, automation here is
// frozen. Routes stay, probing goes on, orders already known still hold.
func (s *Site) loseLedger(now Now, in LedgerLost) {
	if s.ledgerAt = s.fence; in.At.Compare(s.fence) > 0 {
		s.ledgerAt = in.At
	}
	if s.ledgerGone != "" {
		return
	}
	s.ledgerGone, s.ledgerSince = cmp.Or(in.Reason, "no reason given"), now-max(in.For, 0)
	s.note(steadycast.Event{Kind: steadycast.EventAlarm, Reason: "the ledger cannot be reached: " + s.ledgerGone})
}

func (s *Site) findLedger() {
	if s.ledgerGone == "" {
		return
	}
	s.note(steadycast.Event{Kind: steadycast.EventRecovery, Reason: "the ledger is within reach again"})
	if s.frozen {
		s.note(steadycast.Event{Kind: steadycast.EventFreeze, From: "frozen", To: "free", Reason: "the ledger is within reach again"})
	}
	s.ledgerGone, s.frozen = "", false
}

func (s *Site) freezeAlone(now Now, wake *deadline) {
	if s.ledgerGone == "" || s.frozen {
		return
	}
	if at := s.ledgerSince + freezeAfter; now < at {
		wake.by(at)
		return
	}
	s.frozen = true
	s.note(steadycast.Event{
		Kind: steadycast.EventFreeze, From: "free", To: "frozen",
		Reason: fmt.Sprintf("no ledger for %s (%s): nothing is withdrawn or returned here until it is back", seconds(freezeAfter), s.ledgerGone),
	})
}

// doubtProber raises an alarm where the site's own check fails and a quorum of
// others sees the service pass: then the check is the suspect.
func (s *Site) doubtProber() {
	for i := range s.services {
		sv := &s.services[i]
		key := alarmKey{kind: "local", name: sv.conf.Name}
		if sv.doubtful() {
			s.alarm(key, steadycast.Event{
				Service: sv.conf.Name,
				Reason: fmt.Sprintf("the site's own check fails (%s) while %d of %d voices see it pass: look at the check; nothing changes",
					sv.jury.self().last.Result.Reason, sv.tally.passing, sv.tally.voices),
			})
		} else {
			s.recover(key, steadycast.Event{Service: sv.conf.Name, Reason: "the site's own check and the others agree again"})
		}
	}
}

// doubtful: the site's own check fails as often as would make a verdict, and a
// quorum sees it pass.
func (sv *service) doubtful() bool {
	own := sv.jury.self()
	return own.fresh && own.raw.bad >= sv.conf.Health.Fall && sv.tally.good > 0
}

func (sv *service) gist(now Now) gist {
	g := gist{
		held: sv.held, failing: sv.tally.bad > 0, passing: sv.tally.good > 0,
		passed: sv.passed(), steady: sv.steady(),
		localCertain: sv.certain(), doubtful: sv.doubtful(),
	}
	if len(sv.jury.home.nodes) > 0 {
		g.dead, g.fit, g.fails = sv.dead(now), sv.fit(now), sv.fails()
	}
	return g
}
