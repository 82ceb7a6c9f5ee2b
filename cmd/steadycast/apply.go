package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
)

// A fleet's table is staged, acknowledged by the nodes that announce, and then
// put into force for all at once; see decide/apply_stage.go.

// applyFlags are those of apply and rollback.
type applyFlags struct {
	changeFlags
	waive  []string
	within time.Duration
}

func (f *applyFlags) register(cmd *cobra.Command) {
	f.common(cmd.Flags())
	cmd.Flags().DurationVar(&f.within, "confirm-within", 0, "put it on trial: the table before comes back by itself unless steadycast confirm is\nsaid within this time, for example 5m")
	cmd.Flags().BoolVar(&f.force, "force", false, "pass the guards that the table meets; they are named and recorded")
	cmd.Flags().StringSliceVar(&f.waive, "waive", nil, "SITE or SITE/NODE that announce and may go without having said yes")
	cmd.Flags().DurationVar(&f.wait, "wait", defaultWait, "how long the nodes may take to say what they make of it")
}

// sound finds mistakes that need no daemon.
func (f *applyFlags) sound() error {
	if f.within < 0 || f.within > 24*time.Hour {
		return usageError(fmt.Errorf("--confirm-within: %s is not between 0s and 24h", f.within))
	}
	_, err := f.check(nil)
	return err
}

func newApplyCommand(c *cli) *cobra.Command {
	f := &applyFlags{}
	cmd := &cobra.Command{
		Use: "apply FLEET.YAML --reason WHY", Short: "Give the fleet a new table: every node tries it, then it holds for all at once", GroupID: groupConfigure, Args: cobra.ExactArgs(1),
		Long: `Stage a table, wait until every node that announces has tried it against its own
host and said what it would change there, and put it into force at one moment for
all. A node that refuses, or is silent, keeps it from coming into force; --waive
names sites, or single nodes as SITE/NODE, that may go without. A table that takes announcements below a
floor, a whole prefix away, or more sites at once than the breaker lets fall, and
one that leaves a name nobody to answer with, is refused with the numbers.

With --confirm-within the table is on trial: where nobody confirms it in time, the
ledger puts the one before back by itself, whichever voter leads then.

Exit codes: 3 when it is staged and not in force, or refused.`,
		Example: "  steadycast diff fleet.yaml\n  steadycast apply fleet.yaml --dry-run --reason \"two more prefixes\"\n  steadycast apply fleet.yaml --reason \"two more prefixes, CHG-4420\"\n  steadycast apply fleet.yaml --confirm-within 5m --reason \"new checks\" && sleep 120 && steadycast confirm --reason \"all is well\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.sound(); err != nil {
				return err
			}
			next, ps := config.LoadTable(args[0])
			if ps.Err() != nil {
				return &exitError{exitUsage, ps}
			}
			return c.applyTable(cmd.Context(), f, "apply "+args[0], next.Table())
		},
	}
	f.register(cmd)
	return cmd
}

func newRollbackCommand(c *cli) *cobra.Command {
	f := &applyFlags{}
	cmd := &cobra.Command{
		Use: "rollback REVISION --reason WHY", Short: "Give the fleet an older table again, as a new revision", GroupID: groupConfigure, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.sound(); err != nil {
				return err
			}
			n, err := revisionOf(args[0])
			if err != nil {
				return err
			}
			client := c.client()
			defer client.Close()
			old, err := fetchTable(cmd.Context(), client, n)
			if err != nil {
				return err
			}
			return c.applyTable(cmd.Context(), f, "rollback "+args[0], old)
		},
	}
	f.register(cmd)
	return cmd
}

func revisionOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, usageError(fmt.Errorf("%q is not a revision. Next: steadycast revisions", text))
	}
	return n, nil
}

// fetchTable asks for a table; 0 is the one in force.
func fetchTable(ctx context.Context, client *api.Client, revision uint64) (t decide.Table, err error) {
	n := ""
	if revision != 0 {
		n = strconv.FormatUint(revision, 10)
	}
	err = client.Get(ctx, "table", query("revision", n), &t)
	return t, err
}

