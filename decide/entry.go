package decide

import (
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
)

// Time is ledger time in milliseconds since genesis: durations only, never a
// date. It is carried in each entry and only grows.
type Time int64

// RulesLevel is the version of the guards' meaning that this code implements.
// The replicated level, not the binary, selects the code.
const RulesLevel = 1

// Entry is one line of the ledger's log. Kind names the body field that is set;
// an order has Decide beside it, with what the proposer saw, and so may a table.
// A batch of requests may bring the verdicts that changed with it, so that a
// withdrawal waits for one write and not for two; they are recorded first.
// Everything a replica needs is in the entry.
type Entry struct {
	Kind   Kind   `json:"kind"`
	Schema int    `json:"schema"`
	Rules  int    `json:"rules"`
	Epoch  uint64 `json:"epoch"`
	// LT is the ledger time the proposer gives; the machine takes the greater of its own and this.
	LT Time `json:"lt"`
	// Proposer is the node that proposes; Actor who wants it (a person, or "auto").
	Proposer string `json:"proposer,omitempty"`
	Actor    string `json:"actor,omitempty"`
	Reason   string `json:"reason,omitempty"`

	Table    *Table               `json:"table,omitempty"`
	Verdicts []steadycast.Verdict `json:"verdicts,omitempty"`
	Decide   *Decide              `json:"decide,omitempty"`
	Give     *GiveUpEntry         `json:"give,omitempty"`
	Units    []steadycast.Unit    `json:"units,omitempty"`
	Return   *ReturnProof         `json:"return,omitempty"`
	Order    *steadycast.Order    `json:"order,omitempty"`
	Scope    *Scope               `json:"scope,omitempty"`
	Operator *steadycast.Operator `json:"operator,omitempty"`
	Charter  *Charter             `json:"charter,omitempty"`
	// Acks are what nodes say of the table that is staged.
	Acks []Ack `json:"acks,omitempty"`
	// Revision is that of the staged table which comes into force, Waive the sites,
	// or SITE/NODE, that may go without having said yes, and Force passes the floors.
	Revision uint64   `json:"revision,omitempty"`
	Waive    []string `json:"waive,omitempty"`
	Force    bool     `json:"force,omitempty"`
	// ConfirmWithin puts it on trial for that long; 0 into force for good.
	ConfirmWithin time.Duration `json:"confirm_within_ns,omitempty"`
	// Decision is the number of one that waits for a person.
	Decision uint64 `json:"decision,omitempty"`
	// Share is how much of its clients a site takes.
	Share *ShareOrder `json:"share,omitempty"`
	// Divert is the path by which a site announces.
	Divert *DivertOrder `json:"divert,omitempty"`
	// Names is what a person wants of the answers.
	Names *NamesOrder `json:"names,omitempty"`
	// Name is that of an operator.
	Name string `json:"name,omitempty"`
	// Plan is what a person wants of a plan, Step what a node says of a step of one.
	Plan *PlanWish `json:"plan,omitempty"`
	Step *StepWord `json:"step,omitempty"`
	// Truth is what sites announce that were heard since a recovery.
	Truth []Truth `json:"truth,omitempty"`
	// Cuts are what cuts came to, by those who carried them out.
	Cuts []CutTold `json:"cuts,omitempty"`

	// Signed holds a person's wish; what it says stands in for Actor, Reason and
	// the body, which an entry that is signed leaves out.
	Signed *Signed `json:"signed,omitempty"`
}

// Charter says whose ledger begins, and who may sign in it. One without
// operators takes orders unsigned, from whoever may write to it: a node's own.
type Charter struct {
	Fleet     string                `json:"fleet"`
	Operators []steadycast.Operator `json:"operators,omitempty"`
}

// Kind is the kind of an entry. An unknown kind stops the replica; it is never skipped.
type Kind string

