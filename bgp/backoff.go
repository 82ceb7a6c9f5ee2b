package bgp

import "time"

const (
	// maxRetry is the longest pause between two attempts.
	maxRetry = 30 * time.Second
	// goodSession is how long a session must have been established for the
	// next loss to be answered at once again.
	goodSession = 30 * time.Second
)

// backoff says how long to wait before the next attempt to reach a router. The
// first loss is answered at once; a router that refuses, or takes the session
// and drops it again and again, is asked less and less often. It is pure.
type backoff struct {
	base   time.Duration
	failed int
}

// after returns the pause after an attempt that was established for up (0 if it
// never was). chance is a random number in [0, 1): pauses differ by ±25 %, so
// that the nodes of a rack do not call their router at one moment.
func (b *backoff) after(up time.Duration, chance float64) time.Duration {
	if up >= goodSession {
		b.failed = 0
	}
	b.failed++
	if up > 0 && b.failed == 1 {
		return 0
	}
	pause := min(b.base<<min(b.failed-1, 10), maxRetry)
	return time.Duration(float64(pause) * (0.75 + chance/2))
}
