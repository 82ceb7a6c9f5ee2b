package role

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCrashLoop(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(boot string, up, wall time.Duration) Moment { return Moment{boot, up, noon.Add(wall)} }
	const m = time.Minute
	for _, c := range []struct {
		name   string
		starts []Moment
		loop   bool
	}{
		{"one start", []Moment{at("a", m, 0)}, false},
		{"two within a minute", []Moment{at("a", m, 0), at("a", m, 0)}, false},
		{"three within ten minutes", []Moment{at("a", m, 0), at("a", 5*m, 0), at("a", 10*m, 0)}, true},
		{"three, the first ten minutes ago", []Moment{at("a", m, 0), at("a", 5*m, 0), at("a", 11*m, 0)}, false},
		{"the clock jumps an hour ahead between them", []Moment{at("a", m, 0), at("a", 2*m, 60*m), at("a", 3*m, 60*m)}, true},
		{"and an hour back", []Moment{at("a", m, 60*m), at("a", 2*m, 0), at("a", 3*m, 0)}, true},
		{"the host restarts each time", []Moment{at("a", m, 0), at("b", m, 3*m), at("c", m, 6*m)}, true},
		{"a record from the future of another boot counts for nothing", []Moment{at("a", m, 60*m), at("b", m, 0), at("b", 2*m, m)}, false},
		{"no boot id", []Moment{at("", m, 0), at("", m, m), at("", m, 2*m)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Starts
			for _, now := range c.starts {
				s = s.Add(now)
			}
			now := c.starts[len(c.starts)-1]
			left, loop := s.Loop(now)
			if loop != c.loop || loop && left != CrashLoopWindow {
				t.Errorf("loop %v with %v left, want %v", loop, left, c.loop)
			}
			if int(s.Total) != len(c.starts) || len(s.Recent) > CrashLoopStarts {
				t.Errorf("%+v", s)
			}
			now.Uptime += CrashLoopWindow
			now.Wall = now.Wall.Add(CrashLoopWindow)
			if _, loop := s.Loop(now); loop {
				t.Error("does not end by itself")
			}
		})
	}
}

func TestCountStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "starts.json")
	for want := range uint64(4) {
		s, err := CountStart(path, Now())
		if err != nil || s.Total != want+1 {
			t.Fatalf("%+v, %v", s, err)
		}
		if _, loop := s.Loop(Now()); loop != (want >= 2) {
			t.Fatalf("start %d: loop %v", want+1, loop)
		}
	}
	s, err := CountStart(path, Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Forgive(path); err != nil {
		t.Fatal(err)
	}
	if s, err = CountStart(path, Now()); err != nil || s.Total != 6 || len(s.Recent) != 1 {
		t.Fatalf("after forgiving: %+v, %v", s, err)
	}
	for _, junk := range []string{"", "{", `{"total":-1}`, "\x00\xff"} {
		if err := os.WriteFile(path, []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := CountStart(path, Now())
		if err == nil || !strings.Contains(err.Error(), "counted anew") || s.Total != 1 {
			t.Errorf("%q: %+v, %v", junk, s, err)
		}
	}
	if s, err := CountStart("/proc/nowhere/starts.json", Now()); err == nil || s.Total != 1 {
		t.Errorf("unwritable: %+v, %v", s, err)
	}
}
