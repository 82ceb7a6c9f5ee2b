package decide

import (
	"slices"

	"github.com/steadycast/steadycast"
)

// evidenceGuard counts again what the site counted: a site whose agent is wrong
// or old cannot leave or come back without the observations that say so, and
// the log holds them. And it holds against them what the proposer heard itself:
// where as many voices as could convict pass by later observations, the site's
// own way of hearing is in doubt (rule V2).
func (q *asking) evidenceGuard() verdictOf {
	if q.action == steadycast.Return && q.pinned() {
		return pass("announced by order, whatever the checks say")
	}
	for i := range q.r.Evidence {
		if v, ok := q.foreign(&q.r.Evidence[i]); ok {
			return v
		}
	}
	if q.action == steadycast.Withdraw {
		return q.evidenceOfFailure()
	}
	return q.evidenceOfHealth()
}

// evidenceOfFailure: a quorum against each service that must fail, which is one
// of them, or all where the prefix needs any.
func (q *asking) evidenceOfFailure() verdictOf {
	var failed, lacking *ballot
	for _, i := range q.services(q.u.Unit) {
		switch b := q.ballotOf(q.Table.Services[i].Name); {
		case b.down() && !b.conflict():
			failed = b
		case lacking == nil || b.voices > lacking.voices:
			lacking = b
		}
	}
	if any := q.of(q.u.Unit.Prefix).needs == NeedsAny; lacking != nil && (any || failed == nil) {
		return refuses(0, "steadycast withdraw "+q.u.Unit.String(), "%s", lacking)
	}
	return pass("%s", failed) // a unit has a service
}

// ballotOf is the count of one service's evidence; an empty one if there is none.
func (q *asking) ballotOf(service string) *ballot {
	for i := range q.ballots {
		if q.ballots[i].service == service {
			return &q.ballots[i]
		}
	}
	b := q.ballot(q.r.Site, service, nil)
	return &b
}

// evidenceOfHealth: a return needs the services healthy by committed verdict
// (all of them, or one where the prefix needs any) and nothing in the request
// that says otherwise.
func (q *asking) evidenceOfHealth() verdictOf {
	u := q.u
	override := "steadycast announce " + u.Unit.String() + " --force"
	for i := range q.ballots {
		if b := &q.ballots[i]; b.down() {
			return refuses(0, override, "%d of %d voices still say down", b.failing, b.voices)
		}
	}
	h := q.health(u.Unit)
	if h.ok {
		return pass("%d of %d services healthy; needs %s", h.healthy, h.services, h.needs)
	}
	return refuses(0, override, "%d of %d services healthy; needs %s; %s", h.healthy, h.services, h.needs, h.sick)
}

// health is what the committed verdicts say of a unit.
type health struct {
	ok                bool
	healthy, services int
	needs, sick       string // sick names the first service that is not healthy
}

func (s *state) health(u steadycast.Unit) health {
	h := health{needs: s.of(u.Prefix).needs}
	for _, sv := range s.services(u) {
		name, state := s.Table.Services[sv].Name, steadycast.StateUnknown
		h.services++
		if i, ok := s.verdict(u.Site, name); ok {
			state = s.Verdicts[i].Verdict.State
		}
		if state == steadycast.Healthy {
			h.healthy++
		} else if h.sick == "" {
			h.sick = name + " is " + state.String()
		}
	}
	h.ok = h.healthy > 0 && (h.healthy == h.services || h.needs == NeedsAny)
	return h
}

// foreign refuses an observation that is not about this unit.
func (q *asking) foreign(o *steadycast.Observation) (verdictOf, bool) {
	switch _, known := q.Table.Place(o.Vantage); {
	case o.Subject != q.r.Site:
		return refuses(0, "", "the evidence is about %s, not %s", o.Subject, q.r.Site), true
	case !known:
		return refuses(0, "", "the evidence comes from %s, which the table does not name", o.Vantage), true
	case !slices.ContainsFunc(q.services(q.u.Unit), func(i int) bool { return q.Table.Services[i].Name == o.Service }):
		return refuses(0, "", "the evidence is about service %s, which is not what the request is about", o.Service), true
	}
	return verdictOf{}, false
}
