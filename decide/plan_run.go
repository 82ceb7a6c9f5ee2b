package decide

import (
	"errors"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// planGuard is the guard that asks whether a plan may be begun or steered so.
const planGuard = "plan"

const (
	// runsKept is how many runs that have ended are remembered.
	runsKept = 16
	// runsMost is how many may be under way or proposed.
	runsMost = 32
)

// planBook is what the ledger knows of the plans that were begun.
type planBook struct {
	// Runs, oldest first. No list in it is ever written in place (see edit).
	Runs     []PlanRun `json:"runs,omitempty"`
	Numbered uint64    `json:"numbered,omitempty"`
	// Calls are the plans whose signs were seen last, in order of name.
	Calls []planCall `json:"calls,omitempty"`
}

// planCall is a plan that is called for.
type planCall struct {
	Plan  string `json:"plan"`
	Since Time   `json:"since"`
	// Answered: it was proposed or begun; once for each time that it is called for.
	Answered bool `json:"answered,omitempty"`
}

// PlanState is where a run stands.
type PlanState string

// The states of a run.
const (
	PlanProposed   PlanState = "proposed"     // called for; a person begins it
	PlanRunning    PlanState = "running"      // step by step
	PlanBack       PlanState = "rolling back" // what was done is taken back
	PlanComplete   PlanState = "complete"
	PlanRolledBack PlanState = "rolled back"
	PlanDismissed  PlanState = "dismissed" // a person closed it
	PlanGivenUp    PlanState = "given up"  // a person ended it where it stood
)

// Live reports whether something is still to be done.
func (s PlanState) Live() bool { return s == PlanRunning || s == PlanBack }

// PlanRun is one carrying out of a plan, as committed.
type PlanRun struct {
	Number uint64 `json:"number"`
	// Plan is the plan as it was when the run began.
	Plan   Plan   `json:"plan"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// Auto: it began by itself.
	Auto  bool             `json:"auto,omitempty"`
	Fence steadycast.Fence `json:"fence"`
	Since Time             `json:"since"`
	State PlanState        `json:"state"`
	// At is the step that is next or under way; all of them when complete.
	At int `json:"at"`
	// Hold, where it stands still until a person goes on.
	Hold *PlanHold `json:"hold,omitempty"`
	// Single: it holds after this step.
	Single bool      `json:"single,omitempty"`
	Ended  Time      `json:"ended,omitempty"`
	Steps  []StepRun `json:"steps"`
}

// PlanHold is why a run stands still.
type PlanHold struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason"`
	Failed bool   `json:"failed,omitempty"`
	Since  Time   `json:"since"`
}

// StepState is where one step of a run stands.
type StepState string

// The states of a step.
const (
	StepWaiting StepState = "waiting"
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
	StepUndoing StepState = "undoing"
	StepUndone  StepState = "undone"
)

// StepRun is one step of a run: when, who, and what was seen.
type StepRun struct {
	State StepState `json:"state"`
	// Try counts the nodes that took it. While Node is set that one has it, until
	// Until at most, and only it can say what came of it.
	Try   uint64 `json:"try,omitempty"`
	Node  string `json:"node,omitempty"`
	Site  string `json:"site,omitempty"`
	Until Time   `json:"until,omitempty"`
	// Token is the position of the entry that gave the newest try: who is called
	// with a lower one than he has seen must refuse.
	Token steadycast.Fence `json:"token,omitzero"`
	// Tries since Began.
	Tries int `json:"tries,omitempty"`
	// Began is when it was reached, Ended when it was done, failed or taken back.
	Began Time `json:"began,omitempty"`
	Ended Time `json:"ended,omitempty"`
	// Who did it: a node, or a person.
	Who      string `json:"who,omitempty"`
	Evidence string `json:"evidence,omitempty"`
	// Effective of Nodes act on it.
	Effective int `json:"effective,omitempty"`
	Nodes     int `json:"nodes,omitempty"`
	// Then and Now are what the plan's metric read before and after.
	Then string `json:"then,omitempty"`
	Now  string `json:"now,omitempty"`

	// Stage is 1 while only the canary is moved.
	Stage int `json:"stage,omitempty"`
	// Ordered is where the ledger ordered what the step moves, Took what of it was
	// announced then (or, for announce, what was not).
	Ordered steadycast.Fence  `json:"ordered,omitzero"`
	Took    []steadycast.Unit `json:"took,omitempty"`
	// Was are the shares before it moved clients.
	Was []ShareOrder `json:"was,omitempty"`
}

// Held reports whether a node has the step now.
func (s *StepRun) Held() bool { return s.Node != "" }

// StepWord is what a node says of a step of a run.
type StepWord struct {
	Run  uint64 `json:"run"`
	Step int    `json:"step"`
	// Try is the one more than the newest for take, else the own.
	Try  uint64 `json:"try"`
	Site string `json:"site"`
	Node string `json:"node"`
	Say  string `json:"say"`
	// Text is what was seen; Then and Now as in [StepRun].
	Text      string `json:"text,omitempty"`
	Then      string `json:"then,omitempty"`
	Now       string `json:"now,omitempty"`
	Effective int    `json:"effective,omitempty"`
	Nodes     int    `json:"nodes,omitempty"`
}

// What a node can say.
const (
	SayTake = "take" // let me do it
	SayNote = "note" // I am still at it
	SayOn   = "on"   // the canary is well: move the rest
	SayDone = "done" // it is done, and seen
	SayFail = "fail" // it cannot be done
	SayDrop = "drop" // I do not know any more what I did: let another take it
)

// Sound cuts what a node says to its bounds.
func (w StepWord) Sound() StepWord {
	w.Text, w.Then, w.Now = cut(w.Text, stepText), cut(w.Then, stepText), cut(w.Now, stepText)
	w.Effective, w.Nodes = max(w.Effective, 0), max(w.Nodes, 0)
	return w
}

// PlanWish is what a person wants of a plan.
type PlanWish struct {
	// Do is run, pause, resume, step, approve, rollback, dismiss or give-up.
	Do string `json:"do"`
	// Plan by its name; its newest run is meant.
	Plan string `json:"plan"`
	// Force: give-up leaves what was done as it is.
	Force bool `json:"force,omitempty"`
}

// What a person can want of a plan.
const (
	PlanRunIt    = "run"
	PlanPause    = "pause"
	PlanResume   = "resume"
	PlanStep     = "step"
	PlanApprove  = "approve"
	PlanRollback = "rollback"
	PlanDismiss  = "dismiss"
	PlanGiveUp   = "give-up"
)

// PlanVerbs are all of them.
var PlanVerbs = []string{PlanRunIt, PlanPause, PlanResume, PlanStep, PlanApprove, PlanRollback, PlanDismiss, PlanGiveUp}

// Key stays the same in every try of the step, so that what is called knows that
// it has done it already.
func (r *PlanRun) Key(fleet string, step int) string {
	do := "do"
	if r.State == PlanBack {
		do = "undo"
	}
	return fmt.Sprintf("%s/%s/%d.%d/%s/%s", fleet, r.Plan.Name, r.Fence.Epoch, r.Number, r.Plan.Steps[step].Name, do)
}

// Open is the step that a node may take now, or has; ok is false where the run
// waits for time, for a person or for what was ordered to be seen.
func (r *PlanRun) Open() (step int, ok bool) {
	switch r.State {
	case PlanRunning:
		ok = r.At < len(r.Steps) && r.Steps[r.At].State == StepRunning && r.Plan.Steps[r.At].byNode()
		return r.At, ok
	case PlanBack:
		for _, i := range r.undoOrder() {
			if r.Steps[i].State == StepUndoing && r.nodeUndoes(i) {
				return i, true
			}
		}
	}
	return 0, false
}

// nodeUndoes reports whether a node takes the step back: what it did not move
// need not be.
func (r *PlanRun) nodeUndoes(i int) bool {
	p := r.Plan.Steps[i]
	return p.undoByNode() && (p.Do == DoRun && r.Steps[i].Try > 0 || len(r.Steps[i].Took) > 0)
}

// undoOrder is the order in which steps are taken back, each part of it in the
// reverse of the plan: first who may write, so that clients come back to where
// somebody may; then what brings sites back; and only when they are, what takes
// others away.
func (r *PlanRun) undoOrder() []int {
	var write, bring, take []int
	for i := len(r.Steps) - 1; i >= 0; i-- {
		switch {
		case r.Plan.Steps[i].Effect != "":
			write = append(write, i)
		case r.undoTakes(i):
			take = append(take, i)
		default:
			bring = append(bring, i)
		}
	}
	return slices.Concat(write, bring, take)
}

// undoTakes reports whether taking a step back takes something away from clients.
func (r *PlanRun) undoTakes(i int) bool {
	switch r.Plan.Steps[i].Do {
	case DoAnnounce, DoRun:
		return true
	case DoShift, DoWarm:
		return slices.ContainsFunc(r.Steps[i].Was, func(w ShareOrder) bool {
			first, last := r.shareSpan(w.Site, w.Service)
			return first < last
		})
	}
	return false
}

// Sites are those that the plan moves.
func (p Plan) Sites() []string {
	var sites []string
	for _, s := range p.Steps {
		if s.moves() && !slices.Contains(sites, s.Site) {
			sites = append(sites, s.Site)
		}
	}
	slices.Sort(sites)
	return sites
}

// edit gives a run to be written: a copy that stands in its place, since views
// and clones share what stood there.
func (s *state) edit(i int) *PlanRun {
	s.Plans.Runs = slices.Clone(s.Plans.Runs)
	r := &s.Plans.Runs[i]
	r.Steps = slices.Clone(r.Steps)
	return r
}

// newestRun is the newest run of a plan, -1 if there is none.
func (s *state) newestRun(plan string) int {
	for i := len(s.Plans.Runs) - 1; i >= 0; i-- {
		if s.Plans.Runs[i].Plan.Name == plan {
			return i
		}
	}
	return -1
}

// soundPlans checks of a snapshot what this code relies on.
func (s *state) soundPlans() error {
	last := uint64(0)
	for _, r := range s.Plans.Runs {
		if len(r.Steps) != len(r.Plan.Steps) || r.At < 0 || r.At > len(r.Steps) || r.Number <= last {
			return fmt.Errorf("run %d of plan %s cannot be", r.Number, r.Plan.Name)
		}
		last = r.Number
	}
	if last > s.Plans.Numbered {
		return errors.New("the runs of plans are numbered above their count")
	}
	return nil
}
