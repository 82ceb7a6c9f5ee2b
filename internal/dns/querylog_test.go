package dns

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
)

// A disk that stalls holds up the log, never the workers who hand it their samples:
// here a pipe that is full, and that nobody reads until they are through.
func TestQueryLogNeverHoldsWorkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queries")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // so that it can be opened for writing
	if err != nil {
		t.Fatal(err)
	}
	pipe := os.NewFile(uintptr(fd), path)
	defer pipe.Close()
	q, err := openQueryLog(config.QueryLog{File: path, Sample: 1, PerSecond: 1 << 30}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := dnsfallback.Sample{At: time.Unix(1, 0), Branch: []string{string(make([]byte, 1<<17))}} // more than a pipe takes
	q.take(s)
	eventually(t, "the writer waits for the pipe", func() bool {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err == nil && n > 0
	})
	through := make(chan struct{})
	go func() {
		defer close(through)
		for range 2 * cap(q.lines) {
			q.take(s)
		}
	}()
	select {
	case <-through:
	case <-time.After(time.Minute):
		t.Error("a worker waits for the file of the query log")
	}
	go func() { // let the writer end
		for b := make([]byte, 1<<20); ; {
			if _, err := pipe.Read(b); err != nil {
				return
			}
		}
	}()
	<-through
	q.close()
}
