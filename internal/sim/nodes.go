package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Sites of several nodes: each is a host with a speaker, an agent and a disk of its
// own, and shares its site's place in the ledger. They tell each other directly
// what they are and what they promise.

func nodeName(site string, n int) string { return fmt.Sprintf("%s-%d", site, n+1) }

// nodesOf are the nodes of one site, as the table has them.
func nodesOf(site int, name string, n int) []decide.Node {
	var all []decide.Node
	for k := range n {
		a := netip.AddrFrom4([4]byte{10, 0, byte(site), byte(k + 1)})
		all = append(all, decide.Node{Name: nodeName(name, k), Mesh: netip.AddrPortFrom(a, 7482)})
	}
	return all
}

// settle makes the hosts of all sites.
func (w *world) settle(shape *rand.Rand) {
	for i := range w.table.Sites {
		w.places = append(w.places, newPlace(w, i, i, 0, shape))
	}
	for i, s := range w.table.Sites {
		for k := 1; k < len(s.Nodes); k++ {
			w.places = append(w.places, newPlace(w, len(w.places), i, k, shape))
		}
	}
	for _, p := range w.places {
		first := w.places[p.s]
		first.group = append(first.group, p)
	}
	for _, p := range w.places {
		p.group = w.places[p.s].group
	}
}

// sites are the first hosts of all sites, in the order of the table.
func (w *world) sites() []*place { return w.places[:len(w.table.Sites)] }

func (p *place) several() bool { return len(p.group) > 1 }

// least is how many of the site's nodes must be well for the site to be.
func (p *place) least() int { return max(p.w.table.Sites[p.s].MinNodes, 1) }

// out: some node of the site announces.
func (p *place) out(prefix int) bool {
	return slices.ContainsFunc(p.group, func(q *place) bool { return q.speaker.out[prefix] })
}

// dead: what the instance here needs for a prefix has been ill for so long that it knows.
func (p *place) dead(prefix int) bool {
	any := p.w.table.PrefixPolicy(p.w.prefixes[prefix]).Needs == decide.NeedsAny
	for s, sv := range p.w.table.Services {
		if slices.Contains(sv.Prefixes, p.w.prefixes[prefix]) {
			if ill := p.illAt[s] != never && p.w.now-p.illAt[s] > 15*time.Second; ill != any {
				return ill
			}
		}
	}
	return any
}

// voice is the node that speaks for a site of several; empty elsewhere.
func (p *place) voice() string {
	if p.several() {
		return p.node
	}
	return ""
}

// nonce is the newest that this agent issued.
func (a *agent) nonce() nonce { return nonce{a.life, len(a.issued) - 1} }

// lookAside looks at the instance of a sibling, or of all.
func (a *agent) lookAside(node string) {
	if !a.p.several() || a.site == nil || a.w.now < a.w.blackout {
		return
	}
	a.looks++
	for _, q := range a.p.group {
		if q == a.p || node != "" && q.node != node {
			continue
		}
		for s, sv := range a.w.table.Services {
			res := a.p.looksAt(q, s)
			if res.Outcome == steadycast.Down {
				a.w.judge.host(q, 0).failedAt = a.w.now
			}
			a.step(decide.Observed{From: a.now(), Observation: steadycast.Observation{
				Vantage: a.p.name, Subject: a.p.name + "/" + q.node, Service: sv.Name, Result: res, Seq: a.looks,
			}})
		}
	}
}

// tellKin tells a sibling, or all of them. What is told is as old as the nonce of
// the reader's that is echoed.
func (a *agent) tellKin(to string, kin decide.Kin) {
	if len(a.issued) == 0 {
		return
	}
	nonce := a.nonce()
	for _, q := range a.p.group {
		if q == a.p || to != "" && q.node != to {
			continue
		}
		echo, said := a.echo[q.i], a.bendKin(kin, q)
		a.w.send(a.p.i, q.i, func() {
			if q.agent != nil {
				q.agent.hearKin(a.p, nonce, echo, said)
			}
		})
	}
}

