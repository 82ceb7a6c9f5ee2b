package api

import (
	"fmt"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The loads are what sites told the ledger; a site that told nothing is not there,
// and what is out by the ledger's count is named.
func TestLoads(t *testing.T) {
	snap := &Snapshot{View: decide.View{
		Units:   []decide.UnitView{{Unit: steadycast.Unit{Site: "ams", Prefix: p4}, Phase: steadycast.In}, {Unit: steadycast.Unit{Site: "fra", Prefix: p4}, Phase: steadycast.Out}, {Unit: steadycast.Unit{Site: "iad", Prefix: p4}, Phase: steadycast.In, Lost: true}},
		Freezes: []decide.StandingFreeze{{Scope: decide.Scope{Site: "ams"}}, {Reason: "all"}},
	}}
	b := &backend{snap: snap, now: []decide.SiteNow{{Site: "ams", Load: &decide.Load{Site: "ams", Load: 7, AgeSeconds: 3}}, {Site: "fra"}}}
	c, _ := serve(t, b)
	var got Loads
	if err := c.Get(t.Context(), "loads", nil, &got); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(got.Loads, got.Out, got.Frozen); text != "[{ams 7 3}] [fra 192.0.2.0/24 iad 192.0.2.0/24] true" {
		t.Error(text)
	}
}
