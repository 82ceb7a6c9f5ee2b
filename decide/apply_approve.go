package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Mode approve: what automation would do waits as a decision with a number, for
// a person's yes or no. A yes opens nothing by itself: the site asks again, at
// once, and every guard is asked again with what is true then.

const (
	// decisionLife is how long a decision waits. The site goes on asking, so if it
	// is still called for then, it waits anew under another number.
	decisionLife = 10 * time.Minute
	// rejectLife is how long a no holds, unless what called for it ends before.
	rejectLife = time.Hour
	// rejectAgain is when a site that was told no asks again at the latest.
	rejectAgain = time.Minute
)

// Decision is what automation would do to one unit if a person agreed.
type Decision struct {
	Number  uint64              `json:"number"`
	Unit    steadycast.Unit     `json:"unit"`
	Action  steadycast.Action   `json:"action"`
	Service string              `json:"service"`
	Class   steadycast.Class    `json:"class,omitempty"`
	Reason  string              `json:"reason"`
	Since   Time                `json:"since"`
	Until   Time                `json:"until"`
	Answer  steadycast.Approval `json:"answer"`
	// Actor and Why are those of the answer.
	Actor string `json:"actor,omitempty"`
	Why   string `json:"why,omitempty"`
	// LeftMS is what is left of it at View.LT.
	LeftMS int64 `json:"left_ms,omitempty"`
}

// needsPerson: in a mode other than auto, automation may do this only with a person.
func (q *asking) needsPerson() bool {
	switch q.action {
	case steadycast.Withdraw:
		return true
	case steadycast.Return:
		return q.u.Phase == steadycast.Out && q.pardoned() != sparesAll // returning: he said so, and the answer was lost
	}
	return false
}

// approval is the answer of a service with mode approve.
func (q *asking) approval(service string) verdictOf {
	d := q.decisionOver(q.u.Unit, q.action)
	switch {
	case d == nil:
		return refuses(0, "", "service %s has mode approve: it waits for a person", service)
	case d.Answer == steadycast.Approved:
		return pass("%s approved decision %d: %s", d.Actor, d.Number, d.Why)
	case d.Answer == steadycast.Rejected:
		// Asked again before it is over: what called for it may end in between, and the
		// no with it, and a site need not see that in a view.
		return refuses(min(max(d.Until-q.LT, 0), lt(rejectAgain)), "", "%s rejected decision %d: %s", d.Actor, d.Number, d.Why)
	}
	return refuses(0, fmt.Sprintf("steadycast approve %d", d.Number),
		"service %s has mode approve: decision %d waits for a person", service, d.Number)
}

// decisionOver finds the decision over a unit.
func (s *state) decisionOver(u steadycast.Unit, a steadycast.Action) *Decision {
	for i := range s.Decisions {
		if d := &s.Decisions[i]; d.Unit == u && d.Action == a {
			return d
		}
	}
	return nil
}

// lay lays a decision before a person, if that is all that is missing; it
// reports whether it is new.
func (q *asking) lay(answers []steadycast.GuardAnswer) bool {
	if !q.needsPerson() || q.decisionOver(q.u.Unit, q.action) != nil || !q.approves() {
		return false
	}
	for _, g := range answers {
		if !g.Pass && g.Guard != orderGuard {
			return false
		}
	}
	if q.orderOver(q.u.Unit) != nil || q.action == steadycast.Return && q.onHold() && q.holds(q.u) != "" {
		return false
	}
	q.Numbered++
	d := Decision{
		Number: q.Numbered, Unit: q.u.Unit, Action: q.action, Service: q.r.Service, Class: q.r.Class, Reason: q.r.Reason,
		Since: q.LT, Until: q.LT + lt(decisionLife),
	}
	q.Decisions = grow(q.Decisions, d)
	q.event(decisionEvent(&d, "", "waits", "", d.Reason))
	return true
}

// approves: a service of the unit has mode approve, and none has observe.
func (q *asking) approves() bool {
	asks := false
	for _, i := range q.services(q.u.Unit) {
		switch q.Table.Services[i].Mode {
		case ModeObserve:
			return false
		case ModeApprove:
			asks = true
		}
	}
	return asks
}

