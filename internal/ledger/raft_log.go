package ledger

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes on what raft says. Its lines of the trade (who votes for
// whom) are for those who look for them: Info becomes Debug. A peer that is down
// is worth a line, not two a second: of lines with the same beginning one passes
// in raftLineEvery.
func raftLogger(to *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: &raftLines{to: to, clock: newClock(), said: map[string]time.Duration{}}, DisableTime: true})
}

const (
	raftLineEvery = time.Minute
	raftLineKinds = 256
)

// raftLines turns raft's lines into records.
type raftLines struct {
	to    *slog.Logger
	clock clock

	mu   sync.Mutex
	said map[string]time.Duration // beginnings, and when they were passed on last
}

// Write takes one line: `[WARN]  raft: text: key=value`.
func (w *raftLines) Write(b []byte) (int, error) {
	level, text := slog.LevelDebug, strings.TrimSpace(string(b))
	if word, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok {
		text = strings.TrimPrefix(strings.TrimSpace(rest), "raft: ")
		switch word {
		case "WARN", "ERROR": // what is an error for the fleet is said by the voter itself
			level = slog.LevelWarn
		}
	}
	if level > slog.LevelDebug && !w.pass(text) {
		return len(b), nil
	}
	w.to.Log(context.Background(), level, text, "of", "raft")
	return len(b), nil
}

func (w *raftLines) pass(text string) bool {
	beginning, _, _ := strings.Cut(text, ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.now()
	if at, ok := w.said[beginning]; ok && now-at < raftLineEvery {
		return false
	}
	if len(w.said) >= raftLineKinds {
		clear(w.said)
	}
	w.said[beginning] = now
	return true
}
