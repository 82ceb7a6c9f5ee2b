package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/loopback"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/speaker"
)

// childRole in the environment makes this test binary one role's process.
const childRole, childConfig = "STEADYCAST_TEST_ROLE", "STEADYCAST_TEST_NODE"

func TestMain(m *testing.M) {
	name := os.Getenv(childRole)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := child(name, os.Getenv(childConfig)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is what cmd/steadycast does for a role, on a real node.yaml.
func child(name, file string) error {
	load := func() (*config.Config, config.Problems) {
		return config.Load(config.Options{File: file, Env: []string{}})
	}
	cfg, problems := load()
	if problems.Err() != nil {
		return problems
	}
	log, flush, err := role.NewLog(role.LogOptions{})
	if err != nil {
		return err
	}
	defer flush()
	log = log.With("role", name)
	n := cfg.Node
	return role.Run(context.Background(), role.Spec{Name: name, Logger: log}, func(ctx context.Context, p *role.Process) error {
		if name == "agent" {
			return Daemon(ctx, p, DaemonOptions{Config: cfg, Load: load, Logger: log})
		}
		return speaker.Run(ctx, p, speaker.Config{
			Node: n.Node, Socket: n.SpeakerSocket, StateDir: n.StateDir, AgentLost: n.AgentLost, AgentLostAfter: n.AgentLostAfter,
			StopDrain: n.Stop.Drain, AfterWithdraw: n.Stop.AfterWithdraw, StopTimeout: n.Stop.Timeout, Logger: log,
			Load: func() (bgp.Settings, bgp.VIPSettings, error) {
				cfg, problems := load()
				if err := problems.Err(); err != nil {
					return bgp.Settings{}, bgp.VIPSettings{}, err
				}
				return cfg.Node.BGP, cfg.Node.VIP, nil
			},
		})
	})
}

var (
	home   = netip.MustParseAddr("127.0.0.1")
	prefix = netip.MustParsePrefix("192.0.2.80/32")
	gshut  = steadycast.GracefulShutdown
)

const soon = 30 * time.Second

// node is one node of two processes, its router and its service, all on the
// loopback interface and without privileges.
type node struct {
	*testing.T
	dir    string
	router *sink.Router
	web    *web
	roles  map[string]*exec.Cmd
	log    *logFile
	api    *api.Client
	notify string // NOTIFY_SOCKET of what is started next
}

func newNode(t *testing.T) *node {
	t.Helper()
	r, err := sink.Listen(sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	dir, err := os.MkdirTemp("", "sc-node-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, dir: dir, router: r, web: newWeb(t), roles: map[string]*exec.Cmd{}, log: &logFile{}}
	n.api = api.NewClient(filepath.Join(dir, "agent.sock"))
	t.Cleanup(func() {
		n.api.Close()
		for name := range n.roles {
			n.kill(name)
		}
		if t.Failed() {
			t.Log("the processes said:\n" + n.log.String())
		}
		os.RemoveAll(dir)
	})
	n.write(nil)
	return n
}

// write puts node.yaml in place, with replacements.
func (n *node) write(change map[string]string) {
	n.Helper()
	text := fmt.Sprintf(`site: fra
state_dir: %[1]s
run_dir: %[1]s
socket: %[1]s/agent.sock
speaker_socket: %[1]s/speaker.sock
services:
  - name: web
    prefixes: [192.0.2.80/32]
    health: {interval: 100ms, fast_interval: 20ms, fall: 2, down_for: 50ms, rise: 3, hold_up: 300ms}
    checks:
      - {name: page, kind: http, target: "http://%[2]s/"}
guards: {cooldown: 50ms, site_budget: 100, site_long_budget: 100, lock_cycles: 100}
drain_wait: 200ms
vip: {manage: "off"}
stop: {drain: 300ms, after_withdraw: 50ms}
bgp:
  asn: 65001
  router_id: 192.0.2.1
  neighbors:
    - name: tor1
      address: 127.0.0.1
      port: %[3]d
      asn: 65000
      next_hop4: 192.0.2.1
      families: [ipv4]
      connect_retry: 100ms
metrics: {listen: "off"}
`, n.dir, n.web.addr, n.router.Addr().Port())
	for old, repl := range change {
		if strings.Count(text, old) != 1 {
			n.Fatalf("%q does not stand once in node.yaml", old)
		}
		text = strings.Replace(text, old, repl, 1)
	}
	if err := role.WriteFile(n.file(), []byte(text), 0o600); err != nil { // never half of it
		n.Fatal(err)
	}
}

func (n *node) file() string { return filepath.Join(n.dir, "node.yaml") }

func (n *node) start(name string) {
	n.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childRole+"="+name, childConfig+"="+n.file())
	if n.notify != "" {
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+n.notify, "WATCHDOG_USEC=400000")
	}
	cmd.Stderr = n.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	n.roles[name] = cmd
}

func (n *node) signal(name string, sig os.Signal) {
	n.Helper()
	if err := n.roles[name].Process.Signal(sig); err != nil {
		n.Fatal(err)
	}
}

func (n *node) kill(name string) {
	_ = n.roles[name].Process.Kill()
	_ = n.roles[name].Wait()
	delete(n.roles, name)
}

// ended waits for a role that was asked to end.
func (n *node) ended(name string) {
	n.Helper()
	cmd := n.roles[name]
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	select {
	case err := <-over:
		delete(n.roles, name)
		if err != nil {
			n.Errorf("%s: %v", name, err)
		}
	case <-time.After(soon):
		n.Fatalf("%s does not end", name)
	}
}

// routes waits for the router's table.
func (n *node) routes(what string, ok func(sink.Table) bool) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), soon)
	defer cancel()
	if err := n.router.Wait(ctx, ok); err != nil {
		n.Fatalf("the router never sees %s: %v", what, n.router.Table())
	}
}

