package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/mesh"
)

// A sibling that talks nonsense is complained of once a minute, each for itself,
// and what is remembered of that is bounded.
func TestUnreadKin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &Agent{start: time.Now(), kin: make(chan decide.Told, 1)}
		a.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		hear := func(node, body string) {
			a.heardKin(mesh.Told{Node: node, Issued: time.Now(), Body: []byte(body)})
		}
		said := func() int { return strings.Count(log.String(), "cannot be read") }
		for range 1000 {
			hear("fra-2", "{")
			hear("fra-3", `{"Rounds": 7}`)
		}
		if n := said(); n != 2 {
			t.Errorf("said %d times within a moment, of two nodes", n)
		}
		time.Sleep(complainEvery)
		hear("fra-2", "")
		if n := said(); n != 3 || len(a.kin) != 0 {
			t.Errorf("said %d times after a minute; %d were taken", n, len(a.kin))
		}
		for i := range 10 * complainMost {
			hear(fmt.Sprint("node-", i), "{")
		}
		if n := len(a.unread.last); n > complainMost {
			t.Errorf("%d nodes are remembered", n)
		}
		hear("fra-2", "{}")
		if len(a.kin) != 1 {
			t.Error("what can be read is not taken")
		}
	})
}
