package demo

import (
	"maps"
	"sync"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/mesh"
)

// tap stands between an agent and its end of the mesh. It notes what each vantage
// told the site last; and it turns what the site tells of others into its
// opposite, on demand: what comes out is signed by the node, as by one whose
// prober is broken, or whose owner means harm.
//
// Its mutex guards everything.
type tap struct {
	mu    sync.Mutex
	lies  bool
	heard map[string]steadycast.Outcome // by vantage
}

// over puts the tap in the way.
func (t *tap) over(make agent.MeshMaker) agent.MeshMaker {
	return func(start uint64, hear func(mesh.Heard), told func(mesh.Told)) (agent.Mesh, error) {
		m, err := make(start, func(h mesh.Heard) {
			t.note(h.Observation)
			hear(h)
		}, told)
		return tapped{m, t}, err
	}
}

func (t *tap) note(o steadycast.Observation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard == nil {
		t.heard = map[string]steadycast.Outcome{}
	}
	t.heard[o.Vantage] = o.Result.Outcome
}

// newest is what each vantage told last.
func (t *tap) newest() map[string]steadycast.Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.heard)
}

// lie makes the site tell the opposite of what it sees of others, or stop it.
func (t *tap) lie(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lies = yes
}

func (t *tap) lying() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lies
}

type tapped struct {
	agent.Mesh
	tap *tap
}

func (m tapped) Publish(o steadycast.Observation) {
	if r := &o.Result; o.Subject != o.Vantage && m.tap.lying() {
		switch r.Outcome {
		case steadycast.Up:
			r.Outcome, r.Class, r.Reason = steadycast.Down, steadycast.Hard, "connection refused"
		case steadycast.Down:
			r.Outcome, r.Class, r.Reason = steadycast.Up, steadycast.NoFailure, ""
		}
	}
	m.Mesh.Publish(o)
}
