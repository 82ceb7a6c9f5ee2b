package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

func newGuardsCommand(c *cli) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "guards [SITE]", Short: "What every guard would answer now, with its numbers", GroupID: groupSee, Args: cobra.MaximumNArgs(1),
		Long: "Ask every guard what it would answer now if automation wanted to take a unit out,\nor to bring back one that is out. Those that look at the evidence are left out.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if prefix != "" {
				if _, err := parsePrefix(prefix); err != nil {
					return usageError(err)
				}
			}
			_, err := show(cmd.Context(), c, "guards", query("site", arg(args, 0), "prefix", prefix), renderGuards)
			return err
		},
		ValidArgsFunction: c.completeSites,
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "of this prefix only")
	return cmd
}

func renderGuards(s style, p *api.Page[decide.Ruling]) string {
	var b strings.Builder
	for _, r := range p.Items {
		verdict, i := "every guard would pass", green
		if g, no := r.Refusal(); no {
			verdict, i = g.Guard+" would refuse", red
		}
		b.WriteString(s.text(r.Unit.String()) + " to " + r.Permit.Action.String() + ": " + s.paint(i, verdict) + "\n")
		s.rulings(&b, []decide.Ruling{r}, false)
	}
	if len(p.Items) == 0 {
		return "No unit is in the table.\n"
	}
	return b.String()
}

func newHistoryCommand(c *cli) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "history [SITE]", Short: "What people and automation did, as the ledger remembers it: who, why, when", GroupID: groupSee, Args: cobra.MaximumNArgs(1),
		Long: "Show what the ledger remembers of permits, orders, freezes, decisions, tables and\noperators: the last 256, the same on every node. What only this node saw, its\nchecks and sessions, is in steadycast events.",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := show(cmd.Context(), c, "history", query("site", arg(args, 0), "prefix", prefix), renderHistory)
			return err
		},
		ValidArgsFunction: c.completeSites,
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "of this prefix only")
	return cmd
}

func renderHistory(s style, p *api.Page[api.HistoryRow]) string {
	if len(p.Items) == 0 {
		return "The ledger remembers nothing yet.\n"
	}
	t := &table{columns: words("WHEN", "POSITION", "WHO", "WHAT", "WHY")}
	for _, r := range p.Items {
		who := r.Event.Actor
		if who == "" {
			who = "auto"
		}
		t.add(cell{text: r.At.Format(time.DateTime)}, cell{text: r.Fence.String(), ink: dim}, cell{text: who}, cell{text: pastText(&r.Event)}, cell{text: r.Event.Reason})
	}
	return t.render(s)
}

// pastText is what happened, in a few words.
func pastText(e *steadycast.Event) string {
	where := decide.Scope{Site: e.Site, Node: e.Node}.Target()
	if e.Prefix.IsValid() {
		where = strings.TrimSpace(where + " " + e.Prefix.String())
	}
	text := string(e.Kind)
	switch {
	case e.Kind == steadycast.EventRefused:
		return "refused by " + e.Guard + ": " + e.From // which names what it is about
	case e.From != "" && e.To != "":
		text += " " + e.From + " → " + e.To
	case e.To != "":
		text += " " + e.To
	case e.From != "":
		text += " no longer " + e.From
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", where, text))
}
