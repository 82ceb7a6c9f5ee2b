package role

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LogOptions say how a process logs.
type LogOptions struct {
	// Format is text (default) or json.
	Format string
	// Level is debug, info (default), warn or error.
	Level string
	// Writer replaces standard error; nothing is prefixed then.
	Writer io.Writer
}

// NewLog makes the process's logger. Logging never blocks and never fails: lines
// wait in a bounded queue for a writer of their own; when it is full the oldest
// is dropped, and how many were is said in the next line that gets through.
// Identical lines are thinned out. flush writes what waits, for at most a second.
//
// Where the journal reads standard error, each line carries its priority as in
// sd-daemon(3) and no time, since the journal adds one.
func NewLog(o LogOptions) (log *slog.Logger, flush func(), err error) {
	var level slog.Level
	if o.Level != "" {
		if err := level.UnmarshalText([]byte(o.Level)); err != nil {
			return nil, nil, fmt.Errorf("log level %q: allowed are debug, info, warn, error", o.Level)
		}
	}
	w, journal := o.Writer, false
	if w == nil {
		w, journal = os.Stderr, toJournal(os.Stderr)
		// A broken pipe at standard error would end the process (os/signal); heard,
		// it is an error of the write like any other. The channel is never read.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	opts := &slog.HandlerOptions{Level: level}
	if journal {
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	var form func(io.Writer) slog.Handler
	switch o.Format {
	case "", "text":
		form = func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, opts) }
	case "json":
		form = func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, opts) }
	default:
		return nil, nil, fmt.Errorf("log format %q: allowed are text, json", o.Format)
	}
	queue := newLines(w, form(w))
	h := form(queue)
	if journal {
		h = newJournal(queue, form)
	}
	return slog.New(newThin(h)), func() { queue.flush(time.Second) }, nil
}

// toJournal reports whether f is the stream that JOURNAL_STREAM names by device
// and inode (systemd.exec(5)): the variable alone is inherited by everybody.
func toJournal(f *os.File) bool {
	dev, ino, ok := strings.Cut(os.Getenv("JOURNAL_STREAM"), ":")
	st, err := f.Stat()
	if !ok || err != nil {
		return false
	}
	sys, isStat := st.Sys().(*syscall.Stat_t)
	return isStat && dev == strconv.FormatUint(sys.Dev, 10) && ino == strconv.FormatUint(sys.Ino, 10)
}

// journal writes each record through the handler of its priority.
type journal struct{ err, warning, info, debug slog.Handler }

type prefixed struct {
	w      io.Writer
	prefix string
}

func (p prefixed) Write(b []byte) (int, error) {
	if _, err := p.w.Write(append([]byte(p.prefix), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func newJournal(w io.Writer, form func(io.Writer) slog.Handler) slog.Handler {
	at := func(priority string) slog.Handler { return form(prefixed{w, priority}) }
	return journal{at("<3>"), at("<4>"), at("<6>"), at("<7>")}
}

func (j journal) of(l slog.Level) slog.Handler {
	switch {
	case l >= slog.LevelError:
		return j.err
	case l >= slog.LevelWarn:
		return j.warning
	case l >= slog.LevelInfo:
		return j.info
	}
	return j.debug
}

func (j journal) Enabled(ctx context.Context, l slog.Level) bool { return j.of(l).Enabled(ctx, l) }

func (j journal) Handle(ctx context.Context, r slog.Record) error {
	return j.of(r.Level).Handle(ctx, r)
}

func (j journal) WithAttrs(as []slog.Attr) slog.Handler {
	return journal{j.err.WithAttrs(as), j.warning.WithAttrs(as), j.info.WithAttrs(as), j.debug.WithAttrs(as)}
}

func (j journal) WithGroup(name string) slog.Handler {
	return journal{j.err.WithGroup(name), j.warning.WithGroup(name), j.info.WithGroup(name), j.debug.WithGroup(name)}
}
