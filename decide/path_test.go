package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// pathTable is a fleet of four, of which two sites have paths, each told of by a
// service that names no sites.
func pathTable() Table {
	none := time.Duration(0)
	health := Health{Fall: 2, Rise: 3, HoldUp: time.Second, DownFor: &none}
	return Table{
		Revision: 1,
		Sites:    []Place{{Name: "ams"}, {Name: "fra", Paths: []string{"direct", "scrubbed", "far"}}, {Name: "lon", Paths: []string{"direct", "scrubbed"}}, {Name: "nyc"}},
		Services: []Service{
			{Name: "web", Prefixes: prefixes("192.0.2.0/24")},
			{Name: "straight", Path: "direct", Health: health},
			{Name: "scrubber", Path: "scrubbed", Health: health},
		},
	}
}

// TestPathServices: a service that tells of a path is of the sites that have it, and
// of nothing else.
func TestPathServices(t *testing.T) {
	table := pathTable()
	if ps := table.Problems(); len(ps) > 0 {
		t.Fatalf("problems: %v", ps)
	}
	full := table.WithDefaults()
	if got := strings.Join(full.Services[1].Sites, " "); got != "fra lon" {
		t.Errorf("direct is of %s", got)
	}
	for _, of := range []Table{table, full} {
		for _, x := range []struct{ site, path, want string }{
			{"fra", "direct", "straight"}, {"lon", "scrubbed", "scrubber"}, {"fra", "far", ""}, {"ams", "direct", ""}, {"ams", "", ""},
		} {
			if s, ok := of.PathService(x.site, x.path); s.Name != x.want || ok != (x.want != "") {
				t.Errorf("path %s of %s: %q; want %q", x.path, x.site, s.Name, x.want)
			}
		}
	}
	for _, x := range []struct {
		change func(*Table)
		want   string
	}{
		{func(t *Table) { t.Services[1].Path = "moon" }, `services[1].path: no site has a path "moon"`},
		{func(t *Table) { t.Services[1].Prefixes = prefixes("198.51.100.0/24") }, "services[1].path: is for a service that only tells of path direct"},
		{func(t *Table) { t.Services[1].Sites = []string{"fra", "ams"} }, "services[1].sites[1]: ams has no path direct; those that have: fra, lon"},
		{func(t *Table) { t.Services[2].Path, t.Services[2].Sites = "direct", []string{"lon"} }, "services[2].path: services[1] tells of path direct of lon already"},
	} {
		table := pathTable()
		x.change(&table)
		if ps := table.Problems(); !slices.ContainsFunc(ps, func(p Problem) bool { return strings.HasPrefix(p.String(), x.want) }) {
			t.Errorf("%v; want %s", ps, x.want)
		}
	}
}

// TestPathVerdict: what a path is found to be is the site's own word, in a fleet, too,
// and takes fall and rise as every verdict does; what others say of it is nothing.
func TestPathVerdict(t *testing.T) {
	table := pathTable()
	site := NewSite(SiteOptions{Name: "fra", Node: "fra-1", Incarnation: 1, Table: table})
	v := View{Fence: steadycast.Fence{Epoch: 1, Index: 5}, Table: table.WithDefaults()}
	site.Step(0, Committed{View: v})
	now, seq := Now(0), uint64(0)
	saw := func(vantage string, r steadycast.Result) (states []string) {
		now, seq = now+time.Second, seq+1
		for _, e := range site.Step(now, Observed{From: now, Observation: steadycast.Observation{
			Vantage: vantage, Subject: "fra", Service: "straight", Seq: seq, Result: r,
		}}) {
			if n, ok := e.(Note); ok && n.Event.Kind == steadycast.EventVerdict {
				states = append(states, n.Event.To)
			}
		}
		return states
	}
	up := steadycast.Result{Outcome: steadycast.Up}
	down := steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "r1 is idle"}
	state := func() steadycast.State {
		for _, x := range site.Verdicts() {
			if x.Service == "straight" {
				return x.State
			}
		}
		return steadycast.StateUnknown
	}
	for range 4 {
		saw("fra", up)
	}
	if state() != steadycast.Healthy {
		t.Fatalf("passing rounds made it %s", state())
	}
	for range 4 {
		for _, other := range []string{"ams", "lon", "nyc"} {
			saw(other, down)
		}
	}
	if state() != steadycast.Healthy {
		t.Errorf("others made it %s", state())
	}
	saw("fra", down)
	if state() != steadycast.Suspect {
		t.Errorf("one failing round made it %s", state())
	}
	saw("fra", down)
	if state() != steadycast.Unhealthy {
		t.Errorf("two failing rounds made it %s", state())
	}
	v.Verdicts = site.Verdicts()
	paths := v.Paths("fra")
	if len(paths) != 3 || paths[0].State != steadycast.Unhealthy || !paths[0].InUse || paths[0].Service != "straight" || !strings.Contains(paths[0].Reason, "r1 is idle") {
		t.Errorf("paths: %+v", paths)
	}
	if paths[1].State != steadycast.StateUnknown || paths[1].InUse || paths[2].Service != "" {
		t.Errorf("paths: %+v", paths)
	}
	if got := v.Paths("ams"); len(got) != 0 {
		t.Errorf("ams has paths: %+v", got)
	}
	for range 5 {
		saw("fra", up)
	}
	if state() != steadycast.Healthy {
		t.Errorf("passing rounds made it %s again", state())
	}
}

// TestPathForgotten: a site that starts tells at once, and once, that nothing is known
// of a path of which the ledger holds a verdict of before; of other services not.
func TestPathForgotten(t *testing.T) {
	table := pathTable()
	site := NewSite(SiteOptions{Name: "fra", Node: "fra-1", Incarnation: 2, Table: table})
	v := View{Fence: steadycast.Fence{Epoch: 1, Index: 5}, Table: table.WithDefaults(), Verdicts: []steadycast.Verdict{
		{Site: "fra", Service: "straight", State: steadycast.Unhealthy},
		{Site: "fra", Service: "web", State: steadycast.Healthy},
		{Site: "lon", Service: "scrubber", State: steadycast.Healthy},
	}}
	told := func(now Now, in Input) (out []string) {
		for _, e := range site.Step(now, in) {
			if r, ok := e.(Report); ok {
				for _, x := range r.Verdicts {
					out = append(out, x.Service+" "+x.State.String())
				}
			}
		}
		return out
	}
	if got := told(time.Millisecond, Committed{View: v}); !slices.Equal(got, []string{"straight unknown"}) {
		t.Errorf("at its start it tells %q", got)
	}
	v.Fence.Index++
	if got := told(2*time.Millisecond, Committed{View: v}); len(got) > 0 {
		t.Errorf("at once again: %q", got)
	}
	v.Fence.Index++
	if got := told(2*time.Second, Committed{View: v}); !slices.Equal(got, []string{"straight unknown"}) {
		t.Errorf("when the ledger has not taken it: %q", got)
	}
	v.Fence.Index++
	v.Verdicts = v.Verdicts[1:]
	if got := told(5*time.Second, Committed{View: v}); len(got) > 0 {
		t.Errorf("of what the ledger knows nothing: %q", got)
	}
}
