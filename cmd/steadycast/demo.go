package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/demo"
)

func newDemoCommand(c *cli) *cobra.Command {
	var (
		sites    int
		nodes    int
		scenario string
		howLong  time.Duration
		lines    bool
		verbose  bool
		dns      string
	)
	var stories strings.Builder
	for _, s := range demo.Scenarios {
		fmt.Fprintf(&stories, "  %-18s %s\n", s.Name, s.About)
	}
	cmd := &cobra.Command{
		Use: "demo", Short: "Run a whole fleet in this process, without privileges", GroupID: groupLab, Args: cobra.NoArgs,
		Long: `Runs a fleet of sites in this one process, without privileges: real agents that
watch each other over mutual TLS, voters of a replicated ledger and BGP speakers
on 127.0.0.x, a router that they announce one anycast prefix to, and a web
service each. A site has one node, or with --nodes several, each of which
announces. Without --scenario it stays up and says what to type in another
terminal; the key of the operator who may give orders lies beside its socket.

Scenarios, each of which ends with exit code 0 only if what should have happened
was seen at the router, and the invariants hold afterwards: all voters have one
state, router and ledger agree, no withdrawal without a permit or an order, the
floor is kept:

` + stories.String(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := demo.Options{Sites: sites, Nodes: nodes, Socket: c.socket, JSON: lines, Out: c.out, Version: buildVersion(), Command: program()}
			if !cmd.Flags().Changed("socket") && os.Getenv("STEADYCAST_SOCKET") == "" {
				dir, err := os.MkdirTemp("", "steadycast-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				o.Socket = filepath.Join(dir, "demo.sock")
			}
			o.Key = keyBeside(o.Socket)
			if dns != "off" {
				at, err := netip.ParseAddrPort(dns)
				if err != nil || at.Port() == 0 {
					return usageError(fmt.Errorf("--dns %q: write an address and a port, as 127.0.0.1:5300 or [::1]:5300, or off", dns))
				}
				o.DNS, o.DNSIfFree = at, !cmd.Flags().Changed("dns")
			}
			if scenario != "" {
				s, err := demo.Find(scenario)
				if err != nil {
					return usageError(err)
				}
				o.Scenario = &s
				if !cmd.Flags().Changed("sites") {
					o.Sites = max(sites, s.Sites)
				}
			}
			if err := o.Check(); err != nil {
				return usageError(err)
			}
			if verbose {
				o.Log = slog.New(slog.NewTextHandler(c.err, nil))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if howLong > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, howLong)
				defer cancel()
			}
			err := demo.Run(ctx, o)
			if errors.Is(err, demo.ErrFailed) {
				return &exitError{code: exitFailed} // the report has said why
			}
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&sites, "sites", 3, "how many sites, 1 to 10; one decides alone, two have a witness, more have three voters;\nat least as many as the scenario needs")
	f.IntVar(&nodes, "nodes", 0, "how many nodes at each site, 1 to 4, each of which announces; default 1, or what the scenario needs")
	f.StringVar(&dns, "dns", "127.0.0.1:5300", "where to answer for the zone demo.test, or off; www.demo.test has the addresses of the sites that serve")
	f.StringVar(&scenario, "scenario", "", "run this scenario and end: "+strings.Join(demo.Names(), ", "))
	f.DurationVar(&howLong, "for", 0, "end after this long; 0 means not by itself")
	f.BoolVar(&lines, "json", false, "one JSON object per event, and last a summary")
	f.BoolVar(&verbose, "verbose", false, "what the parts log, on standard error")
	return cmd
}

// program is how a person starts this program again: `go run` leaves its binary
// in a temporary folder.
func program() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/steadycast"
	}
	return os.Args[0]
}
