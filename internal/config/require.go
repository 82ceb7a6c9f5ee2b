package config

import (
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// What a service requires before it leaves or returns is a second and a third
// expression over its checks. Each is looked at as a service of its own, so that
// a condition never touches the verdict; a check that only a condition names is
// no part of up, unless up names it.

// conditions are those that the service states.
func (s Service) conditions() []condition {
	var cs []condition
	for _, c := range []condition{
		{steadycast.Withdraw, "withdraw", s.Require.Withdraw},
		{steadycast.Return, "return", s.Require.Return},
	} {
		if c.expr != "" {
			cs = append(cs, c)
		}
	}
	return cs
}

type condition struct {
	action    steadycast.Action
	key, expr string
}

// checkNames are the names of the service's checks.
func (s Service) checkNames() []string {
	names := make([]string, len(s.Checks))
	for i, c := range s.Checks {
		names[i] = c.Name
	}
	return names
}

// named are the checks that an expression uses; none where it cannot be read.
func (s Service) named(expr string) []string {
	e, err := probe.ParseExpr(expr, s.checkNames())
	if err != nil {
		return nil
	}
	return e.Names()
}

// health are the checks that say whether the service is up.
func (s Service) health() []probe.Check {
	var only []string // named by conditions and not by up
	for _, c := range s.conditions() {
		only = append(only, s.named(c.expr)...)
	}
	if s.Up != "" {
		up := s.named(s.Up)
		only = slices.DeleteFunc(only, func(n string) bool { return slices.Contains(up, n) })
	}
	return slices.DeleteFunc(slices.Clone(s.Checks), func(c probe.Check) bool { return slices.Contains(only, c.Name) })
}

// required are the service's conditions as a site looks at its own.
func (s Service) required(site string) []probe.Service {
	var out []probe.Service
	for _, c := range s.conditions() {
		names := s.named(c.expr)
		out = append(out, probe.Service{
			Name: decide.ConditionName(s.Name, c.action), Subject: site, Vantage: site, Up: c.expr,
			Checks:   slices.DeleteFunc(slices.Clone(s.Checks), func(k probe.Check) bool { return !slices.Contains(names, k.Name) }),
			Interval: s.Health.Interval, FastInterval: s.Health.FastInterval,
		})
	}
	return out
}

// require judges the conditions of one service.
func (j *judge) require(at string, s Service) {
	for _, c := range s.conditions() {
		if _, err := probe.ParseExpr(c.expr, s.checkNames()); err != nil {
			j.say(j.table, at+".require."+c.key, "%s", err)
		}
	}
	if len(s.conditions()) > 0 && len(s.Checks) > 0 && len(s.health()) == 0 {
		j.say(j.table, at+".require", "names every check (%s), so none is left to say whether the service is up; name those in up:", strings.Join(s.checkNames(), ", "))
	}
}
