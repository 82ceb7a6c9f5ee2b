package sim

import (
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// forge puts into the log what nobody wished who may: whoever holds a voter can
// write there, and has seen everything that was carried.
func (w *world) forge(f *fault) {
	p := w.places[f.a]
	if p.witness {
		return
	}
	order := func(x *decide.Wish) {
		x.Order = &steadycast.Order{Kind: steadycast.OrderWithdraw, Site: p.name, Force: true}
	}
	send := func(make func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool)) {
		d := w.leader()
		if d == nil {
			return
		}
		d.v.on(func() {
			if e, ok := make(d.p, d.v.now()); ok {
				w.judge.happen("forged")
				id := d.submit(e, nil)
				w.judge.forged[id] = f.x%8 > 1 // an old wish may not have been entered yet
			}
		})
	}
	wish := func(lead *ledger.Proposer, by string) (decide.Wish, bool) {
		v := lead.View()
		x, ok := v.Authority().Wish(by, decide.KindOrder, withForce)
		order(&x)
		return x, ok
	}
	switch f.x % 8 {
	case 0, 1: // an old one again; the newest would only be answered as before
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			old := w.people.signed
			if len(old) < 4 {
				return decide.Entry{}, false
			}
			e := old[int(f.x>>8%uint64(len(old)-3))]
			again := lead.Entry(now, e.Kind)
			again.Actor, again.Signed = e.Actor, e.Signed
			look(lead, now, &again)
			return again, true
		})
	case 2: // another site in what was signed
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			x, ok := wish(lead, theOperator)
			if !ok {
				return decide.Entry{}, false
			}
			e := w.people.sign(lead, now, x, theOperator)
			e.Signed.Text = strings.ReplaceAll(e.Signed.Text, `"`+p.name+`"`, `"`+w.sites()[(p.s+1)%len(w.sites())].name+`"`)
			return e, true
		})
	case 3: // nobody's
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			x := decide.Wish{By: theAdmin, Kind: decide.KindOrder, Reason: withForce}
			order(&x)
			e := lead.Entry(now, x.Kind)
			x.Into(&e)
			look(lead, now, &e)
			return e, true
		})
	case 4: // of one who may only look
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			x, ok := wish(lead, theViewer)
			return w.people.sign(lead, now, x, theViewer), ok
		})
	case 5: // in another's name
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			x, ok := wish(lead, theAdmin)
			return w.people.sign(lead, now, x, theStranger), ok
		})
	case 6: // for another fleet
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			x, ok := wish(lead, theOperator)
			x.Fleet = "another"
			return w.people.sign(lead, now, x, theOperator), ok
		})
	default: // kept back for longer than it is good for
		var kept decide.Entry
		var signed decide.Time
		send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
			if x, ok := wish(lead, thePatient); ok {
				kept, signed = w.people.sign(lead, now, x, thePatient), x.At
			}
			return decide.Entry{}, false
		})
		w.in(decide.WishLife+decide.WishLife/20, func() {
			send(func(lead *ledger.Proposer, now time.Duration) (decide.Entry, bool) {
				e := lead.Entry(now, decide.KindOrder)
				e.Actor, e.Signed = thePatient, kept.Signed
				look(lead, now, &e)
				// The ledger's time stands still while nobody leads.
				return e, kept.Signed != nil && e.LT-signed > decide.Time(decide.WishLife.Milliseconds())
			})
		})
	}
}