func (a *agent) hearKin(from *place, fresh, echo nonce, kin decide.Kin) {
	old := &a.echo[from.i]
	if fresh.life > old.life || fresh.life == old.life && fresh.n > old.n {
		*old = fresh
	}
	if echo.life != a.life || a.site == nil {
		return
	}
	a.step(decide.Told{Node: from.node, From: a.issued[echo.n], Kin: a.bendTold(from, kin)})
}

// hostHistory is what the judge knows of a unit at one host.
type hostHistory struct {
	added    cause         // why its agent wants it announced …
	removed  cause         // … or not
	lostAt   time.Duration // when it was lost against its will
	failedAt time.Duration // when a sibling saw its instance fail last
}

// ofNode judges a route that one node of several announces or withdraws, and reports
// whether a sibling announces it anyway: then the site as such has not changed.
func (j *judge) ofNode(p *place, prefix int, on bool, why *cause) bool {
	w, own := j.w, j.host(p, prefix)
	stay, well, just := 0, 0, 0
	for _, q := range p.group {
		switch h := j.host(q, prefix); {
		case q == p:
		case q.speaker.out[prefix]:
			stay++
			if !q.dead(prefix) {
				well++
			}
		case w.now-h.lostAt <= 7*time.Second: // it was promised, and then lost against its will
			just++
		}
	}
	if on {
		if why.kind == byNobody {
			*why = own.added
		}
		if why.kind == byResume && stay > 0 {
			j.resumed(p, prefix, j.unit(p, prefix), *why)
		}
	} else {
		if why.kind == byNobody {
			*why = own.removed
		}
		switch why.kind {
		case byLoss, byRestart:
			own.lostAt = w.now
		case byMutation:
			j.holds(iDeath, false, "%s loses %s: %s", p.node, w.prefixes[prefix], why.reason)
		case byNobody:
			j.holds(iAttributes, false, "%s: %s vanishes from the wire for a change of attributes", p.node, w.prefixes[prefix])
		case byKin:
			j.happen("a node left alone")
			u := phaseOf(&j.view, w.unit(p, prefix))
			going := u == nil || u.Phase != steadycast.In || u.Order != steadycast.OrderNone // the site leaves as well
			j.holds(iNodes, going || well+just >= p.least(), "%s leaves %s by itself, and %d others announce it, of which %d are well; min_nodes %d", p.node, w.prefixes[prefix], stay, well, p.least())
			j.holds(iNodes, w.now-j.host(p, 0).failedAt <= 20*time.Second, "%s leaves %s by itself, and no sibling saw it fail", p.node, w.prefixes[prefix])
		}
	}
	if stay > 0 {
		own.added, own.removed = cause{}, cause{}
	}
	return stay > 0
}

// whole: what one node of a site was granted, each carries out within permit_ttl of
// hearing of it, unless the permit is given up or something newer stands.
func (j *judge) whole(a *agent, prefix int, id steadycast.RequestID) {
	w, p := j.w, a.p
	if !p.several() {
		return
	}
	heard := map[*agent]time.Duration{}
	var look func()
	look = func() {
		u := phaseOf(&j.view, w.unit(p, prefix))
		if u == nil || u.Phase != steadycast.Out || u.Permit.ID != id || u.Order != steadycast.OrderNone || w.now >= w.o.Length-20*time.Second {
			return
		}
		for _, q := range p.group {
			b := q.agent
			if b == nil || !q.speaker.up || b.client.fence.Compare(u.Permit.Fence) < 0 {
				continue
			}
			if _, ok := heard[b]; !ok {
				heard[b] = w.now
			}
			j.holds(iNodes, !q.speaker.out[prefix] || w.now-heard[b] <= w.table.Guards.PermitTTL+4*time.Second,
				"%s left by %s, %s heard of it %v ago and still announces %s", p.node, id, q.node, w.now-heard[b], w.prefixes[prefix])
		}
		w.in(time.Second, look)
	}
	w.in(time.Second, look)
}
