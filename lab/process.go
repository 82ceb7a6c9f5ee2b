package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one program running in a room, in a process group of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it and all it started have ended
	left error         // what would not end; read it after done
}

// start runs argv in the room, its output into log.
func (r *room) start(argv []string, env map[string]string, log *logBook) (*process, error) {
	p := &process{done: make(chan struct{})}
	err := r.do(func() error {
		// Inside, because the path is looked up in the node's own root.
		p.cmd = r.command(argv, env)
		p.cmd.Stdout, p.cmd.Stderr = log, log
		p.cmd.WaitDelay = 100 * time.Millisecond // its children may hold its output
		return p.cmd.Start()
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", r.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		// As in a container: when its process ends, the rest goes too.
		p.left = r.clear()
		close(p.done)
	}()
	return p, nil
}

// output runs argv to its end, or kills it with ctx, and gives its exit code.
func (r *room) output(ctx context.Context, argv []string) (stdout, stderr []byte, code int, err error) {
	var cmd *exec.Cmd
	var out, errs bytes.Buffer
	err = r.do(func() error {
		cmd = r.command(argv, nil)
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.WaitDelay = time.Second
		return cmd.Start()
	})
	if err != nil {
		return nil, nil, -1, fmt.Errorf("node %s: %w", r.name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out.Bytes(), errs.Bytes(), -1, fmt.Errorf("%s: %w", strings.Join(argv, " "), ctx.Err())
	case errors.As(err, &exit):
		return out.Bytes(), errs.Bytes(), exit.ExitCode(), nil
	case err != nil:
		return out.Bytes(), errs.Bytes(), -1, err
	}
	return out.Bytes(), errs.Bytes(), 0, nil
}

func (r *room) command(argv []string, env map[string]string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Dir = "/"
	// No Pdeathsig: the room's process 1 has it, and takes all others along.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for p and all it started to end.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.left
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", strings.Join(p.cmd.Args, " "), ctx.Err())
	}
}

// pids lists the room's processes but for its first, by the host's numbers.
// Those that have ended and were not yet waited for are left out.
func (r *room) pids() (out []int) {
	ours, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", r.pid()))
	if err != nil {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		if ns, err := os.Readlink(link); err != nil || ns != ours {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
		if pid != r.pid() && alive(pid) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// alive is false for a process that has ended but was not yet waited for.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// pid (name, which may hold anything) state …
	_, rest, ok := strings.Cut(string(b[max(0, bytes.LastIndexByte(b, ')')):]), ") ")
	return err == nil && ok && rest[0] != 'Z' && rest[0] != 'X'
}

// clear kills all that runs in the room, again until nothing is left: what is
// killed may just have started something else.
func (r *room) clear() error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		pids := r.pids()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %s: processes %v are not gone 5s after SIGKILL", r.name, pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// playing reports whether process pid plays a role: `steadycast speaker …`
// plays speaker, `/usr/lib/frr/bgpd …` plays bgpd.
func playing(pid int, role string) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	argv := strings.Split(string(b), "\x00")
	return filepath.Base(argv[0]) == role || len(argv) > 1 && argv[1] == role
}

// logBook keeps what a node's processes wrote, up to a bound: the oldest half
// goes first. It is written by the processes' copiers and read by the player.
type logBook struct {
	mu   sync.Mutex
	text []byte
}

const logBound = 256 << 10

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text)+len(b) > logBound {
		l.text = append([]byte("… the oldest lines were dropped …\n"), l.text[len(l.text)/2:]...)
	}
	l.text = append(l.text, b...)
	return len(b), nil
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
