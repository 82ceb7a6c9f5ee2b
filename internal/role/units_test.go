package role

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const unitDir = "../../configs/systemd"

// stage copies the units to a directory where their program exists.
func stage(t *testing.T) (dir string, units []string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("systemd-analyze is not installed")
		}
		t.Skip("systemd-analyze is not installed")
	}
	dir = t.TempDir()
	files, err := filepath.Glob(unitDir + "/steadycast*")
	if err != nil || len(files) != 5 {
		t.Fatalf("units: %v, %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "/usr/bin/steadycast ", "/bin/true ")
		path := filepath.Join(dir, filepath.Base(f))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		units = append(units, path)
	}
	return dir, units
}

func TestUnitsAreValid(t *testing.T) {
	_, units := stage(t)
	for _, u := range units {
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", u).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(u)) {
			t.Errorf("%s: %v\n%s", filepath.Base(u), err, out)
		}
	}
}

func TestUnitsAreHardened(t *testing.T) {
	_, units := stage(t)
	for _, u := range units {
		if !strings.HasSuffix(u, ".service") {
			continue
		}
		// The threshold is the exposure times ten: above 2.0 it fails.
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", u).CombinedOutput()
		at := strings.Index(string(out), "Overall exposure")
		if err != nil || at < 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(u), err, out)
			continue
		}
		t.Logf("%s: %s", filepath.Base(u), strings.TrimSpace(string(out[at:])))
	}
}

// TestUnitsKeepTheirPromises reads what no tool checks.
func TestUnitsKeepTheirPromises(t *testing.T) {
	for name, want := range map[string]map[string][]string{
		"steadycast-speaker.service": {
			"CapabilityBoundingSet": {"CAP_NET_ADMIN"}, "AmbientCapabilities": {"CAP_NET_ADMIN"},
			"Type": {"notify"}, "RuntimeDirectoryPreserve": {"yes"}, "ExecReload": {"/bin/kill -HUP $MAINPID"},
			"Requires": nil, "BindsTo": nil,
		},
		"steadycast-agent.service": {
			"CapabilityBoundingSet": {""}, "AmbientCapabilities": {""},
			"Type": {"notify"}, "RuntimeDirectoryPreserve": {"yes"}, "ExecReload": {"/bin/kill -HUP $MAINPID"},
			"Requires": nil, "BindsTo": nil, "StartLimitIntervalSec": {"0"},
			"Restart": {"always"}, "RestartPreventExitStatus": nil, // a mended file is enough
		},
		"steadycast-ledger.service": {
			"Type": {"notify"}, "Requires": nil, "BindsTo": nil, "StartLimitIntervalSec": {"0"},
			"Restart": {"always"}, "RestartPreventExitStatus": {"65"},
		},
		"steadycast.target": {"Requires": nil, "BindsTo": nil},
	} {
		b, err := os.ReadFile(filepath.Join(unitDir, name))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
				got[key] = append(got[key], value)
			}
		}
		for key, values := range want {
			if !slices.Equal(got[key], values) {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], values)
			}
		}
	}
}
