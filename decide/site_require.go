package decide

import (
	"strings"

	"github.com/steadycast/steadycast"
)

// What a service requires before it leaves or returns is observed like a service
// of its own, under the name that ConditionName gives it, and is no part of its
// verdict. A request brings the newest outcome along; one that is too old is not
// known, and what is not known does not hold.

// ConditionName is the name under which a service's condition for an action is
// observed: web/withdraw, web/return.
func ConditionName(service string, a steadycast.Action) string { return service + "/" + a.String() }

// condition is the newest outcome of one.
type condition struct {
	heard  bool
	result steadycast.Result
	from   Now
}

// conditionOf reads a name that ConditionName gave.
func conditionOf(name string) (service string, a steadycast.Action, ok bool) {
	service, word, found := strings.Cut(name, "/")
	return service, a, found && a.UnmarshalText([]byte(word)) == nil && (a == steadycast.Withdraw || a == steadycast.Return)
}

// required takes one observation of a condition, and reports whether it changed.
// A unit that was refused for want of it may ask again.
func (s *Site) required(now Now, in Observed) bool {
	name, action, ok := conditionOf(in.Observation.Service)
	if !ok || !in.Observation.Local() || in.Observation.Subject != s.name {
		return false
	}
	for i := range s.services {
		sv := &s.services[i]
		if sv.conf.Name != name || sv.conf.Require.of(action) == "" {
			continue
		}
		c := sv.condition(action)
		changed := !c.heard || now-c.from > sv.jury.window || c.result.Outcome != in.Observation.Result.Outcome
		*c = condition{heard: true, result: sane(in.Observation.Result), from: in.From}
		for k := range s.units {
			if u := &s.units[k]; changed && u.guard == requireGuard && u.retryOf == action {
				u.retryAt = 0
			}
		}
		return changed
	}
	return false
}

func (sv *service) condition(a steadycast.Action) *condition {
	if a == steadycast.Return {
		return &sv.mayReturn
	}
	return &sv.mayLeave
}

// conditions are what a request for an action brings along for a unit.
func (s *Site) conditions(u *unit, a steadycast.Action) []steadycast.Condition {
	var cs []steadycast.Condition
	for _, i := range u.services {
		sv := &s.services[i]
		if sv.conf.Require.of(a) == "" {
			continue
		}
		c, out := sv.condition(a), steadycast.Condition{Service: sv.conf.Name, Outcome: steadycast.Unknown}
		switch {
		case !c.heard:
			out.Text = "it was not looked at yet"
		case s.now-c.from > sv.jury.window:
			out.Text = "it was not looked at for " + seconds(s.now-c.from)
		default:
			out.Outcome, out.Text = c.result.Outcome, c.result.Reason
		}
		cs = append(cs, out)
	}
	return cs
}
