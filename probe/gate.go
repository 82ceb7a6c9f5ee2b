package probe

import (
	"time"

	"github.com/steadycast/steadycast"
)

// A gate stands between what this vantage sees of other subjects and those who
// count it. It puts to each observation why the vantage cannot be believed, if
// so, and it keeps a failure back until a round of controls has come out right
// that began after the failure was seen: a vantage that has just lost its own
// network sees everything fail before controls of a moment ago can know.
//
// With [Controls] that answer quickly this costs a failure one round trip. What
// the vantage sees of itself never waits, and without controls nothing does.
//
// It belongs to the scheduler's loop.
type gate struct {
	on      bool          // there are controls
	why     string        // why the vantage is no voice; empty: it is one
	began   time.Duration // when the newest round of controls that has ended began
	doubt   string        // why it was none before the first round after that,
	since   time.Duration // which ended then
	waiting []held        // in the order in which they were seen
}

// held is an observation that waits.
type held struct {
	key     serviceKey
	o       steadycast.Observation
	started time.Duration // when the look began, and
	seen    time.Duration // when it had ended
}

const (
	// maxHeld bounds what waits; the oldest is dropped.
	maxHeld = 4096
	// eager is how many failing rounds in a row of another subject are looked at
	// fast, each with controls of its own. After so many whoever counts them has
	// had enough, and what is down for hours costs no more than what is up.
	eager = 10
)

// NotYet is why a vantage is no voice when it has just begun to look.
const NotYet = "the controls have not answered yet"

// pass gives out what can go, or keeps it. It reports whether controls are wanted now.
func (g *gate) pass(h held, strict bool, out func(steadycast.Observation, time.Duration)) (wanted bool) {
	if !g.on || h.o.Local() {
		out(h.o, h.started)
		return false
	}
	if waits := strict && g.uncovered(h); waits || g.keeps(h.key) {
		if len(g.waiting) == maxHeld {
			g.waiting = g.waiting[1:]
		}
		g.waiting = append(g.waiting, h)
		return waits
	}
	g.mark(h, out)
	return false
}

// uncovered reports whether h is a failure that no controls vouch for yet. Who
// is no voice already says so at once.
func (g *gate) uncovered(h held) bool {
	return h.o.Result.Outcome == steadycast.Down && g.why == "" && g.began < h.seen
}

// keeps reports whether something of the subject waits already: what is seen
// later is told later.
func (g *gate) keeps(key serviceKey) bool {
	for _, h := range g.waiting {
		if h.key == key {
			return true
		}
	}
	return false
}

// mark gives out an observation with why it is no voice. What was begun before
// the vantage was known to be one again is none.
func (g *gate) mark(h held, out func(steadycast.Observation, time.Duration)) {
	if h.o.Ineligible = g.why; g.why == "" && h.started < g.since {
		h.o.Ineligible = g.doubt
	}
	out(h.o, h.started)
}

// judged takes a round of controls that has ended, and gives out what waited for
// it. It reports whether something still waits.
func (g *gate) judged(r steadycast.Result, began, now time.Duration, out func(steadycast.Observation, time.Duration)) (wanted bool) {
	g.began = began
	switch {
	case r.Outcome != steadycast.Up:
		g.why = "controls: " + r.Reason
	case g.why != "":
		g.why, g.doubt, g.since = "", g.why, now
	}
	old := g.waiting
	g.waiting = nil
	for _, h := range old {
		if g.uncovered(h) || g.keeps(h.key) {
			g.waiting = append(g.waiting, h)
		} else {
			g.mark(h, out)
		}
	}
	return len(g.waiting) > 0
}

// set follows a new set of services: what nobody looks at any more waits no
// longer, and other controls have to answer first.
func (g *gate) set(on, same bool, has func(serviceKey) bool, out func(steadycast.Observation, time.Duration)) {
	if g.on = on; !same {
		g.why = NotYet
	}
	old := g.waiting
	g.waiting = nil
	for _, h := range old {
		switch {
		case !has(h.key):
		case !on:
			out(h.o, h.started)
		case same:
			g.waiting = append(g.waiting, h)
		default:
			g.mark(h, out)
		}
	}
}

// state is why the vantage is no voice, and how much waits.
func (g *gate) state() (why string, waiting int) {
	if g.on {
		why = g.why
	}
	return why, len(g.waiting)
}
