package api

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
)

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
