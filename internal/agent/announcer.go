package agent

import (
	"context"
	"sync"

	"github.com/steadycast/steadycast"
)

// announcer hands RouteSets to the speaker outside the owner's loop. It keeps
// one set, the newest: a set is the whole state, so an older one is worthless.
type announcer struct {
	apply func(context.Context, steadycast.RouteSet) error
	heard func(steadycast.RouteSet, error) // how each ended; nil: taken up

	mu   sync.Mutex
	next *steadycast.RouteSet
	wake chan struct{}
}

func newAnnouncer(apply func(context.Context, steadycast.RouteSet) error, heard func(steadycast.RouteSet, error)) *announcer {
	return &announcer{apply: apply, heard: heard, wake: make(chan struct{}, 1)}
}

// set replaces what will be applied next. It never blocks.
func (a *announcer) set(s steadycast.RouteSet) {
	a.mu.Lock()
	a.next = &s
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run applies until ctx ends. A set that the speaker refuses is not repeated by
// itself: the machine sees in Actual what is missing and sends a whole one again.
func (a *announcer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		s := a.next
		a.next = nil
		a.mu.Unlock()
		if s == nil {
			continue
		}
		if err := a.apply(ctx, *s); ctx.Err() == nil {
			a.heard(*s, err)
		}
	}
}
