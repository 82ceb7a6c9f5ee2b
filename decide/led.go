package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// Names lead clients to sites, and servers of names count whom they led where. A
// node tells of its server's counts with its beats; two things follow from them:
//
//   - what a site carries, where nothing else measures it: so many answers in a
//     second, each of which brings load_per_answer of the table (the leader adds up
//     what all servers say, see internal/ledger);
//   - whether a cut is done: a server that still leads clients to a service that
//     has left its site keeps that cut in progress.

const (
	// LedWindow is the time over which answers are counted.
	LedWindow = 10 * time.Second
	// LedMost bounds the rows of one beat; those of the most answers are kept.
	LedMost = 128
	// ledMaxCount bounds one row, so that no sum of what the fleet says overflows.
	ledMaxCount = 1 << 32
	// maxPerAnswer bounds load_per_answer for the same reason.
	maxPerAnswer = 1_000_000
)

// Led is how many answers of one server led to a site, within the last [LedWindow].
type Led struct {
	Site string `json:"site"`
	// Service of the members that were given; empty for all others at the site together.
	Service string `json:"service,omitempty"`
	Count   int64  `json:"count"`
}

// LedTold is what a node says that its server of names counted.
type LedTold struct {
	// AgeSeconds is how long ago the window ended.
	AgeSeconds int64 `json:"age_s,omitempty"`
	Led        []Led `json:"led,omitempty"`
}

// LedWorth is what of a server's counts a beat carries: by service where the service
// is not wholly in at the site, because a cut may wait for it; else as one row of
// the site, where its load is told by answers; else nothing.
func (v *View) LedWorth(counts []Led) []Led {
	var out []Led
	add := func(l Led) {
		i, ok := slices.BinarySearchFunc(out, l, func(a, b Led) int {
			return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Service, b.Service))
		})
		if !ok {
			out = slices.Insert(out, i, Led{Site: l.Site, Service: l.Service})
		}
		out[i].Count = min(out[i].Count+l.Count, ledMaxCount)
	}
	for _, l := range counts {
		p, ok := v.Table.Place(l.Site)
		if !ok || l.Count <= 0 {
			continue
		}
		l.Count = min(l.Count, ledMaxCount)
		s, known := v.Table.Service(l.Service)
		if !known || v.whollyIn(s, l.Site) {
			if l.Service = ""; p.LoadPerAnswer == 0 {
				continue
			}
		}
		add(l)
	}
	if len(out) > LedMost {
		slices.SortStableFunc(out, func(a, b Led) int { return cmp.Compare(b.Count, a.Count) })
		out = out[:LedMost]
	}
	return out
}

// whollyIn: every prefix of the service is In at the site.
func (v *View) whollyIn(s Service, site string) bool {
	return !slices.ContainsFunc(v.Units, func(u UnitView) bool {
		return u.Unit.Site == site && u.Phase != steadycast.In && slices.Contains(s.Prefixes, u.Unit.Prefix)
	})
}

// Sound drops what a node cannot mean.
func (l *LedTold) Sound() *LedTold {
	if l == nil || l.AgeSeconds < 0 {
		return nil
	}
	rows := keep(l.Led[:min(len(l.Led), LedMost)], func(r Led) bool { return r.Count >= 0 && r.Count <= ledMaxCount })
	return &LedTold{l.AgeSeconds, rows}
}

// To is how many of the answers led to a site, whatever the service.
func (l *LedTold) To(site string) (n int64) {
	for _, r := range l.Led {
		if r.Site == site {
			n += r.Count
		}
	}
	return n
}

// LedTo is how many answers of all servers still lead to some services at a site, by
// what was told last, and which nodes say so. asked is how many servers tell at all.
func LedTo(told []SiteNow, site string, services []Service) (n int64, by []string, asked int) {
	for _, x := range told {
		if x.Led == nil || x.AgeMS > BeatFresh.Milliseconds() {
			continue
		}
		asked++
		before := n
		for _, r := range x.Led.Led {
			if r.Site == site && slices.ContainsFunc(services, func(s Service) bool { return s.Name == r.Service }) {
				n += r.Count
			}
		}
		if n > before {
			by = append(by, cmp.Or(x.Node, x.Site))
		}
	}
	return n, by, asked
}

// led says that names still lead to where a route was cut, "" if none does.
func (f *CutFacts) led() string {
	if f.Led == 0 {
		return ""
	}
	return fmt.Sprintf("residual: %d answers of the last %s led clients here, by %s", f.Led, seconds(LedWindow), strings.Join(f.LedBy, ", "))
}
