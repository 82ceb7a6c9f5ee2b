package api

import (
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// A site goes on announcing while one of its nodes does, whichever node is asked;
// and it is never said to be well while one does not.
func TestRowsOfASiteOfSeveralNodes(t *testing.T) {
	here := decide.NodeStatus{Node: "ams-1", Here: true, Heard: true, Announcing: true, Outcome: steadycast.Up}
	there := decide.NodeStatus{Node: "ams-2", Heard: true, Announcing: true, Outcome: steadycast.Up}
	left := func(n decide.NodeStatus) decide.NodeStatus {
		n.Announcing, n.Alone, n.LeftAgo, n.Outcome, n.Reason = false, true, 12*time.Second, steadycast.Down, "web: refused"
		return n
	}
	back := left(there)
	back.Outcome, back.Reason = steadycast.Up, ""
	silent := decide.NodeStatus{Node: "ams-2"}
	ordered := func(n decide.NodeStatus, k steadycast.OrderKind) decide.NodeStatus {
		n.Announcing, n.Order = false, k
		return n
	}
	asked := there
	asked.Order = steadycast.OrderWithdraw
	off := there
	off.Announcing = false
	for name, x := range map[string]struct {
		nodes  []decide.NodeStatus
		wanted bool
		phase  steadycast.Phase
		state  Showing
		level  Level
		why    string
	}{
		"both announce":              {[]decide.NodeStatus{here, there}, true, steadycast.In, Announced, LevelOK, ""},
		"the other left":             {[]decide.NodeStatus{here, left(there)}, true, steadycast.In, Announced, LevelDegraded, "1 of 2 nodes announce; ams-2 left alone 12s ago: web: refused"},
		"the other left and is well": {[]decide.NodeStatus{here, back}, true, steadycast.In, Announced, LevelDegraded, "1 of 2 nodes announce; ams-2 left alone 12s ago, well again"},
		"the other is silent":        {[]decide.NodeStatus{here, silent}, true, steadycast.In, Announced, LevelDegraded, "1 of 2 nodes announce; ams-2 is not heard"},
		"the other has no route":     {[]decide.NodeStatus{here, off}, true, steadycast.In, Announced, LevelDegraded, "1 of 2 nodes announce; ams-2 does not announce"},
		"this one left":              {[]decide.NodeStatus{left(here), there}, false, steadycast.In, Announced, LevelDegraded, "1 of 2 nodes announce; ams-1 left alone 12s ago: web: refused"},
		"the other is taken out":     {[]decide.NodeStatus{here, ordered(there, steadycast.OrderDrain)}, true, steadycast.In, Announced, LevelOK, "1 of 2 nodes announce; ams-2 is drained by order"},
		"the other is to be":         {[]decide.NodeStatus{here, asked}, true, steadycast.In, Announced, LevelOK, ""},
		"this one is taken out":      {[]decide.NodeStatus{ordered(here, steadycast.OrderWithdraw), there}, false, steadycast.In, Announced, LevelOK, "1 of 2 nodes announce; ams-1 is withdrawn by order"},
		"both left":                  {[]decide.NodeStatus{left(here), left(there)}, false, steadycast.In, Lost, LevelDegraded, "should announce and cannot"},
		"this one left, out of all":  {[]decide.NodeStatus{left(here), silent}, false, steadycast.In, Lost, LevelDegraded, "should announce and cannot"},
		"the site left":              {[]decide.NodeStatus{left(here), there}, false, steadycast.Out, Withdrawn, LevelDegraded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := steadycast.Unit{Site: "ams", Prefix: p4}
			s := &Snapshot{Node: "ams-1", Mode: "fleet", At: now}
			s.View.Table = decide.Table{Sites: []decide.Place{{Name: "ams", Nodes: []decide.Node{{Name: "ams-1"}, {Name: "ams-2"}}}}}
			s.View.Prefixes = []decide.PrefixView{{Prefix: p4, Sites: 1}}
			s.View.Units = []decide.UnitView{{Unit: u, Phase: x.phase, Ever: true}}
			s.Sites = []Site{{Name: "ams", Heard: now, Units: []Unit{{Unit: u, Wanted: x.wanted, Proven: true, Nodes: x.nodes}}}}
			row := s.Rows()[0]
			if row.State != x.state || row.Why != x.why || row.Nodes != 2 {
				t.Errorf("%q of %d nodes: %q, want %q: %q", row.State, row.Nodes, row.Why, x.state, x.why)
			}
			if st := s.Status(); st.Summary.Level != x.level && x.phase == steadycast.In && x.state == Announced {
				t.Errorf("the status is %s: %s", st.Summary.Level, st.Summary.Mark)
			}
			if site := s.SiteRows()[0]; site.Nodes != 2 || x.state == Announced && site.NodesOut != row.NodesOut {
				t.Errorf("the site has %d of %d nodes out", site.NodesOut, site.Nodes)
			}
		})
	}
}
