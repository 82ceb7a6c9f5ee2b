package api

import (
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// The ring shows what a plain list of everything would, cut to the newest.
func TestRingIsTheTailOfEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 9).Draw(t, "size")
		r := NewRing(size)
		size = max(size, 1)
		var all []steadycast.Event
		for range rapid.IntRange(0, 40).Draw(t, "adds") {
			all = append(all, r.Add(steadycast.Event{Kind: steadycast.EventRoute, Reason: rapid.StringN(0, 3, -1).Draw(t, "reason")}))
		}
		after := rapid.Uint64Range(0, 50).Draw(t, "after")
		got, more := r.Since(after)
		if after > uint64(len(all)) {
			after = 0
		}
		want := all[max(len(all)-size, int(after)):]
		if len(got) != len(want) {
			t.Fatalf("size %d, %d added, after %d: got %d events, want %d", size, len(all), after, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] || got[i].ID != uint64(len(all)-len(got)+i+1) {
				t.Fatalf("event %d is %+v, want %+v", i, got[i], want[i])
			}
		}
		select {
		case <-more:
			t.Fatal("more was said with nothing added")
		default:
		}
		r.Add(steadycast.Event{})
		select {
		case <-more:
		default:
			t.Fatal("an event was added and nobody was told")
		}
	})
}

// Readers and a writer at once: a follower that reads fast enough sees each
// event once, in order.
func TestRingFollowers(t *testing.T) {
	const events, followers = 500, 4
	r := NewRing(events)
	var wg sync.WaitGroup
	for range followers {
		wg.Go(func() {
			last := uint64(0)
			for last < events {
				batch, more := r.Since(last)
				for _, e := range batch {
					if e.ID != last+1 {
						t.Errorf("after %d comes %d", last, e.ID)
						return
					}
					last = e.ID
				}
				if last < events {
					<-more
				}
			}
		})
	}
	for range events {
		r.Add(steadycast.Event{Kind: steadycast.EventProof})
	}
	wg.Wait()
}
