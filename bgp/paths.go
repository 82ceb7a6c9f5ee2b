package bgp

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Paths. Neighbours may be in groups, each the way by which packets come here:
// straight, or through somebody who scrubs them. The routes go one way at a time,
// and from one to another make-before-break:
//
//	direct               scrubbed
//	announced            –                    divert
//	announced            announced            until all of scrubbed have acknowledged
//	announced, leaving   announced            for the overlap
//	–                    announced
//
// A neighbour of no path hears them always, and proves no path. As long as nobody
// of the new path is up, or one who is has not acknowledged, nothing is taken from
// the old one; so a new path that does not work never costs the one that does. An
// acknowledgement is that of the next router: those behind it get the overlap to
// hear of the new way, while the old one carries the marks of a drain and still works.

// way is which neighbours hear the routes, and how: those of the path that is wanted,
// and of all that had them before and are not left yet.
type way struct {
	toward  string
	held    []string // the oldest first; "" stands for every neighbour
	leaving bool     // the new path is proven, and the held ones are about to be left
	routes  []steadycast.Route
	last    []steadycast.Route
}

// path is the one that is relied on.
func (w *way) path() string {
	if len(w.held) > 0 {
		return w.held[0]
	}
	return w.toward
}

// leads reports whether a neighbour of a path hears the routes.
func (w *way) leads(path string) bool {
	return path == "" || w.toward == "" || path == w.toward || slices.Contains(w.held, path) || slices.Contains(w.held, "")
}

// routesFor is what a neighbour of a path should hear.
func (w *way) routesFor(path string) []steadycast.Route {
	switch {
	case !w.leads(path):
		return []steadycast.Route{}
	case w.leaving && path != "" && path != w.toward:
		return w.last
	default:
		return w.routes
	}
}

// way is how the routes go now; before the first set, how they went when the last
// process ended. Callers hold mu.
func (s *Speaker) way() *way {
	w := &way{toward: s.set.Path, held: s.held, routes: s.set.Routes, leaving: !s.provenAt.IsZero()}
	if !s.applied && s.remembered != nil {
		w.toward = *s.remembered
	}
	if w.leaving {
		w.last = slices.Clone(w.routes)
		for i := range w.last {
			w.last[i].Stance = steadycast.Draining
		}
	}
	return w
}

// head holds the path that was wanted before, until another is proven; that of all
// neighbours takes nothing from anybody. Callers hold mu.
func (s *Speaker) head(was string) {
	to := s.set.Path
	if was == to {
		return
	}
	s.held, s.provenAt = slices.Clone(s.held), time.Time{}
	if !slices.Contains(s.held, was) {
		s.held = append(s.held, was)
	}
	s.held = slices.DeleteFunc(s.held, func(p string) bool { return p == to || to == "" })
}

// proceed goes one step on from a path to another, or back to before the last one
// where the new path is proven no more, and says what there is to wait for; "" where
// nothing is.
func (s *Speaker) proceed(w *way, set steadycast.RouteSet, a *steadycast.Actual) string {
	if len(w.held) == 0 {
		return ""
	}
	why := unproven(w.toward, set.Routes, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.stopped || s.set.Incarnation != set.Incarnation || s.set.Version != set.Version || s.set.Path != set.Path:
		return "another set is wanted by now"
	case why != "" && s.provenAt.IsZero():
		return why
	case why != "":
		s.provenAt = time.Time{}
	case s.provenAt.IsZero() && set.Overlap > 0:
		s.provenAt = now
		time.AfterFunc(set.Overlap, s.changed)
		why = "proven, and the old path is kept for the overlap"
	case now.Sub(s.provenAt) < set.Overlap:
		return "proven, and the old path is kept for the overlap"
	default:
		s.held, s.provenAt = nil, time.Time{}
		s.logger.Info("the routes go another way", "from", w.path(), "to", w.toward)
		why = "those who are left are told now"
	}
	next := s.way()
	for _, n := range s.neighbors {
		if path := n.current().Path; path != "" && path != w.toward {
			n.pusher.set(next.routesFor(path))
		}
	}
	s.changed()
	return why
}

// unproven says why the routes do not go a path yet, "" if they do: one neighbour
// of it has acknowledged each, and so has every one of it that is up and carries it.
func unproven(path string, routes []steadycast.Route, a *steadycast.Actual) string {
	known, up := false, false
	for _, p := range a.Peers {
		known = known || p.Path == path
		up = up || p.Path == path && p.Up()
	}
	switch {
	case !known:
		return fmt.Sprintf("no neighbour of node.yaml is of path %s", path)
	case !up:
		return fmt.Sprintf("no session of path %s is up", path)
	}
	for _, r := range routes {
		carried := false
		for _, p := range a.Peers {
			if p.Path != path || !p.Up() || !slices.Contains(p.Families, familyOf(r.Prefix.Addr())) {
				continue
			}
			carried = true
			i := slices.IndexFunc(a.Sent, func(x steadycast.Sent) bool { return x.Peer == p.Name && x.Prefix == r.Prefix })
			switch {
			case i < 0 || !a.Sent[i].Announced || a.Sent[i].Stale:
				return fmt.Sprintf("%s was not sent %s yet", p.Name, r.Prefix)
			case a.Sent[i].Acked.IsZero():
				return fmt.Sprintf("%s has not acknowledged %s", p.Name, r.Prefix)
			}
		}
		if !carried {
			return fmt.Sprintf("no session of path %s carries %s", path, r.Prefix)
		}
	}
	return ""
}
