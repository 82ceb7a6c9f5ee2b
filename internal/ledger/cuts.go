package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// cutsEvery is how often what became of cuts is written down.
const cutsEvery = time.Second

// cuts proposes to remember what cuts came to, by the word of the site's own nodes,
// and of silent sites that were ordered out, that nobody can say it.
func (l *leader) cuts(now time.Duration) (decide.Entry, bool) {
	if now < l.cutsAt {
		return decide.Entry{}, false
	}
	l.cutsAt = now + cutsEvery
	e := l.entry(now, decide.KindCut)
	for _, h := range l.beats {
		if now-h.at > beatFresh {
			continue
		}
		for _, c := range older(h.beat.Cuts, now-h.at) {
			c = c.Sound()
			c.Node = cmp.Or(h.beat.Node, c.Node)
			if c.Unit.Site == h.beat.Site && c.Node != "" && !c.Unheard && c.Fault() == "" && !c.Settled(l.view.Cuts) {
				e.Cuts = append(e.Cuts, c)
			}
		}
	}
	for _, c := range l.silenced(now) {
		if len(e.Cuts) < decide.CutsTold {
			e.Cuts, l.unheard = append(e.Cuts, c), append(l.unheard, c)
		}
	}
	e.Cuts = e.Cuts[:min(len(e.Cuts), decide.CutsTold)]
	return e, len(e.Cuts) > 0
}

// silenced are the cuts of silent sites that nobody can speak for, each once.
func (l *leader) silenced(now time.Duration) []decide.CutTold {
	var out, still []decide.CutTold
	for _, site := range l.view.Table.Announcers() {
		quiet := l.quiet(now, site)
		if quiet < decide.Unheard {
			continue
		}
		for _, c := range l.view.UnheardOf(site, quiet) {
			if slices.ContainsFunc(l.unheard, func(x decide.CutTold) bool { return x.Unit == c.Unit && x.Fence == c.Fence }) {
				still = append(still, c)
			} else {
				out = append(out, c)
			}
		}
	}
	l.unheard = still // no more than there are units
	return out
}

// older adds to the ages of what was told how long ago that was.
func older(told []decide.CutTold, by time.Duration) []decide.CutTold {
	told = slices.Clone(told[:min(len(told), decide.CutsTold)])
	for i := range told {
		told[i].AgeMS += by.Milliseconds()
	}
	return told
}
