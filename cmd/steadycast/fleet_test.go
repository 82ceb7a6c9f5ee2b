package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/loopback"
	"github.com/steadycast/steadycast/internal/pki"
)

// soon bounds a wait for what should come in seconds; it is only met by a fault.
const soon = 45 * time.Second

var anycastPrefix = netip.MustParsePrefix("192.0.2.80/32")

// edge is a fleet of three sites on one host: real processes of the real command,
// three for each node, with certificates of an authority of their own and a
// router for each. The sites watch each other over the loopback interface.
type edge struct {
	*testing.T
	dir   string
	nodes []*edgeNode
}

// edgeNode is one site's node, its service and its router.
type edgeNode struct {
	f         *edge
	site, dir string
	at        netip.AddrPort
	router    *sink.Router
	serving   net.Listener
	roles     map[string]*exec.Cmd
	log       *edgeLog
	api       *api.Client
}

type edgeLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *edgeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *edgeLog) count(parts ...string) (n int) {
	l.mu.Lock()
	text := l.b.String()
	l.mu.Unlock()
	for line := range strings.Lines(text) {
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

func newEdge(t *testing.T) *edge {
	t.Helper()
	dir, err := os.MkdirTemp("", "sc-edge-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &edge{T: t, dir: dir}
	now := time.Now()
	ca, err := pki.Init(filepath.Join(dir, "ca"), "edge", now)
	if err != nil {
		t.Fatal(err)
	}
	pen, err := pki.NewPen(filepath.Join(dir, "maria.key"), "maria", steadycast.Admin)
	if err != nil {
		t.Fatal(err)
	}
	f.write("maria.pub", pen.String()+"\n")
	service := loopback.Own(t)
	peers, sites := "", ""
	for _, site := range []string{"ams", "fra", "lon"} {
		n := &edgeNode{f: f, site: site, dir: filepath.Join(dir, site), roles: map[string]*exec.Cmd{}, log: &edgeLog{}}
		n.at = netip.AddrPortFrom(loopback.Own(t).Addr(), service.Port())
		f.nodes = append(f.nodes, n)
		if _, err := ca.Issue(pki.Identity{Fleet: "edge", Site: site, Node: site + "-1"}, filepath.Join(n.dir, "pki"), 24*time.Hour, now); err != nil {
			t.Fatal(err)
		}
		if n.router, err = sink.Listen(sink.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.router.Close() })
		n.api = api.NewClient(filepath.Join(n.dir, "agent.sock"))
		t.Cleanup(n.api.Close)
		sites += fmt.Sprintf("  - {name: %[1]s, address: [%[2]v], nodes: [{name: %[1]s-1, mesh: %[2]v:7482}]}\n", site, n.at.Addr())
		peers += fmt.Sprintf("    - {node: %[1]s-1, address: %[2]v:7481, failure_domain: %[1]s, mesh: %[2]v:7483}\n", site, n.at.Addr())
		n.serve(true)
		t.Cleanup(func() { n.serve(false) })
	}
	for i, n := range f.nodes {
		f.write(n.site+".yaml", fmt.Sprintf(`mode: fleet
fleet: edge
site: %[1]s
roles: [speaker, agent, ledger]
state_dir: %[2]s
run_dir: %[2]s
tls: {dir: %[2]s/pki}
metrics: {listen: "off"}
vip: {manage: "off"}
mesh: {listen: "%[3]v:7482"}
ledger:
  max_rtt: 50ms
  peers:
%[4]sstop: {drain: 100ms, after_withdraw: 50ms}
bgp:
  asn: %[5]d
  router_id: 10.0.0.%[6]d
  allow: [192.0.2.0/24]
  neighbors:
    - {name: tor1, address: 127.0.0.1, port: %[7]d, asn: 65000, next_hop4: 10.0.0.%[6]d, families: [ipv4], connect_retry: 100ms}
`, n.site, n.dir, n.at.Addr(), peers, 65001+i, i+1, n.router.Addr().Port()))
	}
	// The site's own check reads what the service itself says of its health, in the
	// working directory of the agent that looks: all nodes have the same table.
	f.write("fleet.yaml", fmt.Sprintf(`sites:
%sservices:
  - name: web
    prefixes: [192.0.2.80/32]
    health: {interval: 500ms, fast_interval: 200ms, fall: 2, down_for: 100ms, rise: 3, hold_up: 1s}
    checks: [{name: said, kind: file, target: /proc/self/cwd/health, file: {max_age: 1h}}]
    remote: {checks: [{name: port, kind: tcp, target: "{address}:%d"}]}
guards: {cooldown: 50ms, site_budget: 100, site_long_budget: 100, fleet_budget: 100, lock_cycles: 100}
drain_wait: 200ms
`, sites, service.Port()))
	return f
}

func (f *edge) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *edge) node(site string) *edgeNode {
	return f.nodes[slices.IndexFunc(f.nodes, func(n *edgeNode) bool { return n.site == site })]
}

// command runs the command to its end.
func (f *edge) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(f.Context(), soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = "steadycast"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// until waits for a condition.
func (f *edge) until(what string, ok func() bool) {
	f.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); !ok(); <-tick.C {
		if time.Now().After(end) {
			for _, n := range f.nodes {
				f.Logf("%s: %v", n.site, n.router.Table())
			}
			f.Fatalf("never: %s\nthe processes said:\n%s", what, f.said())
		}
	}
}

func (f *edge) said() string {
	text := ""
	for _, n := range f.nodes {
		n.log.mu.Lock()
		text += "── " + n.site + "\n" + n.log.b.String()
		n.log.mu.Unlock()
	}
	return text
}

// leads is the node whose voter leads.
func (f *edge) leads() string {
	for _, n := range f.nodes {
		out, err := f.command("ledger", "members", "-c", filepath.Join(f.dir, n.site+".yaml"), "-o", "json")
		var s ledger.Survey
		if err != nil || json.Unmarshal([]byte(out), &s) != nil {
			continue
		}
		for _, v := range s.Voters {
			if v.State != nil && v.State.Role == "leader" {
				return strings.TrimSuffix(v.Node, "-1")
			}
		}
	}
	return ""
}

// serve starts the site's service, or ends it.
func (n *edgeNode) serve(up bool) {
	n.f.Helper()
	word := "down"
	if up {
		word = "up"
	}
	if err := os.WriteFile(filepath.Join(n.dir, "health.new"), []byte(word+"\n"), 0o644); err == nil {
		_ = os.Rename(filepath.Join(n.dir, "health.new"), filepath.Join(n.dir, "health"))
	}
	switch {
	case up:
		n.serving = loopback.Listen(n.f, n.at)
		go func(l net.Listener) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}(n.serving)
	case n.serving != nil:
		n.serving.Close()
		n.serving = nil
	}
}

