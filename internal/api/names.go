package api

import (
	"fmt"

	"github.com/steadycast/steadycast/decide"
)

// followsNames says what an order about answers does.
func (s *Snapshot) followsNames(o *decide.NamesOrder) ([]string, error) {
	if wrong := o.Problem(); wrong != "" {
		return nil, usage("%s", wrong)
	}
	now, why := s.View.Names.Rung()
	if o.Mode == "" {
		was := decide.MemberAutomatic
		for _, m := range s.View.Names.Members {
			if m.Member == o.Member {
				was = m.To
			}
		}
		switch o.To {
		case decide.MemberDown:
			return []string{fmt.Sprintf("%s is given to nobody, whatever its site's state; now %s", o.Member, was), "it stands until: " + commandOf("dns switch "+o.Member+" automatic", "", nil, "TEXT")}, nil
		case decide.MemberUp:
			return []string{fmt.Sprintf("%s counts as well, whatever its site's state; now %s", o.Member, was), "it stands until: " + commandOf("dns switch "+o.Member+" automatic", "", nil, "TEXT")}, nil
		}
		return []string{fmt.Sprintf("the state of its site decides about %s again; now %s", o.Member, was)}, nil
	}
	what := map[string]string{
		decide.NamesNormal:       "answers follow health, orders and the table",
		decide.NamesConservative: "health moves no answers any more; orders and tables do",
		decide.NamesFrozen:       "neither health nor orders move answers; only another table or another mode does",
		decide.NamesMinimal:      "names that have anycast addresses are answered with those, the same for all",
	}[o.Mode]
	if why != "" {
		now += ", " + why
	}
	out := []string{what, "now " + now + "; routes are not touched"}
	if auto := s.View.Names.Auto.Mode; auto != "" && o.Mode == decide.NamesNormal {
		out = append(out, "the fleet went to "+auto+" by itself; that is set aside until its cause is over")
	}
	if o.Mode != decide.NamesNormal {
		out = append(out, "it stands until: "+commandOf("dns mode normal", "", nil, "TEXT"))
	}
	return out, nil
}
