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
	done chan struct{} // closed once it has ended and its output is complete
}

// start runs argv in the room, its output into log.
func (r *room) start(argv []string, env map[string]string, log *logBook) (*process, error) {
	p := &process{done: make(chan struct{})}
	err := r.do(func() error {
		// Inside, because the path is looked up in the node's own root.
		p.cmd = r.command(argv, env)
		p.cmd.Stdout, p.cmd.Stderr = log, log
		return p.cmd.Start()
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", r.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
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

// family lists the pids of p and everything it has started, parents first, as
// far as they are alive.
func (p *process) family() []int {
	if !p.running() {
		return nil
	}
	children := map[int][]int{}
	for pid, parent := range parents() {
		children[parent] = append(children[parent], pid)
	}
	all := []int{p.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		kids := children[all[i]]
		slices.Sort(kids)
		all = append(all, kids...)
	}
	return all
}

// parents maps every living process of the machine to its parent.
func parents() map[int]int {
	out := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range dirs {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name, which may hold anything) state parent …
		_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ")
		f := strings.Fields(rest)
		if len(f) < 2 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		out[pid], _ = strconv.Atoi(f[1])
	}
	return out
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
