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
)

// What a site carries is measured by whoever can: a script writes it into a file,
// and the site's beats tell the ledger. How old a figure is, the file says: one
// that is no longer written is told with its age, and soon says nothing.

// loadEvery is how often the file is looked at.
const loadEvery = time.Second

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
	return load, st.ModTime(), nil
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
			in := decide.Loaded{Load: load, From: a.now() - max(time.Since(written), 0)}
			select {
			case a.calls <- func() { a.step(in) }:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
