package answers

import (
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// TestStand: a server stands where the fleet does, or lower for want of news.
func TestStand(t *testing.T) {
	stale := func(d time.Duration) News { return News{Stale: "no voter was heard", For: d} }
	for _, c := range []struct {
		what    string
		ordered string
		news    News
		p       Patience
		want    Mode
		silent  bool
		why     string
	}{
		{"heard", "", News{}, Patience{}, Normal, false, ""},
		{"ordered", "conservative", News{}, Patience{}, Conservative, false, "ann: works"},
		{"stale", "", stale(time.Minute), Patience{}, Frozen, false, "stale: no voter was heard"},
		{"stale is lower than conservative", "conservative", stale(time.Minute), Patience{}, Frozen, false, "stale: no voter was heard"},
		{"stale is no lower than frozen", "frozen", stale(time.Minute), Patience{}, Frozen, false, "ann: works"},
		{"no limit is for ever", "", stale(1e6 * time.Hour), Patience{}, Frozen, false, "stale: no voter was heard"},
		{"just before minimal", "", stale(time.Hour - 1), Patience{Minimal: time.Hour}, Frozen, false, "stale: no voter was heard"},
		{"minimal", "", stale(time.Hour), Patience{Minimal: time.Hour}, Minimal, false, "stale for longer than 1h0m0s"},
		{"minimal was ordered already", "minimal", stale(time.Hour), Patience{Minimal: time.Hour}, Minimal, false, "ann: works"},
		{"silent", "", stale(2 * time.Hour), Patience{Minimal: time.Hour, Silence: 2 * time.Hour}, Minimal, true, "stale for longer than 1h0m0s"},
		{"silent, without minimal before", "", stale(2 * time.Hour), Patience{Silence: 2 * time.Hour}, Frozen, true, "stale: no voter was heard"},
		{"heard just now, not yet fresh", "", stale(0), Patience{Minimal: time.Hour, Silence: time.Hour}, Frozen, false, "stale: no voter was heard"},
		{"heard, long ago lost", "", News{For: 9 * time.Hour}, Patience{Minimal: time.Hour, Silence: time.Hour}, Normal, false, ""},
	} {
		v := view(func(v *decide.View) {
			if c.ordered != "" {
				v.Names = decide.NamesView{Mode: c.ordered, Actor: "ann", Reason: "works"}
			}
		})
		if got := Stand(v, c.news, c.p); got.Mode != c.want || got.Silent != c.silent || !strings.HasPrefix(got.Why, c.why) || (got.Why == "") != (c.why == "") {
			t.Errorf("%s: %+v; want %v, silent %v: %s", c.what, got, c.want, c.silent, c.why)
		}
	}
}
