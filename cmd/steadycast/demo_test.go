package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/dns"
	"github.com/steadycast/steadycast/internal/loopback"
)

// demoRun is a demo as a process of its own.
type demoRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	folder string // everything that it leaves behind is here
	told   []string
	stderr bytes.Buffer
}

// startDemo starts one and reads what it says to type.
func startDemo(t *testing.T, args ...string) *demoRun {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // no key of the person who runs this
	t.Setenv("TERM", "dumb")
	t.Setenv("STEADYCAST_KEY", "")
	t.Setenv("STEADYCAST_SOCKET", "")
	// The length of a socket's name is bounded (unix(7)), and that of a test's folder is not.
	short, err := os.MkdirTemp("/tmp", "sc-demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	t.Setenv("TMPDIR", short)

	d := &demoRun{t: t, cmd: exec.Command("steadycast", append([]string{"demo", "--for", "5m"}, args...)...), folder: short}
	d.cmd.Stderr = &d.stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C") {
		if line, ok := strings.CutPrefix(lines.Text(), "  steadycast "); ok {
			line, _, _ = strings.Cut(line, "   ") // what follows is an explanation
			d.told = append(d.told, "steadycast "+line)
		}
	}
	if len(d.told) < 6 {
		t.Fatalf("it tells to type %q; %s", d.told, &d.stderr)
	}
	go func() { // nobody reads on
		for lines.Scan() {
		}
	}()
	return d
}

// end stops it as a person does, and looks at what is left.
func (d *demoRun) end() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("it ends with %v; %s", err, &d.stderr)
	}
	if left, err := os.ReadDir(d.folder); err != nil || len(left) > 0 {
		d.t.Errorf("it leaves %v behind (%v)", left, err)
	}
}

// TestDemoWelcome types what the demo says to type, as it stands there, and ends
// it as it says. The orders among them are signed by the demo's operator, whose key
// nobody names.
func TestDemoWelcome(t *testing.T) { typeWelcome(t, startDemo(t)) }

// TestDemoWelcomeOfSeveral does the same at sites of two nodes, with the socket in
// the environment instead of in every line.
func TestDemoWelcomeOfSeveral(t *testing.T) {
	d := startDemo(t, "--nodes", "2")
	words := strings.Fields(d.told[0])
	t.Setenv("STEADYCAST_SOCKET", words[2])
	for i := range d.told {
		d.told[i] = strings.Replace(d.told[i], " --socket "+words[2], "", 1)
	}
	if !slices.Contains(d.told, "steadycast kill fra/fra-1") {
		t.Errorf("the welcome does not say how to kill one node: %q", d.told)
	}
	typeWelcome(t, d)
}

func typeWelcome(t *testing.T, d *demoRun) {
	told := d.told
	for _, line := range told {
		out, err := typed(t, line)
		follows := strings.HasSuffix(line, "-f")
		if follows && out == "" || !follows && err != nil {
			t.Errorf("$ %s\n%v\n%s", line, err, out)
		}
	}
	status := strings.TrimSuffix(told[0], " status")
	if out, err := typed(t, status+" status -o json"); err != nil || !strings.Contains(strings.ReplaceAll(out, " ", ""), `"actor":"demo"`) {
		t.Errorf("the order is not signed by the demo's operator: %v\n%s", err, out)
	}

	d.end()
}

// TestDemoExplainsNames asks the demo's server of names what clients are answered
// and why: who is given, by which method and table; and who is out once a service
// was killed or a person took its site away.
func TestDemoExplainsNames(t *testing.T) {
	d := startDemo(t, "--dns", loopback.Own(t).String())
	steadycast := strings.TrimSuffix(d.told[0], " status")
	if !slices.ContainsFunc(d.told, func(l string) bool { return l == steadycast+" dns resolve www.demo.test" }) {
		t.Errorf("the welcome does not say how to ask why: %q", d.told)
	}
	run := func(line string) string {
		t.Helper()
		out, err := typed(t, steadycast+" "+line)
		if err != nil {
			t.Fatalf("$ %s %s\n%v\n%s", steadycast, line, err, out)
		}
		return out
	}
	ask := func() (r dns.Resolved) {
		t.Helper()
		out := run("dns resolve www.demo.test --client 203.0.113.9 -o json")
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return r
	}
	var last dns.Resolved
	// until asks until so many are given and the branch has the words; versions only grow.
	until := func(what string, given int, words ...string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			r := ask()
			if r.Version < last.Version {
				t.Fatalf("%s: table %d after %d", what, r.Version, last.Version)
			}
			last = r
			branch := strings.Join(r.Branch, "\n")
			if len(r.Records) == given && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(branch, w) }) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %q by\n%s", what, r.Records, branch)
			}
		}
	}
	until("all are well", 3, "www.demo.test: all gives fra", "www.demo.test: all gives ams", "www.demo.test: all gives lhr")
	if last.Version == 0 || last.Node != "demo" || last.Mode != "normal" || last.Position == "" || last.Rcode != "NOERROR" {
		t.Errorf("%+v", last)
	}
	whole := last
	run("kill fra")
	until("the service of fra was killed", 2, "www.demo.test: fra is out: down: unhealthy: ", "all gives ams", "all gives lhr")
	if last.Version <= whole.Version || slices.ContainsFunc(last.Records, func(x string) bool { return x == whole.Records[0] }) {
		t.Errorf("table %d after %d gives %q", last.Version, whole.Version, last.Records)
	}
	run("heal fra")
	until("fra is well again", 3, "all gives fra")
	run(`withdraw lhr --reason "try it" --yes`)
	until("lhr was withdrawn", 2, "www.demo.test: lhr is out: web at lhr is forced down by demo: try it", "all gives fra", "all gives ams")

	text := run("dns resolve www.demo.test --client 203.0.113.9")
	for _, want := range []string{
		"  www.demo.test: lhr is out: web at lhr is forced down by demo: try it\n", "  www.demo.test: all gives fra\n",
		fmt.Sprintf("NOERROR, by table %d, for everyone\n", ask().Version), ", mode normal, at demo\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := run("dns status"); !strings.Contains(text, "demo answers.") || !strings.Contains(text, "demo.test") || !strings.Contains(text, "lhr maintenance") {
		t.Errorf("dns status:\n%s", text)
	}
	if out, err := typed(t, steadycast+" dns resolve www.demo.test --at 77"); err == nil || !strings.Contains(out, "the same by every revision") {
		t.Errorf("another revision: %v, %s", err, out)
	}
	d.end()
}

// typed runs a line as a shell does; what goes on by itself is ended after its
// first words.
func typed(t *testing.T, line string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	if !strings.HasSuffix(line, "-f") {
		out, err := c.CombinedOutput()
		return string(out), err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	first := bufio.NewScanner(stdout)
	first.Scan()
	if err := c.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return "", err
	}
	return first.Text(), c.Wait()
}
