package mesh

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/pki"
)

// The cost of one agent in a large fleet: its peers are simulated by a second
// process, so that only the agent's own share is measured. Observations come at
// the pace of the protocol, twenty services each two seconds, for ten seconds.
//
//	go test -run '^$' -bench Agent ./internal/mesh

// simulation is what the second process is told.
type simulation struct {
	Dir   string // of the credentials, one directory for each node
	Nodes int
	// Agent is called by Callers of the nodes, which say something of each of
	// Subjects sites.
	Agent    string
	Callers  int
	Subjects []string
	Voter    bool // the agent votes
}

const simulated = "STEADYCAST_MESH_SIMULATION"

func TestMain(m *testing.M) {
	if text := os.Getenv(simulated); text != "" {
		var s simulation
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			panic(err)
		}
		simulate(s)
		return
	}
	os.Exit(m.Run())
}

const services = 20

// simulate is the second process: it prints where its nodes listen, and ends
// with its standard input.
func simulate(s simulation) {
	ctx, cancel := context.WithCancel(context.Background())
	out := bufio.NewWriter(os.Stdout)
	for i := range s.Nodes {
		c, err := pki.Open(pki.Settings{Dir: filepath.Join(s.Dir, fmt.Sprint(i))})
		if err != nil {
			panic(err)
		}
		m, err := New(Options{Credentials: c, Incarnation: 1, Voter: true})
		if err != nil {
			panic(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go m.Run(ctx, ln)
		fmt.Fprintln(out, ln.Addr())
		if i < s.Callers {
			if err := m.SetPeers([]Peer{{Site: "agent", Node: "agent-1", Addr: netip.MustParseAddrPort(s.Agent), Voter: s.Voter}}); err != nil {
				panic(err)
			}
			go publish(ctx, m, s.Subjects)
		}
	}
	fmt.Fprintln(out, "ready")
	out.Flush()
	io.Copy(io.Discard, os.Stdin)
	cancel()
}

// publish says something of each service of each subject every two seconds,
// evenly spread.
func publish(ctx context.Context, m *Mesh, subjects []string) {
	if len(subjects) == 0 {
		return
	}
	pace := time.NewTicker(2 * time.Second / time.Duration(len(subjects)))
	defer pace.Stop()
	for seq := uint64(1); ; seq++ {
		for _, subject := range subjects {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
			for s := range services {
				m.Publish(steadycast.Observation{Subject: subject, Service: fmt.Sprintf("service-%d", s), Seq: seq, Result: steadycast.Result{Outcome: steadycast.Up, Took: 12 * time.Millisecond, Reason: "200 OK in 12 ms"}})
			}
		}
	}
}

func site(i int) string { return fmt.Sprintf("site-%d", i) }

func measure(b *testing.B, nodes, watched, voters, callers int, voter bool, subjects []string) {
	root := b.TempDir()
	a, err := pki.Init(filepath.Join(root, "ca"), "prod", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	issue := func(site, dir string) {
		if _, err := a.Issue(pki.Identity{Site: site, Node: site + "-1"}, filepath.Join(root, dir), pki.DefaultLife, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	issue("agent", "agent")
	for i := range nodes {
		issue(site(i), fmt.Sprint(i))
	}
	creds, err := pki.Open(pki.Settings{Dir: filepath.Join(root, "agent")})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	m, err := New(Options{Credentials: creds, Incarnation: 1, Voter: voter})
	if err != nil {
		b.Fatal(err)
	}

	text, err := json.Marshal(simulation{Dir: root, Nodes: nodes, Agent: ln.Addr().String(), Callers: callers, Subjects: subjects, Voter: voter})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), simulated+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()

	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { m.Run(ctx, ln) })
	var peers []Peer
	var watch []string
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "ready"; {
		if i := len(peers); i < watched+voters {
			peers = append(peers, Peer{Site: site(i), Node: site(i) + "-1", Addr: netip.MustParseAddrPort(lines.Text()), Voter: i >= watched})
			if i < watched {
				watch = append(watch, site(i))
			}
		}
	}
	if err := m.SetPeers(peers); err != nil {
		b.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		s := m.Peers()
		up := 0
		for _, l := range s.Links {
			if l.State == LinkUp {
				up++
			}
		}
		if up == len(peers) && len(s.Callers) == callers {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("only %d of %d links and %d of %d callers", up, len(peers), len(s.Callers), callers)
		}
		<-time.After(100 * time.Millisecond)
	}
	wg.Go(func() { publish(ctx, m, watch) })
	<-time.After(2 * time.Second) // the first round, which is not the steady state

	sent, heard := counts(m)
	begun, spent := time.Now(), cpu()
	for b.Loop() {
		<-time.After(10 * time.Second)
	}
	wall := time.Since(begun)
	spent = cpu() - spent
	sent2, heard2 := counts(m)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.StackInuse)/(1<<20), "stack_MB")
	runtime.GC()
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.HeapAlloc)/(1<<20), "live_MB")
	b.ReportMetric(100*spent.Seconds()/wall.Seconds(), "cpu_%")
	b.ReportMetric(float64(sent2-sent)/wall.Seconds(), "sent/s")
	b.ReportMetric(float64(heard2-heard)/wall.Seconds(), "heard/s")
	b.ReportMetric(resident(b), "rss_MB")
	b.ReportMetric(0, "ns/op")
}

func counts(m *Mesh) (sent, heard uint64) {
	s := m.Peers()
	for _, l := range s.Links {
		sent += l.Sent
	}
	return sent, s.Heard
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory of this process in MB.
func resident(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
			return kb / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkAgent is an agent in a fleet of 300 sites with 20 services: it watches
// nine sites, is watched by nine, and tells five voters.
func BenchmarkAgent(b *testing.B) { measure(b, 14, 9, 5, 9, false, []string{"agent"}) }

// BenchmarkAgentAll is one that watches all 300, which the assignment never asks for.
func BenchmarkAgentAll(b *testing.B) { measure(b, 300, 300, 0, 0, false, nil) }

// BenchmarkVoter is a voter that 300 agents call, each with the digests of nine
// sites' services.
func BenchmarkVoter(b *testing.B) {
	var subjects []string
	for i := range 9 {
		subjects = append(subjects, site(i))
	}
	measure(b, 300, 0, 0, 300, true, subjects)
}

// BenchmarkPublish is one observation to one subject and the signature on it.
func BenchmarkPublish(b *testing.B) {
	root := b.TempDir()
	a, err := pki.Init(filepath.Join(root, "ca"), "prod", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := a.Issue(pki.Identity{Site: "fra", Node: "fra-1"}, filepath.Join(root, "n"), pki.DefaultLife, time.Now()); err != nil {
		b.Fatal(err)
	}
	c, err := pki.Open(pki.Settings{Dir: filepath.Join(root, "n")})
	if err != nil {
		b.Fatal(err)
	}
	r := one("fra", "ams", 1, map[string][]uint64{"ams-1": {1 << 60}, "vot-1": {1 << 61}})
	var s Signed
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			if s, err = seal(c, r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("accept", func(b *testing.B) {
		in := newInbox("ams-1", "ams", false, func(Heard) {})
		in.issue(1<<60, time.Now())
		peer, cert := c.Self(), c.Leaf()
		for b.Loop() {
			in.accept(peer, cert, "", s, time.Now())
		}
	})
}
