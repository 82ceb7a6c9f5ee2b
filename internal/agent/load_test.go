package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadLoad: a figure, its age, and what is none, with its place.
func TestReadLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "load")
	if _, _, err := readLoad(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	at := time.Now().Add(-time.Minute).Truncate(time.Second)
	for _, c := range []struct {
		text string
		load int64
		ok   bool
	}{{"12000\n", 12000, true}, {" 7 \nrequests a second\n", 7, true}, {"0", 0, true}, {"", 0, false}, {"-1\n", 0, false}, {"1.5\n", 0, false}, {"many\n", 0, false}, {strings.Repeat("9", 100), 0, false}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		load, written, err := readLoad(path)
		if (err == nil) != c.ok || load != c.load || c.ok && !written.Equal(at) {
			t.Errorf("%q came to %d of %v, %v", c.text, load, written, err)
		}
	}
}
