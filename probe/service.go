package probe

import (
	"time"

	"github.com/steadycast/steadycast"
)

// Service is what is looked at in rounds: its checks run together, and each
// round gives one observation of Subject from Vantage.
type Service struct {
	Name string
	// Subject is the site looked at, Vantage the site that looks.
	Subject string
	Vantage string
	Checks  []Check
	// Up is an expression over the checks' names; default: all of them.
	Up string
	// Interval between rounds, default 1s; FastInterval while hurried, default 200ms.
	Interval     time.Duration
	FastInterval time.Duration
	// Controls: this is no service, but what says whether Vantage is eligible to
	// speak of other subjects; see [Controls].
	Controls bool
}

// Limits that keep a service's round small.
const (
	maxChecks   = 64
	minInterval = 10 * time.Millisecond
	maxInterval = time.Hour
)

// WithDefaults fills in what was not said.
func (s Service) WithDefaults() Service {
	if s.Interval == 0 {
		s.Interval = time.Second
	}
	if s.FastInterval == 0 {
		s.FastInterval = min(200*time.Millisecond, s.Interval)
	}
	return s
}

// CheckStatus is what is known of one check: an immutable copy.
type CheckStatus struct {
	Service string `json:"service"`
	Subject string `json:"subject"`
	Check   string `json:"check"`
	Kind    string `json:"kind"`
	Target  string `json:"target,omitempty"`
	// Last is the newest result, the zero Result before the first.
	Last steadycast.Result `json:"last"`
	// LastStart is when the newest attempt began, LastUp when the newest one that
	// passed began: monotonic, since the scheduler started.
	LastStart time.Duration `json:"last_start_ns"`
	LastUp    time.Duration `json:"last_up_ns"`
	// Lag is how much later than planned the newest attempt began.
	Lag time.Duration `json:"lag_ns"`
	// Runs counts attempts that ended, by outcome.
	Runs     uint64 `json:"runs"`
	Ups      uint64 `json:"ups"`
	Downs    uint64 `json:"downs"`
	Unknowns uint64 `json:"unknowns"`
	// Abandoned counts attempts that did not stop at their deadline.
	Abandoned uint64 `json:"abandoned"`
	// Busy counts rounds in which it was still running from an earlier one,
	// Saturated those in which no slot was free in time.
	Busy      uint64 `json:"busy"`
	Saturated uint64 `json:"saturated"`
	// Tripwire is empty when there is none, else armed or why it is not.
	Tripwire string `json:"tripwire,omitempty"`
}

// Stats are the scheduler's own numbers.
type Stats struct {
	Services int `json:"services"`
	Checks   int `json:"checks"`
	// Running attempts now, of Concurrency; Queued wait for a slot.
	Running     int `json:"running"`
	Concurrency int `json:"concurrency"`
	Queued      int `json:"queued"`
	// Rounds that gave an observation; Skipped are slots of the grid that passed
	// without a round, because the one before had not ended or the host was late.
	Rounds  uint64 `json:"rounds"`
	Skipped uint64 `json:"skipped"`
	// Runs of checks that ended; Saturated could not start in time; Abandoned did not stop in time.
	Runs      uint64 `json:"runs"`
	Saturated uint64 `json:"saturated"`
	Abandoned uint64 `json:"abandoned"`
	// Lag of the newest round behind its slot, the worst so far, and their sum
	// over all rounds.
	Lag      time.Duration `json:"lag_ns"`
	LagMax   time.Duration `json:"lag_max_ns"`
	LagTotal time.Duration `json:"lag_total_ns"`
	// Trips counts lost tripwires.
	Trips uint64 `json:"trips"`
	// Ineligible is why this vantage is no voice on others; empty: it is one. Held
	// counts the failures of others that wait for the controls.
	Ineligible string `json:"ineligible,omitempty"`
	Held       int    `json:"held"`
}
