package decide

import "github.com/steadycast/steadycast"

// Fleet is the replicated machine: it holds where every unit stands, what
// people ordered and what the guards remember, and changes only by [Entry].
// The same entries in the same order give the same state on every replica: it
// reads no clock, and its time (ledger time) travels inside the entries.
//
// What it promises, whatever entries it is given:
//
//   - A permit to withdraw moves the unit to Out in the same step, and nothing
//     but positive evidence moves it back: the holder's own word that the permit
//     is dead and that it announces (void), or a proven return. Time alone never
//     does. The right to act expires; the accounting does not.
//   - A unit counts as announcing only while its phase is In and the proposer
//     saw it announce by fresh evidence. Returning does not count.
//   - No automatic permit takes a prefix below its floors.
//   - An entry it does not know stops it ([StopError]); an entry whose content is
//     wrong changes nothing but the position and the time, the same on every
//     replica. None makes it panic.
//
// It decides nothing by itself: a breaker or an order ends in the step of a
// later entry, so something must propose ticks.
//
// A Fleet belongs to one goroutine; what [Fleet.View] returns is shared freely.
type Fleet struct {
	s state
}

// NewFleet returns a machine before its first entry, which must be of [KindGenesis].
func NewFleet() *Fleet { return &Fleet{s: state{Schema: Schema}} }

// Apply carries out one entry. The error is a *[StopError]: this replica does
// not understand the entry and must stop here, at the position before it.
func (f *Fleet) Apply(e Entry) (Reply, error) {
	if err := understood(e); err != nil {
		return Reply{}, err
	}
	return f.s.apply(e, false), nil
}

// Try gives the reply that Apply would give now and changes nothing. Fences in
// it are those the entry would have if it were the next one.
func (f *Fleet) Try(e Entry) (Reply, error) {
	if err := understood(e); err != nil {
		return Reply{}, err
	}
	s := f.s.clone()
	return s.apply(e, false), nil
}

// Rehearse is Try for a wish that nobody has signed: what would come of it if
// somebody did who may.
func (f *Fleet) Rehearse(e Entry) (Reply, error) {
	if err := understood(e); err != nil {
		return Reply{}, err
	}
	s := f.s.clone()
	return s.apply(e, true), nil
}

// Fence is the position of the last applied entry.
func (f *Fleet) Fence() steadycast.Fence { return f.s.Fence }

// LT is the ledger time of the last applied entry.
func (f *Fleet) LT() Time { return f.s.LT }

// View returns the committed state as an immutable copy.
func (f *Fleet) View() View { return f.s.view() }

// NextEnd is the earliest ledger time at which something ends by itself (an
// order, a decision that waits), so that the proposer can tick just then. ok is false when nothing does.
func (f *Fleet) NextEnd() (at Time, ok bool) {
	for _, orders := range [][]StandingOrder{f.s.Orders, f.s.NodeOrders} {
		for _, o := range orders {
			if o.Until != 0 && (!ok || o.Until < at) {
				at, ok = o.Until, true
			}
		}
	}
	for _, d := range f.s.Moves.Diverts {
		if d.Until != 0 && (!ok || d.Until < at) {
			at, ok = d.Until, true
		}
	}
	for _, d := range f.s.Decisions {
		if !ok || d.Until < at {
			at, ok = d.Until, true
		}
	}
	if end, any := f.s.planEnd(); any && (!ok || end < at) {
		at, ok = end, true
	}
	if end, any := f.s.pathEnd(); any && (!ok || end < at) {
		at, ok = end, true
	}
	return at, ok
}

// Timed reports whether anything that waits for ledger time is pending: an
// order's end, a trial's, a breaker, a cooldown, a unit that is not In. While it is,
// ticks should be frequent, because time between entries is lost at a restart.
func (f *Fleet) Timed() bool {
	if _, ok := f.NextEnd(); ok {
		return true
	}
	if f.s.Trial != nil {
		return true
	}
	for _, fr := range f.s.Freezes {
		if fr.Breaker {
			return true
		}
	}
	if len(f.s.Moves.Ramps) > 0 {
		return true
	}
	for _, u := range f.s.Units {
		if u.Phase != steadycast.In || u.coolLeft(&f.s) > 0 {
			return true
		}
	}
	return false
}

// StopError says that an entry or a snapshot is beyond what this code
// understands. Skipping it would make this replica decide differently from the
// others, so the replica stops.
type StopError struct{ What string }

func (e *StopError) Error() string {
	return e.What + "; this ledger stops here rather than skip it: run a version that knows it"
}
