package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/api"
)

// newFaultCommand makes a fault at a site of a demo, or at one node of it; no other daemon takes it.
func newFaultCommand(c *cli, what, short, said string) *cobra.Command {
	return &cobra.Command{
		Use: what + " SITE|SITE/NODE", Short: short, GroupID: groupLab, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client := c.client()
			defer client.Close()
			var done api.Done
			if err := client.Post(cmd.Context(), "fault", api.FaultRequest{Site: args[0], What: what}, &done); err != nil {
				return err
			}
			if c.json() {
				return c.printValue(done)
			}
			_, err := fmt.Fprintf(c.out, said+"\nNext: %s\n", args[0], c.command("steadycast status"))
			return err
		},
		ValidArgsFunction: c.completeTargets,
	}
}
