package sim

import (
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// packet is what one place tells another once a round: a nonce for it to echo,
// and what was observed of it, with the newest nonce of its own that arrived.
// Age counts from when that nonce was issued, so nothing that was long on its
// way looks fresh.
type packet struct {
	from  *place
	nonce nonce
	echo  nonce
	seq   uint64
	saw   []steadycast.Result // by service; empty when nothing was observed
	// unfit: the prober's controls fail, and it says so.
	unfit bool
}

// seen is what one vantage said last of one service, before any counting.
type seen struct {
	heard bool
	down  bool
	from  decide.Now
	seq   uint64
}

// round probes this site and the others once, and does so again after an interval.
func (a *agent) round() {
	if !a.alive() {
		return
	}
	a.issued = append(a.issued, a.now())
	a.lookHere()
	for _, x := range a.p.peers {
		a.lookThere(x)
	}
	a.lookAside("")
	a.missing()
	a.w.in(a.w.between(970*time.Millisecond, 1030*time.Millisecond), a.round)
}

// lookHere is one round of the site's own checks.
func (a *agent) lookHere() {
	a.looks++
	if a.site == nil || a.w.now < a.w.blackout {
		return
	}
	for s, sv := range a.w.table.Services {
		res := a.p.sees(a.p, s)
		if res.Outcome == steadycast.Down {
			a.good[s] = 0
			if a.p.selfish == 0 {
				a.w.judge.sawFailing(a.p, a.p)
			}
		} else {
			a.good[s]++
		}
		a.take(a.p, s, steadycast.Observation{
			Vantage: a.p.name, Node: a.p.voice(), Subject: a.p.name, Service: sv.Name, Result: res, Seq: a.looks,
		}, a.now())
	}
}

// lookThere probes another place and sends it a packet.
func (a *agent) lookThere(x peer) {
	w, q := a.w, x.place
	m := packet{from: a.p, nonce: a.nonce(), echo: a.echo[q.i], seq: a.looks}
	m.unfit = a.p.broken > 0 && !w.is(noControls)
	if x.watched && w.now >= w.blackout {
		for s := range w.table.Services {
			res := a.p.sees(q, s)
			switch {
			case a.p.broken > 0, a.p.lies == saysBad:
				res = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused"}
			case a.p.lies == saysGood:
				res = steadycast.Result{Outcome: steadycast.Up}
			case res.Outcome == steadycast.Down:
				w.judge.sawFailing(a.p, q)
			}
			m.saw = append(m.saw, res)
		}
	}
	w.relayed(a.p.i, q.i, func() {
		if q.agent != nil {
			q.agent.hear(m)
		}
	})
}

// hear takes a packet.
func (a *agent) hear(m packet) {
	old := &a.echo[m.from.i]
	if m.nonce.life > old.life || m.nonce.life == old.life && m.nonce.n > old.n {
		*old = m.nonce
	}
	if m.echo.life != a.life || a.site == nil {
		return // an answer to an earlier start of this agent
	}
	from := a.issued[m.echo.n]
	if a.w.is(ageByReceipt) {
		from = a.now()
	}
	for s, res := range m.saw {
		o := steadycast.Observation{
			Vantage: m.from.name, Node: m.from.voice(), Subject: a.p.name, Service: a.w.table.Services[s].Name, Result: res, Seq: m.seq,
		}
		if m.unfit {
			o.Ineligible = "its controls fail"
		}
		a.take(m.from, s, o, from)
		a.forged(m.from, s, o, from)
	}
}

// take hands one observation to the machine.
func (a *agent) take(from *place, service int, o steadycast.Observation, age decide.Now) {
	x := &a.seen[from.i*len(a.w.table.Services)+service]
	if o.Seq > x.seq || !x.heard {
		*x = seen{true, o.Result.Outcome == steadycast.Down, age, o.Seq}
	}
	if from != a.p {
		a.outvote(service, &o)
	}
	a.step(decide.Observed{Observation: o, From: age})
}
