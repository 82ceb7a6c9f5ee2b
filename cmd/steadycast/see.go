package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/api"
)

func newStatusCommand(c *cli) *cobra.Command {
	var all, code bool
	cmd := &cobra.Command{
		Use:     "status [SITE]",
		Short:   "The verdict, the guards, every unit, and what to do next",
		GroupID: groupSee,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := show(cmd.Context(), c, "status", query("site", arg(args, 0)), func(s style, st *api.Status) string {
				return renderStatus(s, st, all)
			})
			if err == nil && code && st.Summary.Level != api.LevelOK {
				return &exitError{code: exitDegraded}
			}
			return err
		},
		ValidArgsFunction: c.completeSites,
	}
	cmd.Flags().BoolVar(&all, "all", false, "show every unit, however many")
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit 7 unless all is well")
	return cmd
}

func newSitesCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "sites", Short: "One line per site: speaker, routes, health, sessions, orders", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd.Context(), c, "sites", nil, renderSites)
			return err
		},
	}
}

func newWhyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "why SITE PREFIX", Short: "Everything that led to the state of one unit", GroupID: groupSee, Args: cobra.ExactArgs(2),
		Example: "  steadycast why fra 192.0.2.0/24",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := parsePrefix(args[1])
			if err != nil {
				return usageError(err)
			}
			_, err = show(cmd.Context(), c, "why", query("site", args[0], "prefix", p.String()), renderWhy)
			return err
		},
		ValidArgsFunction: c.completeSites,
	}
}

func newPeersCommand(c *cli) *cobra.Command {
	var site string
	cmd := &cobra.Command{
		Use: "peers", Short: "BGP sessions, as seen on the wire", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd.Context(), c, "peers", query("site", site), renderPeers)
			return err
		},
	}
	c.siteFlag(cmd, &site)
	return cmd
}

func newRoutesCommand(c *cli) *cobra.Command {
	var site, peer, prefix string
	var advertised bool
	cmd := &cobra.Command{
		Use: "routes", Short: "What left on the wire, per peer, and whether it was acknowledged", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if prefix != "" {
				p, err := parsePrefix(prefix)
				if err != nil {
					return usageError(err)
				}
				prefix = p.String()
			}
			only := ""
			if advertised {
				only = "true"
			}
			q := query("site", site, "peer", peer, "prefix", prefix, "advertised", only)
			_, err := show(cmd.Context(), c, "routes", q, renderRoutes)
			return err
		},
	}
	c.siteFlag(cmd, &site)
	cmd.Flags().StringVar(&peer, "peer", "", "of this neighbor only")
	cmd.Flags().StringVar(&prefix, "prefix", "", "of this prefix only")
	cmd.Flags().BoolVar(&advertised, "advertised", false, "leave out what was withdrawn")
	return cmd
}

func newChecksCommand(c *cli) *cobra.Command {
	var site, service string
	cmd := &cobra.Command{
		Use: "checks", Short: "Every probe's newest result", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd.Context(), c, "checks", query("site", site, "service", service), renderChecks)
			return err
		},
	}
	c.siteFlag(cmd, &site)
	cmd.Flags().StringVar(&service, "service", "", "of this service only")
	return cmd
}

func (c *cli) siteFlag(cmd *cobra.Command, site *string) {
	cmd.Flags().StringVar(site, "site", "", "of this site only")
	cmd.RegisterFlagCompletionFunc("site", c.completeSites)
}

func arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// parsePrefix takes a prefix, or a bare address as its host prefix.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is not a prefix; write 192.0.2.0/24 or 2001:db8::/48", text)
	case p != p.Masked():
		return p, errors.New(p.String() + " has bits set behind its length; did you mean " + p.Masked().String() + "?")
	}
	return p, nil
}
