package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// ledTo is how many answers of one node's server of names lead to a site, now and
// while nothing was wrong with it, as [burden] has it.
type ledTo struct {
	site      string
	now, calm int64
}

// leads adds what a beat says of answers to what was known.
func (l *leader) leads(was []ledTo, b decide.Beat) []ledTo {
	if b.Led == nil {
		return was
	}
	var out []ledTo
	for _, p := range l.view.Table.Sites {
		if p.LoadPerAnswer == 0 {
			continue
		}
		x := ledTo{site: p.Name, now: b.Led.To(p.Name)}
		if x.calm = x.now; l.troubled(p.Name) {
			if i := slices.IndexFunc(was, func(w ledTo) bool { return w.site == p.Name }); i >= 0 {
				x.calm = was[i].calm
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b ledTo) int { return cmp.Compare(a.site, b.site) })
	return out
}

// ledLoads are the loads that names bring to sites which the table gives a load per
// answer, in order of site: all servers together, as far as those are heard that
// ever told. One that is heard and does not know makes the figure as old as what it
// knew last. Where no server ever told, nothing is known.
func (l *leader) ledLoads(now time.Duration) (out []decide.Load) {
	heard := slices.ContainsFunc(l.beats, func(h heard) bool { return h.beat.Led != nil && now-h.at <= beatFresh })
	for _, p := range l.view.Table.Sites {
		if p.LoadPerAnswer == 0 {
			continue
		}
		sum, known := decide.Load{Site: p.Name}, false
		for i := range l.beats {
			h := &l.beats[i]
			if h.beat.Led == nil || heard && now-h.at > beatFresh {
				continue
			}
			known = true
			sum.AgeSeconds = max(sum.AgeSeconds, h.beat.Led.AgeSeconds+int64((now-h.at)/time.Second))
			if k, ok := slices.BinarySearchFunc(h.led, p.Name, func(x ledTo, site string) int { return cmp.Compare(x.site, site) }); ok {
				n := h.led[k].now
				if l.troubled(p.Name) {
					n = max(n, h.led[k].calm)
				}
				sum.Load += n
			}
		}
		if known {
			window := int64(decide.LedWindow / time.Second)
			sum.Load = (sum.Load*p.LoadPerAnswer + window - 1) / window
			out = append(out, sum)
		}
	}
	slices.SortFunc(out, func(a, b decide.Load) int { return cmp.Compare(a.Site, b.Site) })
	return out
}
