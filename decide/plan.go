package decide

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Plan is a move that was written down before it is needed: steps, one after
// the other, each of which can be taken back.
type Plan struct {
	Name  string `yaml:"name" json:"name"`
	About string `yaml:"about" json:"about,omitempty"`
	// Start says when it is proposed, or begins by itself; nil: only a person begins it.
	Start *PlanStart `yaml:"start" json:"start,omitempty"`
	// OnFailure is hold (default: it stands still and a person looks) or rollback.
	OnFailure string `yaml:"on_failure" json:"on_failure,omitempty"`
	Steps     []Step `yaml:"steps" json:"steps"`
}

// PlanStart is when a plan is called for.
type PlanStart struct {
	// When is what must be so, all of it.
	When []Sign `yaml:"when" json:"when"`
	// For is how long without a break; default 30s.
	For time.Duration `yaml:"for" json:"for_ns,omitempty"`
	// Do is propose (default) or run.
	Do string `yaml:"do" json:"do,omitempty"`
}

// Sign is the committed verdict of one service at one site.
type Sign struct {
	Site    string `yaml:"site" json:"site"`
	Service string `yaml:"service" json:"service"`
	// State is healthy, suspect, unhealthy or recovering.
	State steadycast.State `yaml:"state" json:"state"`
}

// Step is one step of a plan, as the ledger needs it. What a node looks at or
// runs in it stands in the text of the table alone.
type Step struct {
	// Name within the plan; default Do.
	Name string `yaml:"name" json:"name"`
	Do   string `yaml:"do" json:"do"`
	// Site is which is moved: by shift, warm, drain, withdraw, announce.
	Site string `yaml:"site" json:"site,omitempty"`
	// Service whose clients are moved by shift and warm; default every service of the site.
	Service string `yaml:"service" json:"service,omitempty"`
	// Prefixes that drain, withdraw and announce are about; default all of the site.
	Prefixes []netip.Prefix `yaml:"prefixes" json:"prefixes,omitempty"`
	// At is the site whose node looks or runs; default any.
	At string `yaml:"at" json:"at,omitempty"`
	// Percent of its clients that the site takes after a shift, or while it is
	// warmed (default 1).
	Percent *int `yaml:"percent" json:"percent,omitempty"`
	// Canary are the points of percent that a shift moves first; default 5, 0 none.
	Canary *int `yaml:"canary" json:"canary,omitempty"`
	// For is how long wait waits, the canary and the warming last, and a
	// verification must hold; default 30s.
	For time.Duration `yaml:"for" json:"for_ns,omitempty"`
	// Timeout of the step; default 10m, for run 1m. 0 stands for the default.
	Timeout time.Duration `yaml:"timeout" json:"timeout_ns,omitempty"`
	// Effect of a run on who may write: fence (the old one may not any more) or
	// promote (the new one may); default neither.
	Effect string `yaml:"effect" json:"effect,omitempty"`

	// Undoes: a run says how it is taken back.
	Undoes bool `yaml:"-" json:"undoes,omitempty"`
	// Details stand for what only the text says of the step, so that a change of
	// it is a change of the plan.
	Details string `yaml:"-" json:"details,omitempty"`
}

// The words of Step.Do.
const (
	DoCheck    = "check"    // the guards are asked about all that the plan moves
	DoGuard    = "guard"    // a look that must come out up
	DoWarm     = "warm"     // a site gets a trickle of clients
	DoShift    = "shift"    // DNS sends a site more or fewer clients, a few first
	DoDrain    = "drain"    // GSHUT, wait, withdraw
	DoWithdraw = "withdraw" // the routes of a site go at once
	DoAnnounce = "announce" // and come back
	DoWait     = "wait"     // time passes
	DoApprove  = "approve"  // a person says yes
	DoVerify   = "verify"   // the world shows that it is so, for a while
	DoRun      = "run"      // a node runs a program or calls an address
)

// The other words of a plan.
const (
	OnFailureHold     = "hold"
	OnFailureRollback = "rollback"

	StartPropose = "propose"
	StartRun     = "run"

	EffectFence   = "fence"
	EffectPromote = "promote"
)

var stepWords = []string{DoCheck, DoGuard, DoWarm, DoShift, DoDrain, DoWithdraw, DoAnnounce, DoWait, DoApprove, DoVerify, DoRun}

// Bounds of plans.
const (
	plansMost = 64
	stepsMost = 64
	stepText  = 500 // bytes of what a step shows
)

// WithDefaults fills in what was not said.
func (p Plan) WithDefaults() Plan {
	setDefault(&p.OnFailure, OnFailureHold)
	if p.Start != nil {
		s := *p.Start
		s.When = slices.Clone(s.When)
		setDefault(&s.For, 30*time.Second)
		setDefault(&s.Do, StartPropose)
		p.Start = &s
	}
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		p.Steps[i] = p.Steps[i].withDefaults()
	}
	return p
}

func (s Step) withDefaults() Step {
	setDefault(&s.Name, s.Do)
	s.Prefixes = slices.Clone(s.Prefixes)
	s.Percent, s.Canary = clonePtr(s.Percent), clonePtr(s.Canary)
	switch s.Do {
	case DoWait, DoVerify, DoWarm, DoShift:
		setDefault(&s.For, 30*time.Second)
	}
	switch s.Do {
	case DoWarm:
		if s.Percent == nil {
			s.Percent = ptrTo(1)
		}
	case DoShift:
		if s.Canary == nil {
			s.Canary = ptrTo(5)
		}
	}
	switch s.Do {
	case DoWait, DoApprove:
	case DoRun:
		setDefault(&s.Timeout, time.Minute)
	default:
		setDefault(&s.Timeout, 10*time.Minute)
	}
	return s
}

func ptrTo[T any](v T) *T { return &v }

// Plan finds a plan by its name.
func (t Table) Plan(name string) (Plan, bool) {
	for _, p := range t.Plans {
		if p.Name == name {
			return p, true
		}
	}
	return Plan{}, false
}

// moves reports whether the step changes where clients go.
func (s Step) moves() bool {
	switch s.Do {
	case DoWarm, DoShift, DoDrain, DoWithdraw, DoAnnounce:
		return true
	}
	return false
}

// byNode reports whether a node takes the step; the others pass by the ledger's
// own time, or by a person.
func (s Step) byNode() bool { return s.Do != DoWait && s.Do != DoApprove }

// undoes reports whether there is anything to take back of it.
func (s Step) undoes() bool { return s.moves() || s.Do == DoRun && s.Undoes }

// undoByNode reports whether a node must take back what was done: it runs
// something, or takes routes away, which the floor is asked for.
func (s Step) undoByNode() bool { return s.Do == DoRun && s.Undoes || s.Do == DoAnnounce }

// lease is how long a node has the step before another may take it. A run ends
// well before it; else the node says in time that it is still at it.
func (s Step) lease() Time {
	if s.Do == DoRun {
		return lt(s.Timeout) + lt(leaseSpare)
	}
	return lt(lookLease)
}

// Lease is the same for the node.
func (s Step) Lease() time.Duration { return wait(s.lease()) }

const (
	lookLease  = 30 * time.Second
	leaseSpare = 15 * time.Second
	// triesMost is how often a run is tried before the step has failed: what was
	// not heard of may have been done each time.
	triesMost = 5
)
