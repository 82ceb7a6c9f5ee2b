package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestTrialShown: what is left of a trial goes on while no entry comes, and what holds
// it is said.
func TestTrialShown(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &Snapshot{At: at.Add(20 * time.Second), ViewAt: at}
	if sum := s.Summarize(nil, nil); s.trial() != nil || strings.Contains(sum.Next, "confirm") {
		t.Errorf("none is on trial: %v", sum)
	}
	s.View.Trial = &decide.Trial{Revision: 7, Before: 6, Actor: "maria", Reason: "new checks", LeftMS: 60_000}
	if got := s.trial().String(); got != "revision 6 comes back in 40s unless somebody says: steadycast confirm 7 (maria put it on trial: new checks)" {
		t.Error(got)
	}
	var sum Summary
	if s.judgeTrial(&sum, nil, nil); sum.Next != "steadycast confirm 7 --reason WHY" {
		t.Error(sum)
	}
	s.View.Trial.LeftMS, s.View.Trial.Held = 0, &steadycast.GuardAnswer{Guard: "floor", Text: "1 of 3 would announce"}
	if got := s.trial(); got.LeftMS != 0 || !strings.Contains(got.String(), "does not come back: floor refuses: 1 of 3") {
		t.Errorf("%+v %s", got, got)
	}
	if s.judgeTrial(&sum, nil, nil); sum.Level != LevelDegraded {
		t.Error(sum)
	}
}

// A site is skewed if it says so lately, and after it had time to hear of the table.
func TestSkewed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(age time.Duration, revision uint64) []decide.SiteNow {
		return []decide.SiteNow{{Site: "fra", AgeMS: age.Milliseconds(), Revision: revision}}
	}
	for _, x := range []struct {
		name    string
		sites   []decide.SiteNow
		inForce time.Duration // ago
		want    []string
	}{
		{"acts on it", at(time.Second, 7), time.Hour, nil},
		{"acts on the one before", at(time.Second, 6), time.Hour, []string{"fra acts on revision 6"}},
		{"did not say", at(time.Second, 0), time.Hour, nil},
		{"said it long ago", at(time.Minute, 6), time.Hour, nil},
		{"came into force just now", at(time.Second, 6), 3 * time.Second, nil},
		{"said it before", at(9*time.Second, 6), 12 * time.Second, nil},
		{"still says it", at(time.Second, 6), 12 * time.Second, []string{"fra acts on revision 6"}},
	} {
		got := skewed(x.sites, 7, now, now.Add(-x.inForce))
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q; want %q", x.name, got, x.want)
		}
	}
}
