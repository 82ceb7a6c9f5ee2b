package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// asked is the one request in flight. The next waits until it is answered or
// its time is over.
type asked struct {
	req   steadycast.Request
	first Now // of its first sending, from which permit_ttl counts
	next  Now // when it is sent again
}

// blocked says why a unit may not ask for an action now; until is when that
// ends by itself, or forever. An empty text means that it may.
func (s *Site) blocked(u *unit, a steadycast.Action) (text string, until Now) {
	v := &u.view
	switch {
	case s.ahead > 0:
		return fmt.Sprintf("the ledger knows requests of this node's start %d that this one did not make", s.ahead), forever
	case !s.committed:
		return "nothing is known of the ledger yet", forever
	case !s.proved:
		return "nothing is known of the speaker yet", forever
	case v.Order != steadycast.OrderNone:
		return "order " + v.Order.String() + " stands", forever
	case v.Frozen != "":
		return "frozen: " + v.Frozen, forever
	case v.Unheard:
		return unheardText, forever
	case s.frozen:
		return "frozen here: no ledger (" + s.ledgerGone + ")", forever
	case s.ledgerGone != "":
		return "no ledger: " + s.ledgerGone, forever
	case a == steadycast.Withdraw && v.Phase == steadycast.Out:
		return "phase out in the ledger, which is being told that it is announced", forever
	case a == steadycast.Return && v.Phase == steadycast.In:
		return "phase in: it resumes without a permit", forever
	case a == steadycast.Return && v.Locked:
		return "locked until a person unlocks it", forever
	case a == steadycast.Return && v.OnHold:
		return "on hold until a person resumes it", forever
	}
	switch mode := s.mode(u); {
	case mode == ModeObserve && !(a == steadycast.Return && v.Recalled):
		return "mode " + mode, forever
	case u.retryOf == a && u.retryAt > s.now:
		return cmp.Or(u.refused, "asked a moment ago"), u.retryAt
	}
	return "", 0
}

// mode is the strictest of the unit's services.
func (s *Site) mode(u *unit) string {
	return s.strictest(u, func(c *Service) string { return c.Mode })
}

func (s *Site) strictest(u *unit, of func(*Service) string) string {
	mode := ModeAuto
	for _, i := range u.services {
		switch m := of(&s.services[i].conf); {
		case m == ModeObserve:
			return m
		case m == ModeApprove:
			mode = m
		}
	}
	return mode
}

// wants is the action that the evidence calls for, if any.
func (s *Site) wants(u *unit) steadycast.Action {
	switch {
	case u.announced && s.wantOut(u):
		return steadycast.Withdraw
	case (!u.announced || u.resort) && u.view.Phase != steadycast.In && s.wantIn(u) && s.fits(u):
		return steadycast.Return
	default:
		return steadycast.NoAction
	}
}

// ask sends the request in flight again when it is due, or makes the next one.
// Withdrawals come before returns; the units that leave or return for the same
// services go in one request.
func (s *Site) ask(now Now, wake *deadline) {
	if s.asked != nil && s.moot() {
		s.kill(s.asked.req)
		s.conclude(now, askAgain)
	}
	if a := s.asked; a != nil {
		if now >= a.next {
			a.next = now + resendEvery
			s.out = append(s.out, Ask{Request: a.req})
		}
		wake.by(min(a.next, a.first+s.table.Guards.PermitTTL+1))
		return
	}
	var first *unit
	var prefixes []netip.Prefix
	action := steadycast.NoAction
	for i := range s.units {
		u := &s.units[i]
		a := s.wants(u)
		if a == steadycast.NoAction {
			u.told = a
			s.letGo(u)
			continue
		}
		why, until := s.blocked(u, a)
		if why != "" {
			s.wouldAsk(u, a)
			wake.by(until)
			continue
		}
		switch {
		case first == nil || action == steadycast.Return && a == steadycast.Withdraw:
			first, action, prefixes = u, a, []netip.Prefix{u.id.Prefix}
		case a == action && slices.Equal(u.services, first.services) && u.policy.Needs == first.policy.Needs:
			prefixes = append(prefixes, u.id.Prefix)
		}
	}
	if first != nil {
		s.request(now, first, action, prefixes)
		wake.by(s.asked.next)
	}
}

