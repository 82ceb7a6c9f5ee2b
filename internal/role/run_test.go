package role

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manager is a service manager: it owns NOTIFY_SOCKET and reads what comes.
type manager struct {
	*testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T, watchdog time.Duration) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "")
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", strings.TrimSuffix(extend(watchdog), "\n")[len("EXTEND_TIMEOUT_USEC="):])
	}
	return manager{t, conn}
}

// next reads one datagram, "" when none comes within d.
func (m manager) next(d time.Duration) string {
	m.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		m.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		m.Fatal(err)
	}
	return string(b[:n])
}

// want reads until a datagram has all the lines, watchdogs aside.
func (m manager) want(lines ...string) string {
	m.Helper()
	got := m.next(5 * time.Second)
	for got == "WATCHDOG=1" {
		got = m.next(5 * time.Second)
	}
	for _, l := range lines {
		if !strings.Contains(got+"\n", l) {
			m.Fatalf("got %q, want it to contain %q", got, l)
		}
	}
	return got
}

// start runs a role with signals of the test's own.
func start(t *testing.T, body func(context.Context, *Process) error) (signals chan os.Signal, ended chan error) {
	signals, ended = make(chan os.Signal, 8), make(chan error, 1)
	go func() { ended <- Run(context.Background(), Spec{Name: "test", Signals: signals}, body) }()
	return signals, ended
}

func ends(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(5 * time.Second):
		t.Fatal("the role does not end")
		return nil
	}
}

func TestNotify(t *testing.T) {
	m := newManager(t, 0)
	bad := errors.New("node.yaml:3:5: asn: 0 is no ASN")
	reloads := make(chan error, 2)
	reloads <- nil
	reloads <- bad
	signals, ended := start(t, func(ctx context.Context, p *Process) error {
		p.OnReload(func(context.Context) error { return <-reloads })
		p.Ready("all\nis well")
		<-p.Stopping()
		p.Extend(7 * time.Second)
		return nil
	})
	m.want("READY=1\n", "STATUS=all is well\n")
	signals <- syscall.SIGHUP
	m.want("RELOADING=1\n", "MONOTONIC_USEC=")
	m.want("READY=1\n", "STATUS=reloaded\n")
	signals <- syscall.SIGHUP
	m.want("RELOADING=1\n")
	m.want("READY=1\n", "STATUS=reload refused, the old settings stay: "+bad.Error())
	signals <- syscall.SIGTERM
	m.want("STOPPING=1\n")
	m.want("EXTEND_TIMEOUT_USEC=7000000\n")
	if err := ends(t, ended); err != nil {
		t.Fatal(err)
	}
}

// TestWatchdogStopsWithTheLoop: only the loop that calls Alive feeds it, and
// the last sign of life comes within one period of the loop's last turn.
func TestWatchdogStopsWithTheLoop(t *testing.T) {
	const period = 800 * time.Millisecond
	m := newManager(t, period)
	deadlock, hung, over := make(chan struct{}), make(chan time.Time, 1), make(chan struct{})
	_, ended := start(t, func(ctx context.Context, p *Process) error {
		p.Alive()
		p.Ready("")
		beat := time.NewTicker(p.Beat())
		defer beat.Stop()
		for {
			select {
			case <-beat.C:
				p.Alive()
			case <-deadlock:
				hung <- time.Now()
				<-over // hangs, while every other goroutine lives on
				return nil
			}
		}
	})
	m.want("READY=1")
	for range 6 { // well over one period
		if got := m.next(5 * time.Second); got != "WATCHDOG=1" {
			t.Fatalf("got %q while the loop goes round", got)
		}
	}
	close(deadlock)
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
	if err := ends(t, ended); err != nil {
		t.Fatal(err)
	}
}

func TestSignals(t *testing.T) {
	dumped := make(chan struct{}, 1)
	first, second := make(chan struct{}), make(chan struct{})
	signals, ended := start(t, func(ctx context.Context, p *Process) error {
		p.OnDump(func() { dumped <- struct{}{} })
		p.Ready("")
		close(first)
		<-p.Stopping()
		if ctx.Err() != nil {
			t.Error("the first SIGTERM ended at once")
		}
		close(second)
		<-ctx.Done()
		return ctx.Err()
	})
	<-first
	signals <- syscall.SIGUSR1
	select {
	case <-dumped:
	case <-time.After(5 * time.Second):
		t.Fatal("SIGUSR1 dumps nothing")
	}
	signals <- syscall.SIGTERM
	<-second
	signals <- syscall.SIGTERM
	if err := ends(t, ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestNotifyNeverBlocks: a service manager that does not read fills its socket.
func TestNotifyNeverBlocks(t *testing.T) {
	newManager(t, 0)
	_, ended := start(t, func(ctx context.Context, p *Process) error {
		for range 10000 {
			p.Status("still here")
		}
		return nil
	})
	ends(t, ended)
}

func TestReloadOfNothing(t *testing.T) {
	got := make(chan error, 1)
	_, ended := start(t, func(ctx context.Context, p *Process) error {
		got <- p.Reload(ctx)
		return nil
	})
	ends(t, ended)
	if err := <-got; !errors.Is(err, ErrNoReload) {
		t.Fatal(err)
	}
}
