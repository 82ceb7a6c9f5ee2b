package decide

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// unit is one prefix at this site. What the ledger says of it is in view; the
// other fields are what this agent has done about it.
type unit struct {
	id       steadycast.Unit
	policy   Prefix
	services []int // of this site that have the prefix

	view UnitView

	announced bool                 // it is in the wanted set
	ever      bool                 // it was, in this agent's life
	reason    string               // why it is, or is not
	permit    steadycast.Fence     // of the decision behind that
	executed  steadycast.RequestID // the newest withdrawal carried out

	depref     string // the permit's reason for depreferring it; empty without one
	resort     bool   // announced as a last resort, although the ledger counts it out
	left       bool   // it is out, and should be, by what was known before the ledger was recovered
	alone      bool   // depreferred by the site itself, for want of a ledger
	lags       bool   // depreferred by the site itself, because the node acts on an old table
	backup     bool   // depreferred, as the ledger says, while its return is proven
	emptying   bool   // a drain has begun, and
	namesUntil Now    // until then caches may lead clients here
	draining   bool   // carries GSHUT until leaveAt
	leaveAt    Now

	kin       *Siblings // this node's part in what the site's nodes promise; nil where it has no siblings
	aside     string    // it left alone: why; empty while it has not
	anotherAt Now       // since when the ledger counts it Out by another node's permit

	mine steadycast.Order // over this node alone; of kind none where there is none
	// forgot is one that took this node out and that the ledger, recovered from an older
	// copy, does not know.
	forgot steadycast.Order
	goes   bool // by that it is to leave now, as its siblings let it

	warm Now  // depreferred until then, after a cold resume
	out  bool // the ledger has counted it as not in since this agent started

	retryAt Now // no new request for retryOf before
	retryOf steadycast.Action
	guard   string            // that refused last, so that it is told once
	refused string            // its answer
	told    steadycast.Action // what people heard that it asks for, or would ask for but for its mode

	onWire   bool   // an established peer was sent it
	acked    bool   // and has acknowledged it
	proven   bool   // every peer that is up agrees
	unproven string // why not
	// contradicted: a view from outside does not show what was sent.
	contradicted bool
}

// failed: Unhealthy, and a quorum still sees it fail.
func (sv *service) failed() bool {
	return sv.state == steadycast.Unhealthy && !sv.held && sv.tally.bad > 0
}

// resumes: enough local rounds in a row have passed, and nothing speaks against it.
func (sv *service) resumes() bool {
	return sv.steady() &&
		(sv.state == steadycast.Healthy || sv.state == steadycast.StateUnknown)
}

// up: the site's own newest check passes.
func (sv *service) up() bool {
	own := sv.jury.here()
	return own.speaks() && own.last.Result.Outcome == steadycast.Up
}

// passed: Healthy, and a quorum sees it pass now.
func (sv *service) passed() bool {
	return sv.state == steadycast.Healthy && !sv.held && sv.tally.passing >= sv.tally.quorum
}

// steady: enough local rounds in a row have passed to trust the check again.
func (sv *service) steady() bool {
	own := sv.jury.here()
	return own.fresh && own.raw.good >= sv.conf.Health.ResumeRounds
}

// certain: the site's own check has failed for certain, often enough to
// deprefer without asking anybody, and no quorum sees the service pass.
func (sv *service) certain() bool {
	own := sv.jury.self()
	return own.fresh && own.raw.hard >= max(certainAlone, sv.conf.Health.FallCertain) && sv.tally.good == 0
}

// well combines one question over the services that share a prefix: all of them
// must be well, or one is enough (needs: any).
func (s *Site) well(u *unit, is func(*service) bool) bool {
	any := u.policy.Needs == NeedsAny
	for _, i := range u.services {
		if is(&s.services[i]) == any {
			return any
		}
	}
	return !any
}

// wantOut: the evidence says now that the prefix must leave.
func (s *Site) wantOut(u *unit) bool {
	return !s.well(u, func(sv *service) bool { return !sv.failed() })
}

// wantIn: the evidence says now that the prefix may be announced.
func (s *Site) wantIn(u *unit) bool {
	return s.well(u, (*service).passed)
}

// anyIn reports whether the ledger counts a unit of sv as In.
func (s *Site) anyIn(sv *service) bool {
	for i := range s.units {
		u := &s.units[i]
		if u.view.Phase != steadycast.In {
			continue
		}
		for _, j := range u.services {
			if &s.services[j] == sv {
				return true
			}
		}
	}
	return false
}