// letGo ends a refusal to leave once the unit is well: it answered that failure, and
// the next one is asked about at once, whenever the guard would have been asked again.
func (s *Site) letGo(u *unit) {
	if u.retryOf == steadycast.Withdraw && s.wantIn(u) {
		u.retryAt, u.guard, u.refused = 0, "", ""
	}
}

// moot: nothing that the request in flight asks for is called for any more.
func (s *Site) moot() bool {
	for _, p := range s.asked.req.Prefixes {
		i, ok := findUnit(s.units, p)
		if !ok {
			continue
		}
		u := &s.units[i]
		if s.asked.req.Action == steadycast.Return && (!u.announced || u.resort) && s.wantIn(u) ||
			s.asked.req.Action == steadycast.Withdraw && u.announced &&
				!s.well(u, func(sv *service) bool { return sv.state != steadycast.Unhealthy }) {
			return false
		}
	}
	return true
}

// request makes a request for what first and its likes need, and sends it.
func (s *Site) request(now Now, first *unit, a steadycast.Action, prefixes []netip.Prefix) {
	s.seq++
	req := steadycast.Request{
		ID:   steadycast.RequestID{Node: s.me, Incarnation: s.o.Incarnation, Seq: s.seq},
		Site: s.name, Prefixes: prefixes, Action: a,
	}
	for _, i := range first.services {
		sv := &s.services[i]
		if a == steadycast.Withdraw && !sv.failed() || a == steadycast.Return && !sv.passed() {
			continue
		}
		if req.Service == "" {
			req.Service, req.Reason = sv.conf.Name, sv.reason
		}
		if a == steadycast.Withdraw {
			req.Class = max(req.Class, sv.class)
		}
		req.Evidence = append(req.Evidence, sv.jury.evidence()...)
	}
	req.Conditions = s.conditions(first, a)
	s.asked = &asked{req: req, first: now, next: now + resendEvery}
	// A request that was refused is made again and again; people hear of it once.
	if first.told != a {
		s.note(steadycast.Event{
			Kind: steadycast.EventRequest, Service: req.Service, Prefix: prefixes[0],
			Request: req.ID, To: a.String(), Reason: several(prefixes) + req.Reason,
		})
	}
	for _, p := range prefixes {
		if i, ok := findUnit(s.units, p); ok {
			s.units[i].told = a
		}
	}
	s.out = append(s.out, Ask{Request: req})
}

// several says how many more prefixes there are than the one that is named.
func several(ps []netip.Prefix) string {
	if len(ps) < 2 {
		return ""
	}
	return fmt.Sprintf("and %d more: ", len(ps)-1)
}

// wouldAsk says once what mode observe kept from being asked.
func (s *Site) wouldAsk(u *unit, a steadycast.Action) {
	mode := s.mode(u)
	if u.told == a || mode != ModeObserve || u.view.Order != steadycast.OrderNone || u.view.Frozen != "" ||
		(a == steadycast.Withdraw) == (u.view.Phase == steadycast.Out) {
		return
	}
	u.told = a
	why := "its services are healthy"
	if a == steadycast.Withdraw {
		why = s.cause(u)
	}
	text := fmt.Sprintf("would ask to %s: %s; mode %s changes nothing", a, why, mode)
	s.note(steadycast.Event{Kind: steadycast.EventRequest, Prefix: u.id.Prefix, To: a.String(), Guard: "mode", Reason: text})
}

