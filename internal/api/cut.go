package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Cut is one leaving of a unit; its durations count from At.
type Cut struct {
	decide.Cut
	// Node that carried it out; empty where nothing was heard of the site.
	Node string    `json:"node,omitempty"`
	At   time.Time `json:"at"`
	// Earlier is what those of the unit at the node took that are known from before;
	// nil for the first.
	Earlier *CutMedian `json:"earlier,omitempty"`
}

// CutMedian are the medians of earlier cuts, each of those that came so far.
type CutMedian struct {
	Count    int           `json:"count"`
	Decided  time.Duration `json:"decided_ns"`
	Effect   time.Duration `json:"effect_ns,omitempty"`
	Migrated time.Duration `json:"migrated_ns,omitempty"`
	Lost     time.Duration `json:"lost_ns"`
}

// getCuts gives the cuts of the fleet, oldest first: those of this node by its own
// word, those of others by what they told the ledger, and what the ledger remembers.
func (s *Server) getCuts(r *http.Request) (any, error) {
	snap, _, err := s.scoped(r, "site")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	sites, err := s.backend.SitesNow(ctx)
	if err != nil {
		sites = nil // what is known here is no less true without the ledger
	}
	only := r.FormValue("site")
	return Page[Cut]{At: snap.At, Items: filter(snap.cuts(sites), func(c Cut) bool { return only == "" || c.Unit.Site == only })}, nil
}

// cuts are all that are known here, each once and by who knows it best.
func (s *Snapshot) cuts(sites []decide.SiteNow) []Cut {
	out := []Cut{}
	add := func(c Cut) {
		if !slices.ContainsFunc(out, func(x Cut) bool { return x.Unit == c.Unit && x.Fence == c.Fence && x.Node == c.Node }) {
			out = append(out, c)
		}
	}
	for _, site := range s.Sites {
		out = append(out, site.Cuts...)
	}
	for i := range sites {
		for _, c := range sites[i].Cuts {
			add(s.told(&sites[i], c))
		}
	}
	for _, k := range slices.Backward(s.View.Cuts) {
		add(Cut{Cut: k.Cut, Node: k.Node, At: s.ledgerTime(k.Since)})
	}
	slices.SortStableFunc(out, func(a, b Cut) int {
		return cmp.Or(a.At.Compare(b.At), a.Unit.Compare(b.Unit), cmp.Compare(a.Node, b.Node))
	})
	compareCuts(out)
	return out
}

// told is a cut as another node told of it. What was heard of it long ago is only
// what was known then.
func (s *Snapshot) told(site *decide.SiteNow, t decide.CutTold) Cut {
	c := Cut{Cut: t.Cut, Node: cmp.Or(site.Node, t.Node), At: s.At.Add(-time.Duration(t.AgeMS) * time.Millisecond)}
	if age := time.Duration(site.AgeMS) * time.Millisecond; age > Stale && !c.Ended() {
		c.Why = slices.Concat([]string{"as heard " + Span(age) + " ago"}, c.Why)
	}
	return c
}

// compareCuts holds each cut of a list, oldest first, against those before it.
func compareCuts(list []Cut) {
	for i := range list {
		c := &list[i]
		c.Earlier = nil
		var before []Cut
		for k := range i {
			if x := &list[k]; x.Unit == c.Unit && x.Node == c.Node && x.Ended() {
				before = append(before, *x)
			}
		}
		if len(before) == 0 {
			continue
		}
		c.Earlier = &CutMedian{
			Count:    len(before),
			Decided:  median(before, func(x *Cut) (time.Duration, bool) { return x.Decided, true }),
			Effect:   median(before, func(x *Cut) (time.Duration, bool) { return x.Effect, x.Effect > 0 }),
			Migrated: median(before, func(x *Cut) (time.Duration, bool) { return x.Migrated, x.Migrated > 0 }),
			Lost:     median(before, func(x *Cut) (time.Duration, bool) { return x.Lost, true }),
		}
	}
}

// median of those that there are; of an even number the greater of the two in the middle.
func median(of []Cut, take func(*Cut) (time.Duration, bool)) time.Duration {
	var all []time.Duration
	for i := range of {
		if d, ok := take(&of[i]); ok {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// WithCuts puts a node's own cuts, oldest first, into what is shown of its site.
func (s *Site) WithCuts(cuts []Cut) {
	compareCuts(cuts)
	s.Cuts = cuts
	for i := range s.Units {
		s.Units[i].Cut = newestCut(cuts, s.Units[i].Unit)
	}
}

// newestCut is the newest cut of a unit in a list, oldest first; nil if it is over.
func newestCut(cuts []Cut, u steadycast.Unit) *Cut {
	for i := range slices.Backward(cuts) {
		if c := &cuts[i]; c.Unit == u {
			if c.Over {
				return nil
			}
			return c
		}
	}
	return nil
}

// worstCut is of the newest cut of a unit at each node the one that is least done,
// so that a site is done with it when all of its nodes are; nil where none lasts.
func worstCut(cuts []Cut, u steadycast.Unit) *Cut {
	var worst *Cut
	seen := map[string]bool{}
	for i := range slices.Backward(cuts) {
		c := &cuts[i]
		if c.Unit != u || seen[c.Node] {
			continue
		}
		seen[c.Node] = true
		if !c.Over && (worst == nil || c.undone() > worst.undone()) {
			worst = c
		}
	}
	return worst
}

// undone is how far a cut is from done.
func (c *Cut) undone() int {
	return slices.Index([]decide.CutState{decide.CutComplete, decide.CutUnmeasured, decide.CutInProgress, decide.CutFailed}, c.State)
}