// start runs one role of the node.
func (n *edgeNode) start(role string) {
	n.f.Helper()
	cmd := exec.Command("/proc/self/exe", role, "-c", filepath.Join(n.f.dir, n.site+".yaml"))
	cmd.Args[0], cmd.Dir, cmd.Stderr = "steadycast", n.dir, n.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.f.Fatal(err)
	}
	n.roles[role] = cmd
	n.f.Cleanup(func() { n.kill(role) })
}

func (n *edgeNode) kill(role string) {
	if cmd := n.roles[role]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(n.roles, role)
	}
}

// in reports whether the site's router has the route.
func (n *edgeNode) in() bool { return n.has(anycastPrefix) }

func (n *edgeNode) has(p netip.Prefix) bool {
	for _, routes := range n.router.Table() {
		if _, ok := routes[p]; ok {
			return true
		}
	}
	return false
}

func (n *edgeNode) updates() uint64 { return n.router.Updates(netip.MustParseAddr("127.0.0.1")) }

func (n *edgeNode) status() (st api.Status, err error) {
	err = n.api.Get(n.f.Context(), "status", nil, &st)
	return st, err
}

// row is what the node's agent says of its own site.
func (n *edgeNode) row() (api.Row, bool) {
	st, err := n.status()
	if err != nil {
		return api.Row{}, false
	}
	i := slices.IndexFunc(st.Rows, func(r api.Row) bool { return r.Unit.Site == n.site })
	if i < 0 {
		return api.Row{}, false
	}
	return st.Rows[i], true
}

