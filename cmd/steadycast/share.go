package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
)

// newShareCommand makes share: how much of its clients DNS sends to a site.
func newShareCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: "share SITE PERCENT", Short: "Let DNS send a site only a part of its clients", GroupID: groupChange, Args: cobra.ExactArgs(2),
		Long: "Let DNS send a site only a part of the clients who would come to it; the same clients\n" +
			"stay while the part grows. 100% ends it. No route changes, and who was told before\nstays until its answer's TTL is over.",
		Example: "  steadycast share fra 5% --service web --reason \"canary, CHG-4411\"\n  steadycast share fra 100% --reason \"canary is well, CHG-4411\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			permille, err := parseShare(args[1])
			if err != nil {
				return usageError(err)
			}
			return c.perform(cmd.Context(), f, change{
				verb: "share", site: args[0],
				wish: func(force bool) decide.Wish {
					return decide.Wish{Kind: decide.KindShare, Force: force, Share: &decide.ShareOrder{Site: args[0], Service: f.service, Permille: permille}}
				},
			})
		},
		ValidArgsFunction: c.completeSites,
	}
	f.common(cmd.Flags())
	cmd.Flags().StringVar(&f.service, "service", "", "of this service only; default: of all that the site serves")
	cmd.Flags().BoolVar(&f.force, "force", false, "take clients away even where no other site takes any")
	return cmd
}

// parseShare reads 5, 5%, 12.5% into permille.
func parseShare(text string) (int, error) {
	whole, part, dotted := strings.Cut(strings.TrimSuffix(text, "%"), ".")
	n, err := strconv.ParseUint(whole+part, 10, 16)
	if !dotted {
		n *= 10
	}
	if err != nil || dotted && len(part) != 1 || whole == "" || n > decide.Whole {
		return 0, fmt.Errorf("%q is not a share; allowed: 0%% to 100%%, with one digit behind the dot", text)
	}
	return int(n), nil
}
