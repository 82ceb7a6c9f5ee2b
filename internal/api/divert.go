package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// followsDivert says what a divert does, or why it makes no sense.
func (s *Snapshot) followsDivert(o *decide.DivertOrder) ([]string, error) {
	if err := s.checkScope(o.Site); err != nil {
		return nil, err
	}
	p, _ := s.View.Table.Place(o.Site)
	switch {
	case len(p.Paths) == 0:
		return nil, &Error{Code: CodeNotFound, Message: o.Site + " has no paths: every neighbour of its nodes hears what it announces", Next: "steadycast sites"}
	case o.Path != "" && !slices.Contains(p.Paths, o.Path):
		return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("%s has no path %q; its paths: %s", o.Site, o.Path, strings.Join(p.Paths, ", ")), Next: "steadycast sites"}
	case o.For < 0:
		return nil, usage("for: %s is negative", o.For)
	}
	now, to := s.View.Path(s.View.Table, o.Site), o.Path
	if to == "" {
		to = p.Paths[0]
	}
	out := []string{fmt.Sprintf("the neighbours of path %s hear all that %s announces; when they have acknowledged, those of %s hear the withdrawal", to, o.Site, now)}
	if now == to {
		out[0] = fmt.Sprintf("%s announces by %s already: no route moves", o.Site, to)
	}
	switch {
	case to == p.Paths[0]:
	case o.For > 0:
		out = append(out, fmt.Sprintf("after %s it goes back to %s by itself", Span(o.For), p.Paths[0]))
	default:
		out = append(out, "it stands until: "+commandOf("undivert", o.Site, nil, "TEXT"))
	}
	return out, nil
}

// DivertText says where a site's routes go and why: `is diverted to path scrubbed:
// maria: "flood", 20m left`.
func DivertText(d *decide.Divert) string {
	text := fmt.Sprintf("is diverted to path %s: %s: %q", d.Order.Path, d.Actor, d.Reason)
	if d.Until != 0 {
		text += ", " + Span(time.Duration(d.LeftMS)*time.Millisecond) + " left"
	}
	return text
}

// pathOf is the path that a site is to announce by, and why it does not yet.
func (s *Snapshot) pathOf(name string) (path, way string) {
	path = s.View.Path(s.View.Table, name)
	if site, ok := s.Site(name); ok && path != "" && site.Actual.PathWait != "" {
		way = "still by " + site.Actual.Path + ", too: " + site.Actual.PathWait
	}
	return path, way
}

// Paths are those of a site, the preferred first, with what is known of their health
// here, and else with what the ledger has.
func (s *Snapshot) Paths(site string) []decide.PathView {
	out := s.View.Paths(site)
	here, ok := s.Site(site)
	if !ok {
		return out
	}
	for i := range out {
		p := &out[i]
		if k := slices.IndexFunc(here.Services, func(x Service) bool { return x.Verdict.Service == p.Service }); p.Service != "" && k >= 0 {
			p.State, p.Reason = here.Services[k].Verdict.State, here.Services[k].Verdict.Reason
		}
	}
	return out
}

// paths are those of all sites that have some, in the order of the table.
func (s *Snapshot) paths() []decide.PathView {
	var out []decide.PathView
	for _, name := range s.siteNames() {
		out = append(out, s.Paths(name)...)
	}
	return out
}

// PathText says of a path what is wrong with it, "" where nothing is or nobody looks:
// `path direct is unhealthy: direct is idle ×3 in 1s`.
func PathText(p *decide.PathView) string {
	if p.State == steadycast.Healthy || p.State == steadycast.StateUnknown {
		return ""
	}
	text := "path " + p.Path
	if p.InUse {
		text += ", in use,"
	}
	text += " is " + p.State.String()
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// judgePaths: routes that go a path which fails, or another than the preferred one
// because that failed, are not as they should be.
func (s *Snapshot) judgePaths(sum *Summary, _ []Row, _ []Tally) {
	for _, d := range s.View.Diverts {
		if d.Auto {
			sum.say(LevelDegraded, "on another path", "steadycast sites")
			break
		}
	}
	for _, p := range s.paths() {
		if !p.InUse || p.State != steadycast.Unhealthy {
			continue
		}
		next := "steadycast checks --site " + p.Site
		if w := s.wish(p.Site); w != nil {
			if g, refused := w.Refusal(); refused && g.Override != "" {
				next = g.Override + " --reason TEXT"
			}
		}
		sum.say(LevelDegraded, "a path fails", next)
		return
	}
}

// WishText says of a change of path why it is called for and what keeps it from being
// made: `would go by scrubbed: path direct is unhealthy: …; cooldown refuses: …`.
func WishText(w *decide.PathWish) string {
	text := "would go by " + w.To + ": " + w.Why
	if g, refused := w.Refusal(); refused {
		text += "; " + g.String()
		if g.Override != "" {
			text += " (" + g.Override + ")"
		}
	}
	return text
}

// wish is the change of path that is called for at a site and refused; nil for none.
func (s *Snapshot) wish(site string) *decide.PathWish {
	for i := range s.View.PathWishes {
		if w := &s.View.PathWishes[i]; w.Site == site {
			return w
		}
	}
	return nil
}

// pathTexts say what is wrong with the paths that sites announce by, of those where
// something is.
func (s *Snapshot) pathTexts() map[string]string {
	out := map[string]string{}
	for _, p := range s.paths() {
		if text := PathText(&p); p.InUse && text != "" {
			out[p.Site] = text
		}
	}
	return out
}

// divert is the order by which a unit's site goes another path, nil if there is none.
func (x *index) divert(site string) *decide.Divert {
	if d, ok := x.s.View.DivertOf(site); ok {
		return &d
	}
	return nil
}
