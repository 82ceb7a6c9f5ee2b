package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// A site that dies whole (power, host, uplink) says nothing of itself any more, so
// its last verdict stands, Healthy mostly. Its routes end by its routers' hold
// time; that its names end, too, takes somebody else's word. It is believed on
// two things together, neither of which is enough:
//
//   - silence: the leader has heard no beat of the site for [GoneAfter];
//   - evidence: what the other vantages say of a service there, counted exactly
//     as the evidence of a withdrawal is (ballot.go), the site's own word aside.
//
// The mark moves no route and no phase, spends no budget and counts in no floor;
// only answers of DNS look at it. It ends with the first word of the site, or when
// others see the service well; of a service with only_new, after a longer absence,
// with a person's word. And it is for few: where more sites are silent than the
// breaker lets fall, it is rather this side that is deaf.

// goneAfter is the least silence.
const goneAfter = 5 * time.Second

// GoneAfter is how long nothing must be heard of a site before a service there may
// be called gone: what counted as evidence while it still spoke is too old by then.
func GoneAfter(interval time.Duration) time.Duration { return max(goneAfter, FreshFor(interval)) }

// goneAfter is GoneAfter for a service of the table.
func (s Service) goneAfter() time.Duration { return GoneAfter(s.Health.withDefaults().Interval) }

// Silent is a site of which the proposer hears nothing, and what others said last
// of one service there.
type Silent struct {
	Site    string `json:"site"`
	Service string `json:"service"`
	// QuietMS is for how long nothing was heard.
	QuietMS int64 `json:"quiet_ms"`
	// Evidence is the newest word of each other vantage, so that nothing later can
	// speak against it.
	Evidence []steadycast.Observation `json:"evidence,omitempty"`
}

// Gone is a service at a site that is silent and that others see down.
type Gone struct {
	Site    string `json:"site"`
	Service string `json:"service"`
	// Since is when that was entered, QuietMS how long it had been silent by then.
	Since   Time             `json:"since"`
	Fence   steadycast.Fence `json:"fence"`
	QuietMS int64            `json:"quiet_ms"`
	// By are the vantages that saw it down, in order of name.
	By []string `json:"by"`
	// Back is when it was heard, or seen well, again, after longer than its service's
	// only_new: what it has may be old, and a person has to resume it. 0: it is not back.
	Back Time `json:"back,omitempty"`
	// From is since when it had not served by then; set with Back.
	From Time `json:"from,omitempty"`
}

// String says why it is believed: `nothing heard for 6s, and ams, lon, nyc see it down`.
func (g *Gone) String() string {
	if g.Back != 0 {
		return fmt.Sprintf("back after %s, and may have old data: a person has to resume it", wait(g.Back-g.From).Round(time.Second))
	}
	return fmt.Sprintf("nothing heard for %s, and %s see it down",
		(time.Duration(g.QuietMS) * time.Millisecond).Round(time.Second), strings.Join(g.By, ", "))
}

// GoneOf finds the mark of a service at a site; nil where there is none.
func (v *View) GoneOf(site, service string) *Gone {
	if i, ok := goneAt(v.Gone, site, service); ok {
		return &v.Gone[i]
	}
	return nil
}

func goneAt(list []Gone, site, service string) (int, bool) {
	return slices.BinarySearchFunc(list, Gone{Site: site, Service: service}, Gone.compare)
}

func (g Gone) compare(h Gone) int {
	return cmp.Or(cmp.Compare(g.Site, h.Site), cmp.Compare(g.Service, h.Service))
}

