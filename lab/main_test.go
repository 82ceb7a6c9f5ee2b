package lab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A scenario mostly waits, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(raiseAndHang) != "" {
		raiseAndWait()
	}
	_ = flag.Set("test.parallel", "5")
	code := m.Run()
	_ = os.RemoveAll(builtIn)
	os.Exit(code)
}

// builtIn is the folder of what [programs] built.
var builtIn string

// need skips what this machine cannot do, and fails where nothing may be left out.
func need(t testing.TB, topo *Topology, more ...string) {
	t.Helper()
	missing := Missing(topo)
	for _, p := range more {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	switch {
	case len(missing) == 0:
	case os.Getenv("CI") == "true":
		t.Fatalf("CI leaves nothing out; missing: %s", strings.Join(missing, "; "))
	default:
		t.Skipf("missing: %s", strings.Join(missing, "; "))
	}
}

func topologies(t *testing.T) []string {
	t.Helper()
	return files(t, "containerlab/*.clab.yml", os.Getenv("LAB_T"))
}

// files lists the files of a glob whose names match a regular expression; none is a failure.
func files(t *testing.T, glob, expr string) (out []string) {
	t.Helper()
	re, err := regexp.Compile(expr)
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if re.MatchString(strings.SplitN(filepath.Base(f), ".", 2)[0]) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		t.Fatalf("nothing of %v matches %q", all, expr)
	}
	return out
}

// programs builds the product and the service once, and a fleet's credentials;
// STEADYCAST_BIN names a product that is already built.
var programs = sync.OnceValues(func() (Programs, error) {
	dir, err := os.MkdirTemp("", "sc-lab-")
	if err != nil {
		return nil, err
	}
	builtIn = dir
	built := Programs{"steadycast": os.Getenv("STEADYCAST_BIN"), "lab-service": filepath.Join(dir, "lab-service")}
	if built["steadycast"] == "" {
		built["steadycast"] = filepath.Join(dir, "steadycast")
		if err := build(built["steadycast"], "../cmd/steadycast"); err != nil {
			return nil, err
		}
	}
	if err := build(built["lab-service"], "./service"); err != nil {
		return nil, err
	}
	return built, Credentials(context.Background(), ".", built["steadycast"], filepath.Join(dir, "pki"))
})

func build(to, pkg string) error {
	cmd := exec.Command("go", "build", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
