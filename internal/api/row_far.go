package api

import (
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// farRow is a unit of another node's site, as the ledger counts it: its site told
// the ledger a moment ago what it announces, or the ledger would have it as lost.
// Its checks, sessions and proofs are known at the site itself.
func (x *index) farRow(r Row, v *decide.UnitView) Row {
	if x.s.LedgerLost != "" {
		r.State, r.Why = NotHeard, "known from the ledger, which cannot be asked: "+x.s.LedgerLost
		return r
	}
	r.Far, r.Heard = true, x.s.At
	r.Since = x.s.ledgerTime(v.Changed)
	worst := x.farWorst(v.Unit)
	failing := worst != nil && worst.State == steadycast.Unhealthy
	var said []string
	if v.Unheard {
		r.State, r.Why = NotHeard, unheardText
		return r
	}
	if r.Order != nil {
		said = append(said, OrderText(r.Order))
	}
	for i := range r.NodeOrders {
		said = append(said, OrderText(&r.NodeOrders[i]))
	}
	if worst != nil && worst.State != steadycast.Healthy {
		said = append(said, verdictText(worst))
	}
	gone := x.gone(v.Unit)
	switch {
	case gone != nil:
		r.State, r.Since = NotHeard, x.s.ledgerTime(gone.Since)
		said = append(said, "gone: "+gone.String()+"; names lead elsewhere")
	case v.Lost:
		r.State = Lost
		said = append(said, "should announce and does not")
	case v.Phase == steadycast.In && (v.Depreferred || failing && v.Order != steadycast.OrderAnnounce):
		r.State = Held
		switch {
		case v.Frozen != "":
			said = append(said, "frozen: "+v.Frozen)
		case v.Guard != "":
			said = append(said, v.Guard+" refuses the withdrawal")
		}
	case v.Phase == steadycast.In:
		r.State = Announced
	case v.Order == steadycast.OrderDrain:
		r.State = Drained
	case v.Order == steadycast.OrderWithdraw:
		r.State = Withdrawn
	case v.Locked:
		r.State = Locked
	case v.OnHold:
		r.State = OnHold
	case v.Phase == steadycast.Returning:
		r.State = Returning
	case !v.Ever:
		r.State, r.Since = Starting, time.Time{}
	case worst != nil && (worst.State == steadycast.Recovering || worst.State == steadycast.Healthy):
		r.State = Returning
	default:
		r.State = Withdrawn
	}
	if nodes := x.s.farNodes(v.Unit); nodes != nil && v.Phase == steadycast.In {
		r.Nodes, r.NodesOut, r.amiss = len(nodes), nodesOut(nodes), nodesAmiss(nodes)
		if r.NodesOut > 0 {
			said = append(said, NodesText(nodes))
		}
	}
	r.Why = strings.Join(said, "; ")
	return r
}

// gone is the mark of the first of a unit's services that has one.
func (x *index) gone(u steadycast.Unit) *decide.Gone {
	for _, service := range x.services[u.Prefix] {
		if g := x.s.View.GoneOf(u.Site, service); g != nil {
			return g
		}
	}
	return nil
}

// ledgerTime is when it was t in the ledger, by the daemon's clock.
func (s *Snapshot) ledgerTime(t decide.Time) time.Time {
	at := s.ViewAt
	if at.IsZero() {
		at = s.At
	}
	return at.Add(-time.Duration(max(s.View.LT-t, 0)) * time.Millisecond)
}

// ledgerNow is the ledger's time at the daemon's now: entries alone move it, and
// where none comes it stands.
func (s *Snapshot) ledgerNow() decide.Time {
	if s.ViewAt.IsZero() {
		return s.View.LT
	}
	return s.View.LT + decide.Time(max(s.At.Sub(s.ViewAt), 0).Milliseconds())
}

// farServices are what the ledger was told of a unit's services.
func (x *index) farServices(u steadycast.Unit) []Service {
	out := []Service{}
	for _, v := range x.verdicts[u.Site] {
		if slices.Contains(x.services[u.Prefix], v.Service) {
			out = append(out, Service{Verdict: *v})
		}
	}
	return out
}

// farWorst is the most troubled verdict that the ledger has of a unit's services.
func (x *index) farWorst(u steadycast.Unit) *steadycast.Verdict {
	var worst *steadycast.Verdict
	for _, v := range x.verdicts[u.Site] {
		if slices.Contains(x.services[u.Prefix], v.Service) &&
			(worst == nil || badness(&Service{Verdict: *v}) > badness(&Service{Verdict: *worst})) {
			worst = v
		}
	}
	return worst
}
