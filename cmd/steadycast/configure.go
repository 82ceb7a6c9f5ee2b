package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
)

func newCheckCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE…", Short: "Judge configuration files; needs no daemon and no rights", GroupID: groupConfigure, Args: cobra.MinimumNArgs(1),
		Long: "Judge node.yaml and fleet.yaml as a daemon would that starts with them, and name\nevery problem at once as file:line:col: path: what; allowed. Exits 2 if there is any.",
		RunE: func(_ *cobra.Command, files []string) error {
			ps := config.Check(files...)
			lines, ok := config.Report(files, ps)
			if c.json() {
				if err := c.printValue(checked(ok, ps)); err != nil {
					return err
				}
			} else {
				for _, l := range lines {
					fmt.Fprintln(c.out, printable(l))
				}
			}
			if !ok {
				return &exitError{code: exitUsage}
			}
			return nil
		},
	}
}

// problem is one line of `check -o json`.
type problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"`
}

// report is the answer of `check -o json`.
type report struct {
	OK       bool      `json:"ok"`
	Problems []problem `json:"problems"`
}

func checked(ok bool, ps config.Problems) report {
	out := report{OK: ok, Problems: []problem{}}
	for _, p := range ps {
		out.Problems = append(out.Problems, problem{p.Place.File, p.Place.Line, p.Place.Col, p.Path, p.Text, p.Warning})
	}
	return out
}

func newReloadCommand(c *cli) *cobra.Command {
	var dryRun, crashLoop, fence bool
	cmd := &cobra.Command{
		Use: "reload", Short: "Read the configuration again; a bad one changes nothing", GroupID: groupConfigure, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := c.client()
			defer client.Close()
			var clear []string
			if crashLoop {
				clear = append(clear, "crash_loop")
			}
			if fence {
				clear = append(clear, "fence")
			}
			if dryRun && len(clear) > 0 {
				return usageError(errors.New("--dry-run does not go with --clear-crash-loop or --clear-fence"))
			}
			for _, what := range clear {
				var done api.Done
				if err := client.Post(cmd.Context(), "clear", api.ClearRequest{What: what}, &done); err != nil {
					return err
				}
				if !c.json() {
					fmt.Fprintf(c.out, "cleared: %s\n", strings.ReplaceAll(what, "_", " "))
				}
			}
			var got api.Reload
			if err := client.Post(cmd.Context(), "reload", api.ReloadRequest{DryRun: dryRun}, &got); err != nil {
				return err
			}
			if c.json() {
				if err := c.printValue(got); err != nil {
					return err
				}
			}
			if len(got.Problems) > 0 {
				return usageError(errors.New("reload refused, the old configuration goes on:\n" + strings.Join(got.Problems, "\n")))
			}
			if c.json() {
				return nil
			}
			switch {
			case len(got.Changes) == 0:
				fmt.Fprintln(c.out, "nothing differs from what is running")
			case got.DryRun:
				fmt.Fprintln(c.out, "dry run: nothing was changed; a reload would do this:")
			default:
				fmt.Fprintln(c.out, "reloaded:")
			}
			c.follows(got.Changes)
			return nil
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().BoolVar(&crashLoop, "clear-crash-loop", false, "let a speaker announce again that stays out after too many starts")
	cmd.Flags().BoolVar(&fence, "clear-fence", false, "let a speaker forget the highest ledger position, after a ledger was restored from a copy")
	return cmd
}
