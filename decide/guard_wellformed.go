package decide

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// MaxEvidence bounds the observations of one request: nine vantages and the
// site's own nodes, with room.
const MaxEvidence = 64

// wellFormed judges the whole request: who asks must exist, and may ask only
// for itself and for what the table gives it. Nothing gets past this guard.
func (a *applying) wellFormed(r steadycast.Request) steadycast.GuardAnswer {
	g := steadycast.GuardAnswer{Guard: wellFormed}
	p, ok := a.Table.Place(r.Site)
	if !ok || p.Witness {
		g.Text = fmt.Sprintf("no site named %s announces anything; sites: %s", r.Site, list(a.Table.Announcers()))
		return g
	}
	switch {
	case r.ID == steadycast.RequestID{}:
		g.Text = "the request has no id"
	case !p.has(r.ID.Node):
		g.Text = fmt.Sprintf("%s has no node %s", r.Site, r.ID.Node)
	case r.Action != steadycast.Withdraw && r.Action != steadycast.Return && r.Action != steadycast.Deprefer:
		g.Text = fmt.Sprintf("action %s; allowed: withdraw, return, deprefer", r.Action)
	case r.Class > steadycast.Hard:
		g.Text = fmt.Sprintf("failure class %d; allowed: none, soft, hard", r.Class)
	case len(r.Prefixes) == 0:
		g.Text = "the request names no prefix"
	case len(r.Evidence) > MaxEvidence:
		g.Text = fmt.Sprintf("%d observations as evidence; at most %d", len(r.Evidence), MaxEvidence)
	case len(r.Conditions) > len(a.Table.Services):
		g.Text = fmt.Sprintf("%d conditions of %d services", len(r.Conditions), len(a.Table.Services))
	default:
		g.Pass = true
		g.Text = fmt.Sprintf("%s of %s for %s", r.ID, r.Site, list(r.Prefixes))
	}
	for _, p := range r.Prefixes {
		if a.unit(r.Site, p) == nil {
			g.Pass, g.Text = false, fmt.Sprintf("%s does not announce %s; its prefixes: %s", r.Site, p, list(a.Table.PrefixesAt(r.Site)))
			return g
		}
		if s, ok := a.Table.Service(r.Service); r.Service != "" && (!ok || !slices.Contains(s.Prefixes, p) || !slices.Contains(s.Sites, r.Site)) {
			g.Pass, g.Text = false, fmt.Sprintf("%s is not announced for service %s at %s", p, r.Service, r.Site)
			return g
		}
	}
	return g
}
