package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lab is a topology that is up. It belongs to the goroutine that called [Up];
// only the rooms inside it run on threads of their own.
type Lab struct {
	topo  *Topology
	nodes map[string]*member
}

// member is one node of a lab that is up.
type member struct {
	node *Node
	room *room
	main *process // what its cmd or image started; nil if nothing
	log  *logBook
	wire *capture // of a router: what reaches it
}

// Programs are the binaries that stand in for the project's own image, by the
// name they have in every node, with their path on this machine.
type Programs map[string]string

// Missing lists what this machine lacks to build the topology, in words; none
// means that [Up] can work.
func Missing(t *Topology) []string {
	var out []string
	if os.Geteuid() != 0 {
		out = append(out, "root, to make namespaces")
	}
	for _, n := range t.Nodes {
		for _, p := range append([]string{"ip"}, needs(n.Image)...) {
			if _, err := exec.LookPath(p); err != nil {
				out = append(out, fmt.Sprintf("%s, for node %s (%s)", p, n.Name, n.Image))
			}
		}
	}
	return out
}

// Up builds the topology and starts its nodes: namespaces, then links, then
// each node's exec, then its process. (containerlab starts the process before
// the links exist; a daemon must bear both.) On an error, or when ctx ends
// first, nothing is left. The lab stays up until [Lab.Down].
func Up(ctx context.Context, t *Topology, programs Programs) (*Lab, error) {
	if m := Missing(t); len(m) > 0 {
		return nil, fmt.Errorf("%s cannot be built here; missing: %s", t.Name, strings.Join(m, "; "))
	}
	whole := Programs{}
	for name, path := range programs {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		whole[name] = abs
	}
	l := &Lab{topo: t, nodes: map[string]*member{}}
	if err := l.build(ctx, whole); err != nil {
		l.Down()
		return nil, err
	}
	return l, nil
}

