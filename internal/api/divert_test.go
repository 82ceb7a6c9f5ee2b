package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/decide"
)

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
