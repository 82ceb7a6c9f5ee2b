package speaker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/role"
)

// TestWatchdogStopsWithTheOwner: the loop that owns the routes hangs in a call
// into the sessions, while the socket and every other goroutine live on. The
// last sign of life comes within one period, and they come again after it.
func TestWatchdogStopsWithTheOwner(t *testing.T) {
	const period = 800 * time.Millisecond
	dir := t.TempDir()
	path := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "800000")
	t.Setenv("WATCHDOG_PID", "")
	heard := func(d time.Duration) string {
		_ = manager.SetReadDeadline(time.Now().Add(d))
		b := make([]byte, 4096)
		n, _ := manager.Read(b)
		return string(b[:n])
	}

	w := newWorld()
	cfg := w.config(dir)
	cfg.Socket, cfg.StopDrain = filepath.Join(dir, "s"), 10*time.Millisecond
	signals, ended := make(chan os.Signal, 2), make(chan error, 1)
	go func() {
		ended <- role.Run(context.Background(), role.Spec{Name: "speaker", Signals: signals}, func(ctx context.Context, p *role.Process) error {
			return run(ctx, p, cfg, w.makers())
		})
	}()
	if got := heard(10 * time.Second); !strings.Contains(got, "READY=1") || !strings.Contains(got, "STATUS=waiting for an agent") {
		t.Fatalf("heard %q", got)
	}
	l := &listener{}
	c := Dial(cfg.Socket, l.options())
	defer c.Close()
	l.until(t, "connected", connected)
	alive := func() {
		t.Helper()
		for n, late := 0, time.Now().Add(10*time.Second); n < 6; {
			if heard(time.Second) == "WATCHDOG=1" {
				n++
			}
			if time.Now().After(late) {
				t.Fatal("no sign of life")
			}
		}
	}
	alive()

	w.mu.Lock() // Apply of the fake sessions waits for it
	applied := make(chan error, 1)
	go func() { applied <- c.Apply(context.Background(), set(1)) }()
	go func() { applied <- c.Apply(context.Background(), set(2, "1")) }()
	at := time.Now()
	for {
		got := heard(2 * period)
		if got == "" {
			break
		}
		if age := time.Since(at); got == "WATCHDOG=1" && age > period {
			t.Fatalf("a sign of life %v after the loop hung; the period is %v", age, period)
		}
	}
	w.mu.Unlock()
	for range 2 {
		<-applied
	}
	alive()
	signals <- syscall.SIGTERM
	for got := ""; !strings.Contains(got, "STOPPING=1"); {
		if got = heard(10 * time.Second); got == "" {
			t.Fatal("nothing is said at the end")
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
