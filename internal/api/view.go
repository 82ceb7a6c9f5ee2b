package api

import (
	"net/http"

	"github.com/steadycast/steadycast/decide"
)

// Committed answers GET /v1/view: what the ledger has committed, for a process of
// the same node that has no way to a ledger of its own.
type Committed struct {
	// View is nil while it is still at the position that the caller knows.
	View *decide.View `json:"view,omitempty"`
	// Lost says why the daemon hears no ledger; empty while it does.
	Lost string `json:"lost,omitempty"`
}

func (s *Server) getView(r *http.Request) (any, error) {
	q, err := query(r, "after")
	if err != nil {
		return nil, err
	}
	snap := s.backend.Snapshot()
	out := Committed{Lost: snap.LedgerLost}
	if q.Get("after") != snap.View.Fence.String() {
		out.View = &snap.View
	}
	return out, nil
}

// Answer writes what a request of another process's API came to: v as JSON, or
// err as an [Error] with its status.
func Answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, v)
}
