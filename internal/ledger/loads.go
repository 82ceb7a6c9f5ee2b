package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// burden is what a site says that it carries. The load that would go elsewhere is
// that of before the trouble: what is failing carries less, until it leaves and
// its clients come to the others.
type burden struct {
	known bool
	now   int64 // as reported last
	calm  int64 // as reported last while nothing was wrong with it
	from  time.Duration
}

// carries adds what a beat says to what was known of its site.
func (l *leader) carries(was burden, at time.Duration, b decide.Beat) burden {
	if b.Load == nil || b.Load.Load < 0 || b.Load.AgeSeconds < 0 || b.Load.AgeSeconds > 1<<20 {
		return was
	}
	is := burden{known: true, now: b.Load.Load, calm: was.calm, from: at - time.Duration(b.Load.AgeSeconds)*time.Second}
	if !l.troubled(b.Site) {
		is.calm = is.now
	}
	return is
}

// troubled: a service of the site is in trouble by its committed verdict.
func (l *leader) troubled(site string) bool {
	return slices.ContainsFunc(l.view.Verdicts, func(v steadycast.Verdict) bool { return v.Site == site && v.State.Troubled() })
}

// loads are what the sites report, in order of site, however old: that one is too
// old is for the guard to say. What a site of several nodes carries is the sum of
// what those carry that are heard; where none is, of what they carried.
func (l *leader) loads(now time.Duration) []decide.Load {
	var ls []decide.Load
	for i := 0; i < len(l.beats); {
		site, heard := l.beats[i].beat.Site, false
		end := i
		for ; end < len(l.beats) && l.beats[end].beat.Site == site; end++ {
			heard = heard || now-l.beats[end].at <= beatFresh
		}
		sum, known := decide.Load{Site: site}, false
		for ; i < end; i++ {
			h := &l.beats[i]
			if !h.load.known || heard && now-h.at > beatFresh {
				continue
			}
			load := h.load.now
			if l.troubled(site) {
				load = max(load, h.load.calm)
			}
			known = true
			sum.Load, sum.AgeSeconds = sum.Load+load, max(sum.AgeSeconds, int64((now-h.load.from)/time.Second))
		}
		if known {
			ls = append(ls, sum)
		}
	}
	for _, x := range l.ledLoads(now) {
		if i, ok := slices.BinarySearchFunc(ls, x.Site, func(a decide.Load, site string) int { return cmp.Compare(a.Site, site) }); !ok {
			ls = slices.Insert(ls, i, x)
		}
	}
	return ls
}

// loadOf finds a site's load; nil where there is none.
func loadOf(loads []decide.Load, site string) *decide.Load {
	if i := slices.IndexFunc(loads, func(l decide.Load) bool { return l.Site == site }); i >= 0 {
		return &loads[i]
	}
	return nil
}
