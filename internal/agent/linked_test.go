package agent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/pki"
)

// TestLinked: what the snapshot has of the mesh is what the mesh says, reasons in order.
func TestLinked(t *testing.T) {
	got := linked(mesh.Status{
		Heard: 7, Drops: map[mesh.Drop]uint64{"stale": 2, "forged": 1}, Refused: map[pki.Reason]uint64{"revoked": 3},
		Links: []mesh.LinkStatus{{Peer: mesh.Peer{Name: "ams-1"}, State: mesh.LinkUnproven, For: time.Second, Calls: 4, Sent: 5, Dropped: 6, Relayed: 7, Lost: 8, Waiting: 9, BytesOut: 10, BytesIn: 11, RTT: 12 * time.Microsecond, Backoff: 13 * time.Millisecond}},
	})
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"links":[{"name":"ams-1","state":"unproven","calls":4,"sent":5,"dropped":6,"relayed":7,"lost":8,"waiting":9,"bytes_out":10,"bytes_in":11,"rtt_us":12,"backoff_ms":13}],` +
		`"heard":7,"dropped":[{"reason":"forged","count":1},{"reason":"stale","count":2}],"refused":[{"reason":"revoked","count":3}]}`
	if string(b) != want {
		t.Errorf("%s", b)
	}
	if b, _ := json.Marshal(linked(mesh.Status{})); string(b) != `{"links":[],"heard":0}` {
		t.Errorf("%s", b)
	}
}
