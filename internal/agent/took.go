package agent

import (
	"sync"

	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/probe"
)

// durations counts how long each check took. The probes write it, the owner
// reads it; mu guards the map and what it points to.
type durations struct {
	mu      sync.Mutex
	byCheck map[checkID]*api.Histogram
}

type checkID struct{ subject, service, check string }

func (d *durations) put(c probe.CheckStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := checkID{c.Subject, c.Service, c.Check}
	h := d.byCheck[id]
	if h == nil {
		if d.byCheck == nil {
			d.byCheck = map[checkID]*api.Histogram{}
		}
		h = new(api.Histogram)
		d.byCheck[id] = h
	}
	h.Observe(c.Last.Took)
}

func (d *durations) of(subject, service, check string) (h api.Histogram) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.byCheck[checkID{subject, service, check}]; p != nil {
		h = *p
	}
	return h
}
