package ledger

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/internal/loopback"
)

// TestOlderVoterStaysOut: a voter of an older version would end at the first
// entry that it does not know, so no ledger begins with it or takes it in.
func TestOlderVoterStaysOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, "ams")
	at := loopback.Own(t)
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	older := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"fleet": "test", "node": "par-1", "empty": true}) // it knows of no levels
	})}
	defer older.Close()
	go older.Serve(tls.NewListener(loopback.Listen(t, at), c.ca.node("test", "par", "par-1").server("test", httpProtocol)))
	err := c.voter("ams-1").empty(t.Context(), Peer{Node: "par-1", Address: at.String()})
	if err == nil || !strings.Contains(err.Error(), "par-1 is of an older version (rules level 0, here 1); upgrade it first") {
		t.Errorf("it is let in: %v", err)
	}
}
