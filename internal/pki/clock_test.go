package pki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasSuffix(path, ".key") {
		mode = 0o600
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
}

// withClock opens a directory with a kept floor.
func withClock(t *testing.T, dir, clock string) *Credentials {
	t.Helper()
	c, err := Open(Settings{Dir: dir, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// In a bubble the clock begins in 2000. Certificates made "in 2026" are what a
// machine without a battery finds when it starts.
func TestColdBoot(t *testing.T) {
	day := 24 * time.Hour
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		a, err := Init(filepath.Join(root, "ca"), "prod", made)
		if err != nil {
			t.Fatal(err)
		}
		issue := func(site string, at time.Time, life time.Duration) string {
			dir := filepath.Join(root, site)
			if _, err := a.Issue(Identity{Site: site, Node: site + "-1"}, dir, life, at); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		dir := issue("fra", made, 365*day)
		short := issue("ams", made, 30*day)
		renewed := issue("gru", made.Add(200*day), 365*day)
		clock := filepath.Join(root, "clock")
		put(t, clock, []byte(made.Add(100*day).Format(time.RFC3339)+"\n"))

		c := withClock(t, dir, clock)
		if got := c.Now(); !got.Equal(made.Add(100 * day)) {
			t.Errorf("now is %s; want the kept floor", got)
		}
		if got := strings.Join(c.Alarms(), "\n"); !strings.Contains(got, "the system's clock says 2000-01-01 00:00 UTC, which is before 2026-06-09 12:00 UTC") {
			t.Errorf("alarms: %q", got)
		}
		// Ended before the floor: over, whatever the system's clock says.
		if _, serverErr, _ := shake(t, c.ServerConfig(Mesh), stranger(t, short, Mesh, "prod")); reasonOf(serverErr) != Expired {
			t.Errorf("a certificate from before the floor: %v", serverErr)
		}
		// Begun after the floor: a lower bound of the time, and the floor rises to it.
		if _, serverErr, clientErr := shake(t, c.ServerConfig(Mesh), stranger(t, renewed, Mesh, "prod")); serverErr != nil || clientErr != nil {
			t.Errorf("a certificate from after the floor: %v, %v", serverErr, clientErr)
		}
		if got, want := c.Now(), made.Add(200*day-backdate); !got.Equal(want) {
			t.Errorf("now is %s; want %s, where the peer's certificate begins", got, want)
		}

		// Without a kept floor our own certificate still bounds the time.
		bare := withClock(t, dir, "")
		if got, want := bare.Now(), made; !got.Equal(want) {
			t.Errorf("now is %s; want %s", got, want)
		}
	})
}

func TestFloorIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "prod")
		dir := f.issue("fra", "fra-1", DefaultLife)
		clock := filepath.Join(f.root, "state", "clock")
		kept := func() string {
			b, _ := os.ReadFile(clock)
			return strings.TrimSpace(string(b))
		}
		if err := os.Mkdir(filepath.Dir(clock), 0o700); err != nil {
			t.Fatal(err)
		}
		c := withClock(t, dir, clock)
		c.Now()
		if got := kept(); got != "2000-01-01T00:00:00Z" {
			t.Errorf("kept %q", got)
		}
		time.Sleep(time.Hour - time.Second)
		c.Now()
		if got := kept(); got != "2000-01-01T00:00:00Z" {
			t.Errorf("within the hour: kept %q", got)
		}
		time.Sleep(time.Second)
		c.Now()
		if got := kept(); got != "2000-01-01T01:00:00Z" {
			t.Errorf("after an hour: kept %q", got)
		}
		if got := withClock(t, dir, clock).Now(); !got.Equal(time.Now()) {
			t.Errorf("after a restart: %s", got)
		}

		// A directory that is gone is an alarm, and no reason to stop.
		if err := os.RemoveAll(filepath.Dir(clock)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.Now()
		if got := strings.Join(c.Alarms(), "\n"); !strings.Contains(got, "the clock's floor cannot be kept") {
			t.Errorf("alarms: %q", got)
		}
		if err := os.Mkdir(filepath.Dir(clock), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := c.Alarms(); len(got) != 0 {
			t.Errorf("alarms that do not end: %q", got)
		}

		// A clock far ahead must not become a floor that shuts the fleet out.
		was := kept()
		time.Sleep(10 * DefaultLife)
		c.Now()
		if got := kept(); got != was {
			t.Errorf("a clock beyond the end of our certificate was kept: %q", got)
		}
	})
}

func TestBrokenFloorIsNone(t *testing.T) {
	f := newFleet(t, "prod")
	dir := f.issue("fra", "fra-1", DefaultLife)
	clock := filepath.Join(f.root, "clock")
	for _, text := range []string{"", "2026-0", "soon\n"} {
		put(t, clock, []byte(text))
		c := withClock(t, dir, clock)
		if got := strings.Join(c.Alarms(), "\n"); !strings.Contains(got, "the clock's floor cannot be read") {
			t.Errorf("%q: alarms %q", text, got)
		}
		if since := time.Since(c.Now()); since < 0 || since > time.Minute {
			t.Errorf("%q: now is %s", text, c.Now())
		}
	}
}

func TestExpiryLevels(t *testing.T) {
	f := newFleet(t, "prod")
	day := 24 * time.Hour
	year := open(t, f.issue("fra", "fra-1", 365*day)).state().leaf
	week := open(t, f.issue("ams", "ams-1", 7*day)).state().leaf
	for _, c := range []struct {
		left time.Duration
		year Level
		week Level
	}{
		{31 * day, Fine, Fine}, {29 * day, Soon, Fine}, {8 * day, Soon, Fine}, {6 * day, Urgent, Fine}, {2 * day, Urgent, Soon}, {12 * time.Hour, Urgent, Urgent}, {0, Urgent, Urgent}, {-time.Second, Over, Over},
	} {
		if got := expiry(year, year.NotAfter.Add(-c.left)); got.Level != c.year {
			t.Errorf("a year's, %s left: %s; want %s", c.left, got.Level, c.year)
		}
		if got := expiry(week, week.NotAfter.Add(-c.left)); got.Level != c.week {
			t.Errorf("a week's, %s left: %s; want %s", c.left, got.Level, c.week)
		}
	}
}
