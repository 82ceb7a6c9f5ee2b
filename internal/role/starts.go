package role

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A crash loop is CrashLoopStarts starts of one process within CrashLoopWindow.
const (
	CrashLoopStarts = 3
	CrashLoopWindow = 10 * time.Minute
)

// Moment is a point in time that can be compared across processes. Within one
// boot the host's uptime counts, which no one can step; across boots the wall
// clock, which may be wrong.
type Moment struct {
	Boot   string        `json:"boot"`
	Uptime time.Duration `json:"uptime_ns"`
	Wall   time.Time     `json:"wall"`
}

// Now reads the clocks.
func Now() Moment {
	m := Moment{Wall: time.Now().Round(0)}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		m.Uptime = time.Duration(ts.Nano())
	}
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.Boot = strings.TrimSpace(string(id))
	}
	return m
}

// Since is the time from n to m, negative if n seems to lie in the future.
func (m Moment) Since(n Moment) time.Duration {
	if m.Boot != "" && m.Boot == n.Boot {
		return m.Uptime - n.Uptime
	}
	return m.Wall.Sub(n.Wall)
}

// Starts is the record of a process's starts, kept on disk.
type Starts struct {
	// Total counts every start ever.
	Total uint64 `json:"total"`
	// Recent are those that may still make a crash loop, the newest last.
	Recent []Moment `json:"recent"`
}

// Loop reports whether the newest start is one of a crash loop, and how long
// the process must last for it to be over.
func (s Starts) Loop(now Moment) (left time.Duration, loop bool) {
	if len(s.Recent) < CrashLoopStarts {
		return 0, false
	}
	newest := s.Recent[len(s.Recent)-1]
	left = CrashLoopWindow - now.Since(newest)
	return left, left > 0
}

// Add counts a start at now. Starts that are too old, or seem to lie in the
// future, are forgotten: a stepped clock must not keep a node out.
func (s Starts) Add(now Moment) Starts {
	next := Starts{Total: s.Total + 1}
	for _, m := range s.Recent {
		if age := now.Since(m); age >= 0 && age < CrashLoopWindow {
			next.Recent = append(next.Recent, m)
		}
	}
	next.Recent = append(next.Recent, now)
	if extra := len(next.Recent) - CrashLoopStarts; extra > 0 {
		next.Recent = next.Recent[extra:]
	}
	return next
}

// CountStart adds a start at now to the record at path and returns it. The
// record is right even when an error is returned, which then says why what was
// there was not believed, or that the new one is not on disk.
func CountStart(path string, now Moment) (Starts, error) {
	var old Starts
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil:
		d := json.NewDecoder(bytes.NewReader(b))
		if err = d.Decode(&old); err != nil {
			old = Starts{}
			err = fmt.Errorf("%s: %w; starts are counted anew", path, err)
		}
	}
	next := old.Add(now)
	return next, errors.Join(err, next.Write(path))
}

// Write puts the record on disk.
func (s Starts) Write(path string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return WriteFile(path, append(b, '\n'), 0o640)
}

// Forgive ends a crash loop by a person's wish: the starts no longer count.
func (s Starts) Forgive(path string) (Starts, error) {
	s.Recent = nil
	return s, s.Write(path)
}
