package agent

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/api"
)

// At a site of several nodes each says what it did or saw with its name, in the
// stream and in the log; what the ledger decided is the site's, and nobody's alone.
func TestEventsNameTheNodeOfSeveral(t *testing.T) {
	for _, several := range []bool{false, true} {
		var log strings.Builder
		a := &Agent{o: Options{Site: "fra", Node: "fra-2", Events: api.NewRing(9), Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		a.named.Store(several)
		a.say(steadycast.Event{Kind: steadycast.EventVerdict, Site: "fra", Service: "web", To: "unhealthy"})
		a.say(steadycast.Event{Kind: steadycast.EventPeer, Peer: "tor1", To: "established"})
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Site: "ams", Reason: "of another site"})
		a.ledgerSaid([]steadycast.Event{{Kind: steadycast.EventOrder, Site: "fra", To: "withdraw"}, {Kind: steadycast.EventFreeze}})
		want := []string{"", "", "", "", ""}
		if several {
			want[0], want[1] = "fra-2", "fra-2"
		}
		got, _ := a.o.Events.Since(0)
		for i, w := range want {
			if i >= len(got) || got[i].Node != w {
				t.Fatalf("several %v: event %d is to name %q; told %+v", several, i, w, got)
			}
		}
		if n := strings.Count(log.String(), "node=fra-2"); n != map[bool]int{true: 2}[several] {
			t.Errorf("several %v: the log names the node %d times:\n%s", several, n, log.String())
		}
	}
}
