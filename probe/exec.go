package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/steadycast/steadycast"
	"golang.org/x/sys/unix"
)

// execProbe runs a command in a process group of its own. Exit status 0 is up,
// 1 down, anything else unknown: a script that fails to run has seen nothing.
//
// The group is killed at the deadline, and also when the command has ended, so
// that no child of it stays behind. Its output is a reason, one line of it; a
// child that keeps the output open holds nobody up, because the end of the
// process is waited for and not the end of its output.
type execProbe struct {
	set  Exec
	word *word
}

const maxOutput = 4 << 10

func execProblems(c Check) []Problem {
	var ps []Problem
	if len(c.Exec.Argv) == 0 || c.Exec.Argv[0] == "" {
		return append(ps, problem("exec.argv", "empty; write the command and its arguments as a list, no shell is run"))
	}
	ps = append(ps, absolutePath("exec.argv[0]", c.Exec.Argv[0])...)
	for _, k := range sortedKeys(c.Exec.Env) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(c.Exec.Env[k], "\x00") {
			ps = append(ps, problem("exec.env", "%q cannot be the name of a variable", k))
		}
	}
	if c.Exec.Dir != "" {
		ps = append(ps, absolutePath("exec.dir", c.Exec.Dir)...)
	}
	return ps
}

func compileExec(c Check, env Env) (body, error) {
	name := c.Exec.Argv[0]
	if st, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("exec.argv[0]: %w", err)
	} else if st.IsDir() || st.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("exec.argv[0]: %s is not executable", name)
	}
	return &execProbe{*c.Exec, env.word}, nil
}

func (p *execProbe) probe(ctx context.Context) steadycast.Result {
	// A pipe of ours, and not one that package exec copies from, so that Wait
	// returns when the process ends.
	out, in, err := os.Pipe()
	if err != nil {
		return unknown("cannot run %s: %v", p.set.Argv[0], err)
	}
	defer out.Close()
	cmd := exec.Command(p.set.Argv[0], p.set.Argv[1:]...)
	cmd.Dir = p.set.Dir
	cmd.Env = []string{"PATH=" + execPath()}
	for _, k := range sortedKeys(p.set.Env) {
		cmd.Env = append(cmd.Env, k+"="+p.set.Env[k])
	}
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	in.Close()
	if err != nil {
		return unknown("cannot run %s: %v", p.set.Argv[0], err)
	}
	text := make(chan string, 1)
	go func() { text <- drain(out) }()

	// The group's number cannot become another's while its leader is not reaped,
	// so no signal is sent after that.
	pid := cmd.Process.Pid
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { unix.Kill(-pid, unix.SIGKILL); close(killed) })
	awaitExit(pid)
	if !stop() {
		<-killed
	}
	unix.Kill(-pid, unix.SIGKILL) // whom the leader left behind
	err = cmd.Wait()
	out.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // what was written is there already
	return p.judge(ctx, err, <-text)
}

// awaitExit blocks until the process has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

func (p *execProbe) judge(ctx context.Context, err error, text string) steadycast.Result {
	name := p.set.Argv[0]
	because := ""
	if line := firstLine(text); line != "" {
		because = ": " + line
	}
	status := 0
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		if status = ee.ExitCode(); status < 0 {
			if ctx.Err() != nil {
				return soft("timeout: %s did not end and was killed with its group%s", name, because)
			}
			return unknown("%s was ended by %v%s", name, ee, because)
		}
	} else if err != nil {
		return unknown("%s: %v", name, err)
	}
	switch status {
	case 0:
		return up("exit status 0" + because)
	case 1:
		return p.word.of(soft("%s: exit status 1%s", name, because))
	default:
		return unknown("%s: exit status %d, which is neither up (0) nor down (1)%s", name, status, because)
	}
}

// drain keeps the first maxOutput bytes and reads the rest away, so that a
// command that writes much neither fills memory nor blocks on a full pipe.
func drain(r io.Reader) string {
	head, _ := io.ReadAll(io.LimitReader(r, maxOutput))
	io.Copy(io.Discard, r)
	return string(head)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return clip(line, 200)
}

// execPath is the only variable a command gets unasked.
func execPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}