// place decides whether a unit is announced, and how. Orders come before
// everything; then the phase rules: what is announced stays so until a permit
// was carried out, and what is not begins only where the phase allows it.
func (s *Site) place(now Now, u *unit) {
	v := &u.view
	u.goes = false
	sentOut := u.sentOut() && !outBy(v.Order) && (v.Phase != steadycast.Out || v.Unheard)
	if !sentOut && !v.Unheard && (v.Order == steadycast.OrderAnnounce || v.Order == steadycast.OrderNone && v.Phase != steadycast.Out) {
		u.draining, u.emptying = false, false
	}
	if u.depref != "" && s.wantIn(u) {
		u.depref, u.reason = "", "its services are healthy again"
		s.route(u, "depreferred", "announced")
	}
	switch {
	case v.Unheard && v.Order == steadycast.OrderNone && !sentOut:
		s.stayAsIs(now, u)
	case v.Order == steadycast.OrderWithdraw:
		s.takeOut(u, s.orderText(u, "withdrawn"))
	case v.Order == steadycast.OrderDrain, v.Order == steadycast.OrderNone && u.emptying && u.announced && !sentOut:
		s.drain(now, u)
	case sentOut:
		s.goOut(now, u)
	case v.Phase == steadycast.Out && u.mine.Kind == steadycast.OrderDrain && u.announced && !u.undone():
		s.drain(now, u) // the last of its site's nodes
	case v.Phase != steadycast.Out && u.kin != nil && u.mine.Kind == steadycast.OrderAnnounce:
		u.aside = ""
		s.putIn(u, mineText(u, "announced"))
	case v.Order == steadycast.OrderAnnounce:
		u.aside = ""
		s.putIn(u, s.orderText(u, "announced"))
	case v.Phase == steadycast.Out && u.announced:
		s.countedOut(now, u)
	case v.Phase == steadycast.In && u.aside != "":
		s.takeOut(u, u.aside)
	case v.Phase == steadycast.In && !u.announced && s.sentOutBefore(u):
	case v.Phase == steadycast.In && !u.announced:
		s.resume(now, u)
	}
	s.resort(now, u)
	s.isolate(u)
	s.lag(u)
	s.back(u)
}

// takeOut and putIn change what is wanted, once, and say so.
func (s *Site) takeOut(u *unit, why string) {
	u.reason = why
	if !u.announced {
		return
	}
	u.announced, u.draining, u.emptying, u.depref, u.alone, u.lags, u.warm = false, false, false, "", false, false, 0
	s.route(u, "announced", "withdrawn")
}

func (s *Site) putIn(u *unit, why string) {
	u.reason = why
	if u.announced {
		return
	}
	u.announced, u.ever = true, true
	s.route(u, "withdrawn", "announced")
}

func (s *Site) route(u *unit, from, to string) {
	s.note(steadycast.Event{
		Kind: steadycast.EventRoute, Prefix: u.id.Prefix, From: from, To: to,
		Request: u.view.Permit.ID, Reason: u.reason,
	})
}

// countedOut: the ledger counts the unit Out although it is announced. Either
// its permit is still to be carried out, or it is dead and the ledger must be
// told so (rule P3). What a person's order put Out that has ended leaves as in a
// drain, which outlives its order and the agent that began it; anything else is
// simply obeyed.
func (s *Site) countedOut(now Now, u *unit) {
	switch p := u.view.Permit; {
	case u.resort:
		// see resort
	case s.anothers(p):
		s.followOut(now, u)
	case s.orderEnded(u):
		s.drain(now, u)
	case !u.undone():
		s.takeOut(u, "the ledger counts it as out")
	case s.asked != nil && s.asked.req.ID == p.ID:
		s.permitted(u, p, "") // the view came before the answer
		s.spent = !s.carryOut(now, u, p) || s.spent
	default:
		u.reason = "kept: " + p.ID.String() + " allowed to withdraw it and was not carried out; the ledger is told"
		s.bury(p.ID)
	}
}

// orderEnded: a person's order put it Out, for no site asked, and stands no more. That
// needs no proof, so what fails meanwhile leaves at once.
func (s *Site) orderEnded(u *unit) bool {
	p := u.view.Permit
	return p.Action == steadycast.Withdraw && p.ID == steadycast.RequestID{} &&
		!slices.ContainsFunc(s.view.NodeOrders, func(o StandingOrder) bool { return o.Fence == p.Fence && o.covers(u.id) })
}

// undone: the ledger granted a withdrawal that this site has not carried out, or
// one that it came back from since by a later permit. That the ledger forgets the
// later one is possible where it was recovered from an older copy; the site's word
// is then what sets it right, and no route leaves for it. What a person had ordered
// out in that copy is not the site's to give back.
func (u *unit) undone() bool {
	p := u.view.Permit
	return u.announced && !u.resort && !u.view.Unheard && u.view.Phase == steadycast.Out && p.Action == steadycast.Withdraw &&
		(p.ID.Compare(u.executed) > 0 || p.ID.Incarnation > 0 && p.Fence.Compare(u.permit) < 0)
}

