package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// CrossCheck is what a voter hears of everybody's observations, to hold against
// what a site brings as evidence: a site sees only what is said of itself, and
// only a voter can see that a vantage fails half of the world. It is pure; what
// it finds goes into the entry ([Decide].Ineligible and Passing), and Apply
// counts by that.
//
// Every voter keeps one, so that whoever leads next is warm. It belongs to
// whoever calls it. Nothing is ever believed because it is absent here: a voter
// that hears nothing finds nobody ineligible and no conflict.
type CrossCheck struct {
	targets []target // in order of subject, then service
}

// target is one service of one site, as everybody sees it.
type target struct {
	subject, service string
	looks            []look // in order of vantage
}

// look is the newest of one vantage.
type look struct {
	vantage    string
	from       Now // since when its age counts
	seq        uint64
	outcome    steadycast.Outcome
	ineligible bool
}

// digestEvery is how late a voter may hear what has not changed: a change it is
// told at once (rule O2).
const digestEvery = 10 * time.Second

// Hear takes an observation whose age counts from an instant of this process's
// monotonic time. A repeat, or an older one, says nothing.
func (c *CrossCheck) Hear(from Now, o steadycast.Observation) {
	i, ok := c.find(o.Subject, o.Service)
	if !ok {
		c.targets = slices.Insert(c.targets, i, target{subject: o.Subject, service: o.Service})
	}
	t := &c.targets[i]
	j, ok := slices.BinarySearchFunc(t.looks, o.Vantage, func(l look, v string) int { return cmp.Compare(l.vantage, v) })
	if !ok {
		t.looks = slices.Insert(t.looks, j, look{vantage: o.Vantage})
	} else if l := &t.looks[j]; from < l.from || o.Seq <= l.seq && from-l.from <= digestEvery {
		return // older, or a repeat; a restarted vantage may begin its sequence again
	}
	l := &t.looks[j]
	l.from, l.seq, l.outcome, l.ineligible = from, o.Seq, sane(o.Result).Outcome, o.Ineligible != ""
}

// find is where a target stands, or would.
func (c *CrossCheck) find(subject, service string) (int, bool) {
	return slices.BinarySearchFunc(c.targets, target{subject: subject, service: service}, func(t, w target) int {
		return cmp.Or(cmp.Compare(t.subject, w.subject), cmp.Compare(t.service, w.service))
	})
}

// Keep forgets what is not in the table.
func (c *CrossCheck) Keep(t Table) {
	c.targets = slices.DeleteFunc(c.targets, func(x target) bool {
		s, ok := t.Service(x.service)
		return !ok || !slices.Contains(t.sitesOfService(s), x.subject)
	})
	for i := range c.targets {
		x := &c.targets[i]
		watch := t.Vantages(x.subject)
		x.looks = slices.DeleteFunc(x.looks, func(l look) bool { return !slices.Contains(watch, l.vantage) })
	}
}

// poll is how many of a target's vantages know something now, and how many of
// them see it up.
func (x *target) poll(now, window Now) (known, up int) {
	for i := range x.looks {
		if l := &x.looks[i]; l.vantage != x.subject && l.knows(now, window) {
			known++
			if l.outcome == steadycast.Up {
				up++
			}
		}
	}
	return known, up
}

// knows: it is young enough, and its vantage is sure of itself and of the answer.
func (l *look) knows(now, window Now) bool {
	return now-l.from <= window && !l.ineligible && l.outcome != steadycast.Unknown
}

// Sees is what the other vantages of a site said last of a service there, in order
// of vantage: a change is told at once and the rest every digestEvery, so what is
// no older than that still stands. Who is sure of neither says nothing.
func (c *CrossCheck) Sees(now Now, t Table, site, service string) []steadycast.Observation {
	i, ok := c.find(site, service)
	if !ok {
		return nil
	}
	var os []steadycast.Observation
	watch, window := t.Vantages(site), watchWindow(t, service)+digestEvery
	for _, l := range c.targets[i].looks {
		if _, assigned := slices.BinarySearch(watch, l.vantage); assigned && !l.ineligible && now-l.from <= window {
			os = append(os, steadycast.Observation{Vantage: l.vantage, Subject: site, Service: service, Seq: l.seq,
				Result: sane(steadycast.Result{Outcome: l.outcome})})
		}
	}
	return os
}

