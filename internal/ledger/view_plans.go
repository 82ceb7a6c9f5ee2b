package ledger

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast/decide"
)

// plans is what changed about the runs of plans: a run names its whole plan, and
// a step of it changes many times.
func (d *viewDelta) plans(was, is *decide.View) {
	runs := make([]uint64, len(is.Plans))
	for i, r := range is.Plans {
		runs[i] = r.Number
		if k := runAt(was.Plans, r.Number); k < 0 || !same(was.Plans[k], r) {
			d.Plans = append(d.Plans, r)
		}
	}
	if len(d.Plans) > 0 || len(is.Plans) != len(was.Plans) {
		d.Runs = &runs
	}
}

// followPlans makes the runs of the next view.
func (d *viewDelta) followPlans(was, is *decide.View) error {
	is.Plans = nil
	for _, n := range *d.Runs {
		if k := runAt(d.Plans, n); k >= 0 {
			is.Plans = append(is.Plans, d.Plans[k])
		} else if k := runAt(was.Plans, n); k >= 0 {
			is.Plans = append(is.Plans, was.Plans[k])
		} else {
			return fmt.Errorf("run %d of a plan, which the view does not have", n)
		}
	}
	return nil
}

func runAt(runs []decide.PlanRun, number uint64) int {
	return slices.IndexFunc(runs, func(r decide.PlanRun) bool { return r.Number == number })
}
