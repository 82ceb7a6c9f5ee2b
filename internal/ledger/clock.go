package ledger

import "time"

// clock is the process's monotonic time since it was made, and the only place
// where time is read: the wall clock, stepped or not, has no part in a ledger.
type clock struct{ began time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() time.Duration { return time.Since(c.began) }
