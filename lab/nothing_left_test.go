package lab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// raiseAndHang makes this test binary bring a lab up and hang, so that the test
// can end it in every way a person or a machine can.
const raiseAndHang = "LAB_TEST_RAISE"

func raiseAndWait() {
	topo, err := Load(os.Getenv(raiseAndHang))
	if err == nil {
		topo.node("edge").Cmd, topo.node("service").Cmd = "sleep infinity", "setsid sleep infinity"
		_, err = Up(context.Background(), topo, nil)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("up")
	select {}
}

// However the runner ends, its namespaces, processes, mounts and files are gone.
func TestNothingIsLeftBehind(t *testing.T) {
	file := "containerlab/single-frr.clab.yml"
	topo, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	need(t, topo)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			before := hostState(t)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), raiseAndHang+"="+file)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			if strings.TrimSpace(line) != "up" {
				t.Fatalf("the lab did not come up: %s", line)
			}
			var family []int
			var spaces map[string]bool
			waitFor(t, func() string { // a daemon that forks away may still be on its way
				family = offspring(cmd.Process.Pid)
				spaces = namespaces(family)
				if len(family) < 5 || len(spaces) != 14 { // five kinds of three nodes, one network shared
					return fmt.Sprintf("%d processes in %d namespaces: that is no lab:%s", len(family), len(spaces), census(family))
				}
				return ""
			})
			// The kernel gives the number of a namespace that is gone to the next
			// one, whosesoever it is: only processes that lived by now count.
			lived := births()
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()

			waitFor(t, func() string {
				for _, pid := range family {
					if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(b), ") Z ") {
						return fmt.Sprintf("process %d lives on: %s", pid, b)
					}
				}
				for pid, born := range births() {
					if lived[pid] != born {
						continue
					}
					for ns := range namespaces([]int{pid}) {
						if spaces[ns] {
							return fmt.Sprintf("process %d is still in %s", pid, ns)
						}
					}
				}
				if after := hostState(t); after != before {
					return "the host was:\n" + before + "\nand is now:\n" + after
				}
				return ""
			})
		})
	}
}

// Down takes everything along, and a lab can come up again at once.
func TestDown(t *testing.T) {
	topo, err := Load("containerlab/single-frr.clab.yml")
	if err != nil {
		t.Fatal(err)
	}
	need(t, topo)
	topo.node("edge").Cmd, topo.node("service").Cmd = "sleep infinity", "sleep infinity"
	for range 3 {
		l, err := Up(t.Context(), topo, nil)
		if err != nil {
			t.Fatal(err)
		}
		pids := l.nodes["edge"].room.pids()
		if len(pids) == 0 {
			t.Fatal("the edge is not running")
		}
		l.Down()
		l.Down()
		if err := syscall.Kill(pids[0], 0); err == nil {
			t.Errorf("process %d outlives Down", pids[0])
		}
		if _, _, _, err := l.Exec(t.Context(), "edge", []string{"true"}); err == nil {
			t.Error("a lab that is down ran a command")
		}
	}
}

// As in a container, what a node's process has started ends with it, even what
// has left its process group and holds its output.
func TestNodeEndsWhole(t *testing.T) {
	topo, err := Load("containerlab/single-frr.clab.yml")
	if err != nil {
		t.Fatal(err)
	}
	need(t, topo)
	topo.node("edge").Cmd, topo.node("service").Cmd = `sh -c "setsid sleep 1000 & (sleep 1000 & sleep 1000) & wait"`, "sleep infinity"
	l, err := Up(t.Context(), topo, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Down()
	room := l.nodes["edge"].room
	for what, end := range map[string]func() error{
		"stop": func() error { return l.Stop(t.Context(), "edge") },
		"kill": func() error { return l.Kill(t.Context(), "edge") },
	} {
		waitFor(t, func() string {
			if n := len(room.pids()); n < 4 {
				return fmt.Sprintf("%d processes have started", n)
			}
			return ""
		})
		if err := end(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if left := room.pids(); len(left) > 0 {
			t.Errorf("%s: processes %v are left", what, left)
		}
		if err := l.Start("edge"); err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
	}
}

// A lab that cannot be built halfway leaves nothing either.
func TestFailedUp(t *testing.T) {
	topo, err := Load("containerlab/single-frr.clab.yml")
	if err != nil {
		t.Fatal(err)
	}
	need(t, topo)
	for _, spoil := range []func(*Node){
		func(n *Node) { n.Exec = []string{"false"} },
		func(n *Node) { n.Exec = []string{"no-such-program"} },
		func(n *Node) { n.Cmd = "no-such-program" },
		func(n *Node) { n.Binds = []string{"configs/none:/etc/none"} },
	} {
		spoilt := *topo
		spoilt.Nodes = append([]Node(nil), topo.Nodes...)
		spoil(spoilt.node("edge"))
		if _, err := Up(t.Context(), &spoilt, nil); err == nil || !strings.Contains(err.Error(), "edge") && !strings.Contains(err.Error(), "none") {
			t.Errorf("got error %v, want one that names the place", err)
		}
	}
	waitFor(t, func() string {
		for _, pid := range offspring(os.Getpid())[1:] {
			return fmt.Sprintf("process %d is left", pid)
		}
		return ""
	})
}

// hostState is what a lab could leave on the host's file system. Named network
// namespaces are left out: a lab makes none, and other tests may.
func hostState(t *testing.T) string {
	t.Helper()
	f, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var mounts []string
	for line := range strings.Lines(string(f)) {
		f := strings.Fields(line)
		if at := f[1]; !strings.Contains(at, "/netns") && !strings.HasPrefix(at, os.TempDir()+"/") { // other tests' own
			mounts = append(mounts, line)
		}
	}
	staged, _ := filepath.Glob(staging + "/*")
	return fmt.Sprint(mounts, staged)
}

// offspring lists a process and all it has started that lives, parents first.
func offspring(pid int) []int {
	children := map[int][]int{}
	for pid, parent := range parents() {
		children[parent] = append(children[parent], pid)
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// parents maps every living process of the machine to its parent.
func parents() map[int]int {
	out := map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name, which may hold anything) state parent …
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); alive(pid) && len(f) > 1 {
			out[pid], _ = strconv.Atoi(f[1])
		}
	}
	return out
}

// births maps every living process to when it was started, in ticks since boot.
func births() map[int]string {
	out := map[int]string{}
	for pid := range parents() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); err == nil && len(f) > 19 {
			out[pid] = f[19] // field 22 of proc(5)
		}
	}
	return out
}

// namespaces are those that pids live in, other than this process' own.
func namespaces(pids []int) map[string]bool {
	out := map[string]bool{}
	for _, pid := range pids {
		for _, kind := range []string{"net", "mnt", "pid", "uts", "ipc"} {
			ours, _ := os.Readlink("/proc/self/ns/" + kind)
			if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err == nil && ns != ours {
				out[ns] = true
			}
		}
	}
	return out
}

// waitFor waits until what says nothing is wrong, and fails with its words
// after ten seconds.
func waitFor(t *testing.T, what func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		wrong := what()
		if wrong == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(wrong)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// census tells what processes are, and where.
func census(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(&b, "\n  %d %q:", pid, strings.ReplaceAll(string(cmd), "\x00", " "))
		for ns := range namespaces([]int{pid}) {
			b.WriteString(" " + ns)
		}
	}
	return b.String()
}
