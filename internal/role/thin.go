package role

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Identical lines within thinWindow pass thinBurst times; the first after the
// window says how many were left out. At most thinSubjects lines are remembered.
const (
	thinWindow   = 10 * time.Second
	thinBurst    = 5
	thinSubjects = 256
)

// thin leaves out lines that repeat what was just said. A line is identical if
// level, text and all attributes are. Errors are thinned too: the first say it all.
type thin struct {
	next slog.Handler
	with string // what WithAttrs and WithGroup have put in front
	seen *thinned
}

type thinned struct {
	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	since  time.Time
	passed int
	left   int // lines left out in this window
}

func newThin(h slog.Handler) slog.Handler {
	return thin{next: h, seen: &thinned{said: map[string]*saying{}}}
}

func (t thin) Enabled(ctx context.Context, l slog.Level) bool { return t.next.Enabled(ctx, l) }

func (t thin) Handle(ctx context.Context, r slog.Record) error {
	var key strings.Builder
	key.WriteString(r.Level.String() + t.with + "\x00" + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		key.WriteString("\x00" + a.String())
		return true
	})
	pass, left := t.seen.pass(key.String(), r.Time)
	if !pass {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("same_lines_left_out", left))
	}
	return t.next.Handle(ctx, r)
}

func (t thin) WithAttrs(as []slog.Attr) slog.Handler {
	t.next = t.next.WithAttrs(as)
	for _, a := range as {
		t.with += "\x00" + a.String()
	}
	return t
}

func (t thin) WithGroup(name string) slog.Handler {
	t.next, t.with = t.next.WithGroup(name), t.with+"\x00."+name
	return t
}

// pass says whether a line may pass at now, and how many like it were left out before.
func (s *thinned) pass(key string, now time.Time) (pass bool, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.said[key]
	if e == nil {
		if len(s.said) >= thinSubjects {
			s.forget(now)
		}
		s.said[key] = &saying{since: now, passed: 1}
		return true, 0
	}
	if age := now.Sub(e.since); age < 0 || age >= thinWindow {
		left = e.left
		*e = saying{since: now, passed: 1}
		return true, left
	}
	if e.passed < thinBurst {
		e.passed++
		return true, 0
	}
	e.left++
	return false, 0
}

// forget makes room: windows that are over, else everything.
func (s *thinned) forget(now time.Time) {
	for k, e := range s.said {
		if now.Sub(e.since) >= thinWindow {
			delete(s.said, k)
		}
	}
	if len(s.said) >= thinSubjects {
		clear(s.said)
	}
}