// answer takes the ledger's word on the request in flight. An answer to any
// other is late: what it granted can only be given up, which the next view shows.
func (s *Site) answer(now Now, a Answer) {
	s.overdue(now)
	if s.asked == nil || a.ID != s.asked.req.ID || a.Site != s.name {
		return
	}
	s.overtake(a.Newest)
	known, spent := s.fence, a.Stale
	for _, r := range a.Rulings {
		if !r.Unit.Prefix.IsValid() { // the request as a whole was refused
			for _, p := range s.asked.req.Prefixes {
				if i, ok := findUnit(s.units, p); ok {
					s.refuse(now, &s.units[i], r)
				}
			}
			continue
		}
		i, ok := findUnit(s.units, r.Unit.Prefix)
		if !ok || r.Unit.Site != s.name || !sortedContains(s.asked.req.Prefixes, r.Unit.Prefix) {
			continue
		}
		u := &s.units[i]
		if r.Permit == nil || r.Permit.ID != a.ID {
			s.refuse(now, u, r)
		} else if !s.granted(now, u, *r.Permit, r, known) {
			spent = true
		}
	}
	if spent {
		s.kill(s.asked.req)
	}
	s.conclude(now, askAgain)
}

// granted takes a permit: the ledger has changed its books, and says so here
// perhaps before a view does. It reports whether the permit may yet be used, or was.
func (s *Site) granted(now Now, u *unit, p steadycast.Permit, r Ruling, known steadycast.Fence) bool {
	g, _ := r.Refusal()
	if u.executed != p.ID {
		s.permitted(u, p, g.Guard)
	}
	if p.Action == steadycast.Deprefer {
		u.view.Depreferred, u.view.Guard = true, g.Guard
		s.deprefer(now, u, p, g)
		return true
	}
	if p.Fence.Compare(known) > 0 {
		s.raise(p.Fence)
		u.view.Permit = p
		if p.Action == steadycast.Return {
			u.view.Phase, u.view.Return = steadycast.Returning, p.ID
			// Until a view says whether it begins as backup, it does.
			u.view.Backup = s.table.Ramp != nil && u.view.Ever
		} else {
			u.view.Phase = steadycast.Out
		}
	}
	switch {
	case u.view.Permit.ID != p.ID:
		return true // a later decision is known already
	case p.Action == steadycast.Withdraw:
		return s.carryOut(now, u, p)
	case u.view.Phase == steadycast.Returning && s.mayAct(u) && s.wantIn(u) && s.fits(u):
		u.permit, u.guard = p.Fence, ""
		s.putIn(u, "returned by permit "+p.ID.String()+": "+s.asked.req.Reason)
	}
	return true
}

// permitted says that the ledger gave leave.
func (s *Site) permitted(u *unit, p steadycast.Permit, guard string) {
	s.note(steadycast.Event{
		Kind: steadycast.EventPermit, Prefix: u.id.Prefix, Request: p.ID, To: p.Action.String(),
		Guard: guard, Reason: s.asked.req.Reason,
	})
}

// mayAct: nothing that came after the request forbids acting on its permit.
func (s *Site) mayAct(u *unit) bool {
	return u.view.Order == steadycast.OrderNone && u.view.Frozen == "" && !s.frozen
}

// carryOut withdraws on a permit (rule P2): only within permit_ttl of the first
// sending, and only while the verdict still holds. If not, it reports false: the
// request must be declared dead.
func (s *Site) carryOut(now Now, u *unit, p steadycast.Permit) bool {
	switch {
	case u.executed == p.ID:
		return true
	case p.ID.Compare(s.dead) <= 0, now-s.asked.first > s.table.Guards.PermitTTL, !s.mayAct(u), !s.wantOut(u):
		u.reason = "kept: permit " + p.ID.String() + " came when it was no longer called for"
		return false
	}
	u.executed, u.permit, u.guard = p.ID, p.Fence, ""
	s.takeOut(u, "withdrawn by permit "+p.ID.String()+": "+s.asked.req.Reason)
	return true
}