// gone judges what the proposer says of sites that are silent, or no longer.
func (a *applying) gone(d Decide) string {
	if len(d.Silent) > maxBatch {
		return fmt.Sprintf("%d silent services in one entry; at most %d", len(d.Silent), maxBatch)
	}
	for _, x := range d.Silent {
		if s, ok := a.Table.Service(x.Service); !ok || !slices.Contains(s.Sites, x.Site) {
			return fmt.Sprintf("no service %s at site %s", x.Service, x.Site)
		}
	}
	for _, site := range d.Heard {
		a.speaks(site)
	}
	silent := slices.Clone(d.Silent)
	slices.SortStableFunc(silent, func(x, y Silent) int {
		return cmp.Or(cmp.Compare(x.Site, y.Site), cmp.Compare(x.Service, y.Service))
	})
	silent = slices.CompactFunc(silent, func(x, y Silent) bool { return x.Site == y.Site && x.Service == y.Service })
	silent = slices.DeleteFunc(silent, func(x Silent) bool { return slices.Contains(d.Heard, x.Site) })

	var fresh []Gone
	for _, x := range silent {
		evidence := slices.DeleteFunc(a.ordered(x.Evidence), func(o steadycast.Observation) bool {
			return o.Vantage == x.Site || o.Service != x.Service
		})
		b := a.ballot(x.Site, x.Service, evidence)
		_, marked := goneAt(a.Gone, x.Site, x.Service)
		s, _ := a.Table.Service(x.Service)
		switch {
		case marked && b.enough && b.passing >= b.quorum:
			a.returns(x.Site, x.Service, fmt.Sprintf("%d of %d voices see it well", b.passing, b.voices))
		case !marked && x.QuietMS >= s.goneAfter().Milliseconds() && x.QuietMS <= int64(maxTime) && b.down() && !b.conflict():
			fresh = append(fresh, Gone{Site: x.Site, Service: x.Service, Since: a.LT, Fence: a.Fence, QuietMS: x.QuietMS, By: a.failing(x.Site, evidence)})
		}
	}
	// All who are silent count before the first is marked: otherwise the first few
	// of a common fault would be.
	away := make([]string, 0, len(silent)+len(a.Gone))
	for _, x := range silent {
		away = append(away, x.Site)
	}
	for _, g := range a.Gone {
		away = append(away, g.Site)
	}
	fresh = slices.DeleteFunc(fresh, func(g Gone) bool { return a.crowded(g.Service, away) })
	for _, g := range fresh {
		i, _ := goneAt(a.Gone, g.Site, g.Service)
		a.Gone = slices.Insert(slices.Clone(a.Gone), i, g)
		a.event(steadycast.Event{Kind: steadycast.EventAlarm, Site: g.Site, Service: g.Service, From: "heard", To: "gone", Reason: g.String() + "; names lead elsewhere"})
	}
	return ""
}

