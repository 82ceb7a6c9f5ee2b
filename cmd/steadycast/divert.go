package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// newDivertCommand makes divert: a site's routes go another of its paths.
func newDivertCommand(c *cli) *cobra.Command {
	f, path := &changeFlags{}, ""
	cmd := &cobra.Command{
		Use: "divert SITE --path NAME", Short: "Announce a site by another of its paths", GroupID: groupChange, Args: cobra.ExactArgs(1),
		Long: "Announce a site by another of its paths, such as through who scrubs its packets. The\n" +
			"neighbours of the new path hear every route, and only when they have acknowledged do\n" +
			"those of the old one hear the withdrawal. While the new path does not work the old one\n" +
			"keeps all, and --wait exits 6. It stands until undivert, or --for ends.",
		Example: "  steadycast divert fra --path scrubbed --reason \"flood, INC-7\" --for 2h --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			if path == "" {
				return usageError(errors.New("--path is missing: which of the site's paths; steadycast sites shows the one in use"))
			}
			return c.divert(cmd.Context(), f, "divert", args[0], path)
		},
		ValidArgsFunction: c.completeSites,
	}
	fs := cmd.Flags()
	f.common(fs)
	f.waiting(fs)
	fs.StringVar(&path, "path", "", "name of the path, of those that the table has for the site")
	fs.DurationVar(&f.lasting, "for", 0, "end by itself after this long, for example 2h; default: until undivert")
	fs.StringVar(&f.until, "until", "", "end by itself at this time, for example 18:30 or \"2026-05-04 06:00\"")
	return cmd
}

// newUndivertCommand makes undivert: a site's routes go its first path again.
func newUndivertCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: "undivert SITE", Short: "Announce a site by its first path again", GroupID: groupChange, Args: cobra.ExactArgs(1),
		Long:    "Announce a site by its first path again, as gently as divert left it.",
		Example: "  steadycast undivert fra --reason \"flood is over, INC-7\" --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.divert(cmd.Context(), f, "undivert", args[0], "")
		},
		ValidArgsFunction: c.completeSites,
	}
	f.common(cmd.Flags())
	f.waiting(cmd.Flags())
	return cmd
}

func (c *cli) divert(ctx context.Context, f *changeFlags, verb, site, path string) error {
	_, err := f.check(nil)
	if err == nil {
		err = f.ends(time.Now())
	}
	if err != nil {
		return err
	}
	return c.perform(ctx, f, change{
		verb: verb, site: site,
		wish: func(bool) decide.Wish {
			return decide.Wish{Kind: decide.KindDivert, Divert: &decide.DivertOrder{Site: site, Path: path, For: f.lasting}}
		},
		// No unit moves; that it is proven says that the routes went.
		done: func(*api.Unit) bool { return true },
	})
}
