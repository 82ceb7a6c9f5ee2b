package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// maxBatch bounds the requests of one entry; a fleet of thousands of sites has one each.
const maxBatch = 4096

// decide answers a batch of requests, one after the other in canonical order,
// each seeing what the ones before it were granted.
func (a *applying) decide(d Decide) string {
	if len(d.Requests) > maxBatch {
		return fmt.Sprintf("%d requests in one entry; at most %d", len(d.Requests), maxBatch)
	}
	a.tighten()
	requests := a.canonical(d)
	// All who ask are in trouble, before the first is answered: otherwise the
	// breaker would let the first few of a common fault leave.
	for _, r := range requests {
		a.markAsking(r)
	}
	for i := range a.Prefixes {
		a.trip(&a.Prefixes[i])
	}
	for _, r := range requests {
		a.reply.Answers = append(a.reply.Answers, a.request(r))
	}
	return ""
}

// canonical orders requests so that neither arrival nor the proposer decides
// who is granted first: certain failures, then by how clear the evidence is,
// then the site with less load, then by name. One site's requests stay in the
// order it made them.
func (a *applying) canonical(d Decide) []steadycast.Request {
	if len(d.Requests) == 1 {
		return d.Requests
	}
	type keyed struct {
		r   steadycast.Request
		key [4]int64
		raw []byte
	}
	ks := make([]keyed, len(d.Requests))
	for i, r := range d.Requests {
		raw, err := json.Marshal(r)
		if err != nil {
			raw = nil // cannot be written, so it cannot have come from a log
		}
		load, _ := d.load(r.Site)
		ks[i] = keyed{r, [4]int64{int64(r.Action), -int64(r.Class), -int64(margin(a.ballots(r))), load.Load}, raw}
	}
	byKey := func(x, y keyed) int { return slices.Compare(x.key[:], y.key[:]) }
	slices.SortFunc(ks, func(x, y keyed) int {
		return cmp.Or(cmp.Compare(x.r.Site, y.r.Site), byKey(x, y))
	})
	for i := 1; i < len(ks); i++ { // a site stands where its most urgent request stands
		if ks[i].r.Site == ks[i-1].r.Site {
			ks[i].key = ks[i-1].key
		}
	}
	slices.SortFunc(ks, func(x, y keyed) int {
		return cmp.Or(byKey(x, y), cmp.Compare(x.r.Site, y.r.Site), x.r.ID.Compare(y.r.ID), bytes.Compare(x.raw, y.raw))
	})
	out := make([]steadycast.Request, len(ks))
	for i, k := range ks {
		out[i] = k.r
	}
	return out
}

// load finds a site's load.
func (d Decide) load(site string) (Load, bool) {
	for _, l := range d.Loads {
		if l.Site == site {
			return l, true
		}
	}
	return Load{}, false
}

// request answers one request, a ruling for each of its prefixes.
func (a *applying) request(r steadycast.Request) Answer {
	ans := Answer{ID: r.ID, Site: r.Site}
	if g := a.wellFormed(r); !g.Pass {
		ans.Rulings = []Ruling{{Unit: steadycast.Unit{Site: r.Site}, Guards: []steadycast.GuardAnswer{g}}}
		return ans
	}
	if i, ok := a.slot(r.Site, r.ID); ok {
		switch c := r.ID.Compare(a.Slots[i].ID); {
		case c == 0:
			return a.again(a.Slots[i].Answer)
		case c < 0:
			ans.Stale, ans.Newest = true, a.Slots[i].ID
			return ans
		}
	}
	prefixes := slices.Clone(r.Prefixes)
	slices.SortFunc(prefixes, comparePrefix)
	ballots := a.ballots(r)
	for _, p := range slices.Compact(prefixes) {
		q := asking{applying: a, r: r, u: a.unit(r.Site, p), action: r.Action, sight: a.sees(p), ballots: ballots}
		ruling := Ruling{Unit: q.u.Unit, Guards: q.all()}
		if q.lay(ruling.Guards) {
			ruling.Guards = q.all() // so that the answer names it
		}
		ruling.Permit = q.rule(&ruling)
		ans.Rulings = append(ans.Rulings, ruling)
	}
	a.answered(r.Site, r.ID, ans)
	return ans
}

// again repeats an answer, but not a permit that something newer has replaced
// meanwhile (an order, a void): the right to act on it is gone.
func (a *applying) again(ans Answer) Answer {
	rulings := ans.Rulings
	ans.Rulings = nil
	for _, r := range rulings {
		if r.Permit != nil {
			if u := a.unit(r.Unit.Site, r.Unit.Prefix); u == nil || u.Permit.Fence != r.Permit.Fence {
				continue
			}
		}
		ans.Rulings = append(ans.Rulings, r)
	}
	ans.Stale = len(ans.Rulings) == 0
	return ans
}

