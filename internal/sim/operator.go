package sim

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// nonsense is the actor of entries that mean nothing.
const nonsense = "nonsense"

// operator is the person at the keyboard, whose node reaches the leader.
type operator struct{ revision uint64 }

// wish sends a person's entry to whoever leads.
func (w *world) wish(make func(p *ledger.Proposer, now time.Duration) decide.Entry) {
	if d := w.leader(); d != nil {
		d.v.on(func() { d.take(call{entry: make}) })
	}
}

// scoped is a plain entry with a scope.
func (w *world) scoped(kind decide.Kind, s decide.Scope) {
	w.wish(func(p *ledger.Proposer, now time.Duration) decide.Entry {
		e := p.Entry(now, kind)
		e.Scope, e.Actor, e.Reason = &s, "ada", "an exercise"
		return e
	})
}

func (w *world) giveOrder(f *fault) {
	p := w.places[f.a]
	if p.witness {
		return
	}
	site := decide.Scope{Site: p.name}
	o := steadycast.Order{Site: p.name, Actor: "ada", Reason: "an exercise", For: f.last}
	if f.x>>8&1 == 0 {
		o.Prefixes = w.prefixes[:1]
	}
	switch f.x % 8 {
	case 0, 1:
		o.Kind = steadycast.OrderWithdraw
		o.Force = f.x>>16%4 == 0
	case 2, 3:
		o.Kind = steadycast.OrderDrain
	case 4:
		o.Kind = steadycast.OrderAnnounce
	case 5:
		w.scoped(decide.KindFreeze, site)
		w.until(f, func() { w.scoped(decide.KindThaw, site) })
		return
	case 6:
		w.scoped(decide.KindUnlock, site)
		return
	default:
		w.scoped(decide.KindOrderClear, site)
		return
	}
	w.order(o)
}

// withForce is what a person says beside an order that he forces.
const withForce = "an exercise, with force"

func (w *world) order(o steadycast.Order) {
	if o.Force {
		o.Reason = withForce
	}
	o.Force = o.Force || w.is(ordersUnguarded)
	w.wish(func(p *ledger.Proposer, now time.Duration) decide.Entry {
		e := p.Entry(now, decide.KindOrder)
		e.Order, e.Actor, e.Reason = &o, o.Actor, o.Reason
		e.Decide = &decide.Decide{Seen: p.Seen(now)}
		return e
	})
}

// upgrade drains some sites, one after the other, and starts the speaker of those
// that the ledger let go.
func (w *world) upgrade(f *fault) {
	for k := range 4 {
		p := w.places[(f.a+k)%len(w.places)]
		if p.witness {
			continue
		}
		w.in(time.Duration(k)*time.Second, func() {
			if !w.is(upgradeUnasked) {
				w.order(steadycast.Order{Kind: steadycast.OrderDrain, Site: p.name, Actor: "ada", Reason: "an upgrade", For: 20 * time.Second})
			}
			w.in(8*time.Second, func() {
				if w.is(upgradeUnasked) && p.up && p.speaker.up {
					p.speaker.set = steadycast.RouteSet{}
					p.wire(cause{prefix: -1, kind: byUpgrade})
				}
				if p.up && p.speaker.up && !slices.Contains(p.speaker.out, true) {
					w.judge.happen("speaker upgraded")
					w.restartSpeaker(&fault{a: p.i, last: 2 * time.Second})
				}
			})
		})
	}
}

// reviseTable changes the MED of every prefix to the number of the revision.
func (w *world) reviseTable(*fault) {
	w.operator.revision++
	med := uint32(w.operator.revision)
	w.wish(func(p *ledger.Proposer, now time.Duration) decide.Entry {
		t := p.View().Table.WithDefaults()
		t.Revision++
		for i := range t.Prefixes {
			m := med
			t.Prefixes[i].MED = &m
		}
		e := p.Entry(now, decide.KindTable)
		e.Table, e.Actor, e.Reason = &t, "ada", "another MED"
		e.Decide = &decide.Decide{Seen: p.Seen(now)}
		return e
	})
}

// goHome ends what people began, when the faults end; it says so several times,
// because a leader may be missing still.
func (o *operator) goHome(w *world) func() {
	return func() {
		for k := range 4 {
			w.in(time.Duration(k)*3*time.Second, func() {
				w.scoped(decide.KindThaw, decide.Scope{})
				w.scoped(decide.KindOrderClear, decide.Scope{})
			})
		}
	}
}

// proposeNonsense puts an entry into the log whose head is right and whose body
// means nothing.
func (w *world) proposeNonsense(f *fault) {
	w.wish(func(p *ledger.Proposer, now time.Duration) decide.Entry {
		stranger := steadycast.Unit{Site: "nowhere", Prefix: w.prefixes[0]}
		kind := []decide.Kind{decide.KindVoid, decide.KindIn, decide.KindLost, decide.KindVerdict, decide.KindDecide, decide.KindGenesis}[f.x%6]
		e := p.Entry(now, kind)
		e.Actor = nonsense
		switch kind {
		case decide.KindVoid:
			e.Give = &decide.GiveUpEntry{Site: w.places[0].name, ID: steadycast.RequestID{Incarnation: 1 << 40}, Units: []steadycast.Unit{stranger}}
		case decide.KindIn:
			e.Return = &decide.ReturnProof{Unit: w.unit(w.places[0], 0), ID: steadycast.RequestID{Incarnation: 1 << 40, Seq: 1}}
		case decide.KindLost:
			e.Units = []steadycast.Unit{stranger}
		case decide.KindVerdict:
			e.Verdicts = []steadycast.Verdict{{Site: "nowhere", Service: "web", State: steadycast.Healthy}}
		case decide.KindDecide:
			e.Decide = &decide.Decide{Requests: []steadycast.Request{{Site: "nowhere", ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Action: steadycast.Withdraw, Prefixes: w.prefixes[:1]}}}
		case decide.KindGenesis:
			t := p.View().Table
			e.Table = &t
		}
		return e
	})
}
