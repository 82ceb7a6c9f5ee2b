package api

import (
	"net/http"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// Cut is one leaving of a unit; its durations count from At.
type Cut struct {
	decide.Cut
	At time.Time `json:"at"`
}

// getCuts gives the cuts of the sites that this daemon hears, oldest first.
func (s *Server) getCuts(r *http.Request) (any, error) {
	snap, _, err := s.scoped(r, "site")
	if err != nil {
		return nil, err
	}
	out := Page[Cut]{At: snap.At, Items: []Cut{}}
	for _, site := range snap.Sites {
		if only := r.FormValue("site"); only == "" || only == site.Name {
			out.Items = append(out.Items, site.Cuts...)
		}
	}
	return out, nil
}
