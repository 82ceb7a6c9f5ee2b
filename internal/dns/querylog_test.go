package dns

import (
	"log/slog"
	"net/netip"
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

// What a line of the log says, and how many there are in a second at most: those
// beyond are left out, and the next second has its own.
func TestQueryLogLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queries")
	q, err := openQueryLog(config.QueryLog{File: path, Sample: 1, PerSecond: 3}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []int64{100, 100, 100, 100, 100, 101} {
		q.take(dnsfallback.Sample{
			At: time.Unix(second, 500_000_000), Client: netip.MustParseAddrPort("203.0.113.7:5353"), Transport: "udp",
			Name: "www.example.com", Type: "A", Rcode: "NOERROR", Version: 42, Branch: []string{"ratio gives fra"},
			Question: make([]byte, 33), Answer: make([]byte, 49),
		})
	}
	q.take(dnsfallback.Sample{At: time.Unix(101, 0), Client: netip.MustParseAddrPort("[2001:db8::7]:53"), Transport: "tcp", Name: "x", Type: "TYPE9", Question: make([]byte, 12)})
	q.close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const line = `,"client":"203.0.113.7","transport":"udp","name":"www.example.com","type":"A","rcode":"NOERROR","asked_octets":33,"answered_octets":49,"table":42,"branch":["ratio gives fra"]}` + "\n"
	const early = `{"at":"1970-01-01T00:01:40.5Z"` + line
	want := early + early + early + `{"at":"1970-01-01T00:01:41.5Z"` + line +
		`{"at":"1970-01-01T00:01:41Z","client":"2001:db8::7","transport":"tcp","name":"x","type":"TYPE9","asked_octets":12,"answered_octets":0,"table":0}` + "\n"
	if string(b) != want {
		t.Errorf("got:\n%swant:\n%s", b, want)
	}
}
