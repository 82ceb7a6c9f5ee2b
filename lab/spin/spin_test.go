package spin

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var full = flag.Bool("full", false, "check the larger instances as well: some minutes and 3 GB of memory")

// instance is one size of the model, and how its states are kept.
type instance struct {
	name   string
	define []string // of the model
	keep   []string // of the checker
	full   bool     // too large for every run of the tests
}

// Hash compaction keeps 64 bits of each state: of some million states the chance
// that one is missed is one in a million. Collapsed states are kept whole.
var instances = []instance{
	{"two sites, floor 1, two requests", []string{"-DSITES=2", "-DFLOOR=1", "-DIDS=2"}, []string{"-DHC4"}, false},
	{"three sites, floor 2, one request", []string{"-DSITES=3", "-DFLOOR=2", "-DIDS=1"}, []string{"-DHC4"}, false},
	{"three sites, floor 1, one request", []string{"-DSITES=3", "-DFLOOR=1", "-DIDS=1"}, []string{"-DCOLLAPSE"}, true},
	{"two sites, floor 1, two requests, every state whole", []string{"-DSITES=2", "-DFLOOR=1", "-DIDS=2"}, []string{"-DCOLLAPSE"}, true},
	{"two sites, floor 1, three requests", []string{"-DSITES=2", "-DFLOOR=1", "-DIDS=3"}, []string{"-DHC4"}, true},
	// Beyond what memory holds: one or two bits for each state, so most of them.
	{"three sites, floor 2, two requests", []string{"-DSITES=3", "-DFLOOR=2", "-DIDS=2"}, []string{"-DBITSTATE"}, true},
}

// mutants are the rejected rules, each with what it breaks first.
var mutants = map[string]string{
	"RECLAIM":    "phase[0]!=0",
	"SELFCOUNT":  "announcing>=1",
	"RETURNING":  "announcing>=1",
	"BEATSONLY":  "announcing>=1",
	"VOIDSILENT": "phase[i]!=0",
	"LATEACT":    "phase[i]!=0",
}

// TestPermit: no order of events breaks the permit protocol.
func TestPermit(t *testing.T) {
	for _, i := range instances {
		if i.full && !*full {
			continue // `make spin` checks it
		}
		t.Run(i.name, func(t *testing.T) {
			said, dir := check(t, "permit.pml", i.define, i.keep)
			if broken := assertion.FindString(said); broken != "" || !strings.Contains(said, "errors: 0") {
				t.Fatalf("%s\n%s", said, trail(t, "permit.pml", dir, i.define))
			}
			if strings.Contains(said, "max search depth too small") || strings.Contains(said, "reached -DMEMLIM") {
				t.Fatalf("it did not look everywhere:\n%s", said)
			}
			t.Log(states.FindString(said))
		})
	}
}

// TestMutants: with each rejected rule something does break.
func TestMutants(t *testing.T) {
	for name, breaks := range mutants {
		t.Run(name, func(t *testing.T) {
			said, _ := check(t, "permit.pml", []string{"-D" + name}, []string{"-DHC4"})
			broken := assertion.FindString(said)
			if !strings.Contains(broken, breaks) {
				t.Fatalf("it should break %s:\n%s", breaks, said)
			}
			t.Log(broken)
		})
	}
}

var (
	assertion = regexp.MustCompile(`(?m)^pan:1: assertion violated .*$`)
	states    = regexp.MustCompile(`\d+ states, stored`)
)

// check makes the checker of one instance, runs it, and returns what it says
// and the directory with what it left.
func check(t *testing.T, file string, define, keep []string, more ...string) (said, dir string) {
	t.Helper()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v: make setup installs it", err)
			}
			t.Skipf("%v: make setup installs it", err)
		}
	}
	dir = t.TempDir()
	model, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	run := func(command string, args ...string) string {
		c := exec.CommandContext(t.Context(), command, args...)
		c.Dir, c.WaitDelay = dir, time.Second
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("spin", append(append([]string{"-a"}, define...), model)...)
	run("gcc", append([]string{"-w", "-O1", "-DSAFETY", "-DMEMLIM=3000", "-o", "pan", "pan.c"}, keep...)...)
	args := []string{"-m500000", "-E"} // a process that waits for ever is no error here
	if keep[0] == "-DBITSTATE" {
		args = append(args, "-w32")
	}
	return run("./pan", append(args, more...)...), dir
}

// trail is the way to what was found, the last of it.
func trail(t *testing.T, file, dir string, define []string) string {
	t.Helper()
	model, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "spin", append(append([]string{"-p", "-g", "-k", file + ".trail"}, define...), model)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(out), "\n")
	return strings.Join(lines[max(0, len(lines)-120):], "\n")
}
