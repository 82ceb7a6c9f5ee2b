package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
	rungs "github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/config"
)

func newModeCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: "mode MODE", Short: "Let go of what moves answers: normal, conservative, frozen, minimal", Args: cobra.ExactArgs(1),
		Long: `Sets the mode of the whole fleet's answers. No route is touched.

  normal        answers follow health, orders and the table
  conservative  health moves nothing any more; orders and tables do
  frozen        orders neither: only another table, or another mode
  minimal       names that have anycast: addresses are answered with those, the same to all

The fleet goes down by itself while automation is frozen everywhere (conservative),
and, with do: minimal in levels:, while nothing that names lead to is well anywhere
(minimal); and back when that is over.
normal is also a person's word against the cause of the moment. A server that hears
no ledger goes down by itself, to frozen, and by dns.minimal_after to minimal; and
back when it has heard one again for ten seconds.`,
		Example: "  steadycast dns mode conservative --reason \"health is not to be trusted, INC-12\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			if !slices.Contains(rungs.Modes(), args[0]) {
				return usageError(fmt.Errorf("%q is not a mode; allowed: %s", args[0], strings.Join(rungs.Modes(), ", ")))
			}
			return c.performNames(cmd.Context(), f, decide.NamesOrder{Mode: args[0]})
		},
		ValidArgs: rungs.Modes(),
	}
	f.common(cmd.Flags())
	return cmd
}

func newSwitchCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: "switch CHOICE/MEMBER down|up|automatic", Short: "Switch one member of a name or pool by itself", Args: cobra.ExactArgs(2),
		Long: `Takes one member of a name, or of a pool, out of the answers, or counts it as well,
whatever the state and the orders of its site: the exception from what holds for
the site's other names. automatic ends that.`,
		Example: "  steadycast drain fra --reason \"power works\"\n  steadycast dns switch www.example.com/fra up --reason \"only this one stays\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			if to := args[1]; to != decide.MemberDown && to != decide.MemberUp && to != decide.MemberAutomatic {
				return usageError(fmt.Errorf("%q; allowed: down, up, automatic", to))
			}
			if args[1] != decide.MemberAutomatic {
				if err := c.knowsMember(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			return c.performNames(cmd.Context(), f, decide.NamesOrder{Member: args[0], To: args[1]})
		},
	}
	f.common(cmd.Flags())
	return cmd
}

func (c *cli) performNames(ctx context.Context, f *changeFlags, o decide.NamesOrder) error {
	return c.perform(ctx, f, change{
		verb: o.String(),
		wish: func(bool) decide.Wish { return decide.Wish{Kind: decide.KindNames, Names: &o} },
	})
}

// knowsMember looks the member up in the table in force, which the ledger does not
// read. A ledger that has no text of it cannot be asked.
func (c *cli) knowsMember(ctx context.Context, member string) error {
	client := c.client()
	defer client.Close()
	t, err := fetchTable(ctx, client, 0)
	if err != nil || t.Source == "" {
		return err
	}
	fleet, ps := config.ParseTable("fleet.yaml", []byte(t.Source))
	if ps.Err() != nil {
		return nil // the nodes say so by themselves
	}
	known := fleet.Members()
	if slices.Contains(known, member) {
		return nil
	}
	choice, _, _ := strings.Cut(member, "/")
	near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, choice+"/") })
	if len(near) == 0 {
		near = known
	}
	if more := len(near) - 10; more > 0 {
		near = append(near[:10:10], fmt.Sprintf("and %d more", more))
	}
	return &exitError{exitNotFound, fmt.Errorf("the table has no member %s; known: %s", member, orElse(strings.Join(near, ", "), "none"))}
}
