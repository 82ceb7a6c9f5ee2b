package answers

import (
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// TestGoneLeavesAnswers: a site that died whole is answered no more though its last
// verdict is Healthy, with the reason, and is again with its first word; and in mode
// conservative neither moves an answer.
func TestGoneLeavesAnswers(t *testing.T) {
	v := view(func(v *decide.View) {
		v.Gone = []decide.Gone{{Site: "fra", Service: "web", QuietMS: 6000, By: []string{"ams", "lon", "nyc"}}}
	})
	s := State(v, time.Unix(1_800_000_000, 0)).Sites["fra"].Services["web"]
	if s.V4 != dnsfallback.Down || s.V6 != dnsfallback.Down || !strings.Contains(s.Why, "gone: nothing heard for 6s, and ams, lon, nyc see it down") {
		t.Errorf("%+v", s)
	}

	w := newWorld(t)
	table := w.f.View().Table
	table.Revision++
	for _, n := range []string{"lon", "nyc"} {
		table.Sites = append(table.Sites, decide.Place{Name: n, Witness: true})
	}
	w.apply(decide.Entry{Kind: decide.KindTable, Table: &table})
	silent := func(o steadycast.Outcome) {
		x := decide.Silent{Site: "fra", Service: "web", QuietMS: 6000}
		for _, n := range []string{"ams", "lon", "nyc"} {
			x.Evidence = append(x.Evidence, steadycast.Observation{Vantage: n, Subject: "fra", Service: "web", Seq: 1, Result: steadycast.Result{Outcome: o}})
		}
		w.apply(decide.Entry{Kind: decide.KindGone, Decide: &decide.Decide{Silent: []decide.Silent{x}}})
	}
	expect := func(what, want string) {
		t.Helper()
		if got := w.answer(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	expect("all well", "192.0.2.1")
	silent(steadycast.Down)
	expect("fra is gone", "192.0.2.2")
	w.names(decide.NamesOrder{Mode: "conservative"})
	w.health("fra", steadycast.Healthy)
	expect("conservative, and fra speaks again", "192.0.2.2")
	w.names(decide.NamesOrder{Mode: "normal"})
	expect("normal again", "192.0.2.1")
	w.names(decide.NamesOrder{Mode: "conservative"})
	silent(steadycast.Down)
	expect("conservative, and fra is gone", "192.0.2.1")
	w.names(decide.NamesOrder{Mode: "normal"})
	expect("normal, and fra is gone", "192.0.2.2")
	silent(steadycast.Up)
	expect("others see it well", "192.0.2.1")
}
