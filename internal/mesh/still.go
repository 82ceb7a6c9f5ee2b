package mesh

import (
	"time"

	"golang.org/x/sys/unix"
)

// A machine that is suspended stops its monotonic clock. What was sent to it
// before would look fresh after an hour of sleep, because the nonce that it
// echoes seems a second old. So a reader that stood still forgets its nonces.

// stood is how much longer than the monotonic clock the machine has existed
// before it counts as having stood still.
const stood = time.Second

// stillness notices that the machine stood still. It is pure: the two clocks
// are arguments. The zero value is at its first look.
type stillness struct {
	looked bool
	lag    time.Duration
}

// look is given the time since the machine's start with and without its sleep,
// and reports whether it slept since the last look.
func (s *stillness) look(with, without time.Duration) bool {
	lag := with - without
	slept := s.looked && lag-s.lag > stood
	s.looked, s.lag = true, lag
	return slept
}

// begun is where the monotonic clock of this process counts from.
var begun = time.Now()

// clocks are two times that differ by how long the machine has slept:
// CLOCK_BOOTTIME goes on in a sleep, the monotonic clock does not
// (clock_gettime(2)).
func clocks() (with, without time.Duration) {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0, 0 // no such clock, so no sleep is ever noticed
	}
	return time.Duration(ts.Nano()), time.Since(begun)
}
