package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// Plans answers GET /v1/plans: those of the table, and their runs, oldest first.
// Times in runs are ledger time; LT is that of the answer.
type Plans struct {
	At    time.Time        `json:"at"`
	LT    decide.Time      `json:"lt"`
	Plans []decide.Plan    `json:"plans"`
	Runs  []decide.PlanRun `json:"runs"`
}

func (s *Server) getPlans(r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	snap := s.snapshot()
	return Plans{snap.At, snap.ledgerNow(), listed(snap.View.Table.Plans), listed(snap.View.Plans)}, nil
}

// followsPlan says what follows from what a person wants of a plan.
func (s *Snapshot) followsPlan(w *decide.PlanWish) ([]string, error) {
	if !slices.Contains(decide.PlanVerbs, w.Do) {
		return nil, usage("a plan cannot be told to %s; allowed: %s", w.Do, strings.Join(decide.PlanVerbs, ", "))
	}
	var newest *decide.PlanRun
	for i := range s.View.Plans {
		if s.View.Plans[i].Plan.Name == w.Plan {
			newest = &s.View.Plans[i]
		}
	}
	if w.Do == decide.PlanRunIt {
		p, ok := s.View.Table.Plan(w.Plan)
		if !ok {
			return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("no plan %q", w.Plan), Next: "steadycast plan list"}
		}
		var out []string
		for i, st := range p.Steps {
			out = append(out, fmt.Sprintf("step %d, %s: %s", i+1, st.Name, PlanStepText(&st)))
		}
		return append(out, "it can be paused and rolled back at any moment: steadycast plan pause|rollback "+w.Plan), nil
	}
	if newest == nil {
		return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("no run of a plan %q is known", w.Plan), Next: "steadycast plan list"}
	}
	switch w.Do {
	case decide.PlanPause:
		return []string{"no further step begins; what a node is at goes on to its end"}, nil
	case decide.PlanStep:
		return []string{"one step is done, and then it holds again"}, nil
	case decide.PlanDismiss:
		return []string{"it is not proposed again before its signs have gone and come back, and not taken back any more"}, nil
	case decide.PlanGiveUp:
		return []string{fmt.Sprintf("run %d of plan %s ends where it stands, and blocks its sites no longer", newest.Number, w.Plan),
			"orders and shares that it gave stay until a person ends them: steadycast status"}, nil
	case decide.PlanRollback:
		var out []string
		for _, st := range newest.Plan.Steps {
			if st.Undoes || st.Do == decide.DoShift || st.Do == decide.DoDrain || st.Do == decide.DoWithdraw || st.Do == decide.DoAnnounce {
				out = append(out, "as far as it was done, taken back: "+PlanStepText(&st))
			}
		}
		return append(out, "sites come back as soon as they are well, without waits and without a ramp"), nil
	}
	return []string{fmt.Sprintf("run %d of plan %s goes on", newest.Number, w.Plan)}, nil
}

// PlanStepText is what a step does, for people.
func PlanStepText(s *decide.Step) string {
	what := map[string]string{
		decide.DoCheck: "ask floor and capacity about all that follows", decide.DoGuard: "look until it is well", decide.DoWait: "wait " + Span(s.For),
		decide.DoApprove: "wait for a person's yes", decide.DoVerify: "see that it holds for " + Span(s.For), decide.DoRun: "run what the table says",
		decide.DoDrain: "drain " + s.Site, decide.DoWithdraw: "withdraw " + s.Site, decide.DoAnnounce: "announce " + s.Site,
	}[s.Do]
	switch {
	case s.Do == decide.DoShift && s.Percent != nil, s.Do == decide.DoWarm && s.Percent != nil:
		what = fmt.Sprintf("leave %s %d %% of its clients", s.Site, *s.Percent)
		if s.Do == decide.DoWarm {
			what = fmt.Sprintf("give %s %d %% of its clients, to warm it", s.Site, *s.Percent)
		} else if s.Canary != nil && *s.Canary > 0 {
			what += fmt.Sprintf(", %d points first", *s.Canary)
		}
	case s.Effect == decide.EffectFence:
		what = "fence the old writer"
	case s.Effect == decide.EffectPromote:
		what = "promote the new writer"
	}
	if s.At != "" {
		what += " at " + s.At
	}
	return what
}
