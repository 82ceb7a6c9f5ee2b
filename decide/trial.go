package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// A table may come into force on trial (`apply --confirm-within`): unless an admin
// confirms it in time, the ledger puts the one before back by itself. So a table
// that takes away its author's own way in, or whose harm shows late, ends without
// him. The time is ledger time: it neither ends early nor begins anew where the
// leader changes, and stands still while there is no ledger.

// trialMost bounds how long a table may be on trial.
const trialMost = 24 * time.Hour

// Trial is the table in force while nobody has confirmed it.
type Trial struct {
	Revision uint64 `json:"revision"`
	// Before is the revision that comes back: the newest one that was not itself on trial.
	Before uint64 `json:"before"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	Since  Time   `json:"since"`
	Until  Time   `json:"until"`
	// Held is the guard that keeps it from coming back, once it is time.
	Held *steadycast.GuardAnswer `json:"held,omitempty"`
	// Back is all that comes back; nil in a [View].
	Back *Comeback `json:"back,omitempty"`
	// LeftMS is what is left of it at View.LT.
	LeftMS int64 `json:"left_ms,omitempty"`
}

// Comeback is the table before a trial, and what the ledger forgot with the units
// that the table on trial has not. A unit that is in no table cannot be ordered or
// asked for, so nothing of this grows old meanwhile but by the clock.
type Comeback struct {
	Table   Table            `json:"table"`
	Units   []unitState      `json:"units,omitempty"` // in order of Unit.Compare
	Orders  []StandingOrder  `json:"orders,omitempty"`
	Freezes []StandingFreeze `json:"freezes,omitempty"`
	// Diverts are those to paths that the table on trial has not, in order of site.
	Diverts []Divert `json:"diverts,omitempty"`
}

// beginTrial notes that the table in force is on trial, and what was before.
func (a *applying) beginTrial(was *state, within time.Duration) {
	t := Trial{
		Revision: a.Table.Revision, Before: was.Table.Revision, Actor: a.e.Actor, Reason: a.e.Reason,
		Since: a.LT, Until: a.LT + max(lt(within), 1),
	}
	back := Comeback{Table: was.Table}
	if earlier := was.Trial; earlier != nil {
		t.Before, back = earlier.Before, *earlier.Back
	}
	has := func(u steadycast.Unit) bool { return slices.Contains(back.Table.PrefixesAt(u.Site), u.Prefix) }
	back.Units = slices.Clone(back.Units)
	for _, u := range was.Units {
		if a.unit(u.Unit.Site, u.Unit.Prefix) != nil || !has(u.Unit) {
			continue
		}
		i, again := slices.BinarySearchFunc(back.Units, u, func(x, w unitState) int { return x.Unit.Compare(w.Unit) })
		if again {
			back.Units[i] = u
		} else {
			back.Units = slices.Insert(back.Units, i, u)
		}
	}
	stands := slices.Concat(a.Orders, a.NodeOrders)
	for _, o := range slices.Concat(was.Orders, was.NodeOrders) {
		if !slices.ContainsFunc(stands, func(x StandingOrder) bool { return x.Fence == o.Fence }) {
			back.Orders = grow(back.Orders, o)
		}
	}
	for _, f := range was.Freezes {
		if !f.Breaker && !slices.Contains(a.Freezes, f) {
			back.Freezes = grow(back.Freezes, f)
		}
	}
	for _, d := range was.Moves.Diverts {
		if _, stays := divertAt(a.Moves.Diverts, d.Order.Site); !stays && back.Table.leads(d.Order) {
			back.Diverts = putDivert(back.Diverts, d)
		}
	}
	t.Back = &back
	a.Trial = &t
	a.event(steadycast.Event{
		Kind: steadycast.EventConfig, Actor: a.e.Actor, Reason: a.e.Reason, From: fmt.Sprintf("revision %d", t.Revision),
		To: fmt.Sprintf("on trial for %s, then revision %d comes back", wait(t.Until-t.Since), t.Before),
	})
}

// confirm ends a trial: the table in force stays.
func (a *applying) confirm(revision uint64) string {
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	switch t := a.Trial; {
	case t == nil:
		a.refuse(wellFormed, fmt.Sprintf("no table is on trial; revision %d is in force for good", a.Table.Revision), "")
	case t.Revision != revision:
		a.refuse(wellFormed, fmt.Sprintf("revision %d is not on trial; %d is, by %s: %s", revision, t.Revision, t.Actor, t.Reason), "")
	default:
		a.Trial = nil
		if a.Seal != nil && a.e.Signed != nil {
			s := *a.Seal
			s.Confirm = a.e.Signed
			a.Seal = &s
		}
		a.event(steadycast.Event{
			Kind: steadycast.EventConfig, Actor: a.e.Actor, Reason: a.e.Reason, From: fmt.Sprintf("revision %d on trial", revision), To: "confirmed",
		})
	}
	return ""
}

// revert puts the table before a trial back, as a new revision, when its time is
// over. Nobody is asked whether it fits: all nodes carried it out until the trial
// began. But the guards are asked as for every table, since what was added
// meanwhile may be what keeps the floor now; a trial that they hold goes on, which
// is an alarm, and is ended as soon as they pass, or by a person.
func (a *applying) revert(revision uint64) string {
	t := a.Trial
	switch {
	case t == nil:
		return "no table is on trial"
	case t.Revision != revision:
		return fmt.Sprintf("revision %d is not on trial; %d is", revision, t.Revision)
	case a.LT < t.Until:
		return fmt.Sprintf("the trial of revision %d goes on for %s", revision, wait(t.Until-a.LT))
	}
	back := t.Back
	next := back.Table
	next.Revision = a.Table.Revision + 1
	if s := a.Staged; s != nil {
		next.Revision = max(next.Revision, s.Table.Revision+1)
	}
	if !a.keepsFloors(next, true) {
		a.holdTrial()
		return ""
	}
	a.e.Reason = fmt.Sprintf("nobody confirmed revision %d within %s, so revision %d is back; %s had put it on trial: %s",
		t.Revision, wait(t.Until-t.Since), t.Before, t.Actor, t.Reason)
	if s := a.Staged; s != nil {
		a.event(steadycast.Event{
			Kind: steadycast.EventConfig, Actor: a.e.Actor, From: fmt.Sprintf("revision %d staged", s.Table.Revision), To: "dropped",
			Reason: fmt.Sprintf("%s had staged it against revision %d, which was on trial and is not in force any more: apply it again; it said: %s", s.Actor, t.Revision, s.Reason),
		})
	}
	a.event(steadycast.Event{Kind: steadycast.EventAlarm, Actor: a.e.Actor, To: fmt.Sprintf("revision %d", next.Revision), Reason: a.e.Reason})
	was := *a.state
	a.enforce(next)
	a.recall(back, &was)
	return ""
}

// holdTrial says once for each guard that a table cannot come back.
func (a *applying) holdTrial() {
	t, g := *a.Trial, *a.reply.Refused
	if t.Held == nil || t.Held.Guard != g.Guard {
		a.event(steadycast.Event{
			Kind: steadycast.EventAlarm, Actor: a.e.Actor, Guard: g.Guard, From: fmt.Sprintf("revision %d on trial", t.Revision), To: "kept",
			Reason: fmt.Sprintf("revision %d stays in force though nobody confirmed it: %s. Confirm it, or apply another", t.Revision, g.Text),
		})
	}
	t.Held = &g
	a.Trial = &t
}

// recall gives units that come back what was known of them. What was announced is
// counted in, and lost until it is seen: its site resumes without a permit, as
// after a restart. A return that was on its way has to be asked for again.
func (a *applying) recall(back *Comeback, was *state) {
	for _, u := range back.Units {
		now := a.unit(u.Unit.Site, u.Unit.Prefix)
		if now == nil || was.unit(u.Unit.Site, u.Unit.Prefix) != nil {
			continue
		}
		u.Depreferred, u.Guard = false, ""
		switch u.Phase {
		case steadycast.In:
			u.Lost = true
		case steadycast.Returning:
			u.move(a.state, steadycast.Out)
		}
		*now = u
	}
	covers := func(units []unitState, o StandingOrder) bool {
		return slices.ContainsFunc(units, func(u unitState) bool { return o.covers(u.Unit) })
	}
	for _, o := range back.Orders {
		if o.Order.Prefixes = a.unordered(o); (o.Until == 0 || o.Until > a.LT) && len(o.Order.Prefixes) > 0 && covers(a.Units, o) {
			if o.Order.Node == "" {
				a.Orders = grow(a.Orders, o)
			} else {
				a.NodeOrders = grow(a.NodeOrders, o)
			}
		}
	}
	a.settleNodeOrders()
	for _, d := range back.Diverts {
		if _, other := divertAt(a.Moves.Diverts, d.Order.Site); !other && a.Table.leads(d.Order) && (d.Until == 0 || d.Until > a.LT) {
			p, _ := a.Table.Place(d.Order.Site)
			a.divertTo(d, a.pathNow(p))
		}
	}
	for _, f := range back.Freezes {
		if !slices.ContainsFunc(a.Freezes, func(x StandingFreeze) bool { return x.Scope == f.Scope && !x.Breaker }) {
			a.Freezes = grow(a.Freezes, f)
		}
	}
}

// unordered are the prefixes of an order that comes back over which no newer one stands.
func (a *applying) unordered(o StandingOrder) (out []netip.Prefix) {
	for i := range a.Units {
		if u := a.Units[i].Unit; o.covers(u) && !slices.ContainsFunc(slices.Concat(a.Orders, a.NodeOrders), func(x StandingOrder) bool { return x.over(o.Order.Node, u) }) {
			out = append(out, u.Prefix)
		}
	}
	return out
}

// soundTrial checks what revert relies on.
func (s *state) soundTrial() error {
	t := s.Trial
	switch {
	case t == nil:
		return nil
	case t.Revision != s.Table.Revision:
		return fmt.Errorf("revision %d is on trial, and %d in force", t.Revision, s.Table.Revision)
	case t.Back == nil:
		return fmt.Errorf("revision %d is on trial, and nothing could come back", t.Revision)
	case t.Since < 0 || t.Until <= t.Since || t.Until > 2*maxTime:
		return fmt.Errorf("revision %d is on trial from %d to %d", t.Revision, t.Since, t.Until)
	}
	if ps := t.Back.Table.Problems(); len(ps) > 0 {
		return fmt.Errorf("the table before the trial: %s", ps[0])
	}
	for i, d := range t.Back.Diverts {
		if !t.Back.Table.leads(d.Order) || d.LeftMS != 0 || i > 0 && t.Back.Diverts[i-1].Order.Site >= d.Order.Site {
			return fmt.Errorf("the divert of %s before the trial cannot be", d.Order.Site)
		}
	}
	if !slices.IsSortedFunc(t.Back.Units, func(a, b unitState) int { return a.Unit.Compare(b.Unit) }) {
		return fmt.Errorf("the units before the trial are out of order")
	}
	return nil
}
