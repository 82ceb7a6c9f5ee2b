package main

import (
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// TestPlanPages holds what people see of a plan to what there is to see: when, who,
// what was seen, the sites that act on it, the metric then and now, and what to do.
func TestPlanPages(t *testing.T) {
	percent := 0
	plan := decide.Plan{Name: "leave-fra", About: "clients leave fra", Steps: []decide.Step{
		{Do: decide.DoRun, Name: "fence", At: "fra", Effect: decide.EffectFence, Undoes: true},
		{Do: decide.DoShift, Site: "fra", Percent: &percent},
		{Do: decide.DoDrain, Site: "fra"},
	}, Start: &decide.PlanStart{When: []decide.Sign{{Site: "fra", Service: "web", State: steadycast.Unhealthy}}, For: time.Minute}}.WithDefaults()
	page := api.Plans{LT: 100_000, Plans: []decide.Plan{plan}, Runs: []decide.PlanRun{{
		Number: 3, Plan: plan, Actor: "maria", Reason: "cooling", Since: 40_000, State: decide.PlanRunning, At: 1,
		Hold: &decide.PlanHold{Reason: "step 2, shift, has failed: errors", Failed: true},
		Steps: []decide.StepRun{
			{State: decide.StepDone, Try: 1, Began: 40_000, Ended: 45_000, Who: "fra-1", Evidence: "exit status 0", Effective: 3, Nodes: 3, Then: "up: 12", Now: "up: 11"},
			{State: decide.StepFailed, Try: 2, Began: 45_000, Ended: 90_000, Who: "ams-1", Evidence: "errors"},
			{State: decide.StepWaiting},
		},
	}}}
	s := style{width: 200}
	for what, c := range map[string]struct {
		got  string
		want []string
	}{
		"list":   {renderPlans(s, &page), []string{"leave-fra", "3", "failed", "clients leave fra"}},
		"show":   {renderPlan(s, &page), []string{"proposed when web of fra is unhealthy for 1m", "fence the old writer at fra", "leave fra 0 % of its clients, 5 points first", "drain fra"}},
		"status": {renderRuns(s, &page), []string{"run 3 of plan leave-fra: failed, begun 1m ago, by maria: cooling", "it stands still: step 2, shift, has failed: errors. Next: steadycast plan resume|step|rollback leave-fra", "55s ago, took 5s", "fra-1", "3/3", "up: 12 -> up: 11", "exit status 0", "errors", "waiting"}},
		"none":   {renderPlans(s, &api.Plans{}) + renderRuns(s, &api.Plans{}), []string{"The table has no plans.", "No plan was begun."}},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.got, w) {
				t.Errorf("%s does not say %q:\n%s", what, w, c.got)
			}
		}
	}
}
