package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

func shell(script string) *Exec { return &Exec{Argv: []string{"/bin/sh", "-c", script}} }

func TestExec(t *testing.T) {
	for name, c := range map[string]struct {
		set  *Exec
		want string
	}{
		"0":                 {shell("exit 0"), "up"},
		"0 with words":      {shell("echo all fine"), "up: all fine"},
		"1":                 {shell("echo queue is full; echo more; exit 1"), "down soft: /bin/sh: exit status 1: queue is full"},
		"1 with stderr":     {shell("echo oops >&2; exit 1"), "down soft: exit status 1: oops"},
		"2":                 {shell("exit 2"), "unknown: exit status 2, which is neither"},
		"126":               {shell("exit 126"), "unknown: exit status 126"},
		"killed":            {shell("kill -9 $$"), "unknown: was ended by signal: killed"},
		"no interpreter":    {&Exec{Argv: []string{noInterpreter(t)}}, "unknown: cannot run"},
		"directory missing": {&Exec{Argv: []string{"/bin/true"}, Dir: "/nonexistent"}, "unknown: cannot run"},
		"no shell":          {&Exec{Argv: []string{"/bin/echo", "$HOME", "; exit 1", "`id`"}}, "up: exit status 0: $HOME ; exit 1 `id`"},
		"environment":       {&Exec{Argv: []string{"/bin/sh", "-c", `echo "$SITE ${HOME-no home} ${PATH:+a path}"`}, Env: map[string]string{"SITE": "fra"}}, "up: exit status 0: fra no home a path"},
		"directory":         {&Exec{Argv: []string{"/bin/sh", "-c", "pwd"}, Dir: "/"}, "up: exit status 0: /"},
		"binary output":     {shell(`printf '\033[2J\000\377x\n'; exit 1`), "down soft: exit status 1: .[2J..x"},
		"own group":         {shell(`[ "$(ps -o pgid= -p $$ | tr -d ' ')" = $$ ]`), "up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, run(t, Check{Kind: "exec", Timeout: 10 * time.Second, Exec: c.set}), c.want)
		})
	}
}

func noInterpreter(t *testing.T) string {
	f := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(f, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

// alive reports whether a process runs; one that waits to be reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// pids waits for the file in which a script has written n process numbers.
func pids(t *testing.T, file string, n int) []int {
	var out []int
	eventually(t, "the script writes its process numbers", func() bool {
		b, _ := os.ReadFile(file)
		f := strings.Fields(string(b))
		if len(f) < n {
			return false
		}
		for _, s := range f {
			p, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return true
	})
	return out
}

// At the deadline the whole group goes, children that hold the output included.
func TestExecDeadlineKillsGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf(`sleep 1000 & echo $$ $! > %s.tmp; mv %[1]s.tmp %[1]s; echo still at it; trap '' TERM; sleep 1000`, file)
	began := time.Now()
	r := run(t, Check{Kind: "exec", Timeout: 500 * time.Millisecond, Exec: shell(script)})
	expect(t, r, "down soft: timeout: /bin/sh did not end and was killed with its group: still at it")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	for _, p := range pids(t, file, 2) {
		eventually(t, fmt.Sprintf("process %d of the group is gone", p), func() bool { return !alive(p) })
	}
}

// A command that ends while a child of it sleeps on the same output is judged
// at once, and the child goes too.
func TestExecChildHoldsOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf(`sleep 1000 & echo $! > %s.tmp; mv %[1]s.tmp %[1]s; echo done`, file)
	began := time.Now()
	r := run(t, Check{Kind: "exec", Timeout: time.Minute, Exec: shell(script)})
	expect(t, r, "up: done")
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("the child's output was waited for: %v", took)
	}
	for _, p := range pids(t, file, 1) {
		eventually(t, "the child is gone", func() bool { return !alive(p) })
	}
}

// A child that leaves the group escapes the kill, but holds nobody up.
func TestExecEscapedChildHoldsNobody(t *testing.T) {
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		mayLack(t, "no setsid here")
	}
	file := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf(`setsid sh -c 'echo $$ > %s.tmp; mv %[1]s.tmp %[1]s; exec sleep 1000' & while [ ! -e %[1]s ]; do :; done; echo done`, file)
	began := time.Now()
	r := run(t, Check{Kind: "exec", Timeout: time.Minute, Exec: shell(script)})
	for _, p := range pids(t, file, 1) {
		defer syscall.Kill(p, syscall.SIGKILL)
	}
	expect(t, r, "up: done")
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("the child's output was waited for: %v", took)
	}
}

func TestExecOutputIsBounded(t *testing.T) {
	r := run(t, Check{Kind: "exec", Timeout: 20 * time.Second, Exec: shell(`head -c 20000000 /dev/zero | tr '\0' x; exit 1`)})
	expect(t, r, "down soft: exit status 1: xxxx")
	if len(r.Reason) > 300 {
		t.Errorf("the reason has %d bytes", len(r.Reason))
	}
}

// Stopping is not a failure of the service.
func TestExecStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(context.Background())
	c := compiled(t, Check{Kind: "exec", Timeout: 30 * time.Second, Exec: shell(fmt.Sprintf(`echo $$ > %s.tmp; mv %[1]s.tmp %[1]s; exec sleep 1000`, file))}, Env{})
	done := make(chan steadycast.Result)
	go func() { done <- c.Run(ctx) }()
	p := pids(t, file, 1)[0]
	cancel()
	expect(t, <-done, "unknown: stopped before it had ended")
	if alive(p) {
		t.Error("the command still runs")
	}
}
