package probe

import "sync/atomic"

// crew runs attempts in goroutines that stay for the next ones: a new goroutine
// begins with a small stack, and growing it costs as much as the rest of what Go
// does for a look at a near service.
type crew struct {
	work chan func() // taken only by one that waits
	quit <-chan struct{}
	idle atomic.Int64
}

// crewIdle is how many of a crew may wait for work.
const crewIdle = 64

func newCrew(quit <-chan struct{}) *crew { return &crew{work: make(chan func()), quit: quit} }

// run runs f at once, in another goroutine.
func (c *crew) run(f func()) {
	select {
	case c.work <- f:
	default:
		go c.serve(f)
	}
}

func (c *crew) serve(f func()) {
	for {
		f()
		if c.idle.Add(1) > crewIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.work:
			c.idle.Add(-1)
		case <-c.quit:
			return
		}
	}
}
