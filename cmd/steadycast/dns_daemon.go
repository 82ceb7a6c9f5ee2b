package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/dns"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/voter"
)

// runDNS makes `steadycast dns` itself the server's process, beside the commands
// below it.
func runDNS(*cli) *cobra.Command {
	return daemonCommand("dns", "Answer for the fleet's zones; or see what is answered, and why",
		`Runs the server of names of this node: it follows what the ledger has committed,
and answers for the zones of the fleet's table at the addresses of dns.listen.
It begins once it knows the table and the state, or remembers them and they are
young enough. Without a ledger it answers on from what it heard last.

  SIGTERM   answer what has arrived, and end
  SIGHUP    read node.yaml, cookie secrets and maps again; a bad file changes nothing
  SIGUSR1   write the state to the log

The commands below ask the server of this node, over the socket beside the agent's.`,
		func(cmd *cobra.Command, load loader) error {
			cfg, log, flush, err := load.first("dns")
			if err != nil {
				return err
			}
			defer flush()
			o := dns.Options{Config: cfg, Load: load, Logger: log, Version: buildVersion().Version}
			if cfg.Node.Mode == "fleet" {
				c, err := credentials(cfg, "dns", log)
				if err != nil {
					return err
				}
				o.LedgerTLS = voter.TLS(c)
			}
			return role.Run(cmd.Context(), role.Spec{Name: "dns", Logger: log}, func(ctx context.Context, p *role.Process) error {
				return dns.Run(ctx, p, o)
			})
		})
}
