package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/speaker"
)

// manager is a service manager: it owns NOTIFY_SOCKET and reads what comes.
type manager struct {
	*testing.T
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "sc-notify-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &manager{T: t, path: filepath.Join(dir, "s")}
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.conn.Close() })
	return m
}

// next reads one datagram, "" when none comes within d.
func (m *manager) next(d time.Duration) string {
	m.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		m.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		m.Fatal(err)
	}
	return string(b[:n])
}

// hears reads until a datagram matches, and gives those before it.
func (m *manager) hears(pattern string) (before []string) {
	m.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(soon); time.Now().Before(end); {
		got := m.next(time.Until(end))
		if re.MatchString(got) {
			return before
		}
		before = append(before, got)
	}
	m.Fatalf("nothing matches %s in %q", pattern, before)
	return nil
}

// TestRolesSpeakToTheServiceManager: what systemd hears of a node's processes.
func TestRolesSpeakToTheServiceManager(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"speaker", "agent"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, m := newNode(t), newManager(t)
			if name == "agent" {
				n.start("speaker")
			}
			n.notify = m.path
			n.start(name)
			m.hears(`(?s)READY=1.*STATUS=.+`)
			if name == "agent" {
				m.hears(`STATUS=fra announces 192.0.2.80/32 — all well`)
			}
			m.hears(`^WATCHDOG=1$`)
			m.hears(`^WATCHDOG=1$`)
			n.signal(name, syscall.SIGHUP)
			m.hears(`(?s)RELOADING=1.*MONOTONIC_USEC=\d+`)
			m.hears(`(?s)READY=1.*STATUS=reloaded`)
			n.write(map[string]string{"fall: 2": "fal: 2"})
			n.signal(name, syscall.SIGHUP)
			m.hears(`RELOADING=1`)
			m.hears(`(?s)READY=1.*STATUS=reload refused, the old settings stay: .*unknown key`)
			n.signal(name, syscall.SIGTERM)
			m.hears(`STOPPING=1`)
			n.ended(name)
		})
	}
}

// TestWatchdogStopsWithTheJudge: the agent's owner hangs while every other
// goroutine lives on; the last sign of life comes within one period.
func TestWatchdogStopsWithTheJudge(t *testing.T) {
	const period = 800 * time.Millisecond
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "800000")
	t.Setenv("WATCHDOG_PID", "")
	policy := decide.Table{
		Sites:    []decide.Place{{Name: "fra"}},
		Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{prefix}}},
	}
	led, err := ledger.Open("", policy, ledger.Options{Fleet: "test", Node: "fra-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	over, hung := make(chan struct{}), make(chan time.Time, 1)
	ended := make(chan error, 1)
	var a *Agent
	running := make(chan struct{})
	signals := make(chan os.Signal, 1)
	go func() {
		ended <- role.Run(context.Background(), role.Spec{Name: "agent", Signals: signals}, func(ctx context.Context, p *role.Process) (err error) {
			a, err = New(Options{
				Site: "fra", Node: "fra-1", Fleet: "test", Solo: true, Plan: Plan{Table: policy}, Ledger: led, Alive: p.Alive, AliveWithin: p.Beat(),
				Speak: func(speaker.Options) (speaker.Interface, error) { return deaf{}, nil },
			})
			if err != nil {
				return err
			}
			close(running)
			p.Ready("")
			return a.Run(ctx)
		})
	}()
	<-running
	m.hears(`READY=1`)
	for range 6 { // well over one period
		m.hears(`^WATCHDOG=1$`)
	}
	go a.do(context.Background(), func() { hung <- time.Now(); <-over })
	at := <-hung
	for n := 0; ; n++ { // what was said before, and heard by now
		got := m.next(2 * period)
		if got == "" {
			break
		}
		if n > 10 {
			t.Fatalf("%q still comes %v after the loop hung; the period is %v", got, time.Since(at), period)
		}
	}
	close(over)
	m.hears(`^WATCHDOG=1$`)
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	select {
	case err := <-ended:
		if err != nil && !strings.Contains(err.Error(), "canceled") {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Fatal("it does not end")
	}
}

// deaf is a speaker that takes everything and says nothing.
type deaf struct{ speaker.Interface }

func (deaf) Apply(context.Context, steadycast.RouteSet) error { return nil }
func (deaf) Actual() (steadycast.Actual, bool)                { return steadycast.Actual{}, false }
func (deaf) Intent(context.Context) (speaker.Intent, error)   { return speaker.Intent{}, nil }
func (deaf) Close() error                                     { return nil }
