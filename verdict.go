package steadycast

import "time"

// State is what is believed of one site's service.
type State uint8

const (
	// StateUnknown is the state before anything was learnt.
	StateUnknown State = iota
	// Healthy: serve from here.
	Healthy
	// Suspect: something failed; probes hurry, nothing changes yet.
	Suspect
	// Unhealthy: agreed to be failing; a withdrawal is asked for.
	Unhealthy
	// Recovering: passing again, not yet for long enough to return.
	Recovering
)

func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Suspect:
		return "suspect"
	case Unhealthy:
		return "unhealthy"
	case Recovering:
		return "recovering"
	default:
		return "unknown"
	}
}

// MarshalText writes the word of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads one of unknown, healthy, suspect, unhealthy, recovering.
func (s *State) UnmarshalText(b []byte) error {
	return parseWord(b, s, "state", StateUnknown, Healthy, Suspect, Unhealthy, Recovering)
}

// Troubled reports whether the breaker counts a site in this state.
func (s State) Troubled() bool { return s == Suspect || s == Unhealthy }

// Verdict is what is believed of one site's service, and why.
type Verdict struct {
	Site    string `json:"site"`
	Service string `json:"service"`
	State   State  `json:"state"`
	// Held: too little evidence to judge now; the state stands as it was.
	Held bool `json:"held,omitempty"`
	// Class is that of the failure behind Suspect and Unhealthy.
	Class  Class  `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Bad and Good are the counters the state rests on, in rounds.
	Bad  int `json:"bad,omitempty"`
	Good int `json:"good,omitempty"`
	// Since is the node's monotonic time of the last change of state.
	Since time.Duration `json:"since_ns"`
}
