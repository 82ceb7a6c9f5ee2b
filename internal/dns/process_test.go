package dns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/loopback"
)

// host is a directory with a node's files, and what stands for its service
// manager: a socket that takes what a process wants kept.
type host struct {
	t       *testing.T
	dir     string
	at      netip.AddrPort
	metrics netip.AddrPort
	notify  *net.UnixConn

	mu   sync.Mutex
	kept []*os.File
	said []string
}

const nodeFile = `
site: fra
table: fleet.yaml
roles: [speaker, agent, dns]
state_dir: %[1]s/state
run_dir: %[1]s
bgp:
  asn: 65010
  router_id: 10.0.0.10
  allow: [192.0.2.80/32]
  neighbors: [{name: tor1, address: 10.0.0.1, asn: 65001}]
dns:
  listen: ["%[2]s"]
  workers: 2
  identity: fra-1
  metrics: "%[3]s"
  cookie_secrets: %[1]s/cookies
  query_log: {file: %[1]s/queries.json, sample: 1}
`

const soloTable = `
sites: [{name: fra}]
services:
  - name: web
    prefixes: [192.0.2.80/32]
    checks: [{name: port, kind: tcp, target: "192.0.2.80:80"}]
zones:
  - name: example.com
    ns: [ns.example.net.]
    records: [static A 192.0.2.99]
    names:
      - {name: www, service: web, members: [{site: fra, addresses: [192.0.2.1]}], anycast: [192.0.2.80]}
`

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), at: loopback.Own(t), metrics: loopback.Own(t)}
	h.write("node.yaml", fmt.Sprintf(nodeFile, h.dir, h.at, h.metrics))
	h.write("fleet.yaml", soloTable)
	h.write("cookies", strings.Repeat("5e", 16)+"\n")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(h.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	h.notify = c
	t.Cleanup(func() {
		c.Close()
		for _, f := range h.kept {
			f.Close()
		}
	})
	go h.manage()
	return h
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// manage does what a service manager does with FDSTORE=1 (sd_notify(3)).
func (h *host) manage() {
	data, rights := make([]byte, 4096), make([]byte, 4096)
	for {
		n, k, _, _, err := h.notify.ReadMsgUnix(data, rights)
		if err != nil {
			return
		}
		text := string(data[:n])
		h.mu.Lock()
		h.said = append(h.said, text)
		if strings.Contains(text, "FDSTORE=1") {
			messages, _ := unix.ParseSocketControlMessage(rights[:k])
			for _, m := range messages {
				fds, _ := unix.ParseUnixRights(&m)
				for _, fd := range fds { // the newest first, as a list that one pushes to
					h.kept = append([]*os.File{os.NewFile(uintptr(fd), "kept")}, h.kept...)
				}
			}
		}
		h.mu.Unlock()
	}
}

func (h *host) heard(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.said, "\n"), text)
}

// start starts a server with what is kept. It runs until it is stopped, or the test ends.
func (h *host) start() *exec.Cmd {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = nil
	// The pid is known to the process alone before it is one (sd_listen_fds(3)).
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+filepath.Join(h.dir, "node.yaml"), "NOTIFY_SOCKET="+filepath.Join(h.dir, "notify"))
	if len(h.kept) > 0 {
		names := strings.TrimSuffix(strings.Repeat(storeName+":", len(h.kept)), ":")
		cmd.Env = append(cmd.Env, fmt.Sprintf("LISTEN_FDS=%d", len(h.kept)), "LISTEN_FDNAMES="+names)
		cmd.ExtraFiles = h.kept
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		if h.t.Failed() {
			h.t.Logf("a server's log:\n%s", log.String())
		}
	})
	return cmd
}

func (h *host) client() *api.Client { return api.NewClient(filepath.Join(h.dir, "dns.sock")) }

func (h *host) answers(name, want string) {
	h.t.Helper()
	eventually(h.t, name+" is "+want, func() bool { return ask(h.at, name) == want })
}

// A server under a service manager that keeps its sockets is restarted again and
// again: who asks meanwhile is answered every time.
func TestRestartLosesNothing(t *testing.T) {
	h := newHost(t)
	fakeAgent(t, h.dir, func() decide.View { return soloView(t, 1) })
	cmd := h.start()
	h.answers("www.example.com", "192.0.2.1")
	eventually(t, "the sockets are kept", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.kept) == 3 })

	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var asked, lost atomic.Int64
	for _, network := range []string{"udp", "tcp"} {
		asking.Go(func() {
			m := new(dns.Msg)
			m.SetQuestion("www.example.com.", dns.TypeA)
			for ctx.Err() == nil {
				r, _, err := (&dns.Client{Net: network, Timeout: patience}).Exchange(m, h.at.String())
				asked.Add(1)
				if err != nil || len(r.Answer) != 1 {
					lost.Add(1)
					t.Errorf("over %s: %v", network, err)
				}
			}
		})
	}
	for range 3 {
		before := asked.Load()
		eventually(t, "some are asked", func() bool { return asked.Load() > before+20 })
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		cmd = h.start()
		eventually(t, "the next one answers", func() bool { return h.heard("answering at ") })
	}
	cancel()
	asking.Wait()
	t.Logf("%d asked, %d lost", asked.Load(), lost.Load())
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) != 3 {
		t.Errorf("%d sockets are kept", len(h.kept))
	}
}

// soloView is what the ledger of a node of its own has.
func soloView(t testing.TB, index uint64, down ...string) decide.View {
	v := view(t, index, table, down...)
	v.Table.Source = ""
	return v
}

