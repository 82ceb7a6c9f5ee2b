package decide

import (
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// Sites that fall silent and come back, and what is too old by then: the world's part
// of only_new, with an account of its own of how long each unit did not serve.

// moment is how a unit stood from one entry on.
type moment struct {
	lt             Time
	in, gone, well bool
	renewed        bool // a person took its data for new
}

// serves is what ends an absence, leaves what begins one.
func (m moment) serves() bool { return m.in && !m.gone && m.well }
func (m moment) leaves() bool { return !m.in || m.gone }

// drawServices gives the world's service only_new, or none, and beside it perhaps one
// that is only judged.
func drawServices(t *rapid.T, table *Table) {
	table.Services[0].OnlyNew = time.Duration(rapid.SampledFrom([]int{0, 60, 600, 3600}).Draw(t, "only_new")) * time.Second
	if rapid.Bool().Draw(t, "one that is only judged") {
		table.Services = append(table.Services, Service{Name: "uplink"})
	}
}

// silence: the leader hears nothing of some sites, and the others say what they see.
func (w *fleetWorld) silence(t *rapid.T) {
	var d Decide
	for range rapid.IntRange(1, 2).Draw(t, "silent") {
		site := w.site(t)
		service := rapid.SampledFrom(w.t.Services).Draw(t, "service").Name
		quiet := Time(rapid.SampledFrom([]int{4000, 6000, 60_000}).Draw(t, "quiet"))
		result := steadycast.Result{Outcome: rapid.SampledFrom([]steadycast.Outcome{steadycast.Down, steadycast.Down, steadycast.Up}).Draw(t, "seen")}
		d.Silent = append(d.Silent, Silent{Site: site, Service: service, QuietMS: int64(quiet), Evidence: w.t.evidence(site, service, 1, result)})
	}
	e := w.entry(KindGone)
	e.Decide = &d
	w.apply(t, e)
}

// hear: the leader hears a site again.
func (w *fleetWorld) hear(t *rapid.T) {
	e := w.entry(KindGone)
	e.Decide = &Decide{Heard: []string{w.site(t)}}
	w.apply(t, e)
}

// witness notes how every unit stands after an entry, and what a person said of its data.
func (w *fleetWorld) witness(e Entry, r Reply) {
	for i := range w.f.s.Units {
		u := &w.f.s.Units[i]
		m := moment{lt: w.f.s.LT, in: u.Phase == steadycast.In, well: !u.Lost && w.f.s.health(u.Unit).ok}
		for _, g := range w.f.s.Gone {
			if g.Site == u.Unit.Site && g.Service == "web" {
				m.gone = true
				if g.Since == w.f.s.LT && g.Fence == r.Fence { // it had been silent before
					m.lt = max(g.Since-Time(g.QuietMS), 0)
				}
			}
		}
		m.renewed = e.Kind == KindResume && r.Refused == nil && r.Invalid == "" && w.taken(e, u.Unit)
		w.life[u.Unit] = append(w.life[u.Unit], m)
	}
}

// taken: the resume was about the unit: it was on hold, or what it serves was.
func (w *fleetWorld) taken(e Entry, u steadycast.Unit) bool {
	for _, was := range w.was {
		if was.Unit != u && was.Unit.Site != u.Site || !e.Scope.Covers(was.Unit) {
			continue
		}
		if slices.ContainsFunc(w.marks, func(g Gone) bool { return g.Site == u.Site && g.Service == "web" && g.Back != 0 }) {
			return true
		}
		if now := w.f.s.unit(u.Site, u.Prefix); was.Unit == u && now.Resumed && !was.Resumed {
			return true
		}
	}
	return false
}

// away is for how long a unit does not serve at a time, by its life so far. What was
// never in is away from nothing.
func (w *fleetWorld) away(u steadycast.Unit, at Time) Time {
	from, ever := never, false
	for _, m := range w.life[u] {
		switch {
		case m.serves():
			from = never
		case m.renewed && from != never:
			from = m.lt
		case m.leaves() && from == never && (m.in || ever):
			from = m.lt
		}
		ever = ever || m.in
	}
	if from == never {
		return 0
	}
	return at - from
}

// tooOld holds each ruling on a return, and each mark that ended or waits, against the
// account before the entry.
func (w *fleetWorld) tooOld(t *rapid.T, e Entry, r Reply) {
	limit := lt(w.t.Services[0].OnlyNew)
	for _, ans := range r.Answers {
		for _, ru := range ans.Rulings {
			i := slices.IndexFunc(w.was, func(u unitState) bool { return u.Unit == ru.Unit })
			if i < 0 {
				continue
			}
			was, away := &w.was[i], w.away(ru.Unit, r.LT)
			old := limit > 0 && away >= limit
			if p := ru.Permit; p != nil && p.Fence == r.Fence && p.Action == steadycast.Return && old && was.Phase == steadycast.Out && was.Auto && !was.Resumed && was.Pardon == noPardon && w.pinned(ru.Unit) == "" {
				t.Fatalf("%s may return after %s without serving; only_new %s; %+v; %+v", ru.Unit, wait(away), w.t.Services[0].OnlyNew, *was, w.life[ru.Unit])
			}
			for _, g := range ru.Guards {
				if strings.Contains(g.Text, "has only_new") && !old {
					t.Fatalf("%s is held after %s: %s; %+v", ru.Unit, wait(away), g.Text, w.life[ru.Unit])
				}
			}
		}
	}
	for _, g := range w.marks {
		if g.Service != "web" || g.Back != 0 {
			continue
		}
		longest := r.LT - max(g.Since-Time(g.QuietMS), 0)
		for _, u := range w.was {
			if u.Unit.Site == g.Site && u.Phase == steadycast.In {
				longest = max(longest, w.away(u.Unit, r.LT))
			}
		}
		old := limit > 0 && longest >= limit
		i, there := goneAt(w.f.s.Gone, g.Site, g.Service)
		switch {
		case !there && old:
			t.Fatalf("%s is heard after %s, and names lead there; only_new %s", g.Site, wait(longest), wait(limit))
		case there && w.f.s.Gone[i].Back != 0 && !old:
			t.Fatalf("%s waits for a person after %s; only_new %s", g.Site, wait(longest), wait(limit))
		}
	}
}

// pinned is the order that stands over a unit, if any.
func (w *fleetWorld) pinned(u steadycast.Unit) string {
	if o := w.f.s.orderOver(u); o != nil {
		return o.Order.Actor
	}
	return ""
}
