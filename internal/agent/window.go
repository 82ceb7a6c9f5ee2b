package agent

import (
	"sync"

	"github.com/steadycast/steadycast/decide"
)

// windowBound is how many observations may wait for the owner.
const windowBound = 4096

// window is the bounded queue between the probes and the owner. Full, it drops
// the oldest: newer evidence is worth more, and none is never read as failure.
type window struct {
	mu      sync.Mutex
	queue   []decide.Observed
	dropped uint64
	more    chan struct{}
}

func newWindow() *window { return &window{more: make(chan struct{}, 1)} }

// put adds one observation and never blocks.
func (w *window) put(o decide.Observed) {
	w.mu.Lock()
	if len(w.queue) == windowBound {
		w.queue = w.queue[1:]
		w.dropped++
	}
	w.queue = append(w.queue, o)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// take returns the oldest, if any.
func (w *window) take() (decide.Observed, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return decide.Observed{}, false
	}
	o := w.queue[0]
	w.queue = w.queue[1:]
	return o, true
}

// lost is how many were dropped.
func (w *window) lost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}
