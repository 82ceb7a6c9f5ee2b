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
// a minute.
func raftLogger(to *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: raftLines{to, newSparse()}, DisableTime: true})
}

// raftLines turns raft's lines into records.
type raftLines struct {
	to     *slog.Logger
	sparse *sparse
}

// Write takes one line: `[WARN]  raft: text: key=value`.
func (w raftLines) Write(b []byte) (int, error) {
	level, text := slog.LevelDebug, strings.TrimSpace(string(b))
	if word, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok {
		text = strings.TrimPrefix(strings.TrimSpace(rest), "raft: ")
		switch word {
		case "WARN", "ERROR": // what is an error for the fleet is said by the voter itself
			level = slog.LevelWarn
		}
	}
	if beginning, _, _ := strings.Cut(text, ":"); level > slog.LevelDebug && !w.sparse.pass(beginning) {
		return len(b), nil
	}
	w.to.Log(context.Background(), level, text, "of", "raft")
	return len(b), nil
}

// sparse lets each text pass once a minute, and remembers a bounded number.
type sparse struct {
	clock clock
	mu    sync.Mutex
	said  map[string]time.Duration // and when it passed last
}

const (
	sparseEvery = time.Minute
	sparseTexts = 256
)

func newSparse() *sparse { return &sparse{clock: newClock(), said: map[string]time.Duration{}} }

func (s *sparse) pass(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.now()
	if at, ok := s.said[text]; ok && now-at < sparseEvery {
		return false
	}
	if len(s.said) >= sparseTexts {
		clear(s.said)
	}
	s.said[text] = now
	return true
}
