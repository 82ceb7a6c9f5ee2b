package decide

import (
	"cmp"
	"slices"

	"github.com/steadycast/steadycast"
)

// evidenceGuard counts again what the site counted: a site whose agent is wrong
// or old cannot leave or come back without the observations that say so, and
// the log holds them.
func (q *asking) evidenceGuard() verdictOf {
	if q.action == steadycast.Withdraw {
		for i := range q.r.Evidence {
			if v, ok := q.foreign(&q.r.Evidence[i]); ok {
				return v
			}
		}
		n, bad, margin := voices(q.r)
		if margin < 0 {
			return refuses(0, "steadycast withdraw "+q.u.Unit.String(), "%d of %d voices say down; %d needed", bad, n, n/2+1)
		}
		return pass("%d of %d voices say down; %d needed", bad, n, n/2+1)
	}
	return q.evidenceOfHealth()
}

// evidenceOfHealth: a return needs the services healthy by committed verdict
// (all of them, or one where the prefix needs any) and nothing in the request
// that says otherwise.
func (q *asking) evidenceOfHealth() verdictOf {
	u := q.u
	if q.pinned() {
		return pass("announced by order, whatever the checks say")
	}
	for i := range q.r.Evidence {
		if v, ok := q.foreign(&q.r.Evidence[i]); ok {
			return v
		}
	}
	override := "steadycast announce " + u.Unit.String() + " --force"
	if n, bad, margin := voices(q.r); n > 0 && margin >= 0 {
		return refuses(0, override, "%d of %d voices still say down", bad, n)
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

// voices counts who says down: the newest observation of each vantage, one voice
// per independence group, which says down only if all its vantages do. n are all
// voices, down those that say so, and margin how many more than a majority they
// are: negative means no majority, and so it is without any voice.
func voices(r steadycast.Request) (n, down, margin int) {
	seen := slices.Clone(r.Evidence)
	slices.SortFunc(seen, func(a, b steadycast.Observation) int {
		return cmp.Or(cmp.Compare(voiceGroup(a), voiceGroup(b)), cmp.Compare(a.Vantage, b.Vantage), cmp.Compare(a.Service, b.Service),
			cmp.Compare(b.Seq, a.Seq), cmp.Compare(b.Result.Outcome, a.Result.Outcome))
	})
	for i := 0; i < len(seen); {
		group, all := voiceGroup(seen[i]), true
		for i < len(seen) && voiceGroup(seen[i]) == group {
			vantage, any := seen[i].Vantage, false
			for first := i; i < len(seen) && voiceGroup(seen[i]) == group && seen[i].Vantage == vantage; i++ {
				newest := i == first || seen[i].Service != seen[i-1].Service
				any = any || newest && seen[i].Result.Outcome == steadycast.Down
			}
			all = all && any
		}
		n++
		if all {
			down++
		}
	}
	return n, down, down - (n/2 + 1)
}

func voiceGroup(o steadycast.Observation) string { return cmp.Or(o.Group, o.Vantage) }
