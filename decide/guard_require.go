package decide

import (
	"cmp"
	"slices"

	"github.com/steadycast/steadycast"
)

// requireGuard asks whether what a service must be sure of came out true: a
// replica that has caught up before its site leaves, data that is owned here
// before it returns. The site evaluates the condition and says so in its
// request; the table says that there is one. What is not known is not true. All
// services of the prefix are asked, whichever of them fails.
func (q *asking) requireGuard() verdictOf {
	if q.action == steadycast.Return && q.pinned() {
		return pass("announced by order, whatever it requires")
	}
	asked := 0
	for _, i := range q.services(q.u.Unit) {
		s := q.Table.Services[i]
		want := s.Require.of(q.action)
		if want == "" {
			continue
		}
		asked++
		c := steadycast.Condition{Service: s.Name, Text: "the site says nothing of it"}
		if k := slices.IndexFunc(q.r.Conditions, func(c steadycast.Condition) bool { return c.Service == s.Name }); k >= 0 {
			c = q.r.Conditions[k]
		}
		if c.Outcome != steadycast.Up {
			word := map[bool]string{true: "false", false: "not known"}[c.Outcome == steadycast.Down]
			return refuses(0, q.overrideOfRequire(), "%s requires %s to %s, which is %s: %s", s.Name, want, q.action, word, cmp.Or(c.Text, "no reason given"))
		}
	}
	if asked == 0 {
		return pass("nothing required")
	}
	return pass("%d of %d conditions hold", asked, asked)
}

func (q *asking) overrideOfRequire() string {
	if q.action == steadycast.Return {
		return "steadycast announce " + q.u.Unit.String() + " --force"
	}
	return "steadycast withdraw " + q.u.Unit.String()
}

// of is the condition for an action; empty if there is none.
func (r Require) of(a steadycast.Action) string {
	switch a {
	case steadycast.Withdraw:
		return r.Withdraw
	case steadycast.Return:
		return r.Return
	default:
		return ""
	}
}
