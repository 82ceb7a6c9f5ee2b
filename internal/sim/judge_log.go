package sim

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"slices"
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
	first := index > j.index
	if first {
		j.holds(iFence, r.Fence.Compare(j.view.Fence) > 0, "voter %d is at %v after %v", v.id, r.Fence, j.view.Fence)
		j.replies[index] = r
		w.mix(hashOf(r))
	} else {
		j.holds(iReplicas, sameReply(j.replies[index], r), "voter %d answers otherwise at entry %d (%s)", v.id, index, p.entry.Kind)
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
	j.authority(p, r)
	j.force(j.view)
	j.falls(p.entry)
	if p.entry.Actor == nonsense {
		j.holds(iNonsense, r.Invalid != "" || r.Refused != nil || len(r.Answers) > 0, "an entry of kind %s without meaning was carried out", p.entry.Kind)
	}
	if r.Invalid != "" && p.entry.Actor != nonsense {
		j.happen("proposed without meaning")
	}
	if p.entry.Signed != nil && r.Invalid == "" {
		x, err := p.entry.Signed.Wish()
		must(err)
		x.Into(&p.entry)
	}
	if p.entry.Kind == decide.KindActivate && r.Refused == nil && r.Invalid == "" && r.Before == nil {
		j.happen("table activated")
		j.activated(&before, p.entry)
	}
	j.persons(&before, p.entry, r)
	j.approved(&before, p.entry, r)
	j.granted(&before, p.entry, r)
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
// wire is not forgotten, and stays.
func (j *judge) recovered(v decide.View) {
	j.happen("ledger recovered")
	j.holds(iFence, v.Fence.Compare(j.view.Fence) > 0, "the recovered ledger stands at %v, and stood at %v before", v.Fence, j.view.Fence)
	j.view, j.spent, j.epoch, j.since = v, nil, v.Fence.Epoch, j.w.now
	j.force(v)
	for i := range j.units {
		for k := range j.units[i] {
			h := &j.units[i][k]
			h.forgotten, h.said, h.executed, h.cycles = true, false, nil, nil // leaves that the copy knows are spent still
			h.left, h.back, h.locked, h.returning, h.returned, h.pardoned = false, false, false, 0, 0, true
		}
	}
}

// sameReply: two replicas said the same, as it is written. What is the same as it stands
// is so in writing, too.
func sameReply(a, b decide.Reply) bool { return reflect.DeepEqual(a, b) || hashOf(a) == hashOf(b) }

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

// falls notes who falls into trouble, as the ledger hears it.
func (j *judge) falls(e decide.Entry) {
	if len(e.Verdicts) == 0 {
		return
	}
	for i, p := range j.w.sites() {
		poor := slices.ContainsFunc(j.view.Verdicts, func(v steadycast.Verdict) bool { return v.Site == p.name && v.State.Troubled() })
		if poor && !j.poor[i] {
			j.fell[i] = j.w.now
		}
		j.poor[i] = poor
	}
}

// authority: what a person must sign is carried out if he did, and once.
func (j *judge) authority(p parcel, r decide.Reply) {
	if p.entry.Kind.Role() == steadycast.NoRole {
		return
	}
	done := r.Refused == nil && r.Invalid == "" && r.Before == nil
	j.holds(iAuthority, !done || !j.forged[p.id], "%s was carried out, and nobody wished it who may", p.entry.Kind)
	if s := p.entry.Signed; s != nil && (done || r.Refused != nil && r.Refused.Guard != decide.AuthorityGuard) {
		j.holds(iAuthority, !j.entered[s.Text], "%s was entered before, and is again", p.entry.Kind)
		j.entered[s.Text] = true
	}
	if r.Refused != nil && r.Refused.Guard == decide.AuthorityGuard {
		j.happen("refused by authority")
	}
}

// persons: what people did counts only with who and why; and what it undoes.
func (j *judge) persons(before *decide.View, e decide.Entry, r decide.Reply) {
	if r.Refused != nil || r.Invalid != "" || r.Before != nil {
		return
	}
	if o := e.Order; o != nil {
		for i, prefix := range j.w.prefixes {
			h := j.unit(j.w.placeOf(o.Site), i)
			h.said = h.said || o.Covers(prefix)
		}
	}
	switch e.Kind {
	case decide.KindLocal:
		for i := range j.w.prefixes {
			if p := j.w.placeOf(e.Order.Site); e.Order.Covers(j.w.prefixes[i]) {
				j.unit(p, i).forcing = true
			}
		}
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
			j.orderly(before, e, r)
		}
	case decide.KindOrderClear:
		j.each(*e.Scope, func(h *history) { h.returned, h.said = 0, true })
	case decide.KindUnlock:
		j.each(*e.Scope, func(h *history) { h.locked, h.cycles = false, nil })
	case decide.KindThaw:
		j.thawed = j.w.now
	}
}

