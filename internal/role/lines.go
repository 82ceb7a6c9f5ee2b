package role

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// lines is a bounded queue of whole lines before a writer that may block or fail.
type lines struct {
	queue   chan []byte // 1024 lines; the oldest is dropped
	flushes chan chan struct{}
	dropped atomic.Uint64
	direct  slog.Handler // writes to the same writer, past the queue
}

func newLines(w io.Writer, direct slog.Handler) *lines {
	l := &lines{queue: make(chan []byte, 1024), flushes: make(chan chan struct{}), direct: direct}
	go l.run(w)
	return l
}

// Write takes one line; it never blocks and never fails.
func (l *lines) Write(b []byte) (int, error) {
	line := append([]byte(nil), b...)
	for {
		select {
		case l.queue <- line:
			return len(b), nil
		default:
		}
		select {
		case <-l.queue:
			l.dropped.Add(1)
		default:
		}
	}
}

func (l *lines) run(w io.Writer) {
	for {
		select {
		case b := <-l.queue:
			l.put(w, b)
		case done := <-l.flushes:
			for more := true; more; {
				select {
				case b := <-l.queue:
					l.put(w, b)
				default:
					more = false
				}
			}
			close(done)
		}
	}
}

func (l *lines) put(w io.Writer, b []byte) {
	if n := l.dropped.Swap(0); n > 0 {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "the log did not take every line", 0)
		r.AddAttrs(slog.Uint64("lines_lost", n))
		if l.direct.Handle(context.Background(), r) != nil {
			l.dropped.Add(n)
		}
	}
	if _, err := w.Write(b); err != nil {
		l.dropped.Add(1)
	}
}

func (l *lines) flush(patience time.Duration) {
	deadline := time.After(patience)
	done := make(chan struct{})
	select {
	case l.flushes <- done:
	case <-deadline:
		return
	}
	select {
	case <-done:
	case <-deadline:
	}
}
