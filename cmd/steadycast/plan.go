package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// newPlanCommand makes plan: moves that were written down before they are needed.
func newPlanCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan", Short: "Carry out a move of the table step by step, or take it back", GroupID: groupChange,
		Long: "Plans stand in the table: steps that check, move clients, fence and promote, and verify,\n" +
			"each of them shown and each of them taken back by rollback, from wherever it stands.\n" +
			"The ledger keeps where a run is, so no leader and no node is needed for it to go on.",
		Example: "  steadycast plan list\n  steadycast plan run leave-fra --reason \"cooling, CHG-4411\"\n  steadycast plan status leave-fra\n" +
			"  steadycast plan rollback leave-fra --reason \"cooling is back\"",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "The plans of the table, and where their newest runs are", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := show(cmd.Context(), c, "plans", nil, renderPlans)
				return err
			},
		},
		&cobra.Command{
			Use: "show PLAN", Short: "The steps of a plan", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return c.showPlan(cmd.Context(), args[0], renderPlan) },
		},
		&cobra.Command{
			Use: "status [PLAN]", Short: "The runs: when, who, what was seen, and the metric then and now", Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 1 {
					return c.showPlan(cmd.Context(), args[0], renderRuns)
				}
				_, err := show(cmd.Context(), c, "plans", nil, renderRuns)
				return err
			},
		},
	)
	for _, v := range []struct{ verb, short string }{
		{decide.PlanRunIt, "Begin a plan"},
		{decide.PlanPause, "Begin no further step"},
		{decide.PlanResume, "Go on; a step that failed is tried once more"},
		{decide.PlanStep, "Go on by one step, and hold"},
		{decide.PlanApprove, "Say yes where the run waits for a person"},
		{decide.PlanRollback, "Take back what was done, from wherever it stands"},
		{decide.PlanDismiss, "Close a run that is proposed, or has ended; it is not taken back any more"},
		{decide.PlanGiveUp, "End a run where it stands, which can neither go on nor be taken back"},
	} {
		cmd.AddCommand(newPlanVerb(c, v.verb, v.short))
	}
	return cmd
}

func newPlanVerb(c *cli, verb, short string) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: verb + " PLAN", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			return c.perform(cmd.Context(), f, change{
				verb: "plan " + verb + " " + args[0],
				wish: func(force bool) decide.Wish {
					return decide.Wish{Kind: decide.KindPlan, Plan: &decide.PlanWish{Do: verb, Plan: args[0], Force: force}}
				},
			})
		},
	}
	f.common(cmd.Flags())
	if verb == decide.PlanGiveUp {
		cmd.Long = "End a run that stands still and can neither go on nor be taken back, so that its sites\nare free for others. What it did stays as it is, and a person settles it: the refusal\nwithout --force names what that is."
		cmd.Flags().BoolVar(&f.force, "force", false, "leave what was done as it is; it is named and recorded")
	}
	return cmd
}

// showPlan shows what there is of one plan.
func (c *cli) showPlan(ctx context.Context, name string, render func(style, *api.Plans) string) error {
	client := c.client()
	defer client.Close()
	var all api.Plans
	if err := client.Get(ctx, "plans", nil, &all); err != nil {
		return err
	}
	one := api.Plans{At: all.At, LT: all.LT, Plans: []decide.Plan{}, Runs: []decide.PlanRun{}}
	var names []string
	for _, p := range all.Plans {
		if names = append(names, p.Name); p.Name == name {
			one.Plans = append(one.Plans, p)
		}
	}
	for _, r := range all.Runs {
		if r.Plan.Name == name {
			one.Runs = append(one.Runs, r)
		}
	}
	if len(one.Plans)+len(one.Runs) == 0 {
		return &exitError{exitNotFound, fmt.Errorf("no plan %q; plans: %s", name, orElse(strings.Join(names, ", "), "none"))}
	}
	if c.json() {
		return c.printValue(one)
	}
	fmt.Fprint(c.out, render(c.page, &one))
	return nil
}

func renderPlans(s style, p *api.Plans) string {
	if len(p.Plans) == 0 {
		return "The table has no plans.\n"
	}
	t := &table{columns: words("PLAN", ">STEPS", "NEWEST RUN", "ABOUT")}
	for _, x := range p.Plans {
		state := cell{text: "never begun"}
		for i := range p.Runs {
			if r := &p.Runs[i]; r.Plan.Name == x.Name {
				state = runState(r)
			}
		}
		t.add(cell{text: x.Name}, cell{text: strconv.Itoa(len(x.Steps))}, state, cell{text: x.About})
	}
	return t.render(s)
}