// scored is what one vantage makes of targets that most others see up.
type scored struct {
	vantage       string
	known, failed int
	subjects      []string // that it fails
}

// Ineligible names the vantages of a site that fail more than half of their
// other targets which a majority of others sees up: at least two others, and of
// at least two targets, so that one broken path silences nobody (rule B3).
func (c *CrossCheck) Ineligible(now Now, t Table, subject string) []Ineligible {
	var scores []scored
	for _, name := range t.Vantages(subject) {
		scores = append(scores, scored{vantage: name})
	}
	var windows windows
	for i := range c.targets {
		x := &c.targets[i]
		if x.subject == subject {
			continue
		}
		window := windows.of(t, x.service) + digestEvery
		known, up := x.poll(now, window)
		for j, k := 0, 0; j < len(x.looks) && k < len(scores); { // both are in order
			l := &x.looks[j]
			if c := cmp.Compare(l.vantage, scores[k].vantage); c != 0 {
				j, k = j+max(0, -c), k+max(0, c)
				continue
			}
			s := &scores[k]
			j, k = j+1, k+1
			if !l.knows(now, window) {
				continue
			}
			others, ups := known-1, up
			if l.outcome == steadycast.Up {
				ups--
			}
			if others < 2 || 2*ups <= others {
				continue
			}
			s.known++
			if l.outcome == steadycast.Down {
				s.failed++
				if len(s.subjects) == 0 || s.subjects[len(s.subjects)-1] != x.subject { // targets are in order
					s.subjects = append(s.subjects, x.subject)
				}
			}
		}
	}
	var found []Ineligible
	for _, s := range scores {
		if 2*s.failed > s.known && len(s.subjects) >= 2 {
			found = append(found, Ineligible{Vantage: s.vantage, Subject: subject,
				Reason: fmt.Sprintf("fails %d of %d others' services that a majority sees up", s.failed, s.known)})
		}
	}
	return found
}

// Passing names, for each service of a withdrawal's evidence, the vantages that
// pass it now by later observations: later than their own in the request, or
// fresh where they have none there (rule V2).
func (c *CrossCheck) Passing(now Now, t Table, r steadycast.Request) []Passing {
	if r.Action != steadycast.Withdraw {
		return nil
	}
	var services []string
	for _, o := range r.Evidence {
		if !slices.Contains(services, o.Service) {
			services = append(services, o.Service)
		}
	}
	slices.Sort(services)
	var found []Passing
	for _, service := range services {
		i := slices.IndexFunc(c.targets, func(x target) bool { return x.subject == r.Site && x.service == service })
		if i < 0 {
			continue
		}
		p := Passing{Subject: r.Site, Service: service}
		watch := t.Vantages(r.Site)
		for j := range c.targets[i].looks {
			l := &c.targets[i].looks[j]
			_, assigned := slices.BinarySearch(watch, l.vantage)
			if assigned && l.outcome == steadycast.Up && l.knows(now, watchWindow(t, service)) && l.later(r, service) {
				p.Vantages = append(p.Vantages, l.vantage)
			}
		}
		if len(p.Vantages) > 0 {
			found = append(found, p)
		}
	}
	return found
}

// later: the request brings nothing as new of this vantage.
func (l *look) later(r steadycast.Request, service string) bool {
	return !slices.ContainsFunc(r.Evidence, func(o steadycast.Observation) bool {
		return o.Vantage == l.vantage && o.Service == service && o.Seq >= l.seq
	})
}

// watchWindow is FreshFor a service of the table.
func watchWindow(t Table, service string) Now {
	s, _ := t.Service(service)
	return FreshFor(s.Health.withDefaults().Interval)
}

// windows remembers watchWindow: a pass over all targets asks for it thousands of times.
type windows []struct {
	service string
	window  Now
}

func (ws *windows) of(t Table, service string) Now {
	for _, w := range *ws {
		if w.service == service {
			return w.window
		}
	}
	window := watchWindow(t, service)
	*ws = append(*ws, struct {
		service string
		window  Now
	}{service, window})
	return window
}
