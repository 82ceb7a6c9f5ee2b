package ledger

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// goneEvery is how often silent sites are held against what others see of them.
const goneEvery = time.Second

// watches: there is more than one site, so that some can speak of others.
func (l *leader) watches() bool { return len(l.view.Table.Announcers()) > 1 }

// gone proposes what others see of sites that are silent, when something follows
// from it, and at once who of those that are marked speaks again. The machine
// judges; this only spares the log.
func (l *leader) gone(now time.Duration) (decide.Entry, bool) {
	e := l.entry(now, decide.KindGone)
	if heard := l.returned(now); len(heard) > 0 {
		e.Decide = &decide.Decide{Heard: heard}
		return e, true
	}
	if now < l.goneAt || !l.watches() {
		return e, false
	}
	l.goneAt = now + goneEvery
	sites := l.view.Table.Announcers()
	silent := slices.DeleteFunc(slices.Clone(sites), func(site string) bool { return l.quiet(now, site) <= beatFresh })
	if len(silent) == 0 || 2*len(silent) >= len(sites) {
		return e, false // with half of all silent it is rather this voter that is deaf
	}
	e.Decide = l.silent(now, silent)
	r, err := l.fleet.Try(e)
	return e, err == nil && len(r.Events) > 0
}

// quiet is for how long nothing was heard of a site: not longer than this leader
// listens.
func (l *leader) quiet(now time.Duration, site string) time.Duration {
	last := l.start
	for _, h := range l.beats {
		if h.beat.Site == site {
			last = max(last, h.at)
		}
	}
	return now - last
}

// returned are the sites with a mark of which a fresh beat came.
func (l *leader) returned(now time.Duration) []string {
	if len(l.view.Gone) == 0 {
		return nil
	}
	var sites []string
	for _, c := range l.fresh(now) {
		if slices.ContainsFunc(l.view.Gone, func(g decide.Gone) bool { return g.Site == c[0].Site && g.Back == 0 }) {
			sites = append(sites, c[0].Site)
		}
	}
	return sites
}

// silent is what everybody says of the services of silent sites, and who of those
// who say it is not taken.
func (l *leader) silent(now time.Duration, sites []string) *decide.Decide {
	d := &decide.Decide{}
	l.cross.mu.Lock()
	defer l.cross.mu.Unlock()
	t := l.view.Table
	for _, site := range sites {
		quiet := l.quiet(now, site).Milliseconds()
		for _, s := range t.Services {
			if slices.Contains(s.Sites, site) {
				d.Silent = append(d.Silent, decide.Silent{Site: site, Service: s.Name, QuietMS: quiet, Evidence: l.cross.check.Sees(now, t, site, s.Name)})
			}
		}
		d.Ineligible = append(d.Ineligible, l.cross.check.Ineligible(now, t, site)...)
	}
	return d
}
