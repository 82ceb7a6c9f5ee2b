package sim

import (
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// glass is what a person did at a node that heard no ledger (`--local`). It is on
// the node's disk before it is done, and goes when the ledger has it, or when the
// person takes it back.
type glass struct {
	order steadycast.Order
	at    steadycast.Fence // where the ledger has it; zero while it does not
}

// byHand reports whether a person at the node wants a prefix so.
func (p *place) byHand(kind steadycast.OrderKind, prefix netip.Prefix) bool {
	return p.glass != nil && p.glass.order.Kind == kind && p.glass.order.Covers(prefix)
}

// breakGlass cuts a site off from everybody, and has a person there withdraw or
// announce it, as soon as it takes its ledger for lost.
func (w *world) breakGlass(f *fault) {
	p := w.places[f.a]
	if p.witness || p.several() { // what a person does at one node of several is no word of the site
		return
	}
	f.last = min(max(f.last, 20*time.Second), w.calm-f.at)
	w.cuts(f, func(from, to int) bool { return (from == f.a) != (to == f.a) })
	o := steadycast.Order{Site: p.name, Kind: steadycast.OrderWithdraw, Actor: "ada", Reason: withForce}
	if f.x&1 == 0 {
		o.Kind = steadycast.OrderAnnounce
	}
	if f.x>>8&3 != 0 {
		o.Prefixes = w.prefixes[len(w.prefixes)-1:]
	}
	end := w.now + f.last
	var attempt func()
	attempt = func() {
		switch a := p.agent; {
		case w.now >= end || p.glass != nil:
		case a != nil && a.client.lost:
			p.order(&glass{order: o})
			if f.x>>16&3 == 0 {
				w.in(min(8*time.Second, end-w.now), p.takeBack)
			}
		default:
			w.in(time.Second, attempt)
		}
	}
	attempt()
}

// order does what a person at the node wants, nil what automation wants.
func (p *place) order(g *glass) {
	what := "nothing any more"
	if g != nil {
		what = g.order.Kind.String()
		p.w.judge.happen("glass broken to " + what)
	}
	p.w.say("%s: a person at the node wants %s", p.name, what)
	p.glass = g
	p.agent.local()
	p.w.judge.obeyed(p)
}

// local tells the machine what stands by hand.
func (a *agent) local() {
	var in decide.Local
	if g := a.p.glass; g != nil {
		in.Order = &g.order
	}
	a.bendLocal()
	a.step(in)
}

// takeBack: the person takes it back before the ledger has heard of it.
func (p *place) takeBack() {
	if a := p.agent; a != nil && a.client.lost && p.glass != nil {
		p.order(nil)
	}
}

// reconcile tells the ledger what was done by hand, until its view has it.
func (a *agent) reconcile() {
	g := a.p.glass
	switch {
	case g == nil || !a.alive() || !a.client.told || a.client.lost:
	case g.at != steadycast.Fence{}:
		if a.client.fence.Compare(g.at) >= 0 {
			a.w.judge.happen("glass mended")
			a.p.order(nil)
		}
	default:
		o := g.order
		a.client.tell(call{
			entry: func(p *ledger.Proposer, now time.Duration) decide.Entry {
				e := p.Entry(now, decide.KindLocal)
				e.Actor, e.Reason, e.Order = o.Actor, o.Reason, &o
				e.Decide = &decide.Decide{Seen: p.Seen(now), Loads: p.Loads(now)}
				return e
			},
			said: func(r decide.Reply) {
				if a.alive() && a.p.glass == g {
					g.at = r.Fence
					a.reconcile()
				}
			},
		})
	}
}

// keep writes the newest view to the node's disk, at most once a second.
func (c *client) keep(v decide.View) {
	busy := c.dirty != nil
	c.dirty = &v
	if busy {
		return
	}
	a := c.a
	a.w.at(max(a.w.now+5*time.Millisecond, a.p.keptAt+time.Second), func() {
		if a.alive() {
			a.p.kept, a.p.keptAt, c.dirty = c.dirty, a.w.now, nil
		}
	})
}
