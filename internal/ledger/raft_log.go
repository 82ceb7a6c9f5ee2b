package ledger

import (
	"context"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes on what raft says. Its lines of the trade (who votes for
// whom) are for those who look for them: Info becomes Debug.
func raftLogger(to *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: raftLines{to}, DisableTime: true})
}

type raftLines struct{ to *slog.Logger }

// Write takes one line: `[WARN]  raft: text: key=value`.
func (w raftLines) Write(b []byte) (int, error) {
	level, text := slog.LevelDebug, strings.TrimSpace(string(b))
	if word, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok {
		text = strings.TrimSpace(rest)
		switch word {
		case "WARN":
			level = slog.LevelWarn
		case "ERROR":
			level = slog.LevelError
		}
	}
	w.to.Log(context.Background(), level, strings.TrimPrefix(text, "raft: "), "of", "raft")
	return len(b), nil
}
