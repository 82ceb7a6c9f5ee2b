package decide

import (
	"slices"

	"github.com/steadycast/steadycast"
)

// While a service of this site returns, it counts in each step of its ramp what
// is seen of it, here and elsewhere, and says so in its beats; the ledger judges.

// ramps follows the view: a new step counts anew.
func (s *Site) ramps() {
	for i := range s.services {
		sv := &s.services[i]
		x, _ := s.view.ShareOf(s.name, sv.conf.Name)
		if sv.ramped.Step != x.Ramp.Fence {
			sv.ramped = Ramped{Service: sv.conf.Name, Step: x.Ramp.Fence}
		}
	}
}

// count takes one round that was heard of a returning service.
func (s *Site) count(sv *service, o steadycast.Observation) {
	r := &sv.ramped
	if r.Step == (steadycast.Fence{}) || o.Ineligible != "" {
		return
	}
	switch o.Result.Outcome {
	case steadycast.Up:
		r.Passed++
		if s.table.Ramp != nil && s.table.Ramp.Latency > 0 && o.Result.Took > s.table.Ramp.Latency {
			r.Slow++
		}
	case steadycast.Down:
		r.Failed++
	}
}

// rampsNow are what was counted of the steps that last.
func (s *Site) rampsNow() (rs []Ramped) {
	for i := range s.services {
		if r := s.services[i].ramped; r.Step != (steadycast.Fence{}) {
			rs = append(rs, r)
		}
	}
	return slices.Clip(rs)
}

// back says once that a route is no longer only a backup, or is one again.
func (s *Site) back(u *unit) {
	backup := u.view.Backup && u.announced
	if backup == u.backup {
		return
	}
	u.backup = backup
	switch {
	case !u.announced || u.draining:
	case backup:
		u.reason = "announced as backup while its return is proven"
		s.route(u, "announced", "depreferred")
	default:
		u.reason = "its return is proven as backup"
		s.route(u, "depreferred", "announced")
	}
}
