package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// What people sign goes through here as it is: the daemon reads it to say what
// follows, and to refuse early what makes no sense; whether it counts is the
// ledger's to say.

func (s *Server) getAuthority(r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	v := s.backend.Snapshot().View
	a := v.Authority()
	a.Operators = listed(a.Operators)
	return a, nil
}

func (s *Server) postCarry(ctx context.Context, who Caller, q *decide.Signed) (any, error) {
	w, err := q.Wish()
	if err != nil {
		return nil, usage("%v", err)
	}
	snap := s.snapshot()
	follows, err := snap.judge(&w)
	if err != nil {
		return nil, err
	}
	reply, err := s.backend.Carry(ctx, who, *q)
	if err != nil {
		return nil, err
	}
	if reply.Before != nil {
		reply.Fence = *reply.Before
	}
	return snap.outcome(reply, false, commandOfWish(&w), follows)
}

func (s *Server) postEnter(ctx context.Context, who Caller, w *decide.Wish) (any, error) {
	return s.unsigned(who, w, false, func() (decide.Reply, error) { return s.backend.Enter(ctx, who, *w) })
}

func (s *Server) postTry(ctx context.Context, who Caller, w *decide.Wish) (any, error) {
	return s.unsigned(who, w, true, func() (decide.Reply, error) { return s.backend.Rehearse(ctx, *w) })
}

func (s *Server) unsigned(who Caller, w *decide.Wish, dryRun bool, ask func() (decide.Reply, error)) (any, error) {
	w.By = who.String()
	snap := s.snapshot()
	follows, err := snap.judge(w)
	if err != nil {
		return nil, err
	}
	reply, err := ask()
	if err != nil {
		return nil, err
	}
	return snap.outcome(reply, dryRun, commandOfWish(w), follows)
}

// LocalRequest is the body of POST /v1/local: what a person wants of this node's
// own site while there is no ledger. Kind none ends it.
type LocalRequest struct {
	Kind steadycast.OrderKind `json:"kind"`
	Site string               `json:"site"`
	// Node is this one, where the site has several.
	Node     string         `json:"node,omitempty"`
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	Reason   string         `json:"reason"`
}

func (s *Server) postLocal(ctx context.Context, who Caller, q *LocalRequest) (any, error) {
	if err := checkReason(q.Reason); err != nil {
		return nil, err
	}
	if q.Kind == steadycast.OrderDrain {
		return nil, usage("kind: without a ledger a site withdraws or announces; allowed: withdraw, announce, none")
	}
	o := steadycast.Order{Kind: q.Kind, Site: q.Site, Node: q.Node, Prefixes: q.Prefixes, Reason: q.Reason, Force: true}
	return Done{true}, s.backend.BreakGlass(ctx, who, o)
}

// getDecisions lists what waits for a person's yes, and what was answered lately.
func (s *Server) getDecisions(r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	snap := s.snapshot()
	return Page[decide.Decision]{snap.At, listed(snap.View.Decisions)}, nil
}