// out waits until the site's route is gone, and the others' stays.
func (f *edge) out(site string) {
	f.Helper()
	f.until(site+" leaves", func() bool {
		for _, n := range f.nodes {
			if n.site != site && !n.in() {
				f.Fatalf("%s has left, where only %s should\n%s", n.site, site, f.said())
			}
		}
		return !f.node(site).in()
	})
}

func (f *edge) allIn() {
	f.Helper()
	f.until("all announce, and all is proven", func() bool {
		for _, n := range f.nodes {
			row, ok := n.row()
			if !n.in() || !ok || row.State != api.Announced {
				return false
			}
		}
		return true
	})
}

// begin starts everything, and begins the ledger: by maria, and by one more
// operator if a file is named. Without a table nobody announces, and nobody asks why not.
func (f *edge) begin(name, public string) {
	f.Helper()
	for _, n := range f.nodes {
		for _, role := range []string{"speaker", "ledger", "agent"} {
			n.start(role)
		}
	}
	args := []string{"ledger", "init", filepath.Join(f.dir, "fleet.yaml"), "--operator", filepath.Join(f.dir, "maria.pub"),
		"-c", filepath.Join(f.dir, "ams.yaml"), "--reason", "first start"}
	if name != "" {
		f.write(name, public)
		args = append(args, "--operator", filepath.Join(f.dir, name))
	}
	f.until("the ledger begins", func() bool {
		out, err := f.command(args...)
		if err != nil {
			f.Log(out)
		}
		return err == nil
	})
}

// updates counts what all routers were told.
func (f *edge) updates() (n uint64) {
	for _, x := range f.nodes {
		n += x.updates()
	}
	return n
}

