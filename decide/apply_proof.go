package decide

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// void takes back permits that can never be used any more, by the holder's own
// word that they are dead and that it announces. What they cost is refunded,
// the cooldown is not: nothing happened on the wire, but somebody was about to.
func (a *applying) void(g GiveUpEntry) string {
	p, ok := a.Table.Place(g.Site)
	switch {
	case !ok || p.Witness:
		return fmt.Sprintf("no site named %s", g.Site)
	case !p.has(g.ID.Node):
		return fmt.Sprintf("%s has no node %s", g.Site, g.ID.Node)
	}
	for _, u := range g.Units {
		if u.Site != g.Site {
			return fmt.Sprintf("%s gives up a permit of %s", g.Site, u.Site)
		}
		if a.unit(u.Site, u.Prefix) == nil {
			return fmt.Sprintf("no unit %s", u)
		}
	}
	// Every request up to ID is dead: one that arrives late is stale.
	if i, ok := a.slot(g.Site, g.ID); !ok || a.Slots[i].ID.Compare(g.ID) <= 0 {
		a.answered(g.Site, g.ID, Answer{ID: g.ID, Site: g.Site, Stale: true})
	}
	for _, gu := range g.Units {
		u := a.unit(gu.Site, gu.Prefix)
		// An order's permit is not the holder's to give back, nor what only its own word
		// after a recovery put out, nor what it said before that.
		if u.Phase != steadycast.Out || !u.Auto || u.Unheard || u.Permit.ID == (steadycast.RequestID{}) || !u.Permit.ID.Through(g.ID) {
			continue
		}
		a.refund(u)
		u.move(a.state, steadycast.In)
		u.Auto = false
		a.event(steadycast.Event{
			Kind: steadycast.EventPermit, Site: u.Unit.Site, Prefix: u.Unit.Prefix, From: "out", To: "in", Request: u.Permit.ID,
			Reason: "the permit was never used and the site announces; budget refunded, cooldown kept",
		})
	}
	return ""
}

// refund takes the unit's newest withdrawal out of the budgets, and the cycle
// it ended, and with that the lock that came of it.
func (a *applying) refund(u *unitState) {
	id := u.Permit.ID
	at := never
	u.Charges = keep(u.Charges, func(c charge) bool {
		if c.ID == id {
			at = c.LT
		}
		return c.ID != id
	})
	if n := len(u.Cycles); n > 0 && u.Cycles[n-1] == at {
		u.Cycles, u.Back = u.Cycles[:n-1:n-1], true
		u.Locked = u.Locked && a.cycles(u) >= a.Table.Guards.LockCycles
	}
	// One charge stands for all prefixes of a request; it goes with the last of
	// them. Another may have left by it and be on its way back already.
	for _, x := range a.Units {
		if x.Unit.Site == u.Unit.Site && slices.ContainsFunc(x.Charges, func(c charge) bool { return c.ID == id }) {
			return
		}
	}
	a.Charges = keep(a.Charges, func(c charge) bool { return c.Site != u.Unit.Site || c.ID != id })
}

// in counts a unit again: fresh evidence carries the id of its return.
func (a *applying) in(r ReturnProof) string {
	u := a.unit(r.Unit.Site, r.Unit.Prefix)
	switch {
	case u == nil:
		return fmt.Sprintf("no unit %s", r.Unit)
	case u.Unheard:
		return fmt.Sprintf("%s is %s by the older copy that the ledger was recovered from, and was not heard since", r.Unit, u.Phase)
	case u.Phase != steadycast.Returning || u.Return != r.ID:
		return fmt.Sprintf("%s is %s and waits for %s, not for %s", r.Unit, u.Phase, u.Return, r.ID)
	}
	u.move(a.state, steadycast.In)
	u.Ever = true
	if u.Auto {
		u.Auto, u.Back = false, true
	}
	a.event(steadycast.Event{
		Kind: steadycast.EventProof, Site: u.Unit.Site, Prefix: u.Unit.Prefix, From: "returning", To: "in", Request: r.ID,
		Reason: "seen announcing again; counted from now on",
	})
	return ""
}

// lost marks units that stopped announcing against their will: still In, not counted.
func (a *applying) lost(units []steadycast.Unit) string {
	return a.mark(units, true, steadycast.Event{
		Kind: steadycast.EventAlarm, From: "announcing", To: "lost",
		Reason: "no longer announcing, and no permit told it to stop; not counted until it is seen again",
	})
}

// found takes the mark off.
func (a *applying) found(units []steadycast.Unit) string {
	return a.mark(units, false, steadycast.Event{
		Kind: steadycast.EventRecovery, From: "lost", To: "announcing", Reason: "seen announcing again",
	})
}

func (a *applying) mark(units []steadycast.Unit, lost bool, ev steadycast.Event) string {
	for _, u := range units {
		if a.unit(u.Site, u.Prefix) == nil {
			return fmt.Sprintf("no unit %s", u)
		}
	}
	for _, gu := range units {
		u := a.unit(gu.Site, gu.Prefix)
		if u.Phase != steadycast.In || u.Unheard || u.Lost == lost {
			continue
		}
		u.Lost = lost
		ev.Site, ev.Prefix = u.Unit.Site, u.Unit.Prefix
		a.event(ev)
	}
	return ""
}
