package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Wrong settings are said once and at once, and only a manager, which would start
// again, waits for the end; whatever else ends a daemon ends it now.
func TestWrongSettingsEndNotAtOnce(t *testing.T) {
	wrong := &exitError{exitUsage, errors.New("node.yaml:1:1: it is wrong")}
	for _, c := range []struct {
		name, socket string
		err          error
		want         string // printed here
		waits        bool
	}{
		{"a person's shell", "", wrong, "", false},
		{"a manager", "/run/notify", wrong, "steadycast: node.yaml:1:1: it is wrong\n", true},
		{"another end", "/run/notify", errors.New("the disk is full"), "", false},
		{"no error", "/run/notify", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", c.socket)
			var out strings.Builder
			var waited time.Duration
			err := notAtOnce(&out, func(d time.Duration) { waited = d }, c.err)
			if exitCode(err) != exitCode(c.err) || out.String() != c.want || (waited > 0) != c.waits {
				t.Errorf("exit code %d after %s, said %q", exitCode(err), waited, out.String())
			}
			if c.waits && err.Error() != "" {
				t.Errorf("it is said once more: %v", err)
			}
		})
	}
	t.Setenv("NOTIFY_SOCKET", "")
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("sight: fra\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if code := execute([]string{"agent", "-c", file}, strings.NewReader(""), io.Discard, &said); code != exitUsage || !strings.Contains(said.String(), "sight") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}
