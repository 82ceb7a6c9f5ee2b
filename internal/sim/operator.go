package sim

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// nonsense is the actor of entries that mean nothing.
const nonsense = "nonsense"

// The people of a fleet, by what the ledger lets them do. Kim signs one thing a
// schedule, and whoever carries it keeps it back; nobody knows the stranger.
const (
	theAdmin    = "ada"
	theOperator = "bob"
	theViewer   = "vic"
	thePatient  = "kim"
	theStranger = "mal"
)

// fleetName is what signatures are bound to.
const fleetName = "sim"

// people are those at the keyboards, whose nodes reach the leader.
type people struct {
	keys   map[string]ed25519.PrivateKey
	signed []decide.Entry // what they signed: whoever carried it may keep it
	tables tables
}

// newPeople gives everybody the key of this schedule.
func newPeople(seed uint64) people {
	p := people{keys: map[string]ed25519.PrivateKey{}}
	for _, name := range []string{theAdmin, theOperator, theViewer, thePatient, theStranger} {
		p.keys[name] = ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%s of schedule %016x", name, seed))
	}
	return p
}

// charter says who may sign in the ledger.
func (p *people) charter() *decide.Charter {
	c := &decide.Charter{Fleet: fleetName}
	for _, x := range []struct {
		name string
		role steadycast.Role
	}{{theAdmin, steadycast.Admin}, {theOperator, steadycast.Mover}, {thePatient, steadycast.Mover}, {theViewer, steadycast.Viewer}} {
		o := steadycast.Operator{Name: x.name, Role: x.role}
		copy(o.Key[:], p.keys[x.name].Public().(ed25519.PublicKey))
		c.Operators = append(c.Operators, o)
	}
	return c
}

// sign makes the entry of a wish, as what its carrier and the leader add to it.
func (p *people) sign(lead *ledger.Proposer, now time.Duration, w decide.Wish, key string) decide.Entry {
	s, err := w.Sign(func(context string, text []byte) []byte {
		sig, err := p.keys[key].Sign(nil, text, &ed25519.Options{Context: context})
		must(err)
		return sig
	})
	must(err)
	e := lead.Entry(now, w.Kind)
	e.Actor, e.Signed = w.By, &s
	look(lead, now, &e)
	return e
}

// look adds what the leader sees to an entry whose guards count it.
func look(lead *ledger.Proposer, now time.Duration, e *decide.Entry) {
	if e.Kind.Looks() {
		e.Decide = &decide.Decide{Seen: lead.Seen(now), Loads: lead.Loads(now)}
	}
}

// enter sends an entry to whoever leads.
func (w *world) enter(make func(p *ledger.Proposer, now time.Duration) decide.Entry) {
	if d := w.leader(); d != nil {
		d.v.on(func() { d.take(call{entry: make}) })
	}
}

// wish has a person sign what he wants, by what the leader's node knows of the
// ledger, and sends it there.
func (w *world) wish(by string, kind decide.Kind, reason string, body func(*decide.Wish)) {
	w.enter(func(p *ledger.Proposer, now time.Duration) decide.Entry {
		v := p.View()
		x, ok := v.Authority().Wish(by, kind, reason)
		if !ok { // a ledger that asks for no signature
			x = decide.Wish{By: by, Kind: kind, Reason: reason}
			body(&x)
			e := p.Entry(now, kind)
			x.Into(&e)
			look(p, now, &e)
			return e
		}
		body(&x)
		e := w.people.sign(p, now, x, by)
		w.people.signed = append(w.people.signed, e)
		return e
	})
}

// scoped is a plain wish with a scope.
func (w *world) scoped(kind decide.Kind, s decide.Scope) {
	w.wish(theOperator, kind, "an exercise", func(x *decide.Wish) { x.Scope = &s })
}

func (w *world) giveOrder(f *fault) {
	p := w.places[f.a]
	if p.witness {
		return
	}
	site := decide.Scope{Site: p.name}
	o := steadycast.Order{Site: p.name, For: f.last}
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
	reason := "an exercise"
	if o.Force {
		reason = withForce
	}
	o.Force = o.Force || w.is(ordersUnguarded)
	w.wish(theOperator, decide.KindOrder, reason, func(x *decide.Wish) { x.Order = &o })
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
				w.order(steadycast.Order{Kind: steadycast.OrderDrain, Site: p.name, For: 20 * time.Second})
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

// goHome ends what people began, when the faults end; they say so several times,
// because a leader may be missing still.
func (w *world) goHome() {
	for k := range 4 {
		w.in(time.Duration(k)*3*time.Second, func() {
			w.scoped(decide.KindThaw, decide.Scope{})
			w.scoped(decide.KindOrderClear, decide.Scope{})
		})
	}
}

// answerDecisions is a person who looks, now and then, what waits for a yes or a no.
func (w *world) answerDecisions() {
	w.in(w.between(time.Second, 4*time.Second), w.answerDecisions)
	d := w.leader()
	if d == nil {
		return
	}
	for _, x := range d.v.view.Decisions {
		if x.Answer != steadycast.Waiting {
			continue
		}
		kind := decide.KindApprove
		if w.now < w.calm && w.dice.IntN(4) == 0 {
			kind = decide.KindReject
		}
		w.wish(theOperator, kind, "an exercise", func(y *decide.Wish) { y.Decision = x.Number })
		return
	}
}

// proposeNonsense puts an entry into the log whose head is right and whose body
// means nothing.
func (w *world) proposeNonsense(f *fault) {
	w.enter(func(p *ledger.Proposer, now time.Duration) decide.Entry {
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
