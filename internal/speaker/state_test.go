package speaker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStateThatLies: whatever stands in the state files, the speaker starts,
// says once what is wrong, announces nothing of it, and takes up the agent's set.
func TestStateThatLies(t *testing.T) {
	intent := func(node string, at time.Time) []byte {
		b, err := encodeIntent(node, intentBody{Mark: mark{Incarnation: 1, Version: 7}, At: at, Set: set(7, "1")})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	now := time.Now()
	for _, c := range []struct {
		name, say string
		data      []byte
		aside     bool
	}{
		{"cut", "it is damaged", intent("fra-1", now)[:40], true},
		{"empty", "it is damaged", nil, true},
		{"another node's", `it is of another node, \"ams-1\"; this one is \"fra-1\"`, intent("ams-1", now), true},
		{"of a later version", "a newer version wrote it (format 9, known is 1)", []byte(`{"format":9,"node":"fra-1"}`), true},
		{"from the future", "a clock was stepped; its fence 0.0 holds", intent("fra-1", now.Add(time.Hour)), false},
		{"an hour old", "", intent("fra-1", now.Add(-time.Hour)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "intent.json")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "speaker-starts.json"), c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			w := newWorld()
			l := begin(t, w, dir)
			if got := w.read(); got != "" {
				t.Errorf("did %s", got)
			}
			if n := strings.Count(w.logged(), c.say); c.say != "" && n != 1 {
				t.Errorf("said %d times %q:\n%s", n, c.say, w.logged())
			}
			if _, err := os.Stat(path + ".bad"); (err == nil) != c.aside {
				t.Errorf("put aside: %v, want %v", err == nil, c.aside)
			}
			mustApply(t, l, set(8, "1"))
			if describe(w.set) != "[192.0.2.1]" {
				t.Errorf("announced %s", describe(w.set))
			}
			l.Close()
			if b, err := readIntent(path, "fra-1", now); err != nil || b.Set.Version != 8 {
				t.Errorf("afterwards %+v, %v", b, err)
			}
		})
	}
}
