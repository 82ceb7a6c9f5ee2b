package ledger

import (
	"sync/atomic"
	"time"
)

// lasting calls f once this process has been running for d, unless it is stopped
// before. Time in which the process did not run (its machine was frozen, moved
// or starved) counts as a small part of d: of whoever was asleep it cannot be
// said that what he waited for hangs.
func lasting(d time.Duration, f func()) (stop func()) {
	const parts = 8
	var over atomic.Bool
	var next func(left int) *time.Timer
	next = func(left int) *time.Timer {
		return time.AfterFunc(d/parts, func() {
			switch {
			case over.Load():
			case left == 1:
				f()
			default:
				next(left - 1)
			}
		})
	}
	first := next(parts)
	return func() {
		over.Store(true)
		first.Stop()
	}
}
