package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemoWelcome types what the demo says to type, as it stands there, and ends
// it as it says. The orders among them are signed by the demo's operator, whose key
// nobody names.
func TestDemoWelcome(t *testing.T) {
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

	demo := exec.Command("steadycast", "demo", "--for", "5m")
	var stderr bytes.Buffer
	demo.Stderr = &stderr
	stdout, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = demo.Process.Kill() }()
	var told []string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C") {
		if line, ok := strings.CutPrefix(lines.Text(), "  steadycast "); ok {
			line, _, _ = strings.Cut(line, "   ") // what follows is an explanation
			told = append(told, "steadycast "+line)
		}
	}
	if len(told) < 6 {
		t.Fatalf("it tells to type %q; %s", told, &stderr)
	}
	go func() { // nobody reads on
		for lines.Scan() {
		}
	}()
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

	if err := demo.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := demo.Wait(); err != nil {
		t.Errorf("it ends with %v; %s", err, &stderr)
	}
	if left, err := os.ReadDir(short); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
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