func (n *node) in() {
	n.Helper()
	n.routes("the route", func(t sink.Table) bool { _, in := t[home][prefix]; return in })
}

func (n *node) out() {
	n.Helper()
	n.routes("the withdrawal", func(t sink.Table) bool { _, in := t[home][prefix]; return t[home] != nil && !in })
}

func (n *node) updates() uint64 { return n.router.Updates(home) }

// status waits until the agent answers and ok holds.
func (n *node) status(what string, ok func(*api.Status) bool) *api.Status {
	n.Helper()
	var st api.Status
	var err error
	for end := time.Now().Add(soon); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		st = api.Status{}
		if err = n.api.Get(n.Context(), "status", nil, &st); err == nil && ok(&st) {
			return &st
		}
	}
	n.Fatalf("the status never says %s: %v, %+v; rows %+v; alarms %+v", what, err, st.Summary, st.Rows, st.Alarms)
	return nil
}

// settled waits until the status says that all is as it should be.
func (n *node) settled() {
	n.Helper()
	n.status("that all is well", func(st *api.Status) bool { return st.Summary.Mark == "all well" })
}

func (n *node) order(kind, last string) error {
	var got api.Changed
	return n.api.Post(n.Context(), "orders", map[string]any{"kind": kind, "site": "fra", "reason": "test", "for": last}, &got)
}

func (n *node) reload(dryRun bool) api.Reload {
	n.Helper()
	var got api.Reload
	if err := n.api.Post(n.Context(), "reload", api.ReloadRequest{DryRun: dryRun}, &got); err != nil {
		n.Fatal(err)
	}
	return got
}

// web is a service that can be killed and started again on its address.
type web struct {
	t    *testing.T
	addr string
	ln   net.Listener
	srv  *http.Server
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{t: t, addr: loopback.Own(t).String()}
	w.up()
	t.Cleanup(func() { w.srv.Close() })
	return w
}

func (w *web) up() {
	w.t.Helper()
	w.ln = loopback.Listen(w.t, netip.MustParseAddrPort(w.addr))
	w.srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })}
	go w.srv.Serve(w.ln)
}

func (w *web) down() {
	w.ln.Close() // which the server does only if it has begun
	w.srv.Close()
}

// logFile keeps what the processes write.
type logFile struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count counts the lines that contain all the parts.
func (l *logFile) count(parts ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			n++
		}
	}
	return n
}
