package demo

import (
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
)

// record is what the ledger's entries brought about, each event with the moment
// at which the first voter carried its entry out: before anybody was answered.
//
// Every voter tells the same events in the same order, so the i-th of one is the
// i-th of all. Its mutex guards everything.
type record struct {
	mu     sync.Mutex
	events []steadycast.Event
	// add is told of each, once.
	add func(steadycast.Event)
}

// teller takes one voter's events.
func (r *record) teller() func([]steadycast.Event) {
	told := 0
	return func(events []steadycast.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range events {
			if told++; told <= len(r.events) {
				continue
			}
			e.At = time.Now()
			r.events = append(r.events, e)
			r.add(e)
		}
	}
}

// all that was recorded so far.
func (r *record) all() []steadycast.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// firstOf is when something of this kind about a site was first told after a moment.
func firstOf(events []steadycast.Event, kind steadycast.EventKind, site, to string, after time.Time) (time.Time, bool) {
	i := slices.IndexFunc(events, func(e steadycast.Event) bool {
		return e.Kind == kind && e.Site == site && e.To == to && e.At.After(after)
	})
	if i < 0 {
		return time.Time{}, false
	}
	return events[i].At, true
}
