package ledger

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/loopback"
)

// plan is what a voter's process is told.
type plan struct {
	Node, Dir          string
	Listen             string
	Peers              []Peer
	CA, Cert, Key      []byte
	LeastFree, Ballast int64
	Init               bool
}

// beVoter is the voter's process. It says "open" on standard output, and on
// standard input it is told "hang": from then on its disk hangs.
func beVoter(text string) {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA)
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	hang := make(chan struct{})
	v, err := OpenVoter(VoterOptions{
		Fleet: "test", Node: p.Node, Dir: p.Dir, Listen: p.Listen, Peers: p.Peers, LeastFree: p.LeastFree, Ballast: p.Ballast,
		TLS: TLS{
			Server: func(string) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool} },
			Client: func(string) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool} },
		},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		fault: func(string) error {
			select {
			case <-hang:
				select {}
			default:
				return nil
			}
		},
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("open")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "init":
			var sites []string
			for _, q := range p.Peers {
				sites = append(sites, q.Domain)
			}
			fmt.Println("init", v.Init(context.Background(), policy(sites...), "ann", "begin"))
		case "hang":
			close(hang)
		}
	}
	_ = v.Close()
	os.Exit(0)
}

// process is a voter's process, as the test sees it.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan string
	done chan struct{}
	code int // after done

	mu  sync.Mutex
	log strings.Builder
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) tell(word string) { fmt.Fprintln(p.in, word) }

// processes are a ledger of three voters, each a process of its own.
type processes struct {
	t       testing.TB
	ca      *authority
	peers   []Peer
	dirs    map[string]string
	least   int64 // bytes free
	running map[string]*process
}

func pemOf(t testing.TB, kind string, der []byte) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// newProcesses starts three voters on a ledger that has begun.
func newProcesses(t testing.TB, dirs map[string]string) *processes {
	t.Helper()
	ps := &processes{t: t, ca: newAuthority(t), dirs: map[string]string{}, least: 1 << 20, running: map[string]*process{}}
	for _, s := range []string{"ams", "fra", "lon"} {
		ps.peers = append(ps.peers, Peer{s + "-1", loopback.Own(t).String(), s})
		ps.dirs[s+"-1"] = filepath.Join(t.TempDir(), s)
		if d := dirs[s+"-1"]; d != "" {
			ps.dirs[s+"-1"] = d
		}
	}
	for _, p := range ps.peers {
		ps.start(p.Node)
	}
	first := ps.running[ps.peers[0].Node]
	first.tell("init")
	if said := <-first.said; said != "init <nil>" {
		t.Fatal(said, first.logged())
	}
	return ps
}

func (ps *processes) start(node string) *process {
	ps.t.Helper()
	peer := ps.peers[slices.IndexFunc(ps.peers, func(p Peer) bool { return p.Node == node })]
	cert := ps.ca.node("test", peer.Domain, node).Server("").Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		ps.t.Fatal(err)
	}
	text, err := json.Marshal(plan{
		Node: node, Dir: ps.dirs[node], Listen: peer.Address, Peers: ps.peers, LeastFree: ps.least, Ballast: 1 << 20,
		CA: pemOf(ps.t, "CERTIFICATE", ps.ca.cert.Raw), Cert: pemOf(ps.t, "CERTIFICATE", cert.Certificate[0]), Key: pemOf(ps.t, "PRIVATE KEY", key),
	})
	if err != nil {
		ps.t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), said: make(chan string, 16), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "STEADYCAST_TEST_VOTER="+string(text))
	p.cmd.Stderr = p
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		ps.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		ps.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		ps.t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.said <- lines.Text()
		}
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	ps.running[node] = p
	ps.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.done
		if ps.t.Failed() {
			ps.t.Logf("%s:\n%s", node, p.logged())
		}
	})
	select {
	case said := <-p.said:
		if said != "open" {
			ps.t.Fatal(node, said)
		}
	case <-p.done:
		ps.t.Fatal(node, "ended with", p.code, p.logged())
	}
	return p
}

// client is an agent's client of these voters.
func (ps *processes) client(site string) *Client {
	ps.t.Helper()
	c, err := OpenClient(ClientOptions{
		Fleet: "test", Site: site, Node: site + "-1", Voters: ps.peers, TLS: ps.ca.node("test", site, site+"-1"),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		ps.t.Fatal(err)
	}
	ps.t.Cleanup(func() { c.Close() })
	return c
}

// state asks one voter.
func (ps *processes) state(c *Client, node string) (s State, err error) {
	ctx, cancel := context.WithTimeout(ps.t.Context(), 2*time.Second)
	defer cancel()
	err = c.links[c.index(node)].call(ctx, pathState, nil, struct{}{}, &s)
	return s, err
}

// leader waits until one of the voters, but not those left out, says it leads.
func (ps *processes) leader(c *Client, but ...string) string {
	ps.t.Helper()
	lead := ""
	until(ps.t, "a leader", func() bool {
		for _, p := range ps.peers {
			if s, err := ps.state(c, p.Node); err == nil && s.Role == "leader" && !slices.Contains(but, p.Node) {
				lead = p.Node
				return true
			}
		}
		return false
	})
	return lead
}

// permits is how long it takes until the ledger answers what must be written.
func permits(t testing.TB, c *Client, state steadycast.State) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Report(ctx, []steadycast.Verdict{{Site: c.opts.Site, Service: "web", State: state}}); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// believed is the state that a view has of the client's own service.
func believed(c *Client) steadycast.State {
	for _, v := range c.View().Verdicts {
		if v.Site == c.opts.Site {
			return v.State
		}
	}
	return steadycast.StateUnknown
}

// ended waits for a process to end by itself and gives its code.
func (p *process) ended(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("the process goes on")
	}
	return p.code
}

