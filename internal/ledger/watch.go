package ledger

import (
	"slices"
	"sync"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// watchers are those who want to know that the state changed, and how. tell is
// called by the ledger's goroutine, the rest by anybody.
type watchers struct {
	mu      sync.Mutex
	signals []chan struct{}
	hears   []*func([]steadycast.Event)
}

// add gives a channel that holds at most one signal: what changed twice since a
// reader looked needs to be looked at once. It begins with a signal, so that a
// reader does not miss what changed before it watched.
func (w *watchers) add() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signals = append(w.signals, c)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.signals = slices.DeleteFunc(w.signals, func(x chan struct{}) bool { return x == c })
	}
}

// on adds a function that hears every event.
func (w *watchers) on(f func([]steadycast.Event)) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hears = append(w.hears, &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hears = slices.DeleteFunc(w.hears, func(x *func([]steadycast.Event)) bool { return x == &f })
	}
}

// tell signals, then tells the events.
func (w *watchers) tell(events []steadycast.Event) {
	w.mu.Lock()
	hears := slices.Clone(w.hears)
	for _, c := range w.signals {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	w.mu.Unlock()
	if len(events) == 0 {
		return
	}
	for _, f := range hears {
		(*f)(events)
	}
}

// beatBox holds the newest beat of each node until the ledger's goroutine takes
// them: it is bounded by the number of nodes, and putting never blocks.
type beatBox struct {
	mu    sync.Mutex
	beats []heard // in order of site, then node
	wake  chan struct{}
}

func (x *beatBox) put(b heard) {
	x.mu.Lock()
	i, ok := slices.BinarySearchFunc(x.beats, b.beat, func(y heard, b decide.Beat) int { return y.beat.Speaker(b) })
	switch {
	case !ok:
		x.beats = slices.Insert(x.beats, i, b)
	case !b.beat.Late(x.beats[i].beat, b.at-x.beats[i].at):
		b.at = max(b.at, x.beats[i].at)
		x.beats[i] = b
	}
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *beatBox) take() []heard {
	x.mu.Lock()
	defer x.mu.Unlock()
	beats := x.beats
	x.beats = nil
	return beats
}
