package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// What this node knows of others: what the ledger heard of them, what its guards
// would answer, and what it remembers.

// farUnits is the state of another node's site, as its beats tell the ledger.
func (s *Server) farUnits(r *http.Request, snap *Snapshot, site string, prefix netip.Prefix) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	sites, err := s.backend.SitesNow(ctx)
	if err != nil {
		return nil, err
	}
	return Units{At: snap.At, Units: []Unit{}}.beside(snap, sites, site, prefix, ""), nil
}

// beside adds to what a node says of its site's units what the ledger heard of the
// site's nodes, but for that one: a unit is wanted where one of them announces it,
// and proven once all have proven their newest change.
func (out Units) beside(snap *Snapshot, sites []decide.SiteNow, site string, prefix netip.Prefix, but string) Units {
	sites = filter(sites, func(x decide.SiteNow) bool { return x.Site == site && (but == "" || x.Node != "" && x.Node != but) })
	place, _ := snap.View.Table.Place(site)
	several := len(place.Nodes) > 1
	if several {
		sites = filter(sites, func(x decide.SiteNow) bool { return x.Node != "" })
	}
	if len(sites) == 0 && but != "" && !several {
		return out
	}
	if len(sites) == 0 && but == "" {
		return out.unheard(snap, site, prefix)
	}
	for _, x := range sites {
		if out.Fence == (steadycast.Fence{}) || x.At.Compare(out.Fence) < 0 {
			out.Fence = x.At
		}
	}
	units, cuts := []Unit{}, snap.cuts(sites)
	for _, v := range snap.View.Units {
		if v.Unit.Site != site || prefix.IsValid() && v.Unit.Prefix != prefix {
			continue
		}
		u := Unit{Unit: v.Unit, Proven: true}
		if i := slices.IndexFunc(out.Units, func(x Unit) bool { return x.Unit == v.Unit }); i >= 0 {
			u = out.Units[i]
		}
		for _, now := range sites {
			who := cmp.Or(now.Node, site)
			u.Wanted = u.Wanted || slices.Contains(now.Announcing, v.Unit)
			if why := unprovenBy(now, v.Unit, who); u.Proven && why != "" {
				u.Proven, u.Unproven = false, why
			}
		}
		for _, n := range place.Nodes {
			if u.Proven && several && n.Name != but && !slices.ContainsFunc(sites, func(x decide.SiteNow) bool { return x.Node == n.Name }) {
				u.Proven, u.Unproven = false, "the ledger has not heard "+n.Name
			}
		}
		if u.Cut = worstCut(cuts, v.Unit); u.Cut != nil && u.Cut.Unheard && u.Proven {
			u.Cut = nil // it is heard by now
		}
		units = append(units, u)
	}
	out.Units = units
	return out
}

// unprovenBy says why what the ledger heard of a node proves nothing of a unit; "" if it does.
func unprovenBy(now decide.SiteNow, u steadycast.Unit, who string) string {
	switch age := time.Duration(now.AgeMS) * time.Millisecond; {
	case age > Stale:
		return fmt.Sprintf("the ledger heard %s last %s ago", who, Span(age))
	case slices.Contains(now.Unproven, u):
		return who + " has not proven its newest change yet"
	}
	return ""
}

// unheard are the units of a site that the ledger never heard, where there is something
// to say of them: that nobody can tell what became of them.
func (out Units) unheard(snap *Snapshot, site string, prefix netip.Prefix) Units {
	cuts := snap.cuts(nil)
	for _, v := range snap.View.Units {
		if c := worstCut(cuts, v.Unit); c != nil && v.Unit.Site == site && (!prefix.IsValid() || v.Unit.Prefix == prefix) {
			out.Units = append(out.Units, Unit{Unit: v.Unit, Unproven: "the ledger never heard " + site, Cut: c})
		}
	}
	return out
}

// getGuards says what every guard would answer now, for the units asked about.
func (s *Server) getGuards(r *http.Request) (any, error) {
	snap, prefix, err := s.scoped(r, "site", "prefix")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	all, err := s.backend.Guards(ctx)
	if err != nil {
		return nil, err
	}
	site := r.FormValue("site")
	return Page[decide.Ruling]{snap.At, filter(all, func(x decide.Ruling) bool {
		return (site == "" || x.Unit.Site == site) && (!prefix.IsValid() || x.Unit.Prefix == prefix)
	})}, nil
}

// HistoryRow is one line of GET /v1/history, the newest last.
type HistoryRow struct {
	At    time.Time        `json:"at"`
	Fence steadycast.Fence `json:"fence"`
	Event steadycast.Event `json:"event"`
}

func (s *Server) getHistory(r *http.Request) (any, error) {
	snap, prefix, err := s.scoped(r, "site", "prefix")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	past, err := s.backend.History(ctx)
	if err != nil {
		return nil, err
	}
	site := r.FormValue("site")
	rows := []HistoryRow{}
	for _, p := range past {
		// What was about more than what is asked for was about it, too.
		if (site == "" || p.Event.Site == "" || p.Event.Site == site) &&
			(!prefix.IsValid() || !p.Event.Prefix.IsValid() || p.Event.Prefix == prefix) {
			rows = append(rows, HistoryRow{snap.ledgerTime(p.LT), p.Fence, p.Event})
		}
	}
	return Page[HistoryRow]{snap.At, rows}, nil
}
