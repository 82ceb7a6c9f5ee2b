package answers

import (
	"time"

	"github.com/steadycast/steadycast/decide"
)

// News is how a server stands with the ledger that it follows.
type News struct {
	// Stale says why its answers are of old state; empty while they are not.
	Stale string
	// For is how long nothing was heard.
	For time.Duration
}

// Patience is how long a server goes on with old state; 0 is for ever.
type Patience struct {
	// Minimal is until plain anycast addresses, Silence until nothing is answered.
	Minimal, Silence time.Duration
}

// Standing is how one server answers: the rung of the ladder that it stands on, why,
// and whether its state is so old that it is silent.
type Standing struct {
	Mode   Mode
	Why    string
	Silent bool
}

// Stand is the rung that the fleet stands on, or a lower one for want of news.
func Stand(v *decide.View, n News, p Patience) (s Standing) {
	s.Mode, s.Why = Committed(v)
	if n.Stale == "" {
		return s
	}
	s.Silent = p.Silence > 0 && n.For >= p.Silence
	switch {
	case p.Minimal > 0 && s.Mode < Minimal && n.For >= p.Minimal:
		s.Mode, s.Why = Minimal, "stale for longer than "+p.Minimal.String()
	case s.Mode < Frozen:
		s.Mode, s.Why = Frozen, "stale: "+n.Stale
	}
	return s
}
