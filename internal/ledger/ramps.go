package ledger

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// rampEvery is how often returning sites are held against their gates.
const rampEvery = time.Second

// returning: some service of some site walks its ramp, or may have to give clients away.
func (l *leader) returning() bool {
	return l.view.Table.Shed != nil || slices.ContainsFunc(l.view.Shares, func(x decide.ShareView) bool { return x.Ramp.Of > 0 })
}

// step proposes what the returning sites said of the steps that they are in, when
// something follows from it. The machine judges; this only spares the log.
func (l *leader) step(now time.Duration) (decide.Entry, bool) {
	if !l.returning() || now < l.stepAt {
		return decide.Entry{}, false
	}
	l.stepAt = now + rampEvery
	if l.view.Table.Shed != nil {
		e := l.entry(now, decide.KindShed)
		e.Decide = &decide.Decide{Loads: l.loads(now)}
		if r, err := l.fleet.Try(e); err == nil && len(r.Events) > 0 {
			return e, true
		}
	}
	e := l.entry(now, decide.KindRamp)
	e.Decide = &decide.Decide{Seen: l.seen(now), Loads: l.loads(now)}
	for _, c := range l.fresh(now) {
		b := c[0] // its nodes hear the same of the site, and one of them is enough
		for _, r := range b.Ramps {
			if x, ok := l.view.ShareOf(b.Site, r.Service); ok && x.Ramp.Of > 0 && x.Ramp.Fence == r.Step {
				e.Decide.Ramped = append(e.Decide.Ramped, decide.RampedAt{Site: b.Site, Ramped: r})
			}
		}
	}
	r, err := l.fleet.Try(e)
	return e, err == nil && len(r.Events) > 0
}
