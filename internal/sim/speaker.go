package sim

import (
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// speaker stands in for a speaker's process and the router behind it: it refuses
// what is older than what it carried out, keeps its routes when the agent dies,
// and loses them with its own process or its session.
type speaker struct {
	up      bool
	started uint64
	session bool
	set     steadycast.RouteSet // taken up last, since the start
	high    steadycast.RouteSet // carried out last, ever: only its numbers count
	out     []bool              // on the wire, by prefix: what is really announced
	acked   bool
}

// acknowledged is any instant; the machines only look whether there is one.
var acknowledged = time.Unix(1, 0)

func (s *speaker) start(p *place) {
	s.up, s.started, s.set, s.acked = true, s.started+1, steadycast.RouteSet{}, true
	p.prove()
}

// stop ends the process and with it the session and its routes.
func (s *speaker) stop(p *place) {
	s.up, s.set = false, steadycast.RouteSet{}
	if p.w.is(gracefulRestart) && !p.up {
		p.w.in(2*time.Minute, func() { p.wire(involuntary) })
		return
	}
	p.wire(involuntary)
}

// apply takes up a set that the agent gave.
func (p *place) apply(set steadycast.RouteSet, causes []cause) {
	s := &p.speaker
	if !s.up {
		return
	}
	switch h := &s.high; {
	case set.Incarnation < h.Incarnation, set.Incarnation == h.Incarnation && set.Version < h.Version:
		return // of an agent that is gone, or overtaken by a newer one
	case set.Fence.Compare(h.Fence) < 0:
		p.w.judge.happen("speaker refused a fence")
		p.w.say("%s: the speaker refuses set %d.%d: fence %v is older than %v", p.name, set.Incarnation, set.Version, set.Fence, h.Fence)
		return
	}
	if p.w.is(attributesByWithdrawal) {
		p.blink(s.set, set)
	}
	s.set, s.high, s.acked = set, set, false
	p.wire(causes...)
	p.prove()
	acks := s.started
	p.w.in(p.w.between(5*time.Millisecond, 80*time.Millisecond), func() {
		if s.started == acks && s.high.Incarnation == set.Incarnation && s.high.Version == set.Version && !s.acked {
			s.acked = true
			p.prove()
		}
	})
}

// wire makes the wire agree with the set and the session, and tells the judge.
func (p *place) wire(causes ...cause) {
	s := &p.speaker
	for i, prefix := range p.w.prefixes {
		_, wanted := s.set.Find(prefix)
		on := s.up && s.session && wanted
		if on == s.out[i] {
			continue
		}
		s.out[i] = on
		why := cause{}
		for _, c := range causes {
			if c.prefix == i || c.prefix < 0 {
				why = c
			}
		}
		p.w.judge.changed(p, i, on, why)
	}
}

// blink is a change of attributes done as a withdrawal and an announcement.
func (p *place) blink(old, set steadycast.RouteSet) {
	for _, r := range set.Routes {
		was, ok := old.Find(r.Prefix)
		if i := p.w.prefixAt(r.Prefix); ok && was.Stance != r.Stance && p.speaker.out[i] {
			p.speaker.out[i] = false
			p.w.judge.changed(p, i, false, cause{prefix: i, kind: byNobody})
		}
	}
}

// cutSession loses the session and its routes.
func (p *place) cutSession() {
	p.speaker.session = false
	p.wire(involuntary)
	p.prove()
}

// healSession makes it again and replays the set.
func (p *place) healSession() {
	p.speaker.session = true
	p.wire(cause{prefix: -1, kind: byReplay})
	p.prove()
}

// prove tells the agent what the speaker did.
func (p *place) prove() {
	a := p.agent
	if a == nil {
		return
	}
	p.w.in(p.w.between(time.Millisecond, 10*time.Millisecond), func() {
		if p.agent != a {
			return
		}
		if !p.speaker.up {
			a.step(decide.SpeakerLost{Reason: "no such socket"})
			return
		}
		a.step(decide.Proved{Actual: p.actual()})
		a.beat()
	})
}

func (p *place) actual() steadycast.Actual {
	s := &p.speaker
	x := steadycast.Actual{Incarnation: s.high.Incarnation, Version: s.high.Version, Started: s.started}
	x.Peers = []steadycast.Peer{{Name: "r1", State: "idle"}}
	if !s.session {
		return x
	}
	x.Peers[0].State = steadycast.PeerEstablished
	for i, prefix := range p.w.prefixes {
		if s.out[i] {
			row := steadycast.Sent{Peer: "r1", Prefix: prefix, Announced: true, At: acknowledged}
			if s.acked {
				row.Acked = acknowledged
			}
			x.Sent = append(x.Sent, row)
		}
	}
	return x
}