// forced: the person who gave the order said so, whatever it says by now.
func forced(o steadycast.Order) bool { return o.Reason == withForce }

func (j *judge) each(s decide.Scope, do func(*history)) {
	for _, p := range j.w.sites() {
		for i := range j.w.prefixes {
			if s.Covers(j.w.unit(p, i)) {
				do(j.unit(p, i))
			}
		}
	}
}

// orderly: an order without force leaves the floors to others when it is granted.
func (j *judge) orderly(before *decide.View, e decide.Entry, r decide.Reply) {
	for _, x := range r.Rulings {
		if x.Permit == nil || x.Permit.Action != steadycast.Withdraw || x.Permit.Fence != r.Fence {
			continue
		}
		if e.Decide != nil && j.w.placeOf(x.Unit.Site).speaker.out[0] {
			j.bears(x.Unit, false, e.Decide.Seen)
		}
		i := j.w.prefixAt(x.Unit.Prefix)
		left := 0
		for _, q := range j.w.sites() {
			h := j.unit(q, i)
			if q.name != x.Unit.Site && !q.witness && (q.out(i) || j.believed(h)) {
				left++
			}
		}
		h := j.unit(j.w.placeOf(x.Unit.Site), i)
		floor := j.w.table.Floor(x.Unit.Prefix)
		j.holds(iFloor, left >= floor || h.onPurpose || uncounted(before, x.Unit) || !j.w.placeOf(x.Unit.Site).out(i), "an order without force takes %s out: %d others announce; floor %d", x.Unit, left, floor)
	}
}

// granted keeps the permits that an entry gave.
func (j *judge) granted(before *decide.View, e decide.Entry, r decide.Reply) {
	for _, a := range r.Answers {
		for _, x := range a.Rulings {
			if x.Permit == nil || x.Permit.Fence != r.Fence {
				if g, ok := x.Refusal(); ok && x.Permit == nil {
					j.happen("refused by " + g.Guard)
				}
				continue
			}
			j.happen("granted " + x.Permit.Action.String())
			j.moded(before, x, r.LT)
			j.unit(j.w.placeOf(x.Unit.Site), j.w.prefixAt(x.Unit.Prefix)).said = true
			j.grants[grantKey{x.Unit, x.Permit.ID}] = &grant{action: x.Permit.Action, lt: r.LT, uncounted: uncounted(before, x.Unit)}
			if x.Permit.Action == steadycast.Withdraw {
				h := j.unit(j.w.placeOf(x.Unit.Site), j.w.prefixAt(x.Unit.Prefix))
				h.granted = append(h.granted, r.LT)
				certain := slices.ContainsFunc(e.Decide.Requests, func(q steadycast.Request) bool {
					return q.Site == a.Site && q.ID == a.ID && q.Class == steadycast.Hard
				})
				j.bears(x.Unit, certain, e.Decide.Seen)
			}
		}
	}
}

// uncounted: a unit that returns is counted by no floor, and missed by none.
func uncounted(v *decide.View, u steadycast.Unit) bool {
	x := phaseOf(v, u)
	return x != nil && x.Phase == steadycast.Returning
}

// approved notes a person's yes.
func (j *judge) approved(before *decide.View, e decide.Entry, r decide.Reply) {
	if e.Kind != decide.KindApprove || r.Refused != nil || r.Invalid != "" || r.Before != nil {
		return
	}
	for _, d := range before.Decisions {
		if d.Number == e.Decision {
			j.happen("approved " + d.Action.String())
			j.agreed[wanted{d.Unit, d.Action}] = r.LT
		}
	}
}

// moded: what automation is granted, it may in its mode.
func (j *judge) moded(before *decide.View, x decide.Ruling, lt decide.Time) {
	if !j.w.later() || before.Table.Revision < 2 || x.Permit.Action == steadycast.Deprefer {
		return
	}
	if u := phaseOf(before, x.Unit); u == nil || u.Recalled || u.Order != steadycast.OrderNone || x.Permit.Action == steadycast.Return && u.Phase != steadycast.Out {
		return // a person's word, or what is under way already
	}
	k := wanted{x.Unit, x.Permit.Action}
	at, yes := j.agreed[k]
	delete(j.agreed, k)
	j.holds(iMode, yes && j.w.o.Policy == "approve" && lt-at <= 600_000, "%s may %s, and its mode is %s", x.Unit, x.Permit.Action, j.w.o.Policy)
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
			j.holds(iCounted, !h.onPurpose || h.forgotten || h.hand, "%s is counted in, and left on purpose", u.Unit)
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
