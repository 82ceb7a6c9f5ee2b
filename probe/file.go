package probe

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/steadycast/steadycast"
)

// fileProbe reads what somebody else has found out. Age is measured by this
// process's own monotonic clock from when a change of the file was first seen,
// and only the age at first sight comes from the wall clock: so a clock that is
// stepped makes an old file neither young nor older.
type fileProbe struct {
	path string
	set  File

	mu    sync.Mutex // an abandoned attempt may end beside the next check of age
	last  fileState
	first time.Time // when last was first seen, monotonic
	aged  time.Duration
}

type fileState struct {
	mtime time.Time
	size  int64
	inode uint64
}

func (f *File) withDefaults() *File {
	if f.MaxAge == 0 {
		f.MaxAge = time.Minute
	}
	return f
}

func fileProblems(c Check) []Problem {
	var ps []Problem
	if c.Target != "" {
		ps = absolutePath("target", c.Target)
	}
	if c.File.MaxAge < 0 {
		ps = append(ps, problem("file.max_age", "%v is negative", c.File.MaxAge))
	}
	switch c.File.Presence {
	case "", "up_if_present", "down_if_present":
	default:
		ps = append(ps, problem("file.presence", "%q is neither up_if_present nor down_if_present", c.File.Presence))
	}
	return ps
}

func compileFile(c Check, _ Env) (body, error) { return &fileProbe{path: c.Target, set: *c.File}, nil }

func (p *fileProbe) probe(context.Context) steadycast.Result {
	// Without O_NONBLOCK, opening a FIFO would wait for its writer.
	f, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	missing := errors.Is(err, fs.ErrNotExist)
	if p.set.Presence != "" {
		if err == nil {
			f.Close()
		} else if !missing && !errors.Is(err, fs.ErrPermission) {
			return unknown("%v", err)
		}
		return p.presence(!missing)
	}
	if missing {
		return unknown("%s is not there", p.path)
	}
	if err != nil {
		return unknown("%v", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return unknown("%v", err)
	}
	if !st.Mode().IsRegular() {
		return unknown("%s is not a regular file", p.path)
	}
	if age := p.age(st); age > p.set.MaxAge {
		return unknown("%s was last written %v ago, over %v", p.path, age.Round(time.Second), p.set.MaxAge)
	}
	head, err := io.ReadAll(io.LimitReader(f, maxOutput))
	if err != nil {
		return unknown("%v", err)
	}
	return p.judge(string(head))
}

func (p *fileProbe) presence(there bool) steadycast.Result {
	words := "is not there"
	if there {
		words = "is there"
	}
	if there == (p.set.Presence == "up_if_present") {
		return up(p.path + " " + words)
	}
	return soft("%s %s", p.path, words)
}

func (p *fileProbe) age(st fs.FileInfo) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := fileState{mtime: st.ModTime(), size: st.Size()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		now.inode = sys.Ino
	}
	if p.first.IsZero() || now != p.last {
		seenBefore := !p.first.IsZero()
		p.last, p.first, p.aged = now, time.Now(), 0
		if !seenBefore { // a change that we saw happen is as old as our look at it
			p.aged = max(0, time.Since(now.mtime))
		}
	}
	return p.aged + time.Since(p.first)
}

// judge reads "up", "down" or "unknown", then an optional reason, from the first line.
func (p *fileProbe) judge(text string) steadycast.Result {
	line, _, _ := strings.Cut(text, "\n")
	word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
	reason = clip(strings.TrimSpace(reason), 200)
	if reason == "" {
		reason = p.path + " says so"
	}
	switch strings.ToLower(word) {
	case "up":
		return up(reason)
	case "down":
		return soft("%s", reason)
	case "unknown":
		return unknown("%s", reason)
	case "":
		return unknown("%s is empty", p.path)
	default:
		return unknown("%s starts with %q; up, down or unknown", p.path, clip(word, 40))
	}
}
