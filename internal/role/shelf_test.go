package role

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/loopback"
)

// childShelf supervises one child that keeps its socket.
func childShelf(dir, at string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := Run(context.Background(), Spec{Name: "run", Logger: log}, func(ctx context.Context, p *Process) error {
		return Supervise(ctx, p, Supervision{Logger: log, Children: []Child{{Name: "keeper", Args: []string{"keeper", dir, at}, Keeps: true}}})
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// childKeeper answers each datagram with its own number, from a socket that it was
// given or has kept.
func childKeeper(dir, at string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	_ = Run(context.Background(), Spec{Name: "keeper", Logger: log}, func(ctx context.Context, p *Process) error {
		var c net.PacketConn
		files, err := Kept("echo"), error(nil)
		switch {
		case len(files) > 1:
			return fmt.Errorf("%d sockets were kept", len(files))
		case len(files) == 1:
			c, err = net.FilePacketConn(files[0])
		default:
			if c, err = net.ListenPacket("udp", at); err == nil {
				f, _ := c.(*net.UDPConn).File()
				p.Keep("echo", []*os.File{f})
			}
		}
		if err != nil {
			return err
		}
		for _, key := range []string{storeFD, "LISTEN_FDS", "LISTEN_PID"} {
			if os.Getenv(key) != "" {
				return fmt.Errorf("%s would reach what this process starts", key)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		go func() { <-p.Stopping(); c.Close() }()
		buf := make([]byte, 100)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return err
			}
			c.WriteTo([]byte(string(buf[:n])+" "+strconv.Itoa(os.Getpid())), from)
		}
	})
}

// TestSuperviseKeepsSockets: a child that dies, however, leaves its sockets to the one
// that follows, and what was sent meanwhile is answered.
func TestSuperviseKeepsSockets(t *testing.T) {
	dir, at := t.TempDir(), loopback.Own(t).String()
	var log bytes.Buffer
	cmd := child("shelf", dir)
	cmd.Args = append(cmd.Args, at)
	cmd.Stderr, cmd.WaitDelay = &log, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the supervisor: %v\n%s", err, log.String())
		}
	})
	pid := func(not string) string {
		for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if b, _ := os.ReadFile(filepath.Join(dir, "pid")); len(b) > 0 && string(b) != not {
				return string(b)
			}
		}
		t.Fatal("no child started")
		return ""
	}
	c, err := net.Dial("udp", at)
	now := pid("")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 100)
	for round, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		number, err := strconv.Atoi(now)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(number, sig); err != nil {
			t.Fatal(err)
		}
		for running(number) {
			time.Sleep(time.Millisecond)
		}
		for i := range 50 { // nobody is there, or only the next
			if _, err := fmt.Fprintf(c, "%d/%d", round, i); err != nil {
				t.Fatalf("question %d after %v: %v", i, sig, err)
			}
		}
		next := pid(now)
		for i := range 50 {
			c.SetReadDeadline(time.Now().Add(60 * time.Second))
			n, err := c.Read(buf)
			if err != nil || !strings.HasPrefix(string(buf[:n]), fmt.Sprintf("%d/%d ", round, i)) {
				t.Fatalf("answer %d after %v: %q, %v", i, sig, buf[:n], err)
			}
			if got := string(buf[:n]); !strings.HasSuffix(got, " "+next) {
				t.Errorf("after %v an answer is %q, and not of %s", sig, got, next)
			}
		}
		now = next
	}
}
