package mesh

import (
	"math/rand/v2"
	"time"
)

const (
	backoffBase = 250 * time.Millisecond
	backoffMost = 15 * time.Second
	// steady is how long a link must have stood for its failures to be forgotten.
	steady = 5 * time.Second
)

// backoff is how long to wait before the next call, after failures in a row.
// The wait is drawn evenly from nothing to a limit that doubles ("full jitter"),
// so that three hundred sites that lost one peer do not come back together.
func backoff(failures int) time.Duration {
	limit := backoffMost
	if failures < 6 { // 250 ms × 2⁶ is more than the most
		limit = min(limit, backoffBase<<failures)
	}
	return rand.N(limit)
}
