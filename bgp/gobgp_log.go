package bgp

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/osrg/gobgp/v3/pkg/log"
)

// gobgpLog lets GoBGP write to slog, one level down: what it calls information
// is detail here, since a transition is logged once, by this package. Its
// Panic and Fatal neither panic nor exit: each of their call sites in v3.37
// goes on to wait for the next event, and a speaker that lost one session is
// worth more than one that lost all.
type gobgpLog struct{ to atomic.Pointer[slog.Logger] }

func (l *gobgpLog) write(level slog.Level, msg string, fields log.Fields) {
	to := l.to.Load()
	if to == nil || !to.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields))
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	slices.SortFunc(attrs, func(a, b slog.Attr) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	to.LogAttrs(context.Background(), level, "gobgp: "+msg, attrs...)
}

func (l *gobgpLog) Panic(msg string, f log.Fields) { l.write(slog.LevelError, msg, f) }
func (l *gobgpLog) Fatal(msg string, f log.Fields) { l.write(slog.LevelError, msg, f) }
func (l *gobgpLog) Error(msg string, f log.Fields) { l.write(slog.LevelWarn, msg, f) }
func (l *gobgpLog) Warn(msg string, f log.Fields)  { l.write(slog.LevelDebug, msg, f) }
func (l *gobgpLog) Info(msg string, f log.Fields)  { l.write(slog.LevelDebug, msg, f) }

// Debug drops: at that level GoBGP formats each message it sends.
func (l *gobgpLog) Debug(string, log.Fields) {}

func (l *gobgpLog) SetLevel(log.LogLevel) {}

// GetLevel keeps GoBGP from preparing debug output.
func (l *gobgpLog) GetLevel() log.LogLevel { return log.InfoLevel }
