package bfd

import (
	"fmt"
	"time"
)

// Settings are the `bfd:` section of a neighbour; both ends use the slower
// interval of the two.
type Settings struct {
	// Interval is how often this node sends while the session is up, and how
	// often the router may: 10ms…10s, default 300ms.
	Interval time.Duration `yaml:"interval"`
	// Multiplier is how many of its packets in a row the router may miss before
	// it takes this node for gone: 1…50, default 3.
	Multiplier uint8 `yaml:"multiplier"`
}

// Defaults that a busy host keeps, and their bounds.
const (
	defaultInterval   = 300 * time.Millisecond
	defaultMultiplier = 3
	leastInterval     = 10 * time.Millisecond
	mostInterval      = 10 * time.Second
	mostMultiplier    = 50
)

// WithDefaults fills in what was left out.
func (s Settings) WithDefaults() Settings {
	if s.Interval == 0 {
		s.Interval = defaultInterval
	}
	if s.Multiplier == 0 {
		s.Multiplier = defaultMultiplier
	}
	return s
}

// Problems calls say with each key of s that is wrong, and why.
func (s Settings) Problems(say func(key, text string)) {
	s = s.WithDefaults()
	switch {
	case s.Interval < leastInterval || s.Interval > mostInterval:
		say("interval", fmt.Sprintf("%s is outside %s…%s; leave it out for %s", s.Interval, leastInterval, mostInterval, defaultInterval))
	case s.Interval%time.Microsecond != 0:
		say("interval", fmt.Sprintf("%s is not whole microseconds, which is all the packet carries (RFC 5880 §4.1)", s.Interval))
	}
	if s.Multiplier > mostMultiplier {
		say("multiplier", fmt.Sprintf("%d is more than %d; leave it out for %d", s.Multiplier, mostMultiplier, defaultMultiplier))
	}
}
