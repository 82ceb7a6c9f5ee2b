package role

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a log that takes nothing until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	b    bytes.Buffer
	err  error
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	return g.b.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

func TestLogThatBlocksNeverBlocks(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		g := &gate{open: make(chan struct{})}
		log, flush, err := NewLog(LogOptions{Format: format, Writer: g})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5000 { // nothing is read; a log that waits would hang here
			log.Info("line", "n", i)
		}
		close(g.open)
		flush()
		got := g.String()
		if !strings.Contains(got, "4999") {
			t.Errorf("the newest line was dropped")
		}
		var lost, lines int
		for l := range strings.Lines(got) {
			for _, form := range []string{"lines_lost=%d", `"lines_lost":%d`} {
				if _, after, ok := strings.Cut(l, form[:strings.Index(form, "%")]); ok {
					var n int // a busy machine may make several gaps
					fmt.Sscanf(after, "%d", &n)
					lost += n
					lines--
				}
			}
			lines++
		}
		if lost == 0 || lost+lines != 5000 {
			t.Errorf("%s: %d lines came, %d are said to be lost, of 5000", format, lines, lost)
		}
	}
}

func TestLogThatFailsIsCounted(t *testing.T) {
	g := &gate{open: make(chan struct{}), err: syscall.ENOSPC}
	close(g.open)
	log, flush, _ := NewLog(LogOptions{Writer: g})
	log.Info("one")
	log.Info("two")
	flush()
	g.mu.Lock()
	g.err = nil
	g.mu.Unlock()
	log.Info("three")
	flush()
	if got := g.String(); !strings.Contains(got, "lines_lost=2") || !strings.Contains(got, "msg=three") {
		t.Errorf("got %q", got)
	}
}

func TestLogOptions(t *testing.T) {
	for _, c := range []struct {
		o    LogOptions
		want string
	}{
		{LogOptions{Format: "xml"}, `log format "xml": allowed are text, json`},
		{LogOptions{Level: "loud"}, `log level "loud": allowed are debug, info, warn, error`},
	} {
		if _, _, err := NewLog(c.o); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestIdenticalLinesAreThinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log, err := thinOver(&b)
		if err != nil {
			t.Fatal(err)
		}
		tor1, tor2 := log.With("peer", "tor1"), log.With("peer", "tor2")
		for range 20 {
			tor1.Warn("refused", "err", io.EOF)
		}
		tor2.Warn("refused", "err", io.EOF) // another peer is another line
		tor1.Warn("refused", "err", io.ErrClosedPipe)
		time.Sleep(thinWindow)
		tor1.Warn("refused", "err", io.EOF)
		got := b.String()
		if n := strings.Count(got, "peer=tor1 err=EOF"); n != thinBurst+1 {
			t.Errorf("%d lines of 21, want %d:\n%s", n, thinBurst+1, got)
		}
		for _, want := range []string{"peer=tor2", "closed pipe", "same_lines_left_out=15"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing:\n%s", want, got)
			}
		}
		for i := range 10 * thinSubjects { // as many kinds of lines as you like
			log.Info("kind", "n", i)
		}
		if n := len(log.Handler().(thin).seen.said); n > thinSubjects {
			t.Errorf("remembers %d kinds of lines", n)
		}
	})
}

// TestLogInAProcess: whether standard error is the journal, and what happens
// when nobody reads it any more, can only be seen from outside.
func TestLogInAProcess(t *testing.T) {
	t.Run("journal", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		st, err := w.Stat()
		if err != nil {
			t.Fatal(err)
		}
		sys := st.Sys().(*syscall.Stat_t)
		out := logChild(t, "levels", r, w, fmt.Sprintf("JOURNAL_STREAM=%d:%d", sys.Dev, sys.Ino))
		want := "<7>level=DEBUG msg=debug\n<6>level=INFO msg=info\n<4>level=WARN msg=warn\n<3>level=ERROR msg=error\n"
		if out != want {
			t.Errorf("got  %q\nwant %q", out, want)
		}
	})
	t.Run("inherited JOURNAL_STREAM of another stream", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out := logChild(t, "levels", r, w, "JOURNAL_STREAM=1:2")
		if strings.Contains(out, "<6>") || !strings.Contains(out, "time=") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("nobody reads", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := child("log", "flood")
		cmd.Stderr = w
		out, err := cmd.Output()
		w.Close()
		if err != nil || string(out) != "survived\n" {
			t.Errorf("%v: %q", err, out)
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		cmd := child("log", "flood")
		cmd.Stderr = full
		if out, err := cmd.Output(); err != nil || string(out) != "survived\n" {
			t.Errorf("%v: %q", err, out)
		}
	})
	t.Run("a reader that stopped", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := child("log", "flood")
		cmd.Stderr = w
		out, err := cmd.Output()
		w.Close()
		if err != nil || string(out) != "survived\n" {
			t.Errorf("%v: %q", err, out)
		}
	})
}

func logChild(t *testing.T, mode string, r, w *os.File, env string) string {
	t.Helper()
	defer r.Close()
	cmd := child("log", mode)
	cmd.Stderr = w
	cmd.Env = append(cmd.Env, env)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	out, err := io.ReadAll(bufio.NewReader(r))
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func child(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), childMark+"=1")
	return cmd
}
