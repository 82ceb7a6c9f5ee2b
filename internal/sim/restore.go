package sim

import "time"

// restoreHost takes a copy of a host's disk, and sets the host back to it later: it
// loses power, and comes up with what it knew then. A voter's disk is not among it,
// for nobody may start one from a copy.
func (w *world) restoreHost(f *fault) {
	p := w.places[f.a]
	if p.agent == nil || w.now+2*f.last+10*time.Second > w.calm {
		return
	}
	starts, high, kept, glass := p.starts, p.speaker.high, p.kept, p.glass
	w.in(2*f.last, func() {
		if !p.up {
			return
		}
		w.say("%s: the host is set back to its disk of %v ago", p.node, 2*f.last)
		w.judge.happen("host set back")
		p.crash()
		w.in(4*time.Second, func() {
			if p.up {
				return
			}
			p.starts, p.speaker.high, p.kept, p.glass = starts, high, kept, glass
			p.backAt = w.judge.view.Fence
			p.boot(2*f.last + 4*time.Second)
		})
	})
}

// unknowing: the host was set back, and has not heard yet what it forgot.
func (p *place) unknowing() bool {
	return p.agent == nil || p.agent.client.fence.Compare(p.backAt) < 0
}

// startAgain ends an agent that the ledger knows more requests of than it made, and
// starts it with a higher number, as a supervisor does.
func (a *agent) startAgain() {
	start, ok := a.site.Overtaken()
	if !ok || a.w.is(sameIncarnation) || a.ending || !a.alive() {
		return
	}
	a.ending = true
	p := a.p
	a.w.in(time.Millisecond, func() {
		if !a.alive() {
			return
		}
		a.w.judge.happen("started again from a higher number")
		p.starts = max(p.starts, start)
		p.killAgent()
		a.w.in(300*time.Millisecond, func() {
			if p.up && p.agent == nil {
				p.startAgent(300 * time.Millisecond)
			}
		})
	})
}
