package api

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Of other nodes' sites a node of a fleet shows what the ledger counts, and
// nothing when it cannot be asked.
func TestFarRows(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/24")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		name    string
		unit    decide.UnitView
		verdict steadycast.State
		reason  string
		lost    string
		want    Showing
		why     string
	}{
		{"in, and well", decide.UnitView{Phase: steadycast.In, Ever: true}, steadycast.Healthy, "", "", Announced, ""},
		{"in, and not announcing", decide.UnitView{Phase: steadycast.In, Ever: true, Lost: true}, steadycast.Healthy, "", "", Lost, "should announce and does not"},
		{"failing, and kept", decide.UnitView{Phase: steadycast.In, Ever: true, Depreferred: true, Guard: "floor"}, steadycast.Unhealthy, "refused", "", Held, "web unhealthy: refused; floor refuses the withdrawal"},
		{"out by failure", decide.UnitView{Phase: steadycast.Out, Ever: true}, steadycast.Unhealthy, "refused", "", Withdrawn, "web unhealthy: refused"},
		{"out, and well again", decide.UnitView{Phase: steadycast.Out, Ever: true}, steadycast.Recovering, "passed", "", Returning, "web recovering: passed"},
		{"on its way back", decide.UnitView{Phase: steadycast.Returning, Ever: true}, steadycast.Healthy, "", "", Returning, ""},
		{"drained", decide.UnitView{Phase: steadycast.Out, Ever: true, Order: steadycast.OrderDrain}, steadycast.Healthy, "", "", Drained, ""},
		{"locked", decide.UnitView{Phase: steadycast.Out, Ever: true, Locked: true}, steadycast.Healthy, "", "", Locked, ""},
		{"never in", decide.UnitView{}, steadycast.StateUnknown, "", "", Starting, "web unknown"},
		{"no ledger", decide.UnitView{Phase: steadycast.In, Ever: true}, steadycast.Healthy, "", "no voter was heard", NotHeard, "known from the ledger, which cannot be asked: no voter was heard"},
	} {
		x.unit.Unit = steadycast.Unit{Site: "fra", Prefix: p}
		x.unit.Changed = 1000
		s := &Snapshot{Mode: "fleet", At: at, LedgerLost: x.lost, Sites: []Site{{Name: "ams"}}, View: decide.View{
			LT:       61000,
			Table:    decide.Table{Sites: []decide.Place{{Name: "ams"}, {Name: "fra"}}, Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{p}}}},
			Units:    []decide.UnitView{x.unit},
			Verdicts: []steadycast.Verdict{{Site: "fra", Service: "web", State: x.verdict, Reason: x.reason}},
		}}
		got := s.Rows()[0]
		if got.State != x.want || got.Why != x.why || got.Far != (x.lost == "") {
			t.Errorf("%s: %+v", x.name, got)
		}
		if x.want == Announced && !got.Since.Equal(at.Add(-time.Minute)) {
			t.Errorf("%s: since %v", x.name, got.Since)
		}
		s.ViewAt = at.Add(-10 * time.Second) // no entry came since
		if since := s.Rows()[0].Since; x.want == Announced && !since.Equal(at.Add(-70*time.Second)) {
			t.Errorf("%s: ten seconds after the newest entry, since %v", x.name, since)
		}
		if w := s.Why(x.unit.Unit, nil); x.lost == "" && (len(w.Services) != 1 || w.Services[0].Verdict.State != x.verdict) {
			t.Errorf("%s: the verdict told to the ledger is not shown: %+v", x.name, w.Services)
		}
		if site := s.SiteRows()[1]; x.want == Announced && (site.Announcing != 1 || site.Healthy != 1 || site.Services != 1 || !site.Far) {
			t.Errorf("%s: %+v", x.name, site)
		}
	}
}

// The row of a site names what is gone there, and no other's does.
func TestGoneSites(t *testing.T) {
	s := &Snapshot{Mode: "fleet", View: decide.View{
		Table: decide.Table{Sites: []decide.Place{{Name: "ams"}, {Name: "fra"}}},
		Gone:  []decide.Gone{{Site: "fra", Service: "dns", By: []string{"ams"}}, {Site: "fra", Service: "web", By: []string{"ams"}}},
	}}
	rows := s.SiteRows()
	if len(rows) != 2 || len(rows[0].Gone) != 0 || fmt.Sprint(rows[1].Gone) != "[dns web]" {
		t.Errorf("%+v", rows)
	}
}