// One life of a server: it waits for the state, answers, is asked over its socket,
// takes down what it was asked, shows its metrics, tells its health, and reads its
// files again.
func TestLife(t *testing.T) {
	h := newHost(t)
	var down atomic.Bool
	var index atomic.Uint64
	cmd := h.start()
	health := func() string {
		b, _ := os.ReadFile(answers.HealthFile(h.dir))
		return strings.TrimSpace(string(b))
	}
	eventually(t, "it says that it does not answer yet", func() bool { return strings.HasPrefix(health(), "down it does not answer yet") })
	client := h.client()
	defer client.Close()
	get := func(path string, q url.Values, into any) error { return client.Get(t.Context(), path, q, into) }
	if err := get("dns/resolve", url.Values{"name": {"www.example.com"}, "type": {"A"}, "client": {"203.0.113.0/24"}}, &Resolved{}); err == nil || !strings.Contains(err.Error(), "does not answer yet") {
		t.Errorf("before the state: %v", err)
	}

	index.Store(1)
	fakeAgent(t, h.dir, func() decide.View {
		if down.Load() {
			return soloView(t, index.Load(), "fra")
		}
		return soloView(t, index.Load())
	})
	h.answers("www.example.com", "192.0.2.1")
	eventually(t, "it is well", func() bool { return health() == "up its own answers are right" })

	down.Store(true)
	index.Store(2)
	eventually(t, "the branch says that fra is down", func() bool {
		var r Resolved
		if err := get("dns/resolve", url.Values{"name": {"www.example.com"}, "type": {"A"}, "client": {"203.0.113.0/24"}}, &r); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(r.Branch, "\n"), "fra is out: down: unhealthy: refused") && r.Position == "1.2" && r.Mode == "normal"
	})
	for _, q := range []url.Values{{"name": {"a..b"}, "type": {"A"}, "client": {"203.0.113.0/24"}}, {"name": {"www.example.com"}, "type": {"A"}, "client": {"home"}}, {"name": {"x"}, "type": {"B"}, "client": {"::/0"}}} {
		if err := get("dns/resolve", q, &Resolved{}); err == nil || api.AsError(err).Code != api.CodeUsage {
			t.Errorf("%v: %v", q, err)
		}
	}
	var s Status
	if err := get("dns/status", nil, &s); err != nil || !s.Answering || s.Zones[0] != "example.com" || len(s.Addresses) != 1 || s.Wrong != "" {
		t.Errorf("status %+v, %v", s, err)
	}

	var led api.Led
	if err := get("dns/led", nil, &led); err != nil || led.Began.IsZero() || !slices.ContainsFunc(led.Led, func(l api.LedTo) bool { return l.Site == "fra" && l.Count > 0 }) {
		t.Errorf("whom it led where: %+v, %v", led, err)
	}

	var lines []Query
	eventually(t, "the question is taken down", func() bool {
		b, err := os.ReadFile(filepath.Join(h.dir, "queries.json"))
		if err != nil {
			t.Fatal(err)
		}
		lines = lines[:0]
		for d := json.NewDecoder(bytes.NewReader(b)); ; {
			var q Query
			if err := d.Decode(&q); err != nil {
				break
			}
			lines = append(lines, q)
		}
		for _, q := range lines {
			if q.Name == "www.example.com" && q.Rcode == "NOERROR" && q.Table > 0 && len(q.Branch) > 0 && q.Transport == "udp" {
				return true
			}
		}
		return false
	})

	page := ""
	eventually(t, "metrics are served", func() bool {
		r, err := http.Get("http://" + h.metrics.String() + "/metrics")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		page = string(b)
		return r.StatusCode == http.StatusOK
	})
	for _, want := range []string{
		`steadycast_dns_answers_total{rcode="NOERROR",transport="udp",type="A",zone="example.com"} `,
		`steadycast_dns_given_total{choice="www.example.com",member="fra",site="fra"} `,
		`steadycast_dns_mode{mode="normal"} 1`, "steadycast_dns_stale 0", "steadycast_dns_self_test_successful 1", `steadycast_dns_duration_seconds_count{transport="udp"} `, `steadycast_dns_duration_seconds_count{transport="tcp"} `,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}

	// Its file is read again, and a bad one changes nothing.
	h.write("fleet.yaml", strings.Replace(soloTable, "192.0.2.99", "192.0.2.98", 1))
	pid := cmd.Process.Pid
	syscall.Kill(pid, syscall.SIGHUP)
	h.answers("static.example.com", "192.0.2.98")
	h.write("fleet.yaml", strings.Replace(soloTable, "ns: [ns.example.net.]", "ns: [ns]", 1))
	syscall.Kill(pid, syscall.SIGHUP)
	eventually(t, "the reload is refused", func() bool { return h.heard("reload refused") })
	h.answers("static.example.com", "192.0.2.98")
}

// Files of the health's form say stale in a way that the agent reads.
func TestStaleWord(t *testing.T) {
	for _, c := range []struct {
		h    health
		text string
	}{
		{health{}, "up its own answers are right"},
		{health{stale: "nobody was heard"}, "up stale: nobody was heard"},
		{health{wrong: "no answer", stale: "nobody was heard"}, "down no answer"},
	} {
		if got := c.h.String(); got != c.text {
			t.Errorf("%q; want %q", got, c.text)
		}
		want := c.h.stale
		if c.h.wrong != "" {
			want = ""
		}
		if got := answers.Stale(c.text + "\n"); got != want {
			t.Errorf("%q is stale because %q", c.text, got)
		}
	}
	if len(oneLine(strings.Repeat("é\n", 300))) > 200 {
		t.Error("a line is longer than 200 octets")
	}
}
