package sim

import (
	"encoding/json"
	"hash/fnv"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// statesEvery is how many entries apart the whole states of replicas are compared.
const statesEvery = 16

// applied judges one entry that one replica applied.
func (j *judge) applied(v *voter, p parcel, r decide.Reply) {
	w := j.w
	index := v.applied // in raft's log, which has entries of its own between
	sum := hashOf(r)
	first := index > j.index
	if first {
		j.holds(iFence, r.Fence.Compare(j.view.Fence) > 0, "voter %d is at %v after %v", v.id, r.Fence, j.view.Fence)
		j.replies[index] = sum
		w.mix(sum)
	} else {
		j.holds(iReplicas, j.replies[index] == sum, "voter %d answers otherwise at entry %d (%s)", v.id, index, p.entry.Kind)
	}
	if index%statesEvery == 0 {
		j.same(v, "by the log")
	}
	if !first {
		return
	}
	j.index = index
	before := j.view
	j.view = *v.view
	j.happen("entry " + string(p.entry.Kind))
	w.say("entry %d %s lt=%d by voter %d (seen first at voter %d)%s", index, p.entry.Kind, r.LT, v.id, v.id, gist(p.entry, r))
	j.clock(p, r)
	if p.entry.Actor == nonsense {
		j.holds(iNonsense, r.Invalid != "" || r.Refused != nil || len(r.Answers) > 0, "an entry of kind %s without meaning was carried out", p.entry.Kind)
	}
	if r.Invalid != "" && p.entry.Actor != nonsense {
		j.happen("proposed without meaning")
	}
	j.persons(p.entry, r)
	j.granted(r)
	j.moved(before)
}

// kept notes the state of a snapshot.
func (j *judge) kept(v *voter) { j.same(v, "when it takes a snapshot") }

// restored holds a machine that was set to a snapshot against those that got there by the log.
func (j *judge) restored(v *voter) { j.same(v, "after a snapshot") }

// same: whoever is at an index has the same state.
func (j *judge) same(v *voter, when string) {
	state := v.fleet.Hash()
	old, known := j.states[v.applied]
	j.states[v.applied] = state
	j.holds(iReplicas, !known || old == state, "voter %d differs in its state at entry %d, %s", v.id, v.applied, when)
}

// recovered: the ledger goes on from an older copy. What was spent and counted
// since is forgotten, and a person who thaws it answers for that; what is on the
// wire is not forgotten.
func (j *judge) recovered(v decide.View) {
	j.happen("ledger recovered")
	j.holds(iFence, v.Fence.Compare(j.view.Fence) > 0, "the recovered ledger stands at %v, and stood at %v before", v.Fence, j.view.Fence)
	j.view, j.spent = v, nil
	for i := range j.units {
		for k := range j.units[i] {
			h := &j.units[i][k]
			h.forgotten, h.executed, h.cycles = true, nil, nil // leaves that the copy knows are spent still
			h.left, h.back, h.locked, h.returning, h.returned, h.pardoned = false, false, false, 0, 0, true
		}
	}
}

func hashOf(x any) uint64 {
	b, err := json.Marshal(x)
	must(err)
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// clock: between any two entries no more ledger time passes than real time.
func (j *judge) clock(p parcel, r decide.Reply) {
	fast := p.made + p.made*maxDrift/1_000_000
	ahead := time.Duration(r.LT)*time.Millisecond - fast
	if !j.begun {
		j.begun, j.slack = true, ahead
	}
	j.holds(iTime, ahead <= j.slack+2*time.Millisecond, "ledger time gained %v on real time at entry %d", ahead-j.slack, r.Fence.Index)
	j.slack = min(j.slack, ahead)
}

// persons: what people did counts only with who and why; and what it undoes.
func (j *judge) persons(e decide.Entry, r decide.Reply) {
	if r.Refused != nil || r.Invalid != "" {
		return
	}
	switch e.Kind {
	case decide.KindOrder:
		j.happen("order " + e.Order.Kind.String())
		for _, o := range j.view.Orders {
			j.holds(iForced, o.Order.Actor != "" && o.Order.Reason != "", "an order over %s stands without who and why", o.Order.Site)
		}
		if e.Order.Kind == steadycast.OrderAnnounce {
			j.each(decide.Scope{Site: e.Order.Site}, func(h *history) { h.locked, h.cycles, h.returned, h.left = false, nil, 0, false })
		}
		for i := range j.w.prefixes {
			if p := j.w.placeOf(e.Order.Site); forced(*e.Order) && e.Order.Covers(j.w.prefixes[i]) {
				j.unit(p, i).forcing = true
			}
		}
		if !forced(*e.Order) && e.Order.Kind != steadycast.OrderAnnounce {
			j.orderly(r)
		}
	case decide.KindOrderClear:
		j.each(*e.Scope, func(h *history) { h.returned = 0 })
	case decide.KindUnlock:
		j.each(*e.Scope, func(h *history) { h.locked, h.cycles = false, nil })
	case decide.KindThaw:
		j.thawed = j.w.now
	}
}

// forced: the person who gave the order said so, whatever it says by now.
func forced(o steadycast.Order) bool { return o.Reason == withForce }

func (j *judge) each(s decide.Scope, do func(*history)) {
	for _, p := range j.w.places {
		for i := range j.w.prefixes {
			if s.Covers(j.w.unit(p, i)) {
				do(j.unit(p, i))
			}
		}
	}
}

// orderly: an order without force leaves the floors to others when it is granted.
func (j *judge) orderly(r decide.Reply) {
	for _, x := range r.Rulings {
		if x.Permit == nil || x.Permit.Action != steadycast.Withdraw || x.Permit.Fence != r.Fence {
			continue
		}
		i := j.w.prefixAt(x.Unit.Prefix)
		left := 0
		for _, q := range j.w.places {
			h := j.unit(q, i)
			if q.name != x.Unit.Site && !q.witness && (q.speaker.out[i] || h.lost && j.w.now-h.lostAt <= j.justLost()) {
				left++
			}
		}
		h := j.unit(j.w.placeOf(x.Unit.Site), i)
		floor := j.w.table.Floor(x.Unit.Prefix)
		j.holds(iFloor, left >= floor || h.onPurpose || !j.w.placeOf(x.Unit.Site).speaker.out[i], "an order without force takes %s out: %d others announce; floor %d", x.Unit, left, floor)
	}
}

// granted keeps the permits that an entry gave.
func (j *judge) granted(r decide.Reply) {
	for _, a := range r.Answers {
		for _, x := range a.Rulings {
			if x.Permit == nil || x.Permit.Fence != r.Fence {
				if g, ok := x.Refusal(); ok && x.Permit == nil {
					j.happen("refused by " + g.Guard)
				}
				continue
			}
			j.happen("granted " + x.Permit.Action.String())
			j.grants[grantKey{x.Unit, x.Permit.ID}] = &grant{action: x.Permit.Action, lt: r.LT}
			if x.Permit.Action == steadycast.Withdraw {
				h := j.unit(j.w.placeOf(x.Unit.Site), j.w.prefixAt(x.Unit.Prefix))
				h.granted = append(h.granted, r.LT)
			}
		}
	}
}

// moved follows the phases.
func (j *judge) moved(before decide.View) {
	w := j.w
	for i := range j.view.Units {
		u := &j.view.Units[i]
		p, prefix := w.placeOf(u.Unit.Site), w.prefixAt(u.Unit.Prefix)
		h := j.unit(p, prefix)
		if u.Order != steadycast.OrderNone || u.Recalled {
			h.pardoned, h.left = true, false
		}
		old := phaseOf(&before, u.Unit)
		if old == nil || old.Phase == u.Phase {
			continue
		}
		h.forcing = h.forcing && u.Phase == steadycast.Out
		switch u.Phase {
		case steadycast.In:
			h.pardoned = u.Order != steadycast.OrderNone
			j.holds(iCounted, !h.onPurpose || h.forgotten, "%s is counted in, and left on purpose", u.Unit)
			h.forgotten = h.forgotten && h.onPurpose
			if old.Phase == steadycast.Returning {
				h.back, h.returned = true, h.returning
			}
		case steadycast.Returning:
			// One that turns round before it is proven owes no cooldown.
			if h.returned, h.returning = 0, 0; old.Ever && !h.pardoned {
				h.returning = j.view.LT
			}
		}
	}
}

// gist is what a line of the trace says of an entry.
func gist(e decide.Entry, r decide.Reply) string {
	s := ""
	for _, a := range r.Answers {
		for _, x := range a.Rulings {
			if x.Permit != nil {
				s += " " + x.Unit.String() + " " + a.ID.String() + " " + x.Permit.Action.String()
			} else if g, ok := x.Refusal(); ok {
				s += " " + x.Unit.String() + " " + a.ID.String() + " refused by " + g.Guard + " (" + g.Text + ")"
			}
		}
	}
	if e.Decide != nil {
		for _, x := range e.Decide.Seen {
			s += " seen " + x.Prefix.String() + " " + join(x.Announcing)
		}
	}
	for _, u := range e.Units {
		s += " " + u.String()
	}
	if e.Give != nil {
		s += " " + e.Give.Site + " dead through " + e.Give.ID.String()
	}
	if e.Return != nil {
		s += " " + e.Return.Unit.String() + " " + e.Return.ID.String()
	}
	if r.Invalid != "" {
		s += " invalid: " + r.Invalid
	}
	if r.Refused != nil {
		s += " refused: " + r.Refused.String()
	}
	return s
}