// The kinds of entry.
const (
	KindGenesis    Kind = "genesis"        // the first entry: Table, perhaps Charter
	KindTick       Kind = "tick"           // time passes
	KindTable      Kind = "table"          // a new policy: Table
	KindVerdict    Kind = "verdict"        // transitions of services at sites: Verdicts
	KindDecide     Kind = "decide"         // a batch of requests with what the proposer saw: Decide; perhaps Verdicts
	KindVoid       Kind = "void"           // a permit that can never be used any more: Give
	KindIn         Kind = "in"             // a return is proven: Return
	KindLost       Kind = "lost"           // units that stopped announcing against their will: Units
	KindFound      Kind = "found"          // and that announce again: Units
	KindOrder      Kind = "order"          // a person's wish: Order, with Decide.Seen for the guards
	KindOrderClear Kind = "order_clear"    // its end: Scope
	KindFreeze     Kind = "freeze"         // automation stops: Scope
	KindThaw       Kind = "thaw"           // and goes on: Scope
	KindUnlock     Kind = "unlock"         // a person clears a lock: Scope
	KindResume     Kind = "resume"         // a person ends `return: hold` for a unit: Scope
	KindApprove    Kind = "approve"        // a person's yes to Decision, with Decide.Seen for the guards
	KindReject     Kind = "reject"         // and no: Decision
	KindStage      Kind = "table_stage"    // an admin lays a table before the nodes: Table, perhaps Force, with Decide.Seen
	KindAck        Kind = "table_ack"      // what nodes say of it: Acks
	KindActivate   Kind = "table_activate" // an admin puts it into force: Revision, perhaps Waive, Force and ConfirmWithin, with Decide.Seen
	KindConfirm    Kind = "table_confirm"  // an admin ends the trial of Revision, which stays in force
	KindRevert     Kind = "table_revert"   // the trial of Revision is over and nobody confirmed it, with Decide.Seen
	KindLocal      Kind = "local"          // what a person did at a node without a ledger: Order, by the node's own word
	KindOperator   Kind = "operator"       // an admin lets a person in, or changes his role or key: Operator
	KindDismiss    Kind = "dismiss"        // an admin ends what a person may: Name
	KindNames      Kind = "names"          // a person sets the mode of the answers, or switches a member: Names
	KindShare      Kind = "share"          // a person or a plan moves clients by DNS: Share, perhaps Force
	KindDivert     Kind = "divert"         // a person moves a site's routes to another path: Divert
	KindRamp       Kind = "ramp"           // returning sites go a step on, or back: Decide, with what they saw
	KindPlan       Kind = "plan"           // a person begins a plan or steers it: Plan
	KindStep       Kind = "plan_step"      // what a node says of a step: Step, perhaps with Decide.Seen for the guards
	KindShed       Kind = "shed"           // sites that carry too much give clients away, or take them back: Decide, with the loads
	KindGone       Kind = "gone"           // sites that are silent while others see them down, or are heard again: Decide
	KindCut        Kind = "cut"            // what cuts came to: Cuts
	KindEpoch      Kind = "epoch"          // the ledger was recovered from what one voter had; Epoch is the new one
	KindReconcile  Kind = "reconcile"      // what sites announce that were heard since: Truth
)

