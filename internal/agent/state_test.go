package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRecall(t *testing.T) {
	write := func(t *testing.T, text string) string {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "agent.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	hourAgo := time.Now().Add(-time.Hour).Format(time.RFC3339Nano)
	ahead := time.Now().Add(time.Hour).Format(time.RFC3339Nano)
	for _, c := range []struct {
		name, file string
		floor      uint64
		inc        uint64
		known      bool   // how long it was off
		problem    string // contained in the error; the file is then kept beside …
		stays      bool   // … or believed for the rest
	}{
		{name: "first start", inc: 1},
		{name: "first start, but the speaker knows more", floor: 9, inc: 10},
		{name: "a restart", file: `{"schema":1,"node":"fra-1","incarnation":4,"alive":"` + hourAgo + `"}`, inc: 5, known: true},
		{name: "the speaker knows more", file: `{"schema":1,"node":"fra-1","incarnation":4,"alive":"` + hourAgo + `"}`, floor: 7, inc: 8, known: true},
		{name: "a clock stepped back reads as a long absence", file: `{"schema":1,"node":"fra-1","incarnation":4,"alive":"` + ahead + `"}`, inc: 5, problem: "in the future", stays: true},
		{name: "truncated", file: `{"schema":1,"node":"fra-1","incar`, floor: 3, inc: 4, problem: "not readable"},
		{name: "empty", file: ` `, inc: 1, problem: "not readable"},
		{name: "from the future", file: `{"schema":2,"node":"fra-1","incarnation":4}`, floor: 3, inc: 4, problem: "newer version (schema 2"},
		{name: "of another node", file: `{"schema":1,"node":"ams-1","incarnation":4}`, floor: 3, inc: 4, problem: `belongs to node "ams-1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, c.file)
			r, off, err := recall(dir, "fra-1", c.floor)
			if r.Incarnation != c.inc {
				t.Errorf("incarnation %d, want %d", r.Incarnation, c.inc)
			}
			if (off >= 0) != c.known {
				t.Errorf("off %v, known should be %v", off, c.known)
			}
			if c.problem == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("error %v, want one with %q", err, c.problem)
			}
			kept, err := os.ReadFile(filepath.Join(dir, map[bool]string{false: "agent.json.bad", true: "agent.json"}[c.stays]))
			if err != nil || string(kept) != c.file {
				t.Errorf("the unusable file was not kept: %q, %v", kept, err)
			}
		})
	}
}

func TestRememberThenRecall(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	if err := remember(dir, remembered{Schema: stateSchema, Node: "fra-1", Incarnation: 6}, now.Add(-30*time.Second)); err != nil {
		t.Fatal(err)
	}
	r, off, err := recall(dir, "fra-1", 0)
	if err != nil || r.Incarnation != 7 {
		t.Fatalf("incarnation %d, %v", r.Incarnation, err)
	}
	if off < 30*time.Second || off > 40*time.Second {
		t.Errorf("off for %v, want 30s", off)
	}
}
