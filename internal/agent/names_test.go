package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What the server of names says of itself counts while it is fresh, and only one
// word of it: how its answers are is for the service's check.
func TestStaleNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dns.health")
	if got := staleNames(path, ""); got != "" {
		t.Errorf("a file that is not there says %q", got)
	}
	for text, want := range map[string]string{
		"up its own answers are right\n":     "",
		"up stale: no voter was heard\n":     "no voter was heard",
		"down the server's own test: stale:": "",
		"":                                   "",
		"up stale: a\nup stale: b\n":         "a",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := staleNames(path, ""); got != want {
			t.Errorf("%q says %q; want %q", text, got, want)
		}
	}
	// Wrong answers are not fresh ones: what was old stays so.
	os.WriteFile(path, []byte("down the server's own test: no answer\n"), 0o600)
	if got := staleNames(path, "no voter was heard"); got != "no voter was heard" {
		t.Errorf("a server whose answers are wrong is no longer stale: %q", got)
	}
	os.WriteFile(path, []byte("up stale: no voter was heard\n"), 0o600)
	old := time.Now().Add(-2 * namesFresh)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if got := staleNames(path, ""); got != "" {
		t.Errorf("an old file says %q", got)
	}
}
