package dns

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
)

// queryLog writes some of the questions to a file, a line of JSON each. The
// server's workers hand them over and never wait; its goroutine writes.
type queryLog struct {
	path  string
	log   *slog.Logger
	limit int // lines a second
	lines chan dnsfallback.Sample
	done  sync.WaitGroup

	// writing guards file, for as long as a write takes; the workers never want it.
	writing sync.Mutex
	file    *os.File

	mu     sync.Mutex
	second int64 // of the newest line, and how many there were in it
	passed int
}

// Query is one line of the log.
type Query struct {
	At        time.Time  `json:"at"`
	Client    netip.Addr `json:"client"`
	Transport string     `json:"transport"`
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	// Rcode is empty when there was no answer.
	Rcode string `json:"rcode,omitempty"`
	// Octets of the question and of the answer.
	Asked    int `json:"asked_octets"`
	Answered int `json:"answered_octets"`
	// Table is the version that answered, Branch the steps to the answer.
	Table  uint64   `json:"table"`
	Branch []string `json:"branch,omitempty"`
}

// openQueryLog returns nil when there is to be none; a nil log takes nothing.
func openQueryLog(c config.QueryLog, log *slog.Logger) (*queryLog, error) {
	if c.File == "" {
		return nil, nil
	}
	q := &queryLog{
		path: c.File, log: log, limit: c.PerSecond, lines: make(chan dnsfallback.Sample, 256)}
	if err := q.reopen(); err != nil {
		return nil, err
	}
	q.done.Go(q.run)
	return q, nil
}

// reopen opens the file by its name, as after it was moved away; on an error the
// one before stays.
func (q *queryLog) reopen() error {
	if q == nil {
		return nil
	}
	f, err := os.OpenFile(q.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("dns.query_log.file: %w", err)
	}
	q.writing.Lock()
	old := q.file
	q.file = f
	q.writing.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

// take is called by the workers. What is over the limit, or more than can be
// written, is left out.
func (q *queryLog) take(s dnsfallback.Sample) {
	if !q.pass(s.At) {
		return
	}
	select {
	case q.lines <- s:
	default:
	}
}

func (q *queryLog) pass(at time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if second := at.Unix(); second != q.second {
		q.second, q.passed = second, 0
	}
	q.passed++
	return q.passed <= q.limit
}

func (q *queryLog) run() {
	failing := false
	for s := range q.lines {
		b, err := json.Marshal(Query{
			At: s.At.UTC(), Client: s.Client.Addr(), Transport: s.Transport, Name: s.Name, Type: s.Type, Rcode: s.Rcode,
			Asked: len(s.Question), Answered: len(s.Answer), Table: s.Version, Branch: s.Branch,
		})
		if err == nil {
			q.writing.Lock()
			_, err = q.file.Write(append(b, '\n'))
			q.writing.Unlock()
		}
		if err != nil && !failing {
			q.log.Error("the query log cannot be written; the answers go on", "file", q.path, "err", err)
		}
		failing = err != nil
	}
}

// close writes what is left. The server must have ended.
func (q *queryLog) close() {
	if q == nil {
		return
	}
	close(q.lines)
	q.done.Wait()
	q.file.Close()
}
