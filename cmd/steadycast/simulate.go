package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/sim"
)

// newSimulateCommand runs whole fleets in virtual time and looks for a broken
// invariant.
func newSimulateCommand(c *cli) *cobra.Command {
	var (
		m     sim.Many
		hours float64
		seed  uint64
		only  string
		trace bool
		what  supposition
	)
	cmd := &cobra.Command{
		Use: "simulate", Short: "Attack the rules in virtual time, with faults, and check the invariants", GroupID: groupLab, Args: cobra.NoArgs,
		Long: `With --fail it is a question about your own fleet: what would happen, step by step,
if these sites failed one after the other, with what the guards would answer and
what the others would carry. It asks the very code that decides, and changes
nothing. The table and the loads are the present ones, or those of -f and --load.

Otherwise it runs schedules: a fleet of sites and voters with the very code that decides, in
virtual time, under faults that are drawn from a seed. After everything that
could break one, the invariants are checked. The same seed gives the same
schedule on every machine.

A broken invariant ends with exit code 1, and says the seed, the few faults
without which it does not happen, and the command that shows it again.

--mutate runs with a rule that was considered and rejected; then a broken
invariant is what should be found. With "all" each of them is run until it is
found, through 200 schedules at most, and one that is not ends with exit code 1.
Policies leave one guard tight, so that no
other hides its faults: ` + strings.Join(sim.PolicyNames(), ", "),
		Example: `  steadycast simulate --fail fra,ams --load current
  steadycast simulate --seeds 200 --hours 1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(what.fail) > 0:
				return c.suppose(cmd.Context(), what)
			case cmd.Flags().Changed("file"), cmd.Flags().Changed("load"):
				return usageError(fmt.Errorf("-f and --load are for --fail SITE"))
			case m.Mutation == "list":
				return c.listNamed(sim.Mutations())
			case len(m.Faults) == 1 && m.Faults[0] == "list":
				return c.listNamed(sim.Faults())
			}
			one := cmd.Flags().Changed("seed")
			if one {
				m.First, m.Seeds = seed, 1
			}
			if m.Seeds < 1 {
				return usageError(fmt.Errorf("--seeds %d; at least 1", m.Seeds))
			}
			if !(hours > 0 && hours <= 720) {
				return usageError(fmt.Errorf("--hours %g; allowed: 0.1 to 720", hours))
			}
			m.Length = time.Duration(hours * float64(time.Hour))
			debug.SetGCPercent(400) // schedules are small, and make much that is soon gone
			var err error
			if m.Only, err = numbers(only, cmd.Flags().Changed("only")); err != nil {
				return usageError(err)
			}
			if trace {
				if !one {
					return usageError(fmt.Errorf("--trace is of one schedule; choose it with --seed"))
				}
				m.Trace = c.out
				if c.json() {
					m.Trace = c.err
				}
			}
			if m.Mutation == "all" {
				if !cmd.Flags().Changed("seeds") {
					m.Seeds = 200
				}
				return c.mutations(m)
			}
			rep, err := sim.RunMany(m)
			if err != nil {
				return usageError(err)
			}
			if c.json() {
				b, err := json.Marshal(rep)
				if err != nil {
					return err
				}
				fmt.Fprintln(c.out, string(b))
			} else {
				rep.Write(c.out)
			}
			if rep.Violations > 0 {
				return &exitError{code: exitFailed} // the report has said why
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&what.fail, "fail", nil, "suppose that these sites fail, in this order")
	f.StringVarP(&what.file, "file", "f", "", "with --fail: node.yaml or fleet.yaml; default the table in force")
	f.StringVar(&what.load, "load", "", "with --fail: current, table, or a file with lines of SITE LOAD")
	f.DurationVar(&what.apart, "apart", time.Second, "with --fail: time between the failures")
	f.BoolVar(&what.soft, "soft", false, "with --fail: failures that are not certain: wrong or late answers")
	f.IntVar(&m.Sites, "sites", 8, "how many sites announce: 2 to 300")
	f.IntVar(&m.Seeds, "seeds", 20, "how many schedules, one for each seed")
	f.Uint64Var(&m.First, "first-seed", 1, "the seed of the first")
	f.Float64Var(&hours, "hours", 0.5, "virtual hours of each")
	f.StringSliceVar(&m.Faults, "faults", nil, "only these faults, separated by commas, or all; `list` names them")
	f.StringVar(&m.Policy, "policy", "", "which guards are tight; default each seed's own")
	f.StringVar(&m.Mutation, "mutate", "", "run with this rejected rule, or with all in turn; `list` names them")
	f.BoolVar(&m.Stop, "stop", false, "end at the first broken invariant")
	f.Uint64Var(&seed, "seed", 0, "only the schedule of this seed")
	f.StringVar(&only, "only", "", "only these faults of it, by number, or none")
	f.BoolVar(&trace, "trace", false, "print what happens in it")
	return cmd
}

// mutations runs with each rejected rule in turn.
func (c *cli) mutations(m sim.Many) error {
	missed := 0
	rep, err := sim.RunMutations(m, func(x sim.Caught) {
		found := x.Invariant
		if found == "" {
			found = "MISSED"
			missed++
		}
		if !c.json() {
			fmt.Fprintf(c.out, "%-26s %-9s after %3d  %s\n", x.Mutation, found, x.Schedules, x.Rule)
		}
	})
	if err != nil {
		return usageError(err)
	}
	if c.json() {
		b, err := json.Marshal(rep)
		if err != nil {
			return err
		}
		fmt.Fprintln(c.out, string(b))
	} else {
		fmt.Fprintf(c.out, "%d of %d rules caught in %d schedules\n", len(rep.Mutations)-missed, len(rep.Mutations), rep.Schedules)
	}
	if missed > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

// listNamed prints names with what they stand for.
func (c *cli) listNamed(names [][2]string) error {
	type named struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	var list []named
	for _, n := range names {
		list = append(list, named{n[0], n[1]})
	}
	if c.json() {
		b, err := json.Marshal(list)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, string(b))
		return err
	}
	for _, n := range list {
		if _, err := fmt.Fprintf(c.out, "%-26s %s\n", n.Name, n.Text); err != nil {
			return err
		}
	}
	return nil
}

// numbers reads "1,5,9" or "none"; nil when nothing was given.
func numbers(s string, given bool) ([]int, error) {
	if !given {
		return nil, nil
	}
	list := []int{}
	if s == "none" {
		return list, nil
	}
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--only %q: %q is not the number of a fault; write 3,7,12 or none", s, word)
		}
		list = append(list, n)
	}
	return list, nil
}
