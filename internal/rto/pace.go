package rto

import (
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
)

// Known is what names can rest on beside the placement: the pace of each service of
// the table, which has its defaults.
func Known(fleet config.Fleet) dnsfallback.Known {
	pace := map[string]dnsfallback.Pace{}
	for _, s := range fleet.Services {
		pace[s.Name] = paceOf(Of(fleet, config.Node{}, s), s.Health)
	}
	return dnsfallback.Known{Pace: pace}
}

// paceOf is how soon a service can go and come. Back it is after enough good rounds,
// the soonest at the fast pace, and for long enough since the last bad one.
func paceOf(f Facts, h decide.Health) dnsfallback.Pace {
	step := min(h.Interval, h.FastInterval)
	return dnsfallback.Pace{Leaves: f.leaves(), Returns: max(step*time.Duration(max(h.Rise, 1)-1), h.HoldUp)}
}

// leaves is the least time from the first failing round of a service that was well
// until it is given out no more: the confirmation of whichever fault is known first,
// or the silence of its whole site.
func (f Facts) leaves() time.Duration {
	least := decide.GoneAfter(f.Own.Interval)
	for _, fault := range Faults() {
		if fault != Cut { // which shows as silence
			least = min(least, f.confirmation(fault).Typical)
		}
	}
	return least
}