func (l *Lab) build(ctx context.Context, programs Programs) error {
	// The first fork of a Go program tries out pidfds with a child of its own;
	// that child must not become the first process of a room.
	if err := exec.CommandContext(ctx, "ip", "-V").Run(); err != nil {
		return fmt.Errorf("ip: %w", err)
	}
	// Nodes that share a network come after those that own one.
	for _, sharing := range []bool{false, true} {
		for i := range l.topo.Nodes {
			n := &l.topo.Nodes[i]
			host, shares := n.sharesNetworkOf()
			if shares != sharing {
				continue
			}
			var of *room
			if shares {
				of = l.nodes[host].room
			}
			r, err := newRoom(n.Name, of, l.topo.binds(*n), programs)
			if err != nil {
				return err
			}
			m := &member{node: n, room: r, log: &logBook{}}
			l.nodes[n.Name] = m
			if routerOf(n.Image) != "" {
				if m.wire, err = startCapture(r); err != nil {
					return err
				}
			}
			if err := l.settle(ctx, n, shares); err != nil {
				return err
			}
		}
	}
	for _, k := range l.topo.Links {
		if err := l.link(ctx, k); err != nil {
			return err
		}
	}
	for _, n := range l.topo.Nodes {
		for _, c := range n.Exec {
			argv, err := words(magic(c, n.Name))
			if err != nil {
				return err
			}
			if err := l.must(ctx, n.Name, argv...); err != nil {
				return err
			}
		}
	}
	for _, n := range l.topo.Nodes {
		if err := l.Start(n.Name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// settle does what a container engine does before the first process runs.
func (l *Lab) settle(ctx context.Context, n *Node, shares bool) error {
	if !shares {
		if err := l.must(ctx, n.Name, "ip", "link", "set", "lo", "up"); err != nil {
			return err
		}
	}
	for k, v := range n.Sysctls {
		if err := l.must(ctx, n.Name, "sysctl", "-q", "-w", k+"="+v); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) link(ctx context.Context, k Link) error {
	a, ifa, _ := strings.Cut(k.Endpoints[0], ":")
	b, ifb, _ := strings.Cut(k.Endpoints[1], ":")
	pid := func(node string) string { return strconv.Itoa(l.nodes[node].room.pid()) }
	argv := []string{"ip", "link", "add", ifa, "netns", pid(a), "type", "veth", "peer", "name", ifb, "netns", pid(b)}
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("link %s — %s: %s: %w", k.Endpoints[0], k.Endpoints[1], strings.TrimSpace(string(out)), err)
	}
	for _, end := range []struct{ node, ifname string }{{a, ifa}, {b, ifb}} {
		argv := []string{"ip", "link", "set", end.ifname, "up"}
		if k.MTU > 0 {
			argv = append(argv, "mtu", strconv.Itoa(k.MTU))
		}
		if err := l.must(ctx, end.node, argv...); err != nil {
			return err
		}
	}
	return nil
}

// must runs a command in a node and makes an error of a bad exit.
func (l *Lab) must(ctx context.Context, node string, argv ...string) error {
	stdout, stderr, code, err := l.Exec(ctx, node, argv)
	if err == nil && code != 0 {
		err = fmt.Errorf("node %s: %s: exit %d: %s", node, strings.Join(argv, " "), code, strings.TrimSpace(string(stderr)+string(stdout)))
	}
	return err
}

// Down ends every process and namespace of the lab. It may be called twice.
func (l *Lab) Down() {
	for _, sharing := range []bool{true, false} {
		for _, m := range l.nodes {
			if _, shares := m.node.sharesNetworkOf(); shares == sharing && m.room != nil {
				m.room.close()
				m.room = nil
				if m.wire != nil {
					m.wire.close()
				}
			}
		}
	}
}

// Exec runs argv in a node and waits for it. A bad exit code is not an error.
func (l *Lab) Exec(ctx context.Context, node string, argv []string) (stdout, stderr []byte, code int, err error) {
	m, err := l.member(node)
	if err != nil {
		return nil, nil, -1, err
	}
	return m.room.output(ctx, argv)
}

func (l *Lab) member(node string) (*member, error) {
	m := l.nodes[node]
	if m == nil || m.room == nil {
		return nil, fmt.Errorf("%s has no node %q that is up", l.topo.Name, node)
	}
	return m, nil
}

// Start starts the node's process, as at [Up] or again after it ended.
func (l *Lab) Start(node string) error {
	m, err := l.member(node)
	if err != nil {
		return err
	}
	if m.main != nil && m.main.running() {
		return fmt.Errorf("node %s is already running", node)
	}
	argv, err := m.node.command()
	if err != nil || argv == nil {
		return err
	}
	m.main, err = m.room.start(argv, m.node.Env, m.log)
	return err
}

// Stop asks the node's process to end, as `docker stop` does, and waits.
func (l *Lab) Stop(ctx context.Context, node string) error {
	m, err := l.running(node)
	if err != nil {
		return err
	}
	if err := m.main.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return m.main.wait(ctx)
}

// Kill kills all that runs in the node, as `docker kill` does.
func (l *Lab) Kill(ctx context.Context, node string) error {
	m, err := l.running(node)
	if err != nil {
		return err
	}
	if err := m.room.clear(); err != nil {
		return err
	}
	return m.main.wait(ctx)
}

// Signal sends sig to all that runs in a node, or with a role to those that
// play it (`speaker`, `bgpd`). It says to how many; none is an error.
func (l *Lab) Signal(node, role string, sig syscall.Signal) (int, error) {
	m, err := l.running(node)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pid := range m.room.pids() {
		if role != "" && !playing(pid, role) {
			continue
		}
		if err := syscall.Kill(pid, sig); err == nil {
			n++
		} else if !errors.Is(err, unix.ESRCH) {
			return n, err
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("node %s has no process that plays %q", node, role)
	}
	return n, nil
}

// running is the node, if its process is.
func (l *Lab) running(node string) (*member, error) {
	m, err := l.member(node)
	if err == nil && (m.main == nil || !m.main.running()) {
		err = fmt.Errorf("node %s is not running", node)
	}
	return m, err
}

// Log is what the node's processes wrote lately.
func (l *Lab) Log(node string) string {
	if m := l.nodes[node]; m != nil {
		return m.log.String()
	}
	return ""
}

// Enter is the command with which a person enters a node from another terminal.
func (l *Lab) Enter(node string) []string {
	m, err := l.member(node)
	if err != nil {
		return nil
	}
	return []string{"nsenter", "-t", strconv.Itoa(m.room.pid()), "-n", "-m", "-p", "-u", "-i"}
}