// failing names the vantages of a site that see it down and are counted, in order.
func (a *applying) failing(site string, evidence []steadycast.Observation) []string {
	var by []string
	watch := a.Table.Vantages(site)
	for _, o := range evidence {
		if _, ok := slices.BinarySearch(watch, o.Vantage); ok && o.Subject == site && o.Result.Outcome == steadycast.Down && a.ineligible(o) == "" {
			by = append(by, o.Vantage)
		}
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// crowded: with the sites that are away, more would be than the breaker lets fall:
// of the whole fleet, of those that serve the service, or of one of its prefixes,
// of which those in trouble count, too.
func (a *applying) crowded(service string, away []string) bool {
	over := func(sites, out []string) bool {
		n := 0
		for _, site := range sites {
			if slices.Contains(out, site) {
				n++
			}
		}
		return n > a.breakerLimit(len(sites))
	}
	s, _ := a.Table.Service(service)
	if over(a.Table.Announcers(), away) || over(s.Sites, away) {
		return true
	}
	for _, p := range s.Prefixes {
		out := slices.Clone(away)
		for _, t := range a.troubled(p) {
			out = append(out, t.site)
		}
		if a.broken(p) != nil || over(a.Table.SitesOf(p), out) {
			return true
		}
	}
	return false
}

// heard ends the marks of those whose own word the entry is.
func (a *applying) heard() {
	if len(a.Gone) == 0 {
		return
	}
	e := a.e
	var sites []string
	say := func(site string) { sites = append(sites, site) }
	for _, v := range e.Verdicts {
		say(v.Site)
	}
	if e.Kind == KindDecide {
		for _, r := range e.Decide.Requests {
			say(r.Site)
		}
	}
	for _, u := range e.Units { // lost and found: by its beat
		say(u.Site)
	}
	for _, k := range e.Acks {
		say(k.Site)
	}
	switch {
	case e.Give != nil:
		say(e.Give.Site)
	case e.Return != nil:
		say(e.Return.Unit.Site)
	case e.Step != nil:
		say(e.Step.Site)
	case e.Kind == KindLocal:
		say(e.Order.Site)
	case e.Kind == KindRamp:
		for _, r := range e.Decide.Ramped {
			say(r.Site)
		}
	}
	slices.Sort(sites) // whatever order they stand in
	for _, site := range slices.Compact(sites) {
		a.speaks(site)
	}
}

// speaks ends all marks of a site.
func (a *applying) speaks(site string) {
	for _, g := range a.Gone {
		if g.Site == site {
			a.returns(site, g.Service, "it is heard again")
		}
	}
}

// returns ends a mark, but for one that stood for longer than only_new: that waits
// for a person from then on.
func (a *applying) returns(site, service, why string) {
	i, _ := goneAt(a.Gone, site, service)
	g := a.Gone[i]
	s, _ := a.Table.Service(service)
	switch {
	case g.Back != 0:
	case s.OnlyNew > 0 && !a.within(a.awayFrom(&g), s.OnlyNew):
		g.Back, g.From = a.LT, a.awayFrom(&g)
		a.Gone = slices.Clone(a.Gone)
		a.Gone[i] = g
		a.event(steadycast.Event{Kind: steadycast.EventAlarm, Site: site, Service: service, From: "gone", To: "on hold", Reason: why + ": " + g.String()})
	default:
		a.unmark(site, service, why)
	}
}

// doubted reports whether names wait for a person's word on a service of the unit.
func (s *state) doubted(u steadycast.Unit) bool {
	return slices.ContainsFunc(s.services(u), func(i int) bool {
		k, ok := goneAt(s.Gone, u.Site, s.Table.Services[i].Name)
		return ok && s.Gone[k].Back != 0
	})
}

// trust ends the marks of a unit's services that wait for a person.
func (a *applying) trust(u steadycast.Unit) {
	for _, i := range a.services(u) {
		name := a.Table.Services[i].Name
		if k, ok := goneAt(a.Gone, u.Site, name); ok && a.Gone[k].Back != 0 {
			a.unmark(u.Site, name, a.e.Actor+": "+a.e.Reason)
			a.renewed(u.Site, name)
		}
	}
}

// unmark ends one mark.
func (a *applying) unmark(site, service, why string) {
	a.Gone = keep(a.Gone, func(g Gone) bool { return g.Site != site || g.Service != service })
	a.event(steadycast.Event{Kind: steadycast.EventRecovery, Site: site, Service: service, From: "gone", To: "heard", Reason: why})
}

// settleGone drops marks of what the table no longer has.
func (a *applying) settleGone() {
	a.Gone = keep(a.Gone, func(g Gone) bool {
		s, ok := a.Table.Service(g.Service)
		return ok && slices.Contains(s.Sites, g.Site) && (g.Back == 0 || s.OnlyNew > 0)
	})
}

// soundGone checks of a snapshot what this code relies on.
func (s *state) soundGone() error {
	for i, g := range s.Gone {
		v, ok := s.Table.Service(g.Service)
		switch {
		case i > 0 && s.Gone[i-1].compare(g) >= 0:
			return errors.New("the marks of what is gone are out of order")
		case !ok || !slices.Contains(v.Sites, g.Site) || g.Since < 0 || g.Since > s.LT || g.QuietMS < 0 || g.QuietMS > int64(maxTime) || len(g.By) == 0 || g.Back != 0 && (g.Back < g.Since || g.Back > s.LT || g.From > g.Since) || g.From < 0 || g.Back == 0 && g.From != 0:
			return fmt.Errorf("%s of %s is gone since %d, seen by %d, which cannot be", g.Service, g.Site, g.Since, len(g.By))
		}
	}
	return nil
}
