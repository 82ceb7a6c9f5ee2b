package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// pairOf is a snapshot of a site of two nodes, of which one is ordered out.
func pairOf(node string) *Snapshot {
	u := steadycast.Unit{Site: "ams", Prefix: p4}
	s := &Snapshot{Node: node, Mode: "fleet", At: now}
	s.View.Table = decide.Table{Sites: []decide.Place{{Name: "ams", Nodes: []decide.Node{{Name: "ams-1"}, {Name: "ams-2"}}}}}
	s.View.Prefixes = []decide.PrefixView{{Prefix: p4, Sites: 1}}
	s.View.Units = []decide.UnitView{{Unit: u, Phase: steadycast.In, Ever: true}}
	s.View.NodeOrders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: "ams-2", Actor: "ann", Reason: "a line card"}}}
	return s
}

// An order over one node is shown wherever its site is: here, and from another site.
func TestNodeOrdersAreShown(t *testing.T) {
	for name, s := range map[string]*Snapshot{"far": pairOf("fra-1"), "here": pairOf("ams-1")} {
		if name == "here" {
			s.Sites = []Site{{Name: "ams", Heard: now, Units: []Unit{{Unit: s.View.Units[0].Unit, Wanted: true, Proven: true, Nodes: []decide.NodeStatus{
				{Node: "ams-1", Here: true, Heard: true, Announcing: true}, {Node: "ams-2", Heard: true, Order: steadycast.OrderWithdraw}}}}}}
		}
		want := `ams-2: withdraw by ann: "a line card", until cleared`
		row := s.Rows()[0]
		if row.State != Announced || !strings.Contains(row.Why, want) || len(row.NodeOrders) != 1 {
			t.Errorf("%s: %q: %q", name, row.State, row.Why)
		}
		site := s.SiteRows()[0]
		if len(site.Ordered) != 1 || site.Ordered[0] != want || site.Order != "" || strings.Join(site.Names, " ") != "ams-1 ams-2" {
			t.Errorf("%s: the site says %+v", name, site)
		}
		st := s.Status()
		if st.Summary.Mark != "as ordered" || st.Summary.Next != "steadycast undrain ams/ams-2 --reason TEXT" || len(st.NodeOrders) != 1 {
			t.Errorf("%s: %+v", name, st.Summary)
		}
	}
}

// heardBackend knows what the ledger heard of nodes, and nothing else.
type heardBackend struct {
	Backend
	now []decide.SiteNow
}

func (b *heardBackend) SitesNow(context.Context) ([]decide.SiteNow, error) { return b.now, nil }

// A change of one node is proven by that node alone: by its own word where it is
// asked, else by what it told the ledger.
func TestUnitsOfOneNode(t *testing.T) {
	u := steadycast.Unit{Site: "ams", Prefix: p4}
	at := steadycast.Fence{Epoch: 1, Index: 9}
	for name, x := range map[string]struct {
		here     string
		said     decide.SiteNow
		wanted   bool
		unproven string
	}{
		"announces":  {"fra-1", decide.SiteNow{At: at, Announcing: []steadycast.Unit{u}}, true, ""},
		"went":       {"fra-1", decide.SiteNow{At: at}, false, ""},
		"not proven": {"fra-1", decide.SiteNow{At: at, Unproven: []steadycast.Unit{u}}, false, "ams-2 has not proven its newest change yet"},
		"silent":     {"fra-1", decide.SiteNow{At: at, AgeMS: 60_000}, false, "the ledger heard ams-2 last 1m ago"},
		"its own":    {"ams-2", decide.SiteNow{}, false, ""},
	} {
		s := pairOf(x.here)
		if x.here == "ams-2" {
			s.Sites = []Site{{Name: "ams", Heard: now, Fence: at, Units: []Unit{{Unit: u, Proven: true}}}}
		}
		x.said.Site, x.said.Node = "ams", "ams-2"
		server := &Server{backend: &heardBackend{now: []decide.SiteNow{{Site: "ams", Node: "ams-1", At: at, Announcing: []steadycast.Unit{u}}, x.said}}}
		got, err := server.nodeUnits(httptest.NewRequest("GET", "/v1/units", nil), s, "ams", "ams-2", p4)
		if err != nil {
			t.Fatal(err)
		}
		units := got.(Units)
		if len(units.Units) != 1 || units.Fence != at || units.Units[0].Wanted != x.wanted || units.Units[0].Unproven != x.unproven || units.Units[0].Proven != (x.unproven == "") {
			t.Errorf("%s: %+v", name, units)
		}
	}
	server := &Server{backend: &heardBackend{}}
	if _, err := server.nodeUnits(httptest.NewRequest("GET", "/v1/units", nil), pairOf("fra-1"), "ams", "ams-9", p4); err == nil || !strings.Contains(err.Error(), `ams has no node "ams-9"; nodes: ams-1, ams-2`) {
		t.Errorf("a node that is not: %v", err)
	}
}