// TestFleet walks a fleet of nine processes through what happens to one, and
// looks at the routers each time.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := newEdge(t)
	f.begin("", "")
	ams, fra, lon := f.node("ams"), f.node("fra"), f.node("lon")
	f.allIn()

	// Another table: every node tries it, and all have it at once. It brings a
	// second prefix, and no node is asked but through the ledger.
	text, err := os.ReadFile(filepath.Join(f.dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	apply := func(text string) (string, error) {
		f.write("next.yaml", text)
		return f.command("apply", filepath.Join(f.dir, "next.yaml"), "--key", filepath.Join(f.dir, "maria.key"),
			"--socket", filepath.Join(ams.dir, "agent.sock"), "--reason", "a second prefix", "--yes", "--confirm-within", "24h")
	}
	next := strings.Replace(string(text), "prefixes: [192.0.2.80/32]", "prefixes: [192.0.2.80/32, 192.0.2.81/32]", 1)
	if out, err := apply(strings.Replace(next, "192.0.2.81/32", "203.0.113.81/32", 1)); err == nil || !strings.Contains(out, "203.0.113.81/32 is outside bgp.allow") {
		t.Errorf("a prefix that no node may announce: %v\n%s", err, out)
	}
	f.write("next.yaml", next)
	if out, err := f.command("diff", filepath.Join(f.dir, "next.yaml"), "--socket", filepath.Join(ams.dir, "agent.sock")); err != nil ||
		!strings.Contains(out, "fra: announced, once its checks pass and a permit is given: 192.0.2.81/32") || !strings.Contains(out, "guards: none would refuse it now") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := apply(next); err != nil || !strings.Contains(out, "revision 3 is on trial") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := f.command("confirm", "--key", filepath.Join(f.dir, "maria.key"), "--socket", filepath.Join(lon.dir, "agent.sock"), "--reason", "all is well", "--yes"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	f.until("all announce the second prefix", func() bool {
		return !slices.ContainsFunc(f.nodes, func(n *edgeNode) bool { return !n.has(netip.MustParsePrefix("192.0.2.81/32")) })
	})

	// A service dies: its site leaves on what the others see, with a permit.
	fra.serve(false)
	f.out("fra")
	f.until("the permit is told", func() bool {
		row, ok := fra.row()
		return ok && row.State == api.Withdrawn
	})
	if fra.log.count("msg=route", "prefix=192.0.2.80/32", "from=announced to=withdrawn", "withdrawn by permit r-1.", " of 3 voices fail (") != 1 {
		t.Errorf("it does not say by whose evidence it left:\n%s", f.said())
	}
	fra.serve(true)
	f.allIn()

	// The voter that leads is killed: another gives permits.
	leader := f.node(f.leads())
	leader.kill("ledger")
	lon.serve(false)
	f.out("lon")
	leader.start("ledger")
	lon.serve(true)
	f.allIn()

	// An agent is killed: nothing moves, and its site is judged again afterwards.
	before := ams.updates()
	alone := ams.log.count("role=speaker", "subject=agent", "msg=alarm")
	ams.kill("agent")
	f.until("the speaker says that it is alone", func() bool { return ams.log.count("role=speaker", "subject=agent", "msg=alarm") > alone })
	if !ams.in() || ams.updates() != before {
		t.Errorf("%d UPDATEs because an agent died", ams.updates()-before)
	}
	ams.start("agent")
	f.allIn()
	if got := ams.updates(); got != before {
		t.Errorf("%d UPDATEs because an agent was restarted", got-before)
	}

	// Any node takes an order for any site, by an operator's signature and not
	// without; and says when it is proven there.
	order := func(at *edgeNode, args ...string) (string, error) {
		return f.command(append(args, "--socket", filepath.Join(at.dir, "agent.sock"), "--reason", "new disks", "--yes")...)
	}
	if out, err := order(fra, "withdraw", "ams", "--key", filepath.Join(f.dir, "nobody.key")); err == nil || !strings.Contains(out, "takes what an operator signs") {
		t.Errorf("unsigned: %v\n%s", err, out)
	}
	if out, err := order(fra, "withdraw", "ams", "--key", filepath.Join(f.dir, "maria.key"), "--wait=60s"); err != nil || !strings.Contains(out, "proven after") {
		t.Errorf("%v\n%s", err, out)
	}
	f.out("ams")
	if out, err := order(lon, "undrain", "ams", "--key", filepath.Join(f.dir, "maria.key"), "--wait=60s"); err != nil || !strings.Contains(out, "proven after") {
		t.Errorf("%v\n%s", err, out)
	}
	f.allIn()

	// Most voters are gone: nothing moves, whatever is seen, and that is said.
	ams.kill("ledger")
	lon.kill("ledger")
	frozen := fra.log.count("role=agent", "msg=freeze", "to=frozen")
	moved := f.updates()
	fra.serve(false)
	f.until("fra says that it is frozen", func() bool { return fra.log.count("role=agent", "msg=freeze", "to=frozen") > frozen })
	row, ok := fra.row()
	if got := f.updates(); got != moved || !fra.in() || !ok || row.State == api.Withdrawn {
		t.Errorf("%d UPDATEs without a ledger; fra is %+v", got-moved, row)
	}
	// A node that starts now goes on from what it remembers.
	lon.kill("agent")
	lon.start("agent")
	f.until("lon judges its site by the table that it remembers", func() bool {
		row, ok := lon.row()
		return ok && row.State == api.Announced
	})
	if got := f.updates(); got != moved {
		t.Errorf("%d UPDATEs because an agent started without a ledger", got-moved)
	}
	// And when they are back, what must go goes.
	ams.start("ledger")
	lon.start("ledger")
	f.out("fra")
	fra.serve(true)
	f.allIn()
}