// judge refuses a wish that makes no sense, and says what follows from one that does.
func (s *Snapshot) judge(w *decide.Wish) ([]string, error) {
	if err := checkReason(w.Reason); err != nil {
		return nil, err
	}
	switch {
	case w.Kind == decide.KindOrder && w.Order != nil:
		q := OrderRequest{Kind: w.Order.Kind, Site: w.Order.Site, Node: w.Order.Node, Prefixes: w.Order.Prefixes, Reason: w.Reason, Force: w.Order.Force}
		if w.Order.For != 0 {
			q.For = w.Order.For.String()
		}
		o, err := q.order(s, Caller{Name: w.By})
		if err != nil {
			return nil, err
		}
		return s.followsOrder(&o), nil
	case w.Scope != nil:
		if err := s.checkScope(w.Scope.Site, w.Scope.Prefix); err != nil {
			return nil, err
		}
		if err := s.checkNode(w.Scope.Site, w.Scope.Node); err != nil {
			return nil, err
		}
		return s.followsScope(w.Kind, *w.Scope), nil
	case w.Kind == decide.KindOperator && w.Operator != nil:
		o := w.Operator
		for _, x := range s.View.Operators {
			switch {
			case x.Operator.Name != o.Name:
			case x.Operator == *o:
				return []string{o.Name + " is " + o.Role.String() + " already: nothing changes"}, nil
			case x.Operator.Key == o.Key:
				return []string{fmt.Sprintf("%s becomes %s; was %s", o.Name, o.Role, x.Operator.Role)}, nil
			default:
				return []string{fmt.Sprintf("%s becomes %s with another key; the old one is good for nothing any more", o.Name, o.Role)}, nil
			}
		}
		return []string{o.Name + " becomes " + o.Role.String()}, nil
	case w.Kind == decide.KindApprove, w.Kind == decide.KindReject:
		for _, d := range s.View.Decisions {
			if d.Number != w.Decision {
				continue
			}
			if w.Kind == decide.KindReject {
				return []string{fmt.Sprintf("%s is not allowed to %s for an hour, or until what calls for it has ended", d.Unit, d.Action)}, nil
			}
			return []string{fmt.Sprintf("%s asks again at once, and every guard is asked again with it: %s", d.Unit.Site, d.Action)}, nil
		}
		return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("no decision %d waits", w.Decision), Next: "steadycast decisions"}
	case w.Kind == decide.KindPlan && w.Plan != nil:
		return s.followsPlan(w.Plan)
	case w.Kind == decide.KindNames && w.Names != nil:
		return s.followsNames(w.Names)
	case w.Kind == decide.KindDivert && w.Divert != nil:
		return s.followsDivert(w.Divert)
	case w.Kind == decide.KindShare && w.Share != nil:
		return s.followsShare(w.Share)
	case w.Kind == decide.KindStage && w.Table != nil:
		return s.followsStage(w), nil
	case w.Kind == decide.KindActivate:
		out := []string{fmt.Sprintf("revision %d comes into force for every node at once", w.Revision)}
		if w.ConfirmWithin > 0 {
			out = append(out, fmt.Sprintf("it is on trial: unless somebody confirms it within %s, the table before comes back by itself", Span(w.ConfirmWithin)))
		}
		return out, nil
	case w.Kind == decide.KindConfirm:
		if t := s.trial(); t == nil || t.Revision != w.Revision {
			return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("revision %d is not on trial", w.Revision), Next: "steadycast revisions"}
		}
		return []string{fmt.Sprintf("revision %d stays in force", w.Revision)}, nil
	case w.Kind == decide.KindDismiss:
		return []string{"nothing that " + w.Name + " signs is taken any more; what was entered stands"}, nil
	}
	return nil, nil
}

// verbs are the commands that make a wish of each kind.
var verbs = map[decide.Kind]string{
	decide.KindStage: "apply FILE", decide.KindActivate: "apply FILE", decide.KindConfirm: "confirm",
	decide.KindOrderClear: "undrain", decide.KindOperator: "operator add", decide.KindDismiss: "operator dismiss",
}

// commandOfWish is a wish as a person would type it, without --force.
func commandOfWish(w *decide.Wish) string {
	switch {
	case w.Order != nil:
		return commandOf(w.Order.Kind.String(), w.Order.Target(), w.Order.Prefixes, w.Reason)
	case w.Scope != nil:
		verb := string(w.Kind)
		if v, ok := verbs[w.Kind]; ok {
			verb = v
		}
		return commandOf(verb, w.Scope.Target(), []netip.Prefix{w.Scope.Prefix}, w.Reason)
	}
	if w.Names != nil {
		return commandOf(w.Names.String(), "", nil, w.Reason)
	}
	if w.Divert != nil {
		return commandOf(w.Divert.String(), "", nil, w.Reason)
	}
	if w.Share != nil {
		verb := "share " + w.Share.Site + " " + decide.Percent(w.Share.Permille)
		if w.Share.Service != "" {
			verb += " --service " + w.Share.Service
		}
		return commandOf(verb, "", nil, w.Reason)
	}
	if w.Plan != nil {
		return commandOf("plan "+w.Plan.Do, w.Plan.Plan, nil, w.Reason)
	}
	if w.Decision != 0 {
		return commandOf(fmt.Sprintf("%s %d", w.Kind, w.Decision), "", nil, w.Reason)
	}
	return commandOf(verbs[w.Kind], w.Name, nil, w.Reason)
}
