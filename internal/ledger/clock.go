package ledger

import "time"

// clock is the process's monotonic time since it was made, and the only place
// where time is read: the wall clock, stepped or not, has no part in a ledger.
type clock struct{ began time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() time.Duration { return time.Since(c.began) }

// in is the moment d from now, for deadlines of connections.
func (c clock) in(d time.Duration) time.Time { return c.began.Add(c.now() + d) }
