package probe

import (
	"context"
	"testing"
	"testing/synctest"
)

// What is given runs at once, in one that waits if there is any; no more wait
// than may, and none after the end.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCrew(ctx.Done())
		for range 3 {
			const n = 2 * crewIdle
			running, over := make(chan int, n), make(chan struct{})
			for i := range n {
				c.run(func() { running <- i; <-over })
			}
			synctest.Wait()
			if len(running) != n {
				t.Fatalf("%d of %d run", len(running), n)
			}
			close(over)
			synctest.Wait()
			if idle := c.idle.Load(); idle != crewIdle {
				t.Fatalf("%d wait for work", idle)
			}
		}
		done := make(chan struct{})
		c.run(func() { close(done) })
		synctest.Wait()
		if idle := c.idle.Load(); idle != crewIdle {
			t.Fatalf("one that waits was not taken, or did not come back: %d", idle)
		}
		<-done
		cancel()
		synctest.Wait() // the bubble ends only with all of them
	})
}