// TestLeaderGone: whatever takes the leader, permits are given again, and
// everything that was answered is there. How soon is what BenchmarkFailOver tells.
func TestLeaderGone(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name string
		take func(*process)
		code int // with which it ends by itself; 0: it does not
	}{
		{"killed", func(p *process) { _ = p.cmd.Process.Kill() }, -1},
		{"stopped", func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }, 0},
		{"its disk hangs", func(p *process) { p.tell("hang") }, ExitStalled},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			ps := newProcesses(t, nil)
			c := ps.client("fra")
			lead := ps.leader(c)
			permits(t, c, steadycast.Healthy)
			way.take(ps.running[lead])
			took := permits(t, c, steadycast.Suspect)
			t.Logf("%s: permits again after %s", way.name, took.Round(time.Millisecond))
			if now := ps.leader(c, lead); now == lead {
				t.Errorf("%s still leads", lead)
			}
			if way.code != 0 {
				if code := ps.running[lead].ended(t); code != way.code {
					t.Errorf("it ended with %d, not %d:\n%s", code, way.code, ps.running[lead].logged())
				}
				ps.start(lead)
			} else {
				_ = ps.running[lead].cmd.Process.Signal(syscall.SIGCONT)
			}
			ps.agree(c)
			until(t, "the view", func() bool { return believed(c) == steadycast.Suspect })
		})
	}
}

// agree waits until all voters say the same state at the same position.
func (ps *processes) agree(c *Client) State {
	ps.t.Helper()
	var first State
	defer func() {
		if ps.t.Failed() {
			for _, p := range ps.peers {
				s, err := ps.state(c, p.Node)
				ps.t.Logf("%+v %v", s, err)
			}
		}
	}()
	until(ps.t, "one state on all voters", func() bool {
		for i, p := range ps.peers {
			s, err := ps.state(c, p.Node)
			if err != nil || s.Fence.Index == 0 || i > 0 && s.Fence != first.Fence {
				return false
			}
			if i > 0 && s.Hash != first.Hash {
				ps.t.Fatalf("at %s the voters have decided differently", s.Fence)
			}
			first = s
		}
		return true
	})
	return first
}

// TestDiskFull: a leader whose disk fills hands over and ends before a write
// fails; one that is filled in a moment ends at the write. Neither starts again
// before there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name  string
		least int64
	}{
		{"slowly", 8 << 20},
		{"at once", -1}, // before the room is looked at again
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			dir, _ := small(t, "40m")
			ps := newProcesses(t, map[string]string{"ams-1": filepath.Join(dir, "state")})
			c := ps.client("fra")
			first := ps.running["ams-1"]
			_ = first.in.Close()
			if code := first.ended(t); code != 0 {
				t.Fatal(code, first.logged())
			}
			ps.least = way.least
			p := ps.start("ams-1")
			until(t, "ams-1 to lead", func() bool {
				lead := ps.leader(c)
				if lead == "ams-1" {
					return true
				}
				// Those who lead are asked to go, until it is ams-1's turn.
				_ = ps.running[lead].in.Close()
				ps.running[lead].ended(t)
				ps.leader(c, lead)
				ps.start(lead)
				return false
			})
			permits(t, c, steadycast.Healthy)
			fill, err := os.Create(filepath.Join(dir, "others"))
			if err != nil {
				t.Fatal(err)
			}
			defer fill.Close()
			block := make([]byte, 64<<10)
			for err == nil {
				_, err = fill.Write(block)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			// What bbolt has of the disk already goes on taking entries for a while.
			for i := 0; ; i++ {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _ = c.Do(ctx, decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", fmt.Sprint(i, strings.Repeat("x", 32<<10)))
				cancel()
				select {
				case <-p.done:
				default:
					if i < 2000 {
						continue
					}
				}
				break
			}
			took := permits(t, c, steadycast.Suspect)
			t.Logf("%s: permits again after %s", way.name, took.Round(time.Millisecond))
			if code := p.ended(t); code != ExitDisk {
				t.Errorf("it ended with %d:\n%s", code, p.logged())
			}
			if strings.Contains(p.logged(), "panic") {
				t.Error(p.logged())
			}
			if err := fill.Truncate(0); err != nil {
				t.Fatal(err)
			}
			ps.start("ams-1")
			ps.agree(c)
		})
	}
}
