package sim

import (
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The client's times.
const (
	followFor = 2500 * time.Millisecond // without a live word before the next voter is followed
	lostAfter = 4 * time.Second         // without one before the machine is told
)

// client is an agent's way to the ledger. It says everything to all voters, of
// which the one that leads answers, and follows what one of them has committed.
type client struct {
	a      *agent
	heard  []nonce // the newest of each voter, to be echoed
	beats  uint64
	follow int
	fence  steadycast.Fence // of the newest view that was passed on
	live   time.Duration    // of the newest word of a voter that knows a leader; real time
	told   bool             // there was one
	lost   bool
	dirty  *decide.View // to be written to disk; nil when it is there
	shown  *decide.View // the newest that was passed on
}

func newClient(a *agent) client {
	return client{a: a, heard: make([]nonce, len(a.w.voters)), follow: a.p.i % len(a.w.voters), live: a.w.now}
}

// tell sends one call to all voters.
func (c *client) tell(x call) {
	x.from, x.deaths = c.a.p, c.a.p.deaths
	for _, v := range c.a.w.voters {
		c.a.w.send(c.a.p.i, v.place, func() { v.on(func() { v.take(x) }) })
	}
}

func (c *client) ask(r steadycast.Request, reported []steadycast.Verdict) {
	c.a.w.judge.asked(c.a, r)
	c.tell(call{ask: &r, report: reported})
}

func (c *client) report(verdicts []steadycast.Verdict) { c.tell(call{report: verdicts}) }

func (c *client) giveUp(id steadycast.RequestID, units []steadycast.Unit) {
	c.a.w.judge.happen("permit given up")
	c.tell(call{give: &decide.GiveUpEntry{Site: c.a.p.name, ID: id, Units: units}})
}

// beat tells every voter what is so, each with the newest of its own nonces.
func (c *client) beat(b decide.Beat) {
	c.beats++
	b.Seq = c.beats
	m := spoken{beat: b}
	for i, v := range c.a.w.voters {
		m := m
		m.echo = c.heard[i]
		c.a.w.send(c.a.p.i, v.place, func() { v.on(func() { v.hear(c.a.p.i, m) }) })
	}
}

// answered takes an answer to the machine.
func (c *client) answered(ans decide.Answer) {
	c.a.w.judge.answered(c.a, ans)
	c.a.step(decide.Answered{Answer: ans})
	if ans.ID.Seq == rogueSeq || c.a.w.is(oldVerdict) {
		c.carryOut(ans)
	}
}

// word is what a voter says each second, and when something was committed.
type word struct {
	voter *voter
	nonce nonce
	live  bool // it knows a leader
	view  *decide.View
}

func (c *client) hear(m word) {
	old := &c.heard[m.voter.i]
	if m.nonce.life > old.life || m.nonce.life == old.life && m.nonce.n > old.n {
		*old = m.nonce
	}
	if m.voter.i != c.follow || !m.live || c.a.site == nil {
		return
	}
	c.live = c.a.w.now
	c.a.w.judge.heard[c.a.p.i] = c.a.w.now
	if c.told && !c.lost && m.view.Fence == c.fence {
		return
	}
	view := *m.view
	if c.a.w.is(oldViews) && view.Fence.Compare(c.fence) < 0 {
		view.Fence = c.fence
	}
	if view.Fence.Compare(c.fence) > 0 {
		c.fence = view.Fence
	}
	c.told, c.lost = true, false
	c.keep(view)
	c.shown = &view
	c.a.step(decide.Committed{View: c.a.bendView(view)})
	c.a.reconcile()
	c.a.try()
}

// watching looks once a second whether the followed voter is still of use.
func (c *client) watching() {
	if !c.a.alive() || c.a.site == nil {
		return
	}
	silent := c.a.w.now - c.live
	if silent > followFor {
		c.follow = (c.follow + 1) % len(c.a.w.voters)
	}
	if silent > lostAfter && !c.lost {
		c.lost = true
		c.a.w.judge.happen("ledger lost")
		c.a.step(decide.LedgerLost{Reason: "no voter that knows a leader answers"})
	}
	c.alone()
	c.a.reconcile()
	c.a.try()
	c.a.w.in(time.Second, c.watching)
}