// resume announces again what the ledger counts as In, without a permit, after
// a few passing local rounds. After a long absence it waits its jitter, and is
// depreferred at first, so that a fleet powered up together does not stampede.
func (s *Site) resume(now Now, u *unit) {
	cold := s.cold(u)
	switch {
	case !s.well(u, (*service).resumes):
		u.reason = "counted in, resumes after passing local rounds"
	case cold && now < s.o.Jitter:
		u.reason = "counted in, resumes after this start's jitter of " + seconds(s.o.Jitter)
	case cold && s.several() && now < helloFor:
		u.reason = "counted in, resumes when its siblings have been heard, or are silent"
	default:
		why := "resumed: the ledger counts it in and the local rounds pass"
		if cold {
			u.warm = now + warmFor
			why += "; depreferred for its first minute, since it was off for long, or nobody knows how long"
		}
		s.putIn(u, why)
	}
}

// cold: this is the unit's first announcement since a long or unknown absence, and
// not beside a sibling that is announced as ever: the site's clients are there already.
// Nor after a return that this node has heard of, for that had the guards' leave.
func (s *Site) cold(u *unit) bool {
	if u.out || u.kin != nil && u.kin.normal() {
		return false
	}
	if u.ever || s.o.Off < 0 {
		return !u.ever
	}
	for _, i := range u.services {
		if s.o.Off > s.services[i].conf.Health.WarmStart {
			return true
		}
	}
	return false
}

// isolate depreferences on a certain local failure while the ledger is out of
// reach: the one thing that needs no permit, because if every site did it the
// prefix would still be reachable. It ends when local rounds pass again.
func (s *Site) isolate(u *unit) {
	switch {
	case u.alone && (!u.announced || s.well(u, (*service).steady)):
		u.alone = false
		if u.announced {
			u.reason = "local rounds pass again"
			s.route(u, "depreferred", "announced")
		}
	case !u.alone && s.frozen && s.o.Isolated == IsolatedDeprefer && u.announced && !u.draining &&
		u.view.Order == steadycast.OrderNone && !s.well(u, func(sv *service) bool { return !sv.certain() }):
		u.alone = true
		u.reason = "depreferred: no ledger to ask, and " + s.localCause(u)
		s.route(u, "announced", "depreferred")
	}
}

// lag depreferences while the node cannot follow the fleet's table. It needs no
// permit, as in isolate: others know better what is wanted.
func (s *Site) lag(u *unit) {
	why := s.outdated
	if why == "" && s.stale.Reason != "" && slices.ContainsFunc(u.services, func(i int) bool { return s.services[i].conf.Name == s.stale.Service }) {
		why = s.stale.Reason
	}
	lags := why != "" && u.announced
	if lags == u.lags {
		return
	}
	u.lags = lags
	switch {
	case !u.announced || u.draining:
	case lags:
		u.reason = "depreferred: " + why
		s.route(u, "announced", "depreferred")
	default:
		u.reason = "the node acts on the fleet's newest state again"
		s.route(u, "depreferred", "announced")
	}
}

// stance is how attractive the unit's route is now.
func (u *unit) stance(now Now) steadycast.Stance {
	switch {
	case u.draining:
		return steadycast.Draining
	case u.view.Order == steadycast.OrderAnnounce, u.kin != nil && u.mine.Kind == steadycast.OrderAnnounce:
		return steadycast.Normal
	case u.depref != "" || u.alone || u.lags || u.view.Backup || now < u.warm:
		return steadycast.Depreferred
	default:
		return steadycast.Normal
	}
}

// cause is the reason of the services that take the unit out.
func (s *Site) cause(u *unit) string {
	for _, i := range u.services {
		if sv := &s.services[i]; sv.failed() {
			return sv.conf.Name + ": " + sv.reason
		}
	}
	return "no service fails"
}

func (s *Site) localCause(u *unit) string {
	for _, i := range u.services {
		if sv := &s.services[i]; sv.certain() {
			return fmt.Sprintf("%s: %s ×%d", sv.conf.Name, sv.jury.self().last.Result.Reason, sv.jury.self().raw.hard)
		}
	}
	return "a certain local failure"
}

// orderText says whose order it is, beside what it does.
func (s *Site) orderText(u *unit, done string) string {
	if o := s.local; o != nil && o.Covers(u.id.Prefix) {
		return fmt.Sprintf("%s by order of %s at this node, without the ledger: %s", done, o.Actor, o.Reason)
	}
	if u.view.Order == steadycast.OrderNone && u.mine.Kind != steadycast.OrderNone {
		return mineText(u, done)
	}
	for _, o := range s.view.Orders {
		if o.Order.Kind == u.view.Order && o.Order.Site == s.name && o.Order.Covers(u.id.Prefix) {
			return fmt.Sprintf("%s by order of %s: %s", done, o.Order.Actor, o.Order.Reason)
		}
	}
	return done + " by order"
}
