package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options say what to simulate.
type Options struct {
	// Sites that announce, 2 to 300; 0 means 8. Two get a witness.
	Sites int
	// Length of one schedule in virtual time; 0 means 30 minutes. The end of it is
	// quiet, so that what must recover can.
	Length time.Duration
	// Faults that may happen, by name; nil means all.
	Faults []string
	// Mutation is the name of a rejected rule to run with; empty means none.
	Mutation string
	// Policy pins the table; empty lets each seed draw its own.
	Policy string
	// Only, when not nil, leaves only these faults of the plan, by number.
	Only []int
	// Trace gets a line for everything that matters; nil for none.
	Trace io.Writer
}

func (o Options) withDefaults() (Options, error) {
	if o.Sites == 0 {
		o.Sites = 8
	}
	if o.Length == 0 {
		o.Length = 30 * time.Minute
	}
	if o.Mutation != "" {
		m, ok := findMutation(o.Mutation)
		if !ok {
			return o, fmt.Errorf("no mutation is named %q; `--mutate list` names them", o.Mutation)
		}
		if o.Policy == "" {
			o.Policy = m.policy
		}
		if len(o.Faults) == 0 {
			o.Faults = m.faults
		}
	}
	if len(o.Faults) == 0 || slices.Contains(o.Faults, "all") {
		o.Faults = nil
		for _, k := range faultKinds {
			o.Faults = append(o.Faults, k.name)
		}
	}
	switch {
	case o.Sites < 2 || o.Sites > 300:
		return o, fmt.Errorf("%d sites; allowed: 2…300", o.Sites)
	case o.Length < 5*time.Minute || o.Length > 30*24*time.Hour:
		return o, fmt.Errorf("a schedule of %v; allowed: 5m…720h", o.Length)
	}
	for _, f := range o.Faults {
		if !slices.ContainsFunc(faultKinds, func(k faultKind) bool { return k.name == f }) {
			return o, fmt.Errorf("no fault is named %q; allowed: all, %s", f, strings.Join(FaultNames(), ", "))
		}
	}
	if o.Policy != "" && !slices.ContainsFunc(policies, func(p policy) bool { return p.name == o.Policy }) {
		return o, fmt.Errorf("no policy is named %q; allowed: %s", o.Policy, strings.Join(PolicyNames(), ", "))
	}
	return o, nil
}

// FaultNames are the names of all kinds of fault.
func FaultNames() []string {
	var names []string
	for _, k := range faultKinds {
		names = append(names, k.name)
	}
	return names
}

// Faults lists the name of each kind of fault, and what it is.
func Faults() [][2]string {
	var all [][2]string
	for _, k := range faultKinds {
		all = append(all, [2]string{k.name, k.about})
	}
	return all
}

// PolicyNames are the names of all policies.
func PolicyNames() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}
