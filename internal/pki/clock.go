package pki

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/steadycast/steadycast/internal/role"
)

// keepEvery is how often the highest time is written down.
const keepEvery = time.Hour

// clock keeps a floor under the system's clock: a machine without a battery
// starts in 1970, and would refuse every certificate of its fleet. Its owner
// holds Credentials.mu.
type clock struct {
	path  string
	floor time.Time // no moment before it can be now
	kept  time.Time // what the file holds
	fault string    // why it cannot be kept
}

// openClock reads the floor. A file that is missing or cannot be read is a floor
// of nothing, with an alarm: certificates still bound the time from below.
func openClock(path string) clock {
	k := clock{path: path}
	if path == "" {
		return k
	}
	data, err := readFile(path, false)
	if os.IsNotExist(err) {
		return k
	}
	if err == nil {
		k.kept, err = time.Parse(time.RFC3339, strings.TrimSpace(string(data)))
	}
	if err != nil {
		// It is written anew in an hour, when somebody may have seen the alarm.
		k.fault, k.kept = fmt.Sprintf("the clock's floor cannot be read: %v", err), time.Now()
		return k
	}
	k.floor = k.kept
	return k
}

// learn raises the floor to a moment that our authority has signed as past.
func (k *clock) learn(t time.Time) {
	if t.After(k.floor) {
		k.floor = t
	}
}

// keep writes the floor down, once an hour. limit is the end of our own
// certificate: a clock that jumped beyond it is not believed, because its floor
// would shut out the whole fleet for good.
func (k *clock) keep(now, limit time.Time) {
	if k.path == "" || now.After(limit) || now.Sub(k.kept) < keepEvery {
		return
	}
	if err := role.WriteFile(k.path, []byte(now.UTC().Format(time.RFC3339)+"\n"), publicMode); err != nil {
		k.fault = fmt.Sprintf("the clock's floor cannot be kept: %v", err)
	} else {
		k.fault = ""
	}
	k.kept = now
}

func (k *clock) alarm(system time.Time) string {
	// An hour is a kept floor's own coarseness; less than that is no matter.
	if behind := k.floor.Sub(system); behind > time.Minute {
		return fmt.Sprintf("the system's clock says %s, which is before %s, a moment that has passed: set the clock, or remove %s if that is what is wrong", date(system), date(k.floor), k.path)
	}
	return k.fault
}

// Now is the time that certificates are judged at: the system's clock, but
// never before the highest moment known to have passed. That is the newest of
// the kept floor, of what our own files were signed at, and of the beginnings
// of the certificates that peers have shown. While the system's clock is below
// it, a certificate's beginning is evidence about the time rather than a reason
// to refuse.
func (c *Credentials) Now() time.Time {
	s := c.state()
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.now(s)
	return now
}

// now also says whether the system's clock is known to be behind. The caller holds mu.
func (c *Credentials) now(s *state) (t time.Time, vague bool) {
	c.clock.learn(s.since)
	system := time.Now().Round(0)
	if system.Before(c.clock.floor) {
		return c.clock.floor, true
	}
	c.clock.keep(system, s.leaf.NotAfter)
	return system, false
}
