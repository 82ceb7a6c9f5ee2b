package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// verdicts records transitions of services. They inform the breaker, the
// healthy floor and returns; by themselves they move no unit.
func (a *applying) verdicts(vs []steadycast.Verdict) string {
	for _, v := range vs {
		s, ok := a.Table.Service(v.Service)
		if !ok || !slices.Contains(s.Sites, v.Site) {
			return fmt.Sprintf("no service %s at site %s", v.Service, v.Site)
		}
	}
	for _, v := range vs {
		next := verdictState{Verdict: v, Onset: never}
		i, ok := a.verdict(v.Site, v.Service)
		was := steadycast.StateUnknown
		if ok {
			was = a.Verdicts[i].Verdict.State
		}
		a.suspectRamp(was, v)
		if v.State.Troubled() {
			next.Onset, next.Cause = a.LT, cause(v)
			if ok && a.Verdicts[i].Verdict.State.Troubled() {
				next.Onset = a.Verdicts[i].Onset // worse trouble is not new trouble
			}
		}
		if ok {
			a.Verdicts[i] = next
		} else {
			a.Verdicts = slices.Insert(a.Verdicts, i, next)
		}
	}
	a.restored()
	for i := range a.Prefixes {
		a.trip(&a.Prefixes[i])
	}
	return ""
}

// restored takes the deprefer permit off units that are healthy again: their
// site makes them normal by itself, since nothing was taken away.
func (a *applying) restored() {
	for i := range a.Units {
		u := &a.Units[i]
		if !u.Depreferred || !a.health(u.Unit).ok {
			continue
		}
		u.Depreferred, u.Guard = false, ""
		a.event(steadycast.Event{
			Kind: steadycast.EventPermit, Site: u.Unit.Site, Prefix: u.Unit.Prefix, From: "depreferred", To: "normal",
			Request: u.Permit.ID, Reason: "healthy again; it never left",
		})
	}
}

// cause is what a failure has in common with others of its kind: the service,
// the class, and the words of the reason without those that name an address, a
// port or a figure. How often it was seen and which voices agree (verdict_words.go)
// is each site's own, and none of the cause.
func cause(v steadycast.Verdict) string {
	what, _, _ := strings.Cut(v.Reason, " ×")
	words := []string{v.Service, v.Class.String()}
	for _, w := range strings.Fields(what) {
		if !strings.ContainsAny(w, "0123456789:/") {
			words = append(words, w)
		}
	}
	return strings.TrimSuffix(strings.Join(words, " "), " by")
}

// troubledVerdict reports whether the committed verdicts hold the unit to be in
// trouble: a service of it, or all of them where one is enough (needs: any).
func (s *state) troubledVerdict(u steadycast.Unit) bool {
	services := s.services(u)
	any := s.of(u.Prefix).needs == NeedsAny
	for _, sv := range services {
		i, ok := s.verdict(u.Site, s.Table.Services[sv].Name)
		if bad := ok && s.Verdicts[i].Verdict.State.Troubled(); bad != any {
			return bad
		}
	}
	return any && len(services) > 0
}
