package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Orders over single nodes of a site, written SITE/NODE: what they would do, where
// they stand, and how it is known that they are carried out.

// nodeNames are the nodes of a site of several, in the order of the table; nil of
// one that has one.
func nodeNames(t decide.Table, site string) []string {
	p, _ := t.Place(site)
	if len(p.Nodes) < 2 {
		return nil
	}
	var names []string
	for _, n := range p.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// checkNode refuses nodes that do not exist; "" is none.
func (s *Snapshot) checkNode(site, node string) error {
	names := nodeNames(s.View.Table, site)
	switch {
	case node == "" || slices.Contains(names, node):
		return nil
	case names == nil:
		return &Error{Code: CodeNotFound, Message: fmt.Sprintf("%s has one node: what is ordered of it is ordered of the site", site), Next: "the same with " + site}
	default:
		return &Error{Code: CodeNotFound, Message: fmt.Sprintf("%s has no node %q; nodes: %s", site, node, orNone(names)), Next: "steadycast sites"}
	}
}

// nodeOrders says which orders stand over single nodes of a site.
func (s *Snapshot) nodeOrders(site string) (out []string) {
	for i := range s.View.NodeOrders {
		if o := &s.View.NodeOrders[i]; o.Order.Site == site {
			out = append(out, OrderText(o))
		}
	}
	return out
}

// nodesStand says which orders over single nodes of a site stand on, whatever is
// ordered of the site: each ends by itself or by its own undrain.
func (s *Snapshot) nodesStand(site string, about func(netip.Prefix) bool) (out []string) {
	for i := range s.View.NodeOrders {
		o := &s.View.NodeOrders[i]
		if o.Order.Site == site && slices.ContainsFunc(s.View.Units, func(v decide.UnitView) bool {
			return v.Unit.Site == site && o.Order.Covers(v.Unit.Prefix) && about(v.Unit.Prefix)
		}) {
			out = append(out, fmt.Sprintf("stands on: %s/%s; it ends by: steadycast undrain %s --reason TEXT", site, OrderText(o), o.Order.Target()))
		}
	}
	return out
}

// nodeOrders are those over single nodes that are about u.
func (x *index) nodeOrders(u steadycast.Unit) (out []decide.StandingOrder) {
	for _, o := range x.s.View.NodeOrders {
		if o.Order.Site == u.Site && o.Order.Covers(u.Prefix) {
			out = append(out, o)
		}
	}
	return out
}

// followsNodeOrder says what an order over one node does.
func (s *Snapshot) followsNodeOrder(o *steadycast.Order) (out []string) {
	place, _ := s.View.Table.Place(o.Site)
	for _, v := range s.View.Units {
		if v.Unit.Site != o.Site || !o.Covers(v.Unit.Prefix) {
			continue
		}
		p := v.Unit.Prefix
		stays := fmt.Sprintf("%s stays in, and so do its names, while another of its %d nodes announces", o.Site, len(place.Nodes))
		when := fmt.Sprintf("as soon as min_nodes %d of the others promise to stay", max(place.MinNodes, 1))
		if o.Force {
			when = "at once, whoever stays"
		}
		switch {
		case o.Kind == steadycast.OrderAnnounce && o.Force:
			out = append(out, fmt.Sprintf("%s announces %s while %s does, whatever its own instance says", o.Node, p, o.Site))
		case o.Kind == steadycast.OrderAnnounce:
			out = append(out, fmt.Sprintf("%s announces %s while %s does, and its own checks are well", o.Node, p, o.Site))
		case o.Kind == steadycast.OrderDrain:
			out = append(out, fmt.Sprintf("%s marks %s with GSHUT %s, waits %s, then withdraws it; %s", o.Node, p, when, Span(s.View.Table.DrainWait), stays))
		default:
			out = append(out, fmt.Sprintf("%s withdraws %s %s; %s", o.Node, p, when, stays))
		}
	}
	switch {
	case o.Kind == steadycast.OrderAnnounce && !o.Force:
		return append(out, "no order stands over it then: its checks decide")
	case o.For > 0:
		return append(out, "the order ends by itself after "+Span(o.For))
	default:
		return append(out, fmt.Sprintf("the order stands until: steadycast undrain %s --reason TEXT", o.Target()))
	}
}

// followsNodeClear says what the end of the orders over one node does.
func (s *Snapshot) followsNodeClear(sc decide.Scope) (out []string) {
	for i := range s.View.NodeOrders {
		if o := &s.View.NodeOrders[i]; o.Order.Site == sc.Site && o.Order.Node == sc.Node && (!sc.Prefix.IsValid() || o.Order.Covers(sc.Prefix)) {
			out = append(out, "ends: "+sc.Site+" "+OrderText(o))
		}
	}
	if out == nil {
		return []string{"no order stands over " + sc.Target() + ": nothing changes"}
	}
	return append(out, "its checks decide again; it announces with its site when they are well")
}

// nodeUnits is the state of one node of a site of several: its own word where it is
// this one, else as its beats tell the ledger.
func (s *Server) nodeUnits(r *http.Request, snap *Snapshot, site, node string, prefix netip.Prefix) (any, error) {
	if err := cmp.Or(snap.checkScope(site), snap.checkNode(site, node)); err != nil {
		return nil, err
	}
	out := Units{At: snap.At, Units: []Unit{}}
	if here, ok := snap.Site(site); ok && snap.Node == node {
		out.Fence = here.Fence
		out.Units = filter(here.Units, func(u Unit) bool { return !prefix.IsValid() || u.Unit.Prefix == prefix })
		return out, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	sites, err := s.backend.SitesNow(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(sites, func(x decide.SiteNow) bool { return x.Site == site && x.Node == node })
	if i < 0 {
		return out, nil
	}
	now := sites[i]
	out.Fence = now.At
	for _, v := range snap.View.Units {
		if v.Unit.Site != site || prefix.IsValid() && v.Unit.Prefix != prefix {
			continue
		}
		why := unprovenBy(now, v.Unit, node)
		out.Units = append(out.Units, Unit{Unit: v.Unit, Wanted: slices.Contains(now.Announcing, v.Unit), Proven: why == "", Unproven: why})
	}
	return out, nil
}