// rule turns the guards' answers into a permit, and charges it; nil is a refusal.
func (q *asking) rule(r *Ruling) *steadycast.Permit {
	u := q.u
	refusal, refused := r.Refusal()
	switch {
	case !refused:
	case q.mayDeprefer(r.Guards):
		if u.Depreferred { // it stands already: nothing changes, nothing is charged
			p := u.Permit
			p.ID = q.r.ID
			return &p
		}
		q.action = steadycast.Deprefer
	default:
		q.event(steadycast.Event{
			Kind: steadycast.EventRefused, Site: u.Unit.Site, Prefix: u.Unit.Prefix, Service: q.r.Service,
			Guard: refusal.Guard, Request: q.r.ID, From: q.action.String(), Reason: refusal.Text,
		})
		return nil
	}
	from := u.Phase
	u.Permit = steadycast.Permit{Unit: u.Unit, ID: q.r.ID, Action: q.action, Fence: q.Fence}
	switch q.action {
	case steadycast.Withdraw:
		q.charge()
		q.leave(u)
		u.Auto, u.Resumed, u.Pardon, u.Cool = true, false, noPardon, q.LT
	case steadycast.Deprefer:
		u.Depreferred, u.Guard = true, refusal.Guard
	case steadycast.Return:
		u.Depreferred, u.Guard = false, ""
		// What is in resumes without a permit. Were it moved to Returning it would
		// not be counted, and could then leave without meeting the floor.
		if u.Phase == steadycast.In {
			break
		}
		// A unit's first announcement is no change of anything, and a person's
		// word is not automation's: neither starts a cooldown.
		if u.Phase == steadycast.Out && u.Ever && u.Pardon == noPardon {
			u.Cool = q.LT
		}
		q.beginRamps()
		u.move(q.state, steadycast.Returning)
		u.Return, u.Resumed, u.Pardon = q.r.ID, false, noPardon
	}
	reason := q.r.Reason
	if refused {
		reason = refusal.String()
	}
	q.event(steadycast.Event{
		Kind: steadycast.EventPermit, Site: u.Unit.Site, Prefix: u.Unit.Prefix, Service: q.r.Service, Guard: u.Guard,
		Request: q.r.ID, From: from.String(), To: u.Permit.Action.String(), Reason: reason,
	})
	p := u.Permit
	return &p
}

// restoring: the unit never left; at most it was depreferred, and is itself again.
func (q *asking) restoring() bool {
	return q.action == steadycast.Return && q.u.Phase == steadycast.In
}

// charge books an automatic withdrawal: once per unit, once per request for the
// fleet, and the cycle that it ends.
func (q *asking) charge() {
	g, u := q.Table.Guards, q.u
	c := charge{LT: q.LT, Site: u.Unit.Site, ID: q.r.ID}
	longest := max(g.SiteWindow, g.SiteLongWindow)
	u.Charges = grow(keep(u.Charges, func(x charge) bool { return q.within(x.LT, longest) }), c)
	q.Charges = keep(q.Charges, func(x charge) bool { return q.within(x.LT, g.FleetWindow) })
	if !q.charged() {
		q.Charges = grow(q.Charges, c)
	}
	u.Cycles = keep(u.Cycles, func(t Time) bool { return q.within(t, g.LockWindow) })
	if u.Back {
		u.Back = false
		u.Cycles = grow(u.Cycles, q.LT)
		if len(u.Cycles) >= g.LockCycles {
			u.Locked = true
			q.event(steadycast.Event{
				Kind: steadycast.EventAlarm, Site: u.Unit.Site, Prefix: u.Unit.Prefix, Guard: lockGuard, To: "locked",
				Reason: fmt.Sprintf("left and came back %d times in %s; a person unlocks it", len(u.Cycles), g.LockWindow),
			})
		}
	}
}

// charged reports whether this request was booked for the fleet already.
func (q *asking) charged() bool {
	return slices.ContainsFunc(q.state.Charges, func(c charge) bool { return c.Site == q.r.Site && c.ID == q.r.ID })
}

// cycles counts those within the lock's window.
func (s *state) cycles(u *unitState) int {
	n := 0
	for _, t := range u.Cycles {
		if s.within(t, s.Table.Guards.LockWindow) {
			n++
		}
	}
	return n
}
