package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Loads answers GET /v1/loads: what each site carries, as the capacity guard
// counts it, and what announces now.
type Loads struct {
	At    time.Time     `json:"at"`
	Loads []decide.Load `json:"loads"`
	// Out are units that do not announce, by the ledger's count, and Frozen says that
	// all of automation is stopped.
	Out    []steadycast.Unit `json:"out"`
	Frozen bool              `json:"frozen,omitempty"`
}

func (s *Server) getLoads(r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	sites, err := s.backend.SitesNow(ctx)
	if err != nil {
		return nil, err
	}
	snap := s.snapshot()
	out := Loads{At: snap.At, Loads: []decide.Load{}, Out: []steadycast.Unit{}}
	for _, x := range sites {
		if x.Load != nil {
			out.Loads = append(out.Loads, *x.Load)
		}
	}
	for _, u := range snap.View.Units {
		if u.Phase != steadycast.In || u.Lost {
			out.Out = append(out.Out, u.Unit)
		}
	}
	out.Frozen = slices.ContainsFunc(snap.View.Freezes, func(f decide.StandingFreeze) bool { return f.Scope == decide.Scope{} })
	return out, nil
}
