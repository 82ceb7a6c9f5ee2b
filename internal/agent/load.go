package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// What a site carries is measured by whoever can: a script writes it into a file,
// Prometheus is asked, or the packets are counted (cut.go); and the site's beats
// tell the ledger. How old a figure is, the file says: one
// that is no longer written is told with its age, and soon says nothing.

// loadEvery is how often the file is looked at.
const loadEvery = time.Second

// loadAhead is how far ahead of the clock the file may be: more, and nobody knows
// how old it is.
const loadAhead = 5 * time.Second

// readLoad reads one figure: the first line of the file is a whole number, not
// negative, in the unit of the site's capacity.
func readLoad(path string) (load int64, written time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, written, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, written, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return 0, written, err
	}
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	load, err = strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil || load < 0 {
		return 0, written, fmt.Errorf("%s: %q is not a load; its first line must be a whole number, 0 or more", path, line)
	}
	if ahead := time.Until(st.ModTime()); ahead > loadAhead {
		return 0, written, fmt.Errorf("%s: written %v in the future: a clock was stepped, and it counts when it is written anew", path, ahead.Round(time.Second))
	}
	return load, st.ModTime(), nil
}

// load tells the owner what the site carried at a time.
func (a *Agent) load(ctx context.Context, load int64, at time.Time) {
	in := decide.Loaded{Load: load, From: a.now() - max(time.Since(at), 0)}
	select {
	case a.calls <- func() { a.step(in) }:
	case <-ctx.Done():
	}
}

// figureEvery is how often Prometheus is asked, and figureWithin how long it may take.
const figureEvery, figureWithin = 10 * time.Second, 5 * time.Second

// watchFigure tells the owner what a query of Prometheus gives, until ctx ends.
func (a *Agent) watchFigure(ctx context.Context, target, query string) {
	tick := time.NewTicker(figureEvery)
	defer tick.Stop()
	said := ""
	for {
		ask, cancel := context.WithTimeout(ctx, figureWithin)
		asked := time.Now()
		v, err := probe.Figure(ask, target, query)
		cancel()
		switch {
		case err == nil && (v < 0 || v > 1<<62):
			err = fmt.Errorf("%v is not a load", v)
			fallthrough
		case err != nil:
			if said != err.Error() && ctx.Err() == nil {
				said = err.Error()
				a.o.Logger.Warn("the load of this site is not known", "why", said)
			}
		default:
			said = ""
			a.load(ctx, int64(v+0.5), asked)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchLoad tells the owner each new figure, until ctx ends. What cannot be read
// is said once, and tells nothing.
func (a *Agent) watchLoad(ctx context.Context, path string) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last time.Time
	said := ""
	for {
		load, written, err := readLoad(path)
		switch {
		case err != nil:
			if said != err.Error() {
				said = err.Error()
				a.o.Logger.Warn("the load of this site is not known", "why", said)
			}
		case !written.Equal(last):
			last, said = written, ""
			a.load(ctx, load, written)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
