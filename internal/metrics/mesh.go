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
	meshBytes = define("mesh_link_bytes_total", counter,
		"Octets of the link's messages, without what TLS and HTTP/2 add.", "peer", "direction")
	meshRTT = define("mesh_link_rtt_seconds", gauge,
		"Round trip of the link's connection, as the kernel smooths it; absent while there is none.", "peer")
	meshBackoff = define("mesh_link_backoff_seconds", gauge,
		"Pause before the link is called again, as it was drawn; 0 while it stands or is being called.", "peer")
	meshHeard = define("mesh_heard_total", counter,
		"Observations of other nodes that were let in.")
	meshDropped = define("mesh_dropped_total", counter,
		"Observations of other nodes that were not let in.", "reason")
	meshRefused = define("mesh_refused_total", counter,
		"Peers that were turned away before they said anything.", "reason")
	onTrial = define("table_on_trial", gauge,
		"1 while the table in force waits for somebody to confirm it, and the one before comes back otherwise.")
	tableSkew = define("table_skewed_nodes", gauge,
		"Other nodes that the voters have heard act on another table than the one in force for half a minute.")
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
		s.put(meshBytes, float64(l.BytesOut), l.Name, "out")
		s.put(meshBytes, float64(l.BytesIn), l.Name, "in")
		if l.RTT > 0 {
			s.put(meshRTT, float64(l.RTT)/1e6, l.Name)
		}
		s.put(meshBackoff, float64(l.Backoff)/1e3, l.Name)
	}
	s.put(meshHeard, float64(m.Heard))
	for _, c := range m.Dropped {
		s.put(meshDropped, float64(c.Count), c.Reason)
	}
	for _, c := range m.Refused {
		s.put(meshRefused, float64(c.Count), c.Reason)
	}
}