// runState is where a run stands, in a few words.
func runState(r *decide.PlanRun) cell {
	text, i := string(r.State), plain
	switch {
	case r.Hold != nil && r.Hold.Failed:
		text, i = "failed", red
	case r.Hold != nil:
		text, i = "paused", yellow
	case r.State == decide.PlanProposed:
		i = yellow
	case r.State.Live():
		text += fmt.Sprintf(", step %d of %d", min(r.At+1, len(r.Steps)), len(r.Steps))
	}
	return cell{text, i}
}

func renderPlan(s style, p *api.Plans) string {
	var b strings.Builder
	for _, x := range p.Plans {
		fmt.Fprintf(&b, "%s: %s\n", x.Name, orElse(x.About, fmt.Sprintf("%d steps", len(x.Steps))))
		if x.Start != nil {
			var signs []string
			for _, w := range x.Start.When {
				signs = append(signs, fmt.Sprintf("%s of %s is %s", w.Service, w.Site, w.State))
			}
			begins := "proposed"
			if x.Start.Do == decide.StartRun {
				begins = "begins by itself"
			}
			fmt.Fprintf(&b, "%s when %s for %s\n", begins, strings.Join(signs, ", "), api.Span(x.Start.For))
		}
		t := &table{columns: words(">NO", "STEP", "DOES", "TIMEOUT")}
		for k, st := range x.Steps {
			timeout := ""
			if st.Timeout > 0 {
				timeout = api.Span(st.Timeout)
			}
			t.add(cell{text: strconv.Itoa(k + 1)}, cell{text: st.Name}, cell{text: api.PlanStepText(&st)}, cell{text: timeout})
		}
		b.WriteString(t.render(s))
	}
	return b.String()
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func renderRuns(s style, p *api.Plans) string {
	if len(p.Runs) == 0 {
		return "No plan was begun.\n"
	}
	var b strings.Builder
	ago := func(at decide.Time) string { return api.Span(time.Duration(p.LT-at)*time.Millisecond) + " ago" }
	for i := range p.Runs {
		r := &p.Runs[i]
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "run %d of plan %s: %s, begun %s, by %s: %s\n", r.Number, r.Plan.Name, s.text(runState(r).text), ago(r.Since), s.text(r.Actor), s.text(r.Reason))
		if h := r.Hold; h != nil {
			fmt.Fprintf(&b, "it stands still: %s. Next: steadycast plan resume|step|rollback %s\n", s.text(h.Reason), r.Plan.Name)
		}
		t := &table{columns: words(">NO", "STEP", "STATE", "WHEN", "WHO", ">SITES", "METRIC", "SEEN")}
		for k := range r.Steps {
			st := &r.Steps[k]
			t.add(cell{text: strconv.Itoa(k + 1)}, cell{text: r.Plan.Steps[k].Name}, stepState(st), cell{text: stepWhen(st, ago)},
				cell{text: st.Who}, cell{text: stepSites(st)}, cell{text: stepMetric(st)}, cell{text: st.Evidence})
		}
		b.WriteString(t.render(s))
	}
	return b.String()
}

func stepState(st *decide.StepRun) cell {
	i := plain
	switch st.State {
	case decide.StepDone:
		i = green
	case decide.StepFailed:
		i = red
	case decide.StepRunning, decide.StepUndoing:
		i = yellow
	}
	return cell{string(st.State), i}
}

func stepWhen(st *decide.StepRun, ago func(decide.Time) string) string {
	switch {
	case st.State == decide.StepWaiting:
		return ""
	case st.Ended > 0:
		return ago(st.Ended) + ", took " + api.Span(time.Duration(st.Ended-st.Began)*time.Millisecond)
	}
	return "begun " + ago(st.Began)
}

func stepSites(st *decide.StepRun) string {
	if st.Nodes == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", st.Effective, st.Nodes)
}

func stepMetric(st *decide.StepRun) string {
	switch {
	case st.Then == st.Now || st.Now == "":
		return st.Then
	case st.Then == "":
		return st.Now
	}
	return st.Then + " → " + st.Now
}
