package api

import (
	"sync"

	"github.com/steadycast/steadycast"
)

// Ring keeps the newest events for readers. When it is full the oldest is
// dropped; a reader sees that as a jump in the ids. Its lock is held only to
// copy, so a slow reader never delays the writer. The zero Ring is not usable;
// see [NewRing].
type Ring struct {
	mu     sync.Mutex
	events []steadycast.Event // guarded by mu; event with id n lies at (n-1) mod cap
	last   uint64             // guarded by mu; id of the newest, 0 before the first
	more   chan struct{}      // guarded by mu; closed and replaced by Add
}

// NewRing returns a ring of size events, at least one.
func NewRing(size int) *Ring {
	return &Ring{events: make([]steadycast.Event, max(size, 1)), more: make(chan struct{})}
}

// Add numbers the event and keeps it; it returns the event as kept.
func (r *Ring) Add(e steadycast.Event) steadycast.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.ID = r.last
	r.events[(e.ID-1)%uint64(len(r.events))] = e
	close(r.more)
	r.more = make(chan struct{})
	return e
}

// Since returns a copy of the events with an id over after, oldest first, and a
// channel that closes at the next Add. An id of the future, which a reader
// keeps from before a restart, counts as 0.
func (r *Ring) Since(after uint64) ([]steadycast.Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if after > r.last {
		after = 0
	}
	size := uint64(len(r.events))
	if r.last > size && after < r.last-size {
		after = r.last - size
	}
	out := make([]steadycast.Event, 0, r.last-after)
	for id := after + 1; id <= r.last; id++ {
		out = append(out, r.events[(id-1)%size])
	}
	return out, r.more
}
