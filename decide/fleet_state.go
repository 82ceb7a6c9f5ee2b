package decide

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Schema is the version of entries and snapshots that this code writes; it
// reads this and all before it.
const Schema = 1

// never is the ledger time of what has not happened.
const never Time = -1

// maxTime bounds the ledger time an entry may carry (4,000 years), so that sums never overflow.
const maxTime Time = 1 << 47

// state is all a replica knows. It is written out whole as the snapshot, so
// every field but the index is exported, and every list sorted. Lists inside a
// list are never written in place (see grow): a clone may then share them.
type state struct {
	Schema int              `json:"schema"`
	Fence  steadycast.Fence `json:"fence"`
	LT     Time             `json:"lt"`
	Rules  int              `json:"rules"`
	Table  Table            `json:"table"`

	Units    []unitState      `json:"units"`    // in order of Unit.Compare; all that the table has
	Slots    []slot           `json:"slots"`    // in order of site, then node; one for each that asks
	Verdicts []verdictState   `json:"verdicts"` // in order of site, then service
	Prefixes []prefixState    `json:"prefixes"` // in order; all that the table has
	Charges  []charge         `json:"charges"`  // fleet budget, oldest first
	Orders   []StandingOrder  `json:"orders"`   // oldest first; at most one covers a unit
	Freezes  []StandingFreeze `json:"freezes"`  // oldest first
	// NodeOrders stand over single nodes, oldest first; at most one covers a prefix of one.
	NodeOrders []StandingOrder `json:"node_orders,omitempty"`

	// Fleet is whose ledger it is, and Operators who may sign in it, by name; see
	// [Charter]. Of those there are, one at least is an admin.
	Fleet     string          `json:"fleet,omitempty"`
	Operators []operatorState `json:"operators,omitempty"`
	// Staged waits to be activated, and Acks are what nodes say of it. Revisions were
	// in force, oldest first; the last is.
	Staged    *Staged    `json:"staged,omitempty"`
	Acks      []Ack      `json:"acks,omitempty"`
	Revisions []Revision `json:"revisions,omitempty"`
	// Seal proves who put the table into force; never written in place.
	Seal *Seal `json:"seal,omitempty"`
	// Trial is set while nobody has confirmed the table in force; never written in place.
	Trial *Trial `json:"trial,omitempty"`
	// Past is what is only remembered, oldest first; no guard looks at it.
	Past []Past `json:"past,omitempty"`
	// Decisions wait for a person, oldest first; Numbered is how many there ever were.
	Decisions []Decision `json:"decisions,omitempty"`
	Numbered  uint64     `json:"numbered,omitempty"`
	// Moves are what is on its way from one site to another.
	Moves moves `json:"moves,omitzero"`
	// Plans are those that were begun.
	Plans planBook `json:"plans,omitzero"`
	// Names is what people ordered of the answers. Its lists are replaced, and never
	// written in place.
	Names NamesView `json:"names,omitzero"`
	// Gone are services at silent sites that others see down, in order of site, then
	// service. Only answers look at it. Replaced, and never written in place.
	Gone []Gone `json:"gone,omitempty"`
	// Cuts are what cuts came to, in the order in which it was said. Replaced, and
	// never written in place.
	Cuts []CutKept `json:"cuts,omitempty"`

	index *index
}

