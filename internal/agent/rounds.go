package agent

import (
	"sync"

	"github.com/steadycast/steadycast"
)

// rounds keeps the newest round of each service for people: the explanation of
// what the probes found. It is written by the probes and read by the API.
type rounds struct {
	mu     sync.Mutex
	newest map[string]steadycast.Result
}

func (r *rounds) put(o steadycast.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest == nil {
		r.newest = map[string]steadycast.Result{}
	}
	r.newest[o.Service] = o.Result
}

func (r *rounds) get(service string) (steadycast.Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.newest[service]
	return x, ok
}
