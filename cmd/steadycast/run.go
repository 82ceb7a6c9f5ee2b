package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/steadycast/steadycast/internal/role"
)

// stopMargin is what a role may take beyond its own bound to leave.
const stopMargin = 5 * time.Second

// inOrder puts the server of names first, and so last at a stop: it answers until
// the speaker has drained what leads to it.
func inOrder(roles []string) []string {
	out := slices.DeleteFunc(slices.Clone(roles), func(r string) bool { return r == "dns" })
	if len(out) < len(roles) {
		out = append([]string{"dns"}, out...)
	}
	return out
}

func newRunCommand(*cli) *cobra.Command {
	return daemonCommand("run", "Run the roles that node.yaml names as supervised processes",
		`Runs the roles of node.yaml, each as a process of its own under this one: for
a first try, containers and the lab. In production each role is better a unit of
the service manager, so that the agent can be upgraded alone: restarting this
process restarts the speaker too, and that moves routes.

  SIGTERM   stop the other roles, then the speaker, which drains; again: at once
  SIGHUP    all read node.yaml again`,
		func(cmd *cobra.Command, load loader) error {
			cfg, log, flush, err := load.first("run")
			if err != nil {
				return err
			}
			defer flush()
			given := []string{}
			cmd.Flags().Visit(func(f *pflag.Flag) { given = append(given, "--"+f.Name+"="+f.Value.String()) })
			if !cmd.Flags().Changed("config") {
				given = append(given, "--config="+cfg.File)
			}
			var children []role.Child
			for _, name := range inOrder(cfg.Node.Roles) {
				children = append(children, role.Child{Name: name, Args: append([]string{name}, given...),
					Patience: cfg.Node.Stop.Timeout + stopMargin, Keeps: name == "dns"})
			}
			err = role.Run(cmd.Context(), role.Spec{Name: "run", Logger: log}, func(ctx context.Context, p *role.Process) error {
				return role.Supervise(ctx, p, role.Supervision{Children: children, Logger: log})
			})
			var code *role.ExitError
			if errors.As(err, &code) {
				return &exitError{code.Code, err}
			}
			return err
		})
}