// unitState is where one unit stands.
type unitState struct {
	Unit  steadycast.Unit  `json:"unit"`
	Phase steadycast.Phase `json:"phase"`
	Ever  bool             `json:"ever,omitempty"`
	// Lost implies In.
	Lost bool `json:"lost,omitempty"`
	// Unheard: the ledger was recovered, and whatever the phase says, nobody knows since
	// whether the site announces it; see apply_epoch.go.
	Unheard bool `json:"unheard,omitempty"`

	Permit steadycast.Permit    `json:"permit"`
	Return steadycast.RequestID `json:"return,omitzero"`
	// Depreferred implies not Out; Guard is what refused the withdrawal.
	Depreferred bool   `json:"depreferred,omitempty"`
	Guard       string `json:"guard,omitempty"`
	// Auto: it is Out (or back from there, unproven) by an automatic withdrawal.
	Auto bool `json:"auto,omitempty"`
	// Back: proven In again after an automatic withdrawal, so that the next one ends a cycle.
	Back   bool `json:"back,omitempty"`
	Locked bool `json:"locked,omitempty"`
	// Resumed: a person ended `return: hold` for the next return.
	Resumed bool   `json:"resumed,omitempty"`
	Pardon  pardon `json:"pardon,omitempty"`
	// Changed is when the phase last changed, Cool when automation last changed it.
	Changed Time `json:"changed"`
	Cool    Time `json:"cool"`
	// Away is since when its site does not serve, where only_new asks; 0 while it does.
	Away Time `json:"away,omitempty"`
	// Asked is when a withdrawal was first asked for without a troubled verdict.
	Asked Time `json:"asked"`
	// Load is what its site carried when it left last; nil where nobody knew.
	Load    *int64   `json:"load,omitempty"`
	Charges []charge `json:"charges,omitempty"` // site budget, oldest first
	Cycles  []Time   `json:"cycles,omitempty"`  // when a cycle was completed, oldest first
}

// pardon is what a person's word spares the next return of a unit.
type pardon uint8

const (
	noPardon pardon = iota
	// sparesDamping: an order ended, so the unit was out by a person's wish and
	// owes neither cooldown nor budget.
	sparesDamping
	// sparesAll: a person ordered it back; nothing that binds automation binds the return.
	sparesAll
)

// charge is one automatic withdrawal in a budget.
type charge struct {
	LT   Time                 `json:"lt"`
	Site string               `json:"site"`
	ID   steadycast.RequestID `json:"id"`
}

// slot is the newest answered request of one node of a site: requests are
// monotone per node, so one slot tells repeats and stale ones.
type slot struct {
	Site   string               `json:"site"`
	ID     steadycast.RequestID `json:"id"`
	Answer Answer               `json:"answer"`
}

// verdictState is the committed verdict, and since when it is trouble.
type verdictState struct {
	Verdict steadycast.Verdict `json:"verdict"`
	// Onset is when it became troubled; never while it is not.
	Onset Time   `json:"onset"`
	Cause string `json:"cause,omitempty"`
}

// prefixState is what the guards remember of one prefix.
type prefixState struct {
	Prefix netip.Prefix `json:"prefix"`
	// Tight sets when a site is above CapacityRed and clears under three quarters of it.
	Tight bool `json:"tight,omitempty"`
	// Calm is since when the prefix is below the breaker's clearing share; never while it is not.
	Calm Time `json:"calm"`
}

// operatorState is an operator, and the newest entry that he signed.
type operatorState struct {
	Operator steadycast.Operator `json:"operator"`
	// Serial of it. It begins at the position of the entry that let him in, which
	// is above all that anyone had signed: so a name or a key that comes back does
	// not make old signatures good again.
	Serial uint64 `json:"serial"`
	// Digest of its text, so that the same one is known when it comes again, and
	// Fence where it was entered.
	Digest string           `json:"digest,omitempty"`
	Fence  steadycast.Fence `json:"fence"`
}

// clone copies what apply writes in place.
func (s *state) clone() state {
	c := *s
	c.Units = slices.Clone(s.Units)
	c.Slots = slices.Clone(s.Slots)
	c.Verdicts = slices.Clone(s.Verdicts)
	c.Prefixes = slices.Clone(s.Prefixes)
	c.Charges = slices.Clone(s.Charges)
	c.Orders = slices.Clone(s.Orders)
	c.NodeOrders = slices.Clone(s.NodeOrders)
	c.Freezes = slices.Clone(s.Freezes)
	c.Operators = slices.Clone(s.Operators)
	c.Decisions = slices.Clone(s.Decisions)
	return c
}

// grow appends without ever writing into memory that a clone may share.
func grow[T any](list []T, v T) []T { return append(slices.Clip(list), v) }

// keep filters into a new list, nil when nothing is left.
func keep[T any](list []T, ok func(T) bool) []T {
	var out []T
	for _, v := range list {
		if ok(v) {
			out = append(out, v)
		}
	}
	return out
}

