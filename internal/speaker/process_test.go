package speaker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/role"
	"golang.org/x/sys/unix"
)

// childMark in the environment makes this test binary a speaker's process.
const childMark = "STEADYCAST_SPEAKER_CHILD"

type childConfig struct {
	Dir    string
	Router netip.AddrPort
}

func TestMain(m *testing.M) {
	text := os.Getenv(childMark)
	if text == "" {
		os.Exit(m.Run())
	}
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := role.Run(context.Background(), role.Spec{Name: "speaker", Logger: log}, func(ctx context.Context, p *role.Process) error {
		return Run(ctx, p, Config{
			Node: "fra-1", Socket: c.socket(), StateDir: c.Dir, Logger: log, StopDrain: 300 * time.Millisecond,
			Load: func() (bgp.Settings, bgp.VIPSettings, error) {
				return bgp.Settings{
					ASN: 65001, RouterID: netip.MustParseAddr("192.0.2.1"), Allow: prefixes("192.0.2.0/24", "2001:db8::/32"),
					Neighbors: []bgp.Neighbor{{Name: "tor1", Address: c.Router.Addr(), Port: c.Router.Port(), ASN: 65000, NextHop6: netip.MustParseAddr("2001:db8::1")}},
				}, bgp.VIPSettings{}, nil
			},
		})
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c childConfig) socket() string { return filepath.Join(c.Dir, "s.sock") }

// site is a host of the test's own: a network namespace with a router that
// listens in it and a speaker's process that is started, killed and stopped.
type site struct {
	*testing.T
	c      childConfig
	router *sink.Router
	cmd    *exec.Cmd
	client *Client
	heard  *listener
}

var home = netip.MustParseAddr("127.0.0.1")

func newSite(t *testing.T) *site {
	t.Helper()
	needRoot(t)
	runtime.LockOSThread() // the thread, and the namespace with it, die with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	s := &site{T: t}
	s.ip("link", "set", "lo", "up")
	r, err := sink.Listen(sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	s.router, s.c = r, childConfig{Dir: t.TempDir(), Router: r.Addr()}
	t.Cleanup(func() {
		if s.cmd != nil && s.cmd.ProcessState == nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
	})
	return s
}

func (s *site) ip(args ...string) string {
	s.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		s.Fatalf("ip %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (s *site) has(vip string) bool {
	return strings.Contains(s.ip("-o", "address", "show", "dev", "lo"), " "+vip+" ")
}

func (s *site) start() {
	s.Helper()
	conf, err := json.Marshal(s.c)
	if err != nil {
		s.Fatal(err)
	}
	s.cmd = exec.Command("/proc/self/exe")
	s.cmd.Env = append(os.Environ(), childMark+"="+string(conf))
	s.cmd.Stderr = s.Output()
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.connect()
	s.wait("a session", func(t sink.Table) bool { return t[home] != nil })
}

func (s *site) connect() {
	s.Helper()
	s.heard = &listener{}
	s.client = Dial(s.c.socket(), s.heard.options())
	s.Cleanup(func() { s.client.Close() })
	s.heard.until(s.T, "connected", connected)
}

func (s *site) wait(what string, ok func(sink.Table) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.router.Wait(ctx, ok); err != nil {
		s.Fatalf("the router never has %s: %v", what, err)
	}
}

func (s *site) announced(n int) {
	s.Helper()
	s.wait(fmt.Sprintf("%d prefixes", n), func(t sink.Table) bool { return t[home] != nil && len(t[home]) == n })
}

// next is the next event at the router about prefix.
func (s *site) next(prefix netip.Prefix) sink.Event {
	s.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-s.router.Events():
			if e.Prefix == prefix {
				return e
			}
		case <-deadline:
			s.Fatalf("nothing of %v is heard at the router", prefix)
		}
	}
}

const six = "2001:db8::53/128"

func TestLifeOfAProcess(t *testing.T) {
	s := newSite(t)
	want := set(1, "53")
	want.Routes = append(want.Routes, steadycast.Route{Prefix: netip.MustParsePrefix(six)})
	want.VIPs = append(want.VIPs, netip.MustParsePrefix(six))
	four := want.Routes[0].Prefix

	s.start()
	began := time.Now()
	mustApply(t, s.client, want)
	e := s.next(four)
	t.Logf("new prefix: taken up and at the router %v after Apply was called (with fsync and two addresses)", e.At.Sub(began))
	s.announced(2)
	if !s.has(four.String()) || !s.has(six) {
		t.Fatal("the addresses are missing")
	}

	// The agent goes and another comes with the same wish: the router hears nothing.
	updates := s.router.Updates(home)
	s.client.Close()
	s.connect()
	mustApply(t, s.client, want)
	if n := s.router.Updates(home); n != updates {
		t.Errorf("an agent's restart sent %d UPDATEs", n-updates)
	}

	// kill -9: the routes go with the sessions, the addresses stay and are
	// known again, and the next process says nothing by itself.
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	if e := s.next(four); e.Announce || !e.Lost {
		t.Errorf("got %+v", e)
	}
	s.client.Close()
	s.start()
	a, _ := s.client.Actual()
	if len(a.VIPs) != 2 || slices.ContainsFunc(a.VIPs, func(v steadycast.VIP) bool { return !v.Ours || !v.Present }) || a.Started != 2 {
		t.Errorf("after kill -9: %+v", a)
	}
	if i, err := s.client.Intent(context.Background()); err != nil || !equalSets(i.Set, want) || !i.Remembered {
		t.Errorf("intent: %+v, %v", i, err)
	}
	s.announced(0)
	mustApply(t, s.client, want)
	s.announced(2)
	if e := s.next(four); !e.Announce {
		t.Errorf("got %+v", e)
	}

	less := want
	less.Version, less.Routes = 2, want.Routes[1:]
	began = time.Now()
	mustApply(t, s.client, less)
	taken := time.Since(began)
	e = s.next(four)
	t.Logf("withdrawal: taken up %v, at the router %v after Apply was called", taken, e.At.Sub(began))
	if e.Announce || e.Lost || !s.has(four.String()) {
		t.Errorf("%+v", e)
	}
	s.leave(netip.MustParsePrefix(six))
}

// leave stops the process as systemctl does and looks at each step from outside.
func (s *site) leave(prefix netip.Prefix) {
	s.Helper()
	for len(s.router.Events()) > 0 { // forget what was heard until now
		<-s.router.Events()
	}
	asked := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	drained := s.next(prefix)
	if !drained.Announce || !slices.Contains(drained.Attributes.Communities, steadycast.GracefulShutdown) {
		s.Errorf("first: %+v, want GSHUT", drained)
	}
	gone := s.next(prefix)
	// Waits are counted from the signal: what the router notes may be noted late.
	if present := s.has(prefix.String()); !present && time.Since(asked) < 750*time.Millisecond {
		s.Error("the address went with its route")
	}
	if gone.Announce || gone.Lost || gone.At.Sub(asked) < 300*time.Millisecond {
		s.Errorf("then: %+v, %v after the signal; want a withdrawal after 300ms of draining", gone, gone.At.Sub(asked))
	}
	if err := s.cmd.Wait(); err != nil {
		s.Errorf("exit: %v", err)
	}
	if s.has(prefix.String()) {
		s.Error("the address is left behind")
	}
	ns := s.router.Notifications()
	if len(ns) == 0 || ns[len(ns)-1].Code != 6 || ns[len(ns)-1].Sub != 2 || ns[len(ns)-1].At.Sub(asked) < 800*time.Millisecond {
		s.Errorf("notifications: %+v, want Cease, Administrative Shutdown, 500ms after the withdrawal at %v", ns, gone.At)
	}
}
