package api

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestPathsShow: what is wrong with a path is in the status, at its site and in the
// rows of what goes by it; here by what the site says now, elsewhere by the ledger.
func TestPathsShow(t *testing.T) {
	s := fleet()
	s.View.Table.Services = append(s.View.Table.Services,
		decide.Service{Name: "straight", Path: "direct", Sites: []string{"ams"}},
		decide.Service{Name: "scrubber", Path: "scrubbed", Sites: []string{"ams", "iad"}})
	for i := range s.View.Table.Sites {
		if p := &s.View.Table.Sites[i]; p.Name == "ams" || p.Name == "iad" {
			p.Paths = []string{"direct", "scrubbed"}
		}
	}
	s.View.Verdicts = append(s.View.Verdicts,
		steadycast.Verdict{Site: "ams", Service: "straight", State: steadycast.Healthy},
		steadycast.Verdict{Site: "iad", Service: "scrubber", State: steadycast.Suspect, Reason: "r2 is idle"})
	i := slices.IndexFunc(s.Sites, func(x Site) bool { return x.Name == "ams" })
	s.Sites[i].Services = append(s.Sites[i].Services, Service{Verdict: steadycast.Verdict{
		Site: "ams", Service: "straight", State: steadycast.Unhealthy, Reason: "r1 is stuck ×3",
	}})
	var said []string
	for _, p := range s.Status().Paths {
		said = append(said, p.Site+": "+PathText(&p))
	}
	want := []string{"ams: path direct, in use, is unhealthy: r1 is stuck ×3", "ams: ", "iad: ", "iad: path scrubbed is suspect: r2 is idle"}
	if !slices.Equal(said, want) {
		t.Errorf("status says %q; want %q", said, want)
	}
	if sum := s.Status().Summary; sum.Level != LevelDegraded {
		t.Errorf("summary: %+v", sum)
	}
	for _, r := range s.SiteRows() {
		if two := len(r.Paths) == 2; two != (r.Site == "ams" || r.Site == "iad") {
			t.Errorf("%s shows %d paths", r.Site, len(r.Paths))
		}
	}
	for _, r := range s.Rows() {
		if told := strings.Contains(r.Why, "path direct, in use, is unhealthy"); told != (r.Unit.Site == "ams") {
			t.Errorf("%s: %q", r.Unit, r.Why)
		}
	}
}

// While a site is on its way to a path that does not work, its routes are announced
// by the one it had: it counts as announcing, and why it has not arrived is said.
func TestASiteOnItsWayToAnotherPathAnnounces(t *testing.T) {
	const why = "not by scrubbed alone yet, and kept where they were: no session of path scrubbed is up"
	for _, c := range []struct {
		moving   bool
		state    Showing
		level    Level
		sentence string
	}{
		{true, Announced, LevelDegraded, "ams announces 2 of 2 prefixes"},
		{false, Announcing, LevelDegraded, "ams announces 0 of 2 prefixes"},
	} {
		s := &Snapshot{Node: "ams-1", At: now, View: fleet().View, Sites: []Site{{Name: "ams", Heard: now}}}
		s.View.Units = slices.DeleteFunc(s.View.Units, func(v decide.UnitView) bool { return v.Unit.Site != "ams" })
		for _, v := range s.View.Units {
			s.Sites[0].Units = append(s.Sites[0].Units, Unit{Unit: v.Unit, Wanted: true, Unproven: why, Moving: c.moving})
		}
		rows := s.Rows()
		for _, r := range rows {
			if r.State != c.state || !strings.Contains(r.Why, why) {
				t.Errorf("moving %t: %s is %s: %q, want %s and why", c.moving, r.Unit.Prefix, r.State, r.Why, c.state)
			}
		}
		if sum := s.Summarize(rows, nil); len(rows) != 2 || sum.Sentence != c.sentence || sum.Level != c.level {
			t.Errorf("moving %t: %q, %s; want %q, %s", c.moving, sum.Sentence, sum.Level, c.sentence, c.level)
		}
	}
}

// TestPathSummary: a path in use that fails, and one that was left for that, are not
// all well; what a person diverted is.
func TestPathSummary(t *testing.T) {
	unit := steadycast.Unit{Site: "fra", Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	for _, c := range []struct {
		name   string
		change func(v *decide.View)
		mark   string
		next   string
	}{
		{"well", func(*decide.View) {}, "all well", "steadycast events -f"},
		{"diverted by a person", func(v *decide.View) {
			v.Diverts = []decide.Divert{{Order: decide.DivertOrder{Site: "fra", Path: "scrubbed"}, Actor: "ann"}}
		}, "all well", "steadycast events -f"},
		{"left", func(v *decide.View) {
			v.Verdicts[0].State = steadycast.Unhealthy
			v.Diverts = []decide.Divert{{Order: decide.DivertOrder{Site: "fra", Path: "scrubbed"}, Auto: true}}
		}, "on another path", "steadycast sites"},
		{"failing", func(v *decide.View) { v.Verdicts[0].State = steadycast.Unhealthy }, "a path fails", "steadycast checks --site fra"},
		{"failing and kept", func(v *decide.View) {
			v.Verdicts[0].State = steadycast.Unhealthy
			v.PathWishes = []decide.PathWish{{Site: "fra", To: "scrubbed", Guards: []steadycast.GuardAnswer{{Guard: "lock", Override: "steadycast unlock fra"}}}}
		}, "a path fails", "steadycast unlock fra --reason TEXT"},
	} {
		s := &Snapshot{View: decide.View{
			Table: decide.Table{Revision: 1, Sites: []decide.Place{{Name: "fra", Paths: []string{"direct", "scrubbed"}}},
				Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{unit.Prefix}}, {Name: "straight", Path: "direct", Sites: []string{"fra"}}}},
			Verdicts: []steadycast.Verdict{{Site: "fra", Service: "straight", State: steadycast.Healthy}},
		}}
		c.change(&s.View)
		sum := Summary{Level: LevelOK, Mark: "all well", Next: "steadycast events -f"}
		s.judgePaths(&sum, nil, nil)
		if sum.Mark != c.mark || sum.Next != c.next || (sum.Level == LevelOK) != (c.mark == "all well") {
			t.Errorf("%s: %+v; want %q, %q", c.name, sum, c.mark, c.next)
		}
	}
}