// lt turns a duration of the table into ledger time, rounding up so that no window is shortened.
func lt(d time.Duration) Time {
	return Time((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// since reports how long ago at was; ok is false for never.
func (s *state) since(at Time) (Time, bool) { return s.LT - at, at != never }

// within reports whether at is younger than the window.
func (s *state) within(at Time, window time.Duration) bool {
	age, ok := s.since(at)
	return ok && age < lt(window)
}

// wait turns a span of ledger time into the duration people read.
func wait(t Time) time.Duration { return time.Duration(max(t, 0)) * time.Millisecond }

// past is how long ago something was, as people read it: whole seconds from one
// second on, and never more than it was.
func past(t Time) time.Duration {
	if t >= 1000 {
		t -= t % 1000
	}
	return wait(t)
}

// unit finds a unit; nil if the table has none such.
func (s *state) unit(site string, p netip.Prefix) *unitState {
	if i, ok := s.unitAt(steadycast.Unit{Site: site, Prefix: p}); ok {
		return &s.Units[i]
	}
	return nil
}

func (s *state) unitAt(u steadycast.Unit) (int, bool) {
	return slices.BinarySearchFunc(s.Units, u, func(x unitState, w steadycast.Unit) int { return x.Unit.Compare(w) })
}

// prefix finds a prefix; nil if the table has none such.
func (s *state) prefix(p netip.Prefix) *prefixState {
	if i, ok := s.prefixAt(p); ok {
		return &s.Prefixes[i]
	}
	return nil
}

func (s *state) prefixAt(p netip.Prefix) (int, bool) {
	return slices.BinarySearchFunc(s.Prefixes, p, func(x prefixState, w netip.Prefix) int { return comparePrefix(x.Prefix, w) })
}

func (x slot) compare(y slot) int {
	return cmp.Or(cmp.Compare(x.Site, y.Site), cmp.Compare(x.ID.Node, y.ID.Node))
}

// slot finds the slot of who made a request, and where it would stand.
func (s *state) slot(site string, id steadycast.RequestID) (int, bool) {
	return slices.BinarySearchFunc(s.Slots, slot{Site: site, ID: id}, slot.compare)
}

// answered sets the slot of who made a request.
func (s *state) answered(site string, id steadycast.RequestID, a Answer) {
	v := slot{Site: site, ID: id, Answer: a}
	if i, ok := s.slot(site, id); ok {
		s.Slots[i] = v
	} else {
		s.Slots = slices.Insert(s.Slots, i, v)
	}
}

// verdict finds a committed verdict, and where it would stand.
func (s *state) verdict(site, service string) (int, bool) {
	want := steadycast.Verdict{Site: site, Service: service}
	return slices.BinarySearchFunc(s.Verdicts, want, func(x verdictState, w steadycast.Verdict) int {
		return cmp.Or(cmp.Compare(x.Verdict.Site, w.Site), cmp.Compare(x.Verdict.Service, w.Service))
	})
}

// orderOver finds the order that stands over a unit and binds it.
func (s *state) orderOver(u steadycast.Unit) *StandingOrder {
	for i := range s.Orders {
		if o := &s.Orders[i]; o.binds(u) {
			return o
		}
	}
	return nil
}

// coolLeft is what is left of the unit's cooldown.
func (u *unitState) coolLeft(s *state) Time {
	age, ok := s.since(u.Cool)
	if !ok {
		return 0
	}
	return max(lt(s.Table.Guards.Cooldown)-age, 0)
}

// counts: it is In, and that is so.
func (u *unitState) counts() bool { return u.Phase == steadycast.In && !u.Lost && !u.Unheard }

// gone: it announces nothing that anybody would miss, and that is so.
func (u *unitState) gone() bool { return u.Phase != steadycast.In && !u.Unheard }

// move changes the phase, which is not one of before a recovery then.
func (u *unitState) move(s *state, to steadycast.Phase) {
	u.Unheard = false
	if u.Phase != to {
		u.Phase, u.Changed = to, s.LT
	}
	if to != steadycast.In {
		u.Lost = false
	}
	if to == steadycast.Out {
		u.Depreferred, u.Guard = false, ""
	}
}