// deprefer keeps the route, less attractive, where only floor or budget refused.
func (s *Site) deprefer(now Now, u *unit, p steadycast.Permit, g steadycast.GuardAnswer) {
	u.retryAt, u.retryOf = now+retryIn(g), s.asked.req.Action
	u.guard, u.refused = g.Guard, g.String()
	if !u.announced || !s.mayAct(u) || s.wantIn(u) {
		return
	}
	first := u.depref == ""
	u.permit = p.Fence
	u.depref = "depreferred, not withdrawn: " + g.String()
	u.reason = u.depref
	if first {
		s.route(u, "announced", "depreferred")
	}
}

// retryIn is when to ask again: when the guard says, or after askAgain if it
// does not know.
func retryIn(g steadycast.GuardAnswer) time.Duration {
	if g.RetryAfter > 0 {
		return max(resendEvery, g.RetryAfter)
	}
	return askAgain
}

// refuse notes a refusal, once for each guard in a row.
func (s *Site) refuse(now Now, u *unit, r Ruling) {
	g, ok := r.Refusal()
	if !ok {
		g = steadycast.GuardAnswer{Guard: "ledger", Text: "gave neither a permit nor a reason"}
	}
	again := u.guard == g.Guard
	u.retryAt, u.retryOf = now+retryIn(g), s.asked.req.Action
	u.guard, u.refused = g.Guard, g.String()
	if again {
		return
	}
	s.note(steadycast.Event{
		Kind: steadycast.EventRefused, Prefix: u.id.Prefix, Request: s.asked.req.ID,
		To: s.asked.req.Action.String(), Guard: g.Guard, Reason: g.Text,
	})
}

// conclude ends the request in flight. Whatever it asked for and did not get
// waits before it is asked for again.
func (s *Site) conclude(now, wait Now) {
	req := s.asked.req
	s.asked = nil
	for _, p := range req.Prefixes {
		i, ok := findUnit(s.units, p)
		if !ok {
			continue
		}
		u := &s.units[i]
		if u.retryOf != req.Action || u.retryAt <= now { // no guard said when
			u.retryAt, u.retryOf = now+wait, req.Action
		}
		for _, j := range u.services {
			s.services[j].answered = s.services[j].answered || req.Action == steadycast.Withdraw
		}
	}
}

// overdue ends a request whose right to act is over, or that has nothing left to do.
func (s *Site) overdue(now Now) {
	switch a := s.asked; {
	case a == nil:
	case s.spent:
		s.kill(a.req)
		s.conclude(now, askAgain)
	case now-a.first > s.table.Guards.PermitTTL:
		s.kill(a.req)
		s.conclude(now, resendEvery) // nobody said no
	}
	s.spent = false
}

// kill declares every request up to this one dead: from now on its permit is
// never carried out, whenever it comes.
func (s *Site) kill(req steadycast.Request) {
	s.bury(req.ID)
	if req.Action == steadycast.Withdraw {
		s.doubt = req.Prefixes
	}
}

func (s *Site) bury(id steadycast.RequestID) {
	if id.Compare(s.dead) > 0 {
		s.dead = id
	}
}

// giveUp tells the ledger which requests are dead and that their routes are
// still announced (rule P3): once when a request dies, for it may have been
// granted, and again while the ledger counts a unit Out for a dead one. Only
// what a peer was sent is claimed.
func (s *Site) giveUp(now Now, wake *deadline) {
	owed := false
	var units []steadycast.Unit
	for i := range s.units {
		u := &s.units[i]
		undone := u.undone() && u.view.Permit.ID.Through(s.dead)
		owed = owed || undone && u.onWire
		if u.announced && u.onWire && (undone || sortedContains(s.doubt, u.id.Prefix)) {
			units = append(units, u.id)
		}
	}
	switch {
	case len(units) == 0:
	case len(s.doubt) > 0 || now >= s.giveAt:
		s.giveAt = now + resendEvery
		s.out = append(s.out, GiveUp{ID: s.dead, Units: units})
	}
	s.doubt = nil
	if owed {
		wake.by(s.giveAt)
	}
}
