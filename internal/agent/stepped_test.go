package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A clock that is stepped by an hour makes no file of another process fresher than
// it is: what was written before counts for nothing until it is written anew.
func TestFilesOverSteppedClock(t *testing.T) {
	dir := t.TempDir()
	names, load := filepath.Join(dir, "names"), filepath.Join(dir, "load")
	for path, text := range map[string]string{names: "up stale: no voter was heard\n", load: "70\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written := func(ago time.Duration) {
		t.Helper()
		for _, path := range []string{names, load} {
			at := time.Now().Add(-ago)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := staleNames(names, "")
	if before == "" {
		t.Fatal("the word says nothing")
	}
	for _, stepped := range []time.Duration{time.Hour, -time.Hour} { // forward, back
		written(stepped)
		if why := staleNames(names, ""); why != "" {
			t.Errorf("stepped by %v: an old word counts: %s", stepped, why)
		}
		n, at, err := readLoad(load)
		if stepped < 0 && (err == nil || !strings.Contains(err.Error(), "in the future")) {
			t.Errorf("stepped by %v: %d at %v, %v", stepped, n, at, err)
		}
		if stepped > 0 && (err != nil || time.Since(at) < time.Hour) {
			t.Errorf("stepped by %v: %d at %v, %v", stepped, n, at, err)
		}
		written(0)
		if why := staleNames(names, ""); why != before {
			t.Errorf("written anew it says %q; before %q", why, before)
		}
		if n, _, err := readLoad(load); n != 70 || err != nil {
			t.Errorf("written anew: %d, %v", n, err)
		}
	}
}
