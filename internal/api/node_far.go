package api

import (
	"context"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// nodesTime is how long a page waits for what the ledger heard of other sites' nodes.
// It is shown all the same without.
const nodesTime = time.Second

// withNodes is a snapshot that knows what the ledger heard of the nodes of other
// sites that have several, where there is such a site and the ledger can be asked.
func (s *Server) withNodes(ctx context.Context, snap *Snapshot) *Snapshot {
	if snap.LedgerLost != "" || !slices.ContainsFunc(snap.View.Table.Sites, func(p decide.Place) bool {
		_, here := snap.Site(p.Name)
		return len(p.Nodes) > 1 && !here
	}) {
		return snap
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	sites, err := s.backend.SitesNow(ctx)
	if err != nil { // the page shows what is known without
		return snap
	}
	out := *snap
	out.heardOf = sites
	return &out
}

// farNodes is how the nodes of another site stand, by their beats to the ledger; nil
// where the site has one node, or the ledger was not asked.
func (s *Snapshot) farNodes(u steadycast.Unit) []decide.NodeStatus {
	if s.heardOf == nil {
		return nil
	}
	var out []decide.NodeStatus
	for _, name := range nodeNames(s.View.Table, u.Site) {
		n := decide.NodeStatus{Node: name}
		for _, now := range s.heardOf {
			if now.Site == u.Site && now.Node == name {
				n.Heard = time.Duration(now.AgeMS)*time.Millisecond <= Stale
				n.Announcing = n.Heard && slices.Contains(now.Announcing, u)
			}
		}
		for i := range s.View.NodeOrders {
			if o := &s.View.NodeOrders[i]; o.Order.Node == name && o.Order.Site == u.Site && o.Order.Covers(u.Prefix) {
				n.Order = o.Order.Kind
			}
		}
		out = append(out, n)
	}
	return out
}
