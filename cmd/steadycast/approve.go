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

func newDecisionsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "decisions", Short: "What waits for a person's yes, in mode approve", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd.Context(), c, "decisions", nil, renderDecisions)
			return err
		},
	}
}

func renderDecisions(s style, p *api.Page[decide.Decision]) string {
	if len(p.Items) == 0 {
		return "No decision waits for a person.\n"
	}
	t := &table{columns: words(">NO", "UNIT", "TO", "ANSWER", ">ENDS IN", "WHY")}
	for _, d := range p.Items {
		answer, i, why := d.Answer.String(), yellow, d.Reason
		if d.Actor != "" {
			answer, i, why = answer+" by "+d.Actor, plain, why+" · "+d.Why
		}
		t.add(cell{text: strconv.FormatUint(d.Number, 10)}, cell{text: d.Unit.String()}, cell{text: d.Action.String()}, cell{answer, i},
			cell{text: api.Span(time.Duration(d.LeftMS) * time.Millisecond)}, cell{text: why})
	}
	return t.render(s)
}

// newAnswerCommand makes approve and reject.
func newAnswerCommand(c *cli, kind decide.Kind, short, long string) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: string(kind) + " DECISION", Short: short, Long: long, GroupID: groupChange, Args: cobra.ExactArgs(1),
		Example: fmt.Sprintf("  steadycast decisions\n  steadycast %s 41 --reason \"seen it, CHG-4411\"", kind),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			number, err := strconv.ParseUint(strings.TrimPrefix(args[0], "#"), 10, 64)
			if err != nil || number == 0 {
				return usageError(fmt.Errorf("%q is not the number of a decision. Next: steadycast decisions", args[0]))
			}
			return c.perform(cmd.Context(), f, change{
				verb: fmt.Sprintf("%s %d", kind, number),
				wish: func(bool) decide.Wish { return decide.Wish{Kind: kind, Decision: number} },
			})
		},
	}
	f.common(cmd.Flags())
	return cmd
}