func decisionEvent(d *Decision, from, to, actor, reason string) steadycast.Event {
	return steadycast.Event{
		Kind: steadycast.EventDecision, Site: d.Unit.Site, Prefix: d.Unit.Prefix, Service: d.Service, From: from, To: to, Actor: actor,
		Reason: fmt.Sprintf("decision %d to %s: %s", d.Number, d.Action, reason),
	}
}

// answer is a person's yes or no to a decision. A yes is refused while other
// guards than the evidence, which is gathered anew, would not let it through.
func (a *applying) answer(number uint64, yes bool) string {
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	i := slices.IndexFunc(a.Decisions, func(d Decision) bool { return d.Number == number })
	if i < 0 {
		var waiting []uint64
		for _, d := range a.Decisions {
			waiting = append(waiting, d.Number)
		}
		a.refuse(wellFormed, fmt.Sprintf("no decision %d waits; waiting: %s", number, list(waiting)), "")
		return ""
	}
	d := a.Decisions[i]
	from := d.Answer.String()
	d.Actor, d.Why = a.e.Actor, a.e.Reason
	if !yes {
		d.Answer, d.Until = steadycast.Rejected, a.LT+lt(rejectLife)
		a.Decisions[i] = d
		a.event(decisionEvent(&d, from, d.Answer.String(), d.Actor, d.Why))
		return ""
	}
	d.Answer, d.Until = steadycast.Approved, a.LT+lt(decisionLife)
	was := a.Decisions[i]
	a.Decisions[i] = d
	r := steadycast.Request{Site: d.Unit.Site, Service: d.Service, Class: d.Class, Action: d.Action, Prefixes: []netip.Prefix{d.Unit.Prefix}}
	q := asking{applying: a, r: r, u: a.unit(d.Unit.Site, d.Unit.Prefix), action: d.Action, sight: a.sees(d.Unit.Prefix)}
	ruling := Ruling{Unit: d.Unit}
	for _, g := range q.all() {
		switch g.Guard {
		case wellFormed, seenGuard, evidenceGuard, requireGuard, capacityGuard:
			continue // asked of the request that the site makes now
		}
		ruling.Guards = append(ruling.Guards, g)
	}
	a.reply.Rulings = append(a.reply.Rulings, ruling)
	if g, refused := ruling.Refusal(); refused {
		a.Decisions[i] = was
		a.reply.Refused = &g
		return ""
	}
	a.event(decisionEvent(&d, from, d.Answer.String(), d.Actor, d.Why))
	return ""
}

// endDecisions ends those whose time is over, and those that nothing calls for any more.
func (a *applying) endDecisions() {
	if len(a.Decisions) == 0 {
		return
	}
	var ended []Decision
	var why []string
	a.Decisions = keep(a.Decisions, func(d Decision) bool {
		text := a.moot(&d)
		if text != "" {
			ended, why = append(ended, d), append(why, text)
		}
		return text == ""
	})
	for i, d := range ended {
		a.event(decisionEvent(&d, d.Answer.String(), "ended", "", why[i]))
	}
}

// moot says why a decision is not called for any more, "" if it is.
func (a *applying) moot(d *Decision) string {
	u := a.unit(d.Unit.Site, d.Unit.Prefix)
	switch {
	case u == nil:
		return "the table has no such unit any more"
	case d.Until <= a.LT:
		return "its time is over"
	case a.orderOver(d.Unit) != nil:
		return "an order stands over it"
	case d.Action == steadycast.Withdraw && u.Phase == steadycast.Out, d.Action == steadycast.Return && u.Phase != steadycast.Out:
		return "it is done"
	}
	if slices.ContainsFunc(a.e.Verdicts, func(v steadycast.Verdict) bool { return v.Site == d.Unit.Site }) {
		switch {
		case d.Action == steadycast.Withdraw && a.health(d.Unit).ok:
			return "healthy again"
		case d.Action == steadycast.Return && a.troubledVerdict(d.Unit):
			return "in trouble again"
		}
	}
	q := asking{applying: a, u: u, action: d.Action}
	if !q.approves() {
		return "no service of it has mode approve any more"
	}
	return ""
}
