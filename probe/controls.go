package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Controls tell whether this vantage can be believed when it speaks of others:
// things whose state is known without looking. Who does not reach any of several
// unrelated anchors has lost its own network; who sees up what cannot be up is
// lied to, or lies.
type Controls struct {
	// Positive are anchors outside of the fleet, at least three: a majority of
	// them must answer.
	Positive []Check `yaml:"positive"`
	// Negative are endpoints that are wrong on purpose: each must be seen failing.
	Negative []Check `yaml:"negative"`
	// Interval between rounds; default 1s. A failure of another site is told only
	// after a round of controls that began later, and is begun for it.
	Interval time.Duration `yaml:"interval"`
}

const (
	// anchors is the least number of positive controls.
	anchors = 3
	// hurried is the least time between rounds that failures ask for.
	hurried = 50 * time.Millisecond
	// maxControl bounds how long an observation may have to wait for one.
	maxControl = 2 * time.Second
)

// WithDefaults fills in what was not said.
func (c Controls) WithDefaults() Controls {
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	c.Positive, c.Negative = slices.Clone(c.Positive), slices.Clone(c.Negative)
	for _, cs := range [][]Check{c.Positive, c.Negative} {
		for i := range cs {
			cs[i] = cs[i].WithDefaults()
		}
	}
	return c
}

// Service is the service whose observations say whether the vantage is eligible:
// up when the controls come out right.
func (c Controls) Service(vantage string) Service {
	s := Service{Name: "controls", Vantage: vantage, Controls: true,
		Checks: slices.Concat(c.Positive, c.Negative), Interval: c.Interval, FastInterval: min(hurried, c.Interval)}
	names := make([]string, len(c.Positive))
	for i, p := range c.Positive {
		names[i] = p.Name
	}
	s.Up = fmt.Sprintf("at_least(%d, %s)", len(names)/2+1, strings.Join(names, ", "))
	for _, n := range c.Negative {
		s.Up += " and not " + n.Name
	}
	return s
}

// Problems finds everything that is wrong with the controls as they are written.
func (c Controls) Problems() []Problem {
	c = c.WithDefaults()
	var ps []Problem
	add := func(path, format string, args ...any) { ps = append(ps, problem(path, format, args...)) }
	if c.Interval < minInterval || c.Interval > time.Minute {
		add("interval", "%v is out of range; %v to %v", c.Interval, minInterval, time.Minute)
	}
	if n := len(c.Positive); n < anchors {
		add("positive", "%d of them; at least %d, so that a majority of anchors tells a lost network from a lost anchor", n, anchors)
	}
	if len(c.Negative) == 0 {
		add("negative", "empty; name an endpoint that must be seen failing, such as a port where nothing listens")
	}
	if n := len(c.Positive) + len(c.Negative); n > maxChecks {
		add("positive", "%d with negative; at most %d together", n, maxChecks)
	}
	var names, targets []string
	for _, list := range []struct {
		key    string
		checks []Check
	}{{"positive", c.Positive}, {"negative", c.Negative}} {
		for i, check := range list.checks {
			at := fmt.Sprintf("%s[%d].", list.key, i)
			for _, p := range check.Problems() {
				add(at+p.Path, "%s", p.Text)
			}
			if k, known := kinds[check.Kind]; known && !k.remote {
				add(at+"kind", "kind %s looks at this host only; a control is what others answer: %s", check.Kind, strings.Join(RemoteKinds(), ", "))
			}
			if check.Name != "" && slices.Contains(names, check.Name) {
				add(at+"name", "%q is the name of an earlier control", check.Name)
			}
			if list.key == "positive" && check.Target != "" && slices.Contains(targets, check.Target) {
				add(at+"target", "%s stands here twice; anchors must not share their fate", check.Target)
			}
			if check.Interval != 0 {
				add(at+"interval", "is not for controls, which are all looked at in every round; leave it out")
			}
			if check.Timeout > maxControl {
				add(at+"timeout", "%v is over %v: what is seen of other sites waits for it", check.Timeout, maxControl)
			}
			names, targets = append(names, check.Name), append(targets, check.Target)
		}
	}
	return ps
}

// RemoteKinds are the kinds of check that ask something over the network, so
// that they can look at another host.
func RemoteKinds() []string {
	return slices.DeleteFunc(slices.Clone(kindNames), func(name string) bool { return !kinds[name].remote })
}
