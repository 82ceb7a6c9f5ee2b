package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that a benchmark has started, in a process group of its
// own. Its goroutine reads what it says, line by line, until it ends.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}

	mu    sync.Mutex
	lines []string
	read  int           // lines that expect has passed
	news  chan struct{} // closed and replaced with each line
}

// keepLines bounds what is kept of a program's words.
const keepLines = 1 << 15

// start runs argv in a namespace ("" is this one) and ends it with the benchmark.
func start(b testing.TB, ns string, env []string, argv ...string) *process {
	b.Helper()
	if ns != "" {
		argv = append([]string{"ip", "netns", "exec", ns}, argv...)
	}
	p := &process{name: strings.Join(argv, " "), cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), news: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, outWrite, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = outWrite, outWrite
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := running.start(p); err != nil {
		b.Fatalf("%s: %v", p.name, err)
	}
	outWrite.Close()
	go p.follow(out)
	b.Cleanup(func() { p.stop(5 * time.Second) })
	return p
}

func (p *process) follow(out *os.File) {
	defer close(p.done)
	defer out.Close()
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			p.mu.Lock()
			if len(p.lines) < keepLines {
				p.lines = append(p.lines, strings.TrimSuffix(line, "\n"))
			}
			close(p.news)
			p.news = make(chan struct{})
			p.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	_ = p.cmd.Wait()
	running.forget(p)
}

// say writes one line to the program.
func (p *process) say(b testing.TB, line string) {
	b.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		b.Fatalf("%s: %v\n%s", p.name, err, p.tail())
	}
}

// expect passes over lines until match says yes to one. Lines are passed once.
func (p *process) expect(b testing.TB, within time.Duration, what string, match func(line string) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		p.mu.Lock()
		news := p.news
		for p.read < len(p.lines) {
			line := p.lines[p.read]
			p.read++
			if match(line) {
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
		select {
		case <-news:
		case <-p.done:
			b.Fatalf("%s ended before it said %s:\n%s", p.name, what, p.tail())
		case <-ctx.Done():
			b.Fatalf("%s did not say %s within %v:\n%s", p.name, what, within, p.tail())
		}
	}
}

// now passes over every line that is there.
func (p *process) now(each func(line string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.read < len(p.lines); p.read++ {
		each(p.lines[p.read])
	}
}

// tail is the last that it said, for a failure.
func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-25):], "\n")
}

// pid of the program itself: ip netns exec becomes what it runs.
func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the program, and after patience its whole group.
func (p *process) stop(patience time.Duration) {
	_ = p.in.Close()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.kill()
	}
}

// kill ends the program's group without a word and waits for its end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.done: // its number may be another's by now
	default:
		_ = syscall.Kill(-p.pid(), s)
	}
}

// command runs a short program to its end.
func command(argv ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// running is every program, namespace and folder there is, so that an
// interrupt can end them too.
var running = registry{programs: map[*process]bool{}, rooms: map[string]bool{}}

type registry struct {
	mu       sync.Mutex
	over     bool
	programs map[*process]bool
	rooms    map[string]bool
	folders  []string
}

// folder makes one under parent ("" is where temporary files are), for as long
// as the benchmark runs. All programs of it must be started later, and so end first.
func (r *registry) folder(b testing.TB, parent string) string {
	b.Helper()
	dir, err := os.MkdirTemp(parent, "steadycast-bench-")
	if err != nil {
		b.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folders = append(r.folders, dir)
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

var errInterrupted = errors.New("interrupted")

func (r *registry) start(p *process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errInterrupted
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	r.programs[p] = true
	return nil
}

func (r *registry) forget(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.programs, p)
}

// said is the last that each running program said.
func (r *registry) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for p := range r.programs {
		fmt.Fprintf(&b, "── %s\n%s\n", p.name, p.tail())
	}
	return b.String()
}

// end kills every program and removes every namespace and folder; nothing starts
// after it.
func (r *registry) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for p := range r.programs {
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	}
	for name := range r.rooms {
		removeRoom(name)
	}
	for _, dir := range r.folders {
		_ = os.RemoveAll(dir)
	}
}
