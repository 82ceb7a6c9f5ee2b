package metrics

import "github.com/steadycast/steadycast/internal/api"

// The links between nodes, by the name of whom this one tells what it sees.
var (
	meshState = define("mesh_link_state", gauge,
		"1 for the state that the link is in: down, up, or unproven, which goes through a voter too.", "peer", "state")
	meshCalls = define("mesh_link_calls_total", counter,
		"Tries to open the link's stream; they come at growing intervals while it is down.", "peer")
	meshSent = define("mesh_link_reports_total", counter,
		"Reports of observations by what became of them: sent, dropped from a full queue, relayed through a voter, lost without any way.", "peer", "fate")
	meshWaiting = define("mesh_link_waiting", gauge,
		"Reports that wait in the link's queue.", "peer")
	meshHeard = define("mesh_heard_total", counter,
		"Observations of other nodes that were let in.")
	meshDropped = define("mesh_dropped_total", counter,
		"Observations of other nodes that were not let in.", "reason")
	meshRefused = define("mesh_refused_total", counter,
		"Peers that were turned away before they said anything.", "reason")
	onTrial = define("table_on_trial", gauge,
		"1 while the table in force waits for somebody to confirm it, and the one before comes back otherwise.")
)

// mesh sends the links' series; none where there are no links.
func (s *sender) mesh(m *api.Mesh) {
	if m == nil {
		return
	}
	for _, l := range m.Links {
		for _, state := range []string{"down", "up", "unproven"} {
			s.put(meshState, truth(l.State == state), l.Name, state)
		}
		s.put(meshCalls, float64(l.Calls), l.Name)
		s.put(meshSent, float64(l.Sent), l.Name, "sent")
		s.put(meshSent, float64(l.Dropped), l.Name, "dropped")
		s.put(meshSent, float64(l.Relayed), l.Name, "relayed")
		s.put(meshSent, float64(l.Lost), l.Name, "lost")
		s.put(meshWaiting, float64(l.Waiting), l.Name)
	}
	s.put(meshHeard, float64(m.Heard))
	for _, c := range m.Dropped {
		s.put(meshDropped, float64(c.Count), c.Reason)
	}
	for _, c := range m.Refused {
		s.put(meshRefused, float64(c.Count), c.Reason)
	}
}