// What is ordered of a site says which orders over its nodes stand on, before it is
// given and after.
func TestSiteOrdersNameThoseOfNodes(t *testing.T) {
	s := pairOf("fra-1")
	want := `stands on: ams/ams-2: withdraw by ann: "a line card", until cleared; it ends by: steadycast undrain ams/ams-2 --reason TEXT`
	for name, follows := range map[string][]string{
		"withdraw":      s.followsOrder(&steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams"}),
		"drain":         s.followsOrder(&steadycast.Order{Kind: steadycast.OrderDrain, Site: "ams"}),
		"announce":      s.followsOrder(&steadycast.Order{Kind: steadycast.OrderAnnounce, Site: "ams"}),
		"undrain":       s.followsScope(decide.KindOrderClear, decide.Scope{Site: "ams"}),
		"of its prefix": s.followsScope(decide.KindOrderClear, decide.Scope{Site: "ams", Prefix: p4}),
	} {
		if !slices.Contains(follows, want) {
			t.Errorf("%s: %q", name, follows)
		}
	}
	for name, follows := range map[string][]string{
		"another site":   s.followsOrder(&steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra"}),
		"another prefix": s.followsScope(decide.KindOrderClear, decide.Scope{Site: "ams", Prefix: netip.MustParsePrefix("198.51.100.0/24")}),
	} {
		if slices.Contains(follows, want) {
			t.Errorf("%s: %q", name, follows)
		}
	}
	_, err := s.outcome(decide.Reply{Refused: &steadycast.GuardAnswer{Guard: "order", Text: "no order stands over ams", Override: "steadycast undrain ams/ams-2"}}, false, "steadycast undrain ams", nil)
	if e, ok := errors.AsType[*Error](err); !ok || e.Next != "steadycast undrain ams/ams-2" {
		t.Errorf("%+v", err)
	}
}

// How many nodes of another site announce is shown by what the ledger heard of each,
// at that site's line and at its units; and not guessed where it cannot be asked.
func TestNodesOfAnotherSite(t *testing.T) {
	u := steadycast.Unit{Site: "ams", Prefix: p4}
	both := []steadycast.Unit{u}
	for name, x := range map[string]struct {
		told   []decide.SiteNow
		lost   string
		known  bool
		out    int
		reason string
	}{
		"both announce":  {told: []decide.SiteNow{{Site: "ams", Node: "ams-1", Announcing: both}, {Site: "ams", Node: "ams-2", Announcing: both}}, known: true},
		"one does not":   {told: []decide.SiteNow{{Site: "ams", Node: "ams-1"}, {Site: "ams", Node: "ams-2", Announcing: both}}, known: true, out: 1, reason: "1 of 2 nodes announce; ams-1 does not announce"},
		"one is silent":  {told: []decide.SiteNow{{Site: "ams", Node: "ams-1", Announcing: both, AgeMS: 60_000}, {Site: "ams", Node: "ams-2", Announcing: both}}, known: true, out: 1, reason: "1 of 2 nodes announce; ams-1 is not heard"},
		"one was never":  {told: []decide.SiteNow{{Site: "ams", Node: "ams-2", Announcing: both}}, known: true, out: 1, reason: "ams-1 is not heard"},
		"another site's": {told: []decide.SiteNow{{Site: "fra", Node: "ams-1", Announcing: both}, {Site: "ams", Node: "ams-2", Announcing: both}}, known: true, out: 1, reason: "ams-1 is not heard"},
		"no ledger":      {told: []decide.SiteNow{{Site: "ams", Node: "ams-1"}}, lost: "no voter answers"},
		"nobody answers": {},
	} {
		t.Run(name, func(t *testing.T) {
			snap := pairOf("fra-1")
			snap.View.NodeOrders, snap.LedgerLost = nil, x.lost
			s := &Server{backend: &heardBackend{now: x.told}}
			got := s.withNodes(t.Context(), snap)
			site, row := got.SiteRows()[0], got.Rows()[0]
			if site.Nodes != 2 || site.NodesTold != x.known || site.NodesOut != x.out || row.NodesOut != x.out || !strings.Contains(row.Why, x.reason) {
				t.Errorf("site %+v\nrow %+v", site, row)
			}
			if snap.heardOf != nil {
				t.Error("the snapshot that others read was changed")
			}
		})
	}
}
