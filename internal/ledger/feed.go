package ledger

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// feedKeeps is how many changes a reader may be behind before it gets the whole
// view instead.
const feedKeeps = 128

// feed is what watchers read: the newest changes, each encoded once however
// many read it. A reader holds nothing here but its position, so that a slow
// one costs nothing and drops nothing but what a whole view makes up for.
type feed struct {
	mu   sync.Mutex
	last *decide.View
	full []byte // a report with last, made when first asked for
	ring []change
	wake []chan struct{}
	shut bool
}

// change is one report that leads from one position to the next.
type change struct {
	from, to steadycast.Fence
	line     []byte
}

// add publishes the next view, with the events that led to it.
func (f *feed) add(next decide.View, events []steadycast.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var c change
	if f.last != nil {
		if d, ok := difference(f.last, &next); ok {
			c = change{f.last.Fence, next.Fence, line(report{From: f.last.Fence, Delta: &d, Events: events})}
		}
	}
	f.last, f.full = &next, nil
	if c.line == nil {
		f.ring = nil // nobody can follow over this
	} else {
		f.ring = append(f.ring, c)
		if over := len(f.ring) - feedKeeps; over > 0 {
			f.ring = slices.Delete(f.ring, 0, over)
		}
	}
	for _, w := range f.wake {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// since gives the lines that lead from a position to the newest, and that one.
func (f *feed) since(at steadycast.Fence) (lines [][]byte, newest steadycast.Fence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil || f.last.Fence == at {
		return nil, at
	}
	if i := slices.IndexFunc(f.ring, func(c change) bool { return c.from == at }); i >= 0 {
		for _, c := range f.ring[i:] {
			lines = append(lines, c.line)
		}
		return lines, f.last.Fence
	}
	if f.full == nil {
		f.full = line(report{Full: f.last})
	}
	return [][]byte{f.full}, f.last.Fence
}

// join adds a watcher: its channel holds a signal when there is more to read,
// and is closed with the feed. ok is false over the bound, and after close.
func (f *feed) join(most int) (wake <-chan struct{}, leave func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut || len(f.wake) >= most {
		return nil, nil, false
	}
	c := make(chan struct{}, 1)
	f.wake = append(f.wake, c)
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wake = slices.DeleteFunc(f.wake, func(x chan struct{}) bool { return x == c })
	}, true
}

// close ends every watcher's stream.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return
	}
	f.shut = true
	for _, w := range f.wake {
		close(w)
	}
	f.wake = nil
}

// line is a report as it goes over the wire.
func line(f report) []byte {
	b, err := json.Marshal(f)
	if err != nil { // the same types are in every snapshot
		panic("ledger: a view cannot be written: " + err.Error())
	}
	return append(b, '\n')
}
