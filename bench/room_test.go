package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The two ends of the cable between a router's namespace and an edge's, and
// what they are in BGP (RFC 5737, RFC 6996).
const (
	routerAddress = "198.51.100.1"
	edgeAddress   = "198.51.100.2"
	routerASN     = 64512
	edgeASN       = 64601
)

// cable is a router's and an edge's network namespace with a cable between.
type cable struct{ router, edge string }

var cables int

// lay makes a cable, or skips the benchmark with a word why it cannot.
func lay(b testing.TB, needs ...string) cable {
	b.Helper()
	if os.Geteuid() != 0 {
		lack(b, "network namespaces need root")
	}
	for _, program := range append(needs, "ip") {
		if _, err := exec.LookPath(program); err != nil {
			lack(b, fmt.Sprintf("%s is not installed (make setup installs it)", program))
		}
	}
	removeOld()
	cables++
	c := cable{roomName(cables, "r"), roomName(cables, "e")}
	for _, name := range []string{c.router, c.edge} {
		if err := addRoom(name); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { running.remove(name) })
	}
	for _, line := range []string{
		"ip link add up0 netns " + c.router + " type veth peer name up0 netns " + c.edge,
		"ip -n " + c.router + " addr add " + routerAddress + "/30 dev up0",
		"ip -n " + c.edge + " addr add " + edgeAddress + "/30 dev up0",
		"ip -n " + c.router + " link set up0 up", "ip -n " + c.edge + " link set up0 up",
		"ip -n " + c.router + " link set lo up", "ip -n " + c.edge + " link set lo up",
	} {
		if err := command(strings.Fields(line)...); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// lack skips a benchmark for want of something, and fails it under CI.
func lack(b testing.TB, why string) {
	b.Helper()
	if os.Getenv("CI") == "true" {
		b.Fatalf("CI must have it: %s", why)
	}
	b.Skip(why)
}

const roomPrefix = "sc-"

func roomName(n int, end string) string {
	return fmt.Sprintf("%s%d-bench%d%s", roomPrefix, os.Getpid(), n, end)
}

func addRoom(name string) error {
	running.mu.Lock()
	defer running.mu.Unlock()
	if running.over {
		return errInterrupted
	}
	running.rooms[name] = true
	return command("ip", "netns", "add", name)
}

func (r *registry) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms[name] {
		delete(r.rooms, name)
		removeRoom(name)
	}
}

// removeRoom ends whatever still runs in a namespace, and removes it.
func removeRoom(name string) {
	if out, err := exec.Command("ip", "netns", "pids", name).Output(); err == nil {
		for _, text := range strings.Fields(string(out)) {
			if pid, err := strconv.Atoi(text); err == nil && pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	_ = command("ip", "netns", "del", name)
}

// removeOld removes what a run left behind that was killed: its process is gone.
func removeOld() {
	old, _ := filepath.Glob("/run/netns/" + roomPrefix + "*-bench*")
	for _, path := range old {
		name := filepath.Base(path)
		number, _, _ := strings.Cut(strings.TrimPrefix(name, roomPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			removeRoom(name)
		}
	}
}