// tableChanges tells what a table changes of the one in force.
func tableChanges(active, next decide.Table) []string {
	var out []string
	for _, x := range config.DiffTables(active, next) {
		out = append(out, x.Text)
	}
	if len(out) == 0 && active.Source == "" && next.Source != "" {
		out = append(out, "the nodes are given its text, with the checks; what the ledger judges by stays as it is")
	}
	return out
}

// applyTable stages a table, waits for what the nodes say, and activates it.
func (c *cli) applyTable(ctx context.Context, f *applyFlags, verb string, table decide.Table) error {
	client := c.client()
	defer client.Close()
	authority, err := ledgerAuthority(ctx, client)
	if err != nil {
		return err
	}
	if len(authority.Operators) == 0 {
		return usageError(errors.New("this node is no member of a fleet: its table is in its own files. Next: edit them, then steadycast reload"))
	}
	active, err := fetchTable(ctx, client, 0)
	if err != nil {
		return err
	}
	changes := tableChanges(active, table)
	if len(changes) == 0 {
		return c.said(api.Changed{}, "nothing differs from revision %d, which is in force\n", active.Revision)
	}
	if !c.json() {
		fmt.Fprintf(c.out, "against revision %d:\n", active.Revision)
		c.follows(changes)
		c.printEffects(effectsOf(active, table))
	}
	table.Revision = 0 // the ledger counts
	var staged decide.Signed
	stage := change{verb: verb, signed: &staged, wish: func(force bool) decide.Wish {
		return decide.Wish{Kind: decide.KindStage, Table: &table, Force: force}
	}}
	if f.dryRun {
		return c.rehearse(ctx, client, &f.changeFlags, stage)
	}
	if !f.yes {
		person, ok := c.person()
		if !ok {
			return usageError(fmt.Errorf("%s needs a person's yes and there is no terminal to ask on. Next: the same with --yes, or with --dry-run first", verb))
		}
		defer person.Close()
		if err := c.ask(ctx, client, person, &f.changeFlags, stage); err != nil {
			return err
		}
	}
	got, err := c.enter(ctx, client, &f.changeFlags, stage)
	if err != nil {
		return c.refused(err)
	}
	n := got.Reply.Revision
	if !c.json() {
		fmt.Fprintf(c.out, "staged as revision %d\n", n)
	}
	said, err := c.awaitAcks(ctx, client, f, n)
	if err != nil {
		return err
	}
	activate := change{verb: verb, wish: func(force bool) decide.Wish {
		return decide.Wish{Kind: decide.KindActivate, Revision: n, Waive: f.waive, Force: force, Of: staged.Digest(), ConfirmWithin: f.within}
	}}
	if got, err = c.enter(ctx, client, &f.changeFlags, activate); err != nil {
		var e *api.Error
		if errors.As(err, &e) && e.Guard == "acks" { // said in full by awaitAcks
			return &exitError{exitRefused, fmt.Errorf("revision %d waits, revision %d goes on: %s. Next: mend it there and %s again, or %s --waive SITE, or SITE/NODE", n, said.Active, e.Message, verb, verb)}
		}
		return c.refused(err)
	}
	got.Reply.Revision = n
	if f.within > 0 {
		return c.said(got, "revision %d is on trial, at %s: in %s the table before comes back. Next: %s\n", n, got.Reply.Fence,
			api.Span(f.within), c.command(fmt.Sprintf("steadycast confirm %d --reason WHY", n)))
	}
	return c.said(got, "revision %d is in force, at %s\n", n, got.Reply.Fence)
}

func newConfirmCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: "confirm [REVISION] --reason WHY", Short: "Let the table that is on trial stay in force", GroupID: groupConfigure, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			client := c.client()
			defer client.Close()
			var on api.Staged
			if err := client.Get(cmd.Context(), "staged", nil, &on); err != nil {
				return err
			}
			if on.Trial == nil {
				return &exitError{exitNotFound, fmt.Errorf("no table is on trial: revision %d is in force for good. Next: steadycast revisions", on.Active)}
			}
			n := on.Trial.Revision
			if len(args) > 0 {
				var err error
				if n, err = revisionOf(args[0]); err != nil {
					return err
				}
			}
			return c.perform(cmd.Context(), f, change{verb: fmt.Sprintf("confirm %d", n), wish: func(bool) decide.Wish {
				return decide.Wish{Kind: decide.KindConfirm, Revision: n}
			}})
		},
	}
	f.common(cmd.Flags())
	return cmd
}

// awaitAcks shows what each node says of the staged table, until nobody is
// missing or the time is over.
func (c *cli) awaitAcks(ctx context.Context, client *api.Client, f *applyFlags, revision uint64) (got api.Staged, err error) {
	over := time.NewTimer(f.wait)
	defer over.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	shown := map[string]bool{}
	for {
		if err := client.Get(ctx, "staged", nil, &got); err != nil {
			return got, err
		}
		if got.Revision != revision {
			return got, &exitError{exitFailed, fmt.Errorf("revision %d waits no more: %d was staged by %s meanwhile", revision, got.Revision, got.Actor)}
		}
		refused := false
		for _, k := range got.Acks {
			refused = refused || k.Refusal != ""
			if line := ackLine(k); !shown[line] && !c.json() {
				shown[line] = true
				c.follows([]string{line})
			}
		}
		if missing(got.Unready, f.waive) == 0 || refused {
			return got, nil
		}
		select {
		case <-over.C:
			return got, nil
		case <-ctx.Done():
			return got, ctx.Err()
		case <-look.C:
		}
	}
}

// missing counts those that have not said yes, but for those waived. Each is written
// as "SITE (why)" or "SITE/NODE (why)".
func missing(unready, waived []string) int {
	n := 0
	for _, u := range unready {
		target, _, _ := strings.Cut(u, " ")
		site, _, _ := strings.Cut(target, "/")
		if !slices.Contains(waived, target) && !slices.Contains(waived, site) {
			n++
		}
	}
	return n
}

func ackLine(k decide.Ack) string {
	switch {
	case k.Refusal != "":
		return k.Node + " refuses: " + k.Refusal
	case len(k.Emptied) > 0:
		return k.Node + ": nobody would be left to answer with: " + strings.Join(k.Emptied, "; ")
	case len(k.Changes) == 0:
		return k.Node + ": nothing changes"
	}
	return k.Node + ": " + strings.Join(k.Changes, "; ")
}

func newRevisionsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "revisions", Short: "The tables that were in force, and who gave them", GroupID: groupConfigure, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd.Context(), c, "revisions", nil, renderRevisions)
			return err
		},
	}
}

func renderRevisions(s style, p *api.Revisions) string {
	t := &table{columns: words(">REVISION", "STATE", "SINCE", "BY", "WHY")}
	for _, r := range p.Items {
		state, i, since := "", plain, ""
		switch {
		case r.Active && p.Trial != nil:
			state, i = "on trial", yellow
		case r.Active:
			state, i = "in force", green
		}
		if !r.At.IsZero() {
			since = r.At.Format(time.DateTime)
		}
		t.add(cell{text: strconv.FormatUint(r.Revision, 10)}, cell{state, i}, cell{text: since}, cell{text: r.Actor}, cell{text: r.Reason})
	}
	out := t.render(s)
	if p.Trial != nil {
		var b strings.Builder
		s.labelled(&b, "Trial", yellow, p.Trial.String())
		out += b.String()
	}
	if len(p.Skewed) > 0 {
		var b strings.Builder
		s.labelled(&b, "Skewed", red, strings.Join(p.Skewed, "; "))
		out += b.String()
	}
	return out
}
