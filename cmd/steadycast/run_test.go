package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/loopback"
)

// roleOf finds the process of a role under the supervisor; 0 while there is none.
func roleOf(supervisor int, role string) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor)) // of all threads: any may have started it
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(b)) {
			line, _ := os.ReadFile("/proc/" + field + "/cmdline")
			if words := strings.Split(string(line), "\x00"); len(words) > 1 && words[1] == role {
				pid, _ := strconv.Atoi(field)
				return pid
			}
		}
	}
	return 0
}

// TestRunKeepsTheSocketsOfNames: the server of names under `steadycast run` is killed
// at once, again and again; who asks while nobody is there is answered by the next.
func TestRunKeepsTheSocketsOfNames(t *testing.T) {
	dir, err := os.MkdirTemp("", "sc-run-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	router, err := sink.Listen(sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Close() })
	at := loopback.Own(t)
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("cookies", strings.Repeat("5e", 16)+"\n")
	write("fleet.yaml", `sites: [{name: fra}]
services:
  - name: web
    prefixes: [192.0.2.80/32]
    checks: [{name: said, kind: file, target: /proc/self/cwd/health, file: {max_age: 1h}}]
zones:
  - {name: example.com, ns: [ns.example.net.], records: [www A 192.0.2.99]}
`)
	node := write("node.yaml", fmt.Sprintf(`site: fra
table: fleet.yaml
roles: [speaker, agent, dns]
state_dir: %[1]s
run_dir: %[1]s
metrics: {listen: "off"}
vip: {manage: "off"}
stop: {drain: 100ms, after_withdraw: 50ms}
bgp:
  asn: 65001
  router_id: 10.0.0.1
  allow: [192.0.2.0/24]
  neighbors:
    - {name: tor1, address: 127.0.0.1, port: %[2]d, asn: 65000, next_hop4: 10.0.0.1, families: [ipv4], connect_retry: 100ms}
dns: {listen: ["%[3]v"], workers: 2, identity: fra-1, metrics: "off", cookie_secrets: %[1]s/cookies}
`, dir, router.Addr().Port(), at))

	var log edgeLog
	cmd := exec.Command("steadycast", "run", "--config", node)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &log, &log, soon
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			log.mu.Lock()
			defer log.mu.Unlock()
			t.Errorf("the supervisor: %v\n%s", err, bytes.TrimSpace(log.b.Bytes()))
		}
	})

	// ask sends so many questions before it reads the answers, so that all wait together.
	ask := func(network string, n int) error {
		c, err := net.Dial(network, at.String())
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(soon))
		d := &dns.Conn{Conn: c}
		for i := range n {
			m := new(dns.Msg)
			m.SetQuestion("www.example.com.", dns.TypeA)
			m.Id = uint16(i)
			if err := d.WriteMsg(m); err != nil {
				return fmt.Errorf("question %d: %w", i, err)
			}
		}
		for i := range n {
			if m, err := d.ReadMsg(); err != nil || len(m.Answer) != 1 {
				return fmt.Errorf("answer %d: %w: %v", i, err, m)
			}
		}
		return nil
	}
	for end := time.Now().Add(soon); ask("udp", 1) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never answers")
		}
	}
	for round := range 2 {
		// Whoever answers has given its sockets away: that comes before it serves.
		was := roleOf(cmd.Process.Pid, "dns")
		if was == 0 {
			t.Fatal("it has no process for names")
		}
		if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for roleOf(cmd.Process.Pid, "dns") == was {
			time.Sleep(time.Millisecond)
		}
		for _, network := range []string{"udp", "tcp"} {
			if err := ask(network, 50); err != nil {
				t.Errorf("after kill %d, over %s: %v", round+1, network, err)
			}
		}
		if now := roleOf(cmd.Process.Pid, "dns"); now == 0 || now == was {
			t.Errorf("process %d answers after %d was killed", now, was)
		}
	}
}
