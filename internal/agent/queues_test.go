package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// A full window drops the oldest observations and counts them.
func TestWindowDropsTheOldest(t *testing.T) {
	w := newWindow()
	for i := range windowBound + 3 {
		w.put(decide.Observed{Observation: steadycast.Observation{Seq: uint64(i)}})
	}
	if w.lost() != 3 {
		t.Errorf("lost %d, want 3", w.lost())
	}
	o, ok := w.take()
	if !ok || o.Observation.Seq != 3 {
		t.Errorf("the oldest is %d, want 3", o.Observation.Seq)
	}
}

// Errands reach the ledger in the order in which they were given, and one that
// hangs is cut off so that the next ones go on.
func TestCourierKeepsOrderAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourier()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var did []int
		for i := range courierBound + 2 {
			c.send(func(context.Context) { did = append(did, i) })
		}
		if c.lost() != 2 {
			t.Errorf("lost %d, want 2", c.lost())
		}
		go c.run(ctx)
		synctest.Wait()
		if len(did) != courierBound || did[0] != 2 || did[len(did)-1] != courierBound+1 {
			t.Fatalf("did %v", did)
		}
		start := time.Now()
		var cut, next time.Duration
		c.send(func(ctx context.Context) { <-ctx.Done(); cut = time.Since(start) })
		c.send(func(context.Context) { next = time.Since(start) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if cut != errandTimeout || next != errandTimeout {
			t.Errorf("the hung errand ended after %v, the next ran after %v; want both %v", cut, next, errandTimeout)
		}
	})
}

// While the speaker takes its time, only the newest set waits.
func TestAnnouncerKeepsTheNewestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var applied []uint64
		var heard, failed int
		free := make(chan struct{})
		a := newAnnouncer(func(ctx context.Context, s steadycast.RouteSet) error {
			applied = append(applied, s.Version)
			select {
			case <-free:
			case <-ctx.Done():
			}
			if s.Version == 5 {
				return errors.New("no")
			}
			return nil
		}, func(s steadycast.RouteSet, err error) {
			if heard++; err != nil {
				failed++
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.run(ctx)
		a.set(steadycast.RouteSet{Version: 1})
		synctest.Wait()
		for v := range uint64(5) {
			a.set(steadycast.RouteSet{Version: v + 1})
		}
		close(free)
		synctest.Wait()
		if len(applied) != 2 || applied[0] != 1 || applied[1] != 5 || heard != 2 || failed != 1 {
			t.Errorf("applied %v, %d failed; want [1 5] and 1", applied, failed)
		}
	})
}
