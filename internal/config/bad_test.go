package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what is said now into the scenarios; review it as prose")

// TestBad holds each bad configuration to its exact sentences: everything that
// is wrong, at its place, once, and nothing else.
func TestBad(t *testing.T) {
	cleanEnv(t)
	scenarios, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(scenarios) < 25 {
		t.Fatalf("%d scenarios, %v", len(scenarios), err)
	}
	for _, scenario := range scenarios {
		t.Run(strings.TrimSuffix(filepath.Base(scenario), ".txtar"), func(t *testing.T) {
			path, err := filepath.Abs(scenario)
			if err != nil {
				t.Fatal(err)
			}
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			want, first := "", ""
			for _, f := range a.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				if first == "" {
					first = f.Name
				}
				if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(f.Name, modeOf(t, scenario, f.Name)); err != nil {
					t.Fatal(err)
				}
			}
			lines, ok := Report([]string{first}, Check(first))
			got := strings.Join(lines, "\n") + "\n"
			if *update {
				a.Files = append(dropWant(a.Files), txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("%s (-want +got):\n%s", scenario, d)
			}
			if ok != !strings.Contains(got, " problem") {
				t.Errorf("ok is %v beside:\n%s", ok, got)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret is told:\n%s", got)
			}
		})
	}
}

// cleanEnv empties our variables, so that those of this shell do not decide.
func cleanEnv(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, EnvPrefix) {
			t.Setenv(name, "") // so that it is put back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// modeOf is 0600, but where the scenario is about files that others can read.
func modeOf(t *testing.T, scenario, file string) os.FileMode {
	t.Helper()
	if strings.HasSuffix(scenario, "open-secret.txtar") {
		return 0o644
	}
	return 0o600
}

func dropWant(files []txtar.File) []txtar.File {
	var out []txtar.File
	for _, f := range files {
		if f.Name != "want" {
			out = append(out, f)
		}
	}
	return out
}
