package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// Times are how one withdrawal came about, each from the fault on: when the site
// judged itself unhealthy and asked, when the ledger had recorded the permit, and
// when the router heard the withdrawal.
type Times struct{ Judged, Permitted, Withdrawn time.Duration }

// LeaderLoss is the fault of a service that dies when the leading voter stops.
const LeaderLoss = "leader-loss"

// Measure makes the same fault again and again, and mends it each time: kill or
// slow, at one site, or [LeaderLoss]. The moments are spread evenly over the
// interval of the probes. What damps withdrawals is set aside; the rest is as o
// has it.
func Measure(ctx context.Context, o Options, fault string, rounds int) (all []Times, err error) {
	adjust := o.Adjust
	o.JSON, o.Out = true, io.Discard
	o.Adjust = func(t *decide.Table) {
		if adjust != nil {
			adjust(t)
		}
		g := &t.Guards
		g.Cooldown, g.SiteBudget, g.SiteLongBudget, g.FleetBudget, g.LockCycles = time.Millisecond, 2*rounds, 2*rounds, 2*rounds, 2*rounds
		for i := range t.Services {
			t.Services[i].Health.Rise, t.Services[i].Health.HoldUp = 3, time.Second
		}
	}
	err = with(ctx, o, func(ctx context.Context, f *fleet) error {
		s := f.stage(ctx)
		site, interval := s.sites[0], f.table().Services[0].Health.Interval
		for i := range rounds {
			wait := time.NewTimer(interval + interval*time.Duration(i)/time.Duration(rounds))
			select {
			case <-wait.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			s.detect, s.permit, s.withdraw = 0, 0, 0
			var err error
			if fault == LeaderLoss {
				site, err = s.loseLeader()
			} else {
				err = s.leaves(site, fault)
			}
			if err != nil {
				return fmt.Errorf("round %d: %w", i+1, err)
			}
			all = append(all, Times{s.detect, s.permit, s.withdraw})
			if err := s.returns(site); err != nil {
				return fmt.Errorf("round %d: %w", i+1, err)
			}
		}
		return nil
	})
	return all, err
}
