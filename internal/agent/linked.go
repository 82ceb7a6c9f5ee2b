package agent

import (
	"maps"
	"slices"

	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/mesh"
)

// linked is how the mesh stands, for the snapshot.
func linked(s mesh.Status) *api.Mesh {
	m := &api.Mesh{Links: []api.MeshLink{}, Heard: s.Heard, Dropped: counted(s.Drops), Refused: counted(s.Refused)}
	for _, l := range s.Links {
		m.Links = append(m.Links, api.MeshLink{
			Name: l.Name, State: string(l.State), Calls: l.Calls,
			Sent: l.Sent, Dropped: l.Dropped, Relayed: l.Relayed, Lost: l.Lost, Waiting: l.Waiting,
			BytesOut: l.BytesOut, BytesIn: l.BytesIn, RTT: l.RTT.Microseconds(), Backoff: l.Backoff.Milliseconds(),
		})
	}
	return m
}

// counted are counts by reason, in order of it.
func counted[R ~string](by map[R]uint64) (out []api.Count) {
	for _, r := range slices.Sorted(maps.Keys(by)) {
		out = append(out, api.Count{Reason: string(r), Count: by[r]})
	}
	return out
}
