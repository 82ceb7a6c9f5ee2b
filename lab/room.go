package lab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// room is the set of namespaces a node lives in.
//
// One goroutine, [room.live], is locked to a thread that has entered them and
// never leaves: what runs there (a fork, a socket) is inside the node. The
// kernel kills the room's first process with that thread, and with it the
// process namespace, so a room cannot outlive the program that made it.
type room struct {
	name string
	// first is the room's process 1; its pid is the host's.
	first *exec.Cmd
	calls chan func()
	gone  chan struct{}
}

// newRoom makes the namespaces. A room with a host shares the host's network.
func newRoom(name string, host *room, files []bind, programs map[string]string) (*room, error) {
	r := &room{name: name, calls: make(chan func()), gone: make(chan struct{})}
	ready := make(chan error)
	go r.live(ready, func() error { return r.enter(host, files, programs) })
	if err := <-ready; err != nil {
		<-r.gone
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return r, nil
}

func (r *room) live(ready chan<- error, enter func() error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		// The first thread does not end, and its namespaces count as the
		// process's own: it must stay where it is. While it waits here, the
		// next try runs on another.
		go r.live(ready, enter)
		<-r.gone
		runtime.UnlockOSThread()
		return
	}
	defer close(r.gone)
	err := enter()
	if err != nil {
		r.end()
	}
	ready <- err
	if err != nil {
		return
	}
	for call := range r.calls {
		call()
	}
	r.end()
}

// do runs f on the room's thread.
func (r *room) do(f func() error) error {
	done := make(chan error, 1)
	r.calls <- func() { done <- f() }
	return <-done
}

// close ends every process of the room and its namespaces.
func (r *room) close() {
	close(r.calls)
	<-r.gone
}

func (r *room) end() {
	if r.first != nil {
		_ = r.first.Process.Kill()
		_ = r.first.Wait()
	}
}

func (r *room) enter(host *room, files []bind, programs map[string]string) error {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if host == nil {
		flags |= unix.CLONE_NEWNET
	} else if err := joinNetwork(host.pid()); err != nil {
		return err
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	if err := unix.Sethostname([]byte(r.name)); err != nil {
		return err
	}
	if err := buildRoot(files, programs); err != nil {
		return err
	}
	if err := r.startFirst(); err != nil {
		return err
	}
	return enterRoot()
}

// startFirst starts process 1, which only holds the namespaces. /proc must be
// mounted from inside the process namespace to show it, so it does that.
func (r *room) startFirst() error {
	const script = `mount -t proc proc ` + staging + `/proc && echo held && exec sleep infinity`
	r.first = exec.Command("sh", "-c", script)
	r.first.Args[0] = "lab-node-" + r.name
	r.first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := r.first.StdoutPipe()
	if err != nil {
		return err
	}
	r.first.Stderr = os.Stderr
	if err := r.first.Start(); err != nil {
		r.first = nil
		return fmt.Errorf("starting process 1: %w", err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "held" {
		return fmt.Errorf("process 1 did not come up")
	}
	return nil
}

func (r *room) pid() int { return r.first.Process.Pid }

func joinNetwork(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("joining the network of process %d: %w", pid, err)
	}
	return nil
}