// Scope names what an entry is about; an empty field means every one.
type Scope struct {
	Site   string       `json:"site,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Node of a site of several; only orders are about one.
	Node string `json:"node,omitempty"`
}

// Covers reports whether u is within the scope; no unit is within that of a node.
func (s Scope) Covers(u steadycast.Unit) bool {
	return s.Node == "" && (s.Site == "" || s.Site == u.Site) && (!s.Prefix.IsValid() || s.Prefix == u.Prefix)
}

// Decide is a batch of requests, and what the proposer saw when it proposed:
// the inputs a replica cannot know travel in the entry, so that replay is
// exact and the record shows what was believed.
type Decide struct {
	// Requests are applied in a canonical order whatever order they stand in.
	Requests []steadycast.Request `json:"requests,omitempty"`
	Seen     []Seen               `json:"seen,omitempty"`
	// Ineligible are voices that the proposer did not take, and why; Passing those
	// that it heard pass later than the evidence of the requests says.
	Ineligible []Ineligible `json:"ineligible,omitempty"`
	Passing    []Passing    `json:"passing,omitempty"`
	// Loads per site in the unit of Place.Capacity, and the age of each in seconds.
	Loads []Load `json:"loads,omitempty"`
	// Ramped is what returning sites say of the step that they are in.
	Ramped []RampedAt `json:"ramped,omitempty"`
	// Silent are services at sites of which nothing is heard, with what others see
	// there; Heard are sites that speak again.
	Silent []Silent `json:"silent,omitempty"`
	Heard  []string `json:"heard,omitempty"`
	// Nodes are which nodes of sites of several announce, in order of site.
	Nodes []SeenNodes `json:"nodes,omitempty"`
}

// Seen is who announces one prefix, and who of them is healthy, by fresh evidence.
type Seen struct {
	Prefix     netip.Prefix `json:"prefix"`
	Announcing []string     `json:"announcing"` // sites in order of name
	Healthy    []string     `json:"healthy"`    // the healthy ones of them
}

// Ineligible is a vantage that is absent in a count, and no vote: it fails what a
// majority of others sees up, or its word is forged or too old. An empty Subject
// or Service means every one.
type Ineligible struct {
	Vantage string `json:"vantage"`
	Subject string `json:"subject,omitempty"`
	Service string `json:"service,omitempty"`
	Reason  string `json:"reason"`
}

// Passing are the vantages that, by what the proposer heard itself, pass a service
// of a site now, by later observations than a request brings as evidence.
type Passing struct {
	Subject  string   `json:"subject"`
	Service  string   `json:"service"`
	Vantages []string `json:"vantages"` // in order of name
}

// Load is one site's load.
type Load struct {
	Site       string `json:"site"`
	Load       int64  `json:"load"`
	AgeSeconds int64  `json:"age_s"`
}

// GiveUpEntry is a site's own statement that its requests up to ID are dead and
// that it announces Units.
type GiveUpEntry struct {
	Site  string               `json:"site"`
	ID    steadycast.RequestID `json:"id"`
	Units []steadycast.Unit    `json:"units"`
}

// ReturnProof says that fresh evidence carries the return's id.
type ReturnProof struct {
	Unit steadycast.Unit      `json:"unit"`
	ID   steadycast.RequestID `json:"id"`
}

// Reply is what applying an entry gives back.
type Reply struct {
	Fence steadycast.Fence `json:"fence"`
	LT    Time             `json:"lt"`
	// Answers to the requests of a Decide, in canonical order.
	Answers []Answer `json:"answers,omitempty"`
	// Refused is set when an order (or a thaw, an unlock, …) was refused whole.
	Refused *steadycast.GuardAnswer `json:"refused,omitempty"`
	// Before is set when this very wish was entered before: where. Nothing was done again.
	Before *steadycast.Fence `json:"before,omitempty"`
	// Revision is what a staged table got.
	Revision uint64 `json:"revision,omitempty"`
	// Rulings per unit of an order.
	Rulings []Ruling `json:"rulings,omitempty"`
	// Events are the transitions the entry caused.
	Events []steadycast.Event `json:"events,omitempty"`
	// Invalid says why the content was a no-op; the machine is unchanged but for Fence and LT.
	Invalid string `json:"invalid,omitempty"`
}

// Answer is the ledger's answer to one request: a ruling for each of its prefixes.
type Answer struct {
	ID      steadycast.RequestID `json:"id"`
	Site    string               `json:"site"`
	Rulings []Ruling             `json:"rulings"`
	// Stale: an older or already answered request with nothing left to say.
	Stale bool `json:"stale,omitempty"`
	// Newest is the newest request of the site that was answered, where this one is
	// older: a site that knows of none so new counts its starts from too low.
	Newest steadycast.RequestID `json:"newest,omitzero"`
}

// Ruling is what the guards said of one unit.
type Ruling struct {
	Unit steadycast.Unit `json:"unit"`
	// Permit is set unless refused; its action may be Deprefer where Withdraw was
	// asked and only floor or budget refused.
	Permit *steadycast.Permit `json:"permit,omitempty"`
	// Guards are all answers in order; the first that does not pass is the refusal.
	Guards []steadycast.GuardAnswer `json:"guards"`
}

// Refusal returns the guard that refused first.
func (r Ruling) Refusal() (steadycast.GuardAnswer, bool) {
	for _, g := range r.Guards {
		if !g.Pass {
			return g, true
		}
	}
	return steadycast.GuardAnswer{}, false
}
