package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

func newCutsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "cuts [SITE]", Short: "What became of routes that left: how far each cut is, and its four latencies", GroupID: groupSee, Args: cobra.MaximumNArgs(1),
		Long: `A cut is complete only when it is seen to be: every router has acknowledged it and
no view contradicts, every node has heard of it, what still comes for the prefix is
under a hundredth of what came before, and the sites that took over are well, all
of that for ten seconds. Until then it is in progress and says what is missing;
failed while a site that took over is not well. Where nothing counts packets it is
unmeasured, and never called complete.

DECIDED is from the first failing round to the leave, EFFECT until routers and nodes
had it, MIGRATED until the clients had gone, LOST the loss integral: failed probes
times how long; with the medians of those before, to compare.

Any node shows all sites: what their nodes tell the ledger of cuts that last, and
what the newest 64 came to, which the ledger remembers though their nodes be gone.
A site that was ordered out and of which nothing is heard for a minute has a cut that
failed: nobody can say what its routers hold. It is named by no node.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := show(cmd.Context(), c, "cuts", query("site", arg(args, 0)), renderCuts)
			return err
		},
		ValidArgsFunction: c.completeSites,
	}
}

// renderCuts is the page of `steadycast cuts`, the newest last.
func renderCuts(s style, page *api.Page[api.Cut]) string {
	if len(page.Items) == 0 {
		return "no route has left\n"
	}
	t := &table{columns: words("UNIT", "NODE", "BEGAN", "STATE", ">DECIDED", ">EFFECT", ">MIGRATED", ">LOST", ">REST", "WHY")}
	took := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return rough(d)
	}
	for i := range page.Items {
		x := &page.Items[i]
		state := cell{string(x.State), plain}
		switch x.State {
		case decide.CutFailed:
			state.ink = red
		case decide.CutInProgress, decide.CutUnmeasured:
			state.ink = yellow
		}
		rest := "?"
		if x.Counted {
			rest = strconv.FormatInt(x.Rest, 10) + "/" + strconv.FormatInt(x.Before, 10)
		}
		why := append([]string{x.Reason}, x.Why...)
		if x.Over {
			why = append(why, "announced again")
			if x.State == decide.CutInProgress {
				state.text = "given up"
				why = []string{x.Reason, "announced again before it was complete; until then: " + strings.Join(x.Why, "; ")}
			}
		}
		if was := x.Earlier; was != nil {
			of := "the one before took"
			if was.Count > 1 {
				of = fmt.Sprintf("the %d before took, in the median,", was.Count)
			}
			why = append(why, fmt.Sprintf("%s %s, %s, %s and lost %s", of, took(was.Decided), took(was.Effect), took(was.Migrated), took(was.Lost)))
		}
		t.add(cell{x.Unit.String(), plain}, cell{orElse(x.Node, "-"), plain}, cell{span(page.At, x.At), plain}, state, cell{rough(x.Decided), plain}, cell{took(x.Effect), plain},
			cell{took(x.Migrated), plain}, cell{rough(x.Lost), plain}, cell{rest, plain}, cell{strings.Join(why, "; "), plain})
	}
	return t.render(s)
}
