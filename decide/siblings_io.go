package decide

import (
	"time"

	"github.com/steadycast/steadycast"
)

// SiblingOptions is what the machine of one node and one prefix is told at its start.
type SiblingOptions struct {
	// Node is this one, Nodes all of its site. Who wins a tie is by their names.
	Node  string
	Nodes []string
	// MinNodes is how many must go on announcing when one leaves; at least 1.
	MinNodes int
	// Most is how many may leave within ten minutes; default max(1, a quarter).
	Most int
	// Mode is auto, or approve or observe, which only say what would be done.
	Mode string
	// Incarnation counts the starts of the node's agent, so that ids never repeat.
	Incarnation uint64
}

// SelfSeen is what this node knows of itself, whenever that changes.
type SelfSeen struct {
	// Announcing: its own routes of the prefix are out.
	Announcing bool
	// Outcome is Down when its own instance is judged dead, Up when it is well
	// again for long enough to come back.
	Outcome steadycast.Outcome
	Reason  string
	// Held says why automation may not take it out alone, whatever is so; empty if it may.
	Held string
	// Goes says why a person wants its routes out now, empty while nobody does; Forced:
	// whoever stays.
	Goes   string
	Forced bool
	// Room: it could carry its share of what one more sibling leaves.
	Room bool
}

// Hello is what a sibling says of itself once a second.
type Hello struct {
	Node       string `json:"node"`
	Announcing bool   `json:"announcing,omitempty"`
	// Normal: it announces as attractively as ever, and not for its first minute.
	Normal bool `json:"normal,omitempty"`
	// Left: it took its own route away, that long ago; also when it is back since.
	Left    bool          `json:"left,omitempty"`
	LeftAgo time.Duration `json:"left_ago_ns,omitempty"`
	// Alone: it left so and is not back.
	Alone bool `json:"alone,omitempty"`
	// From is when it was said at most that long ago, by the reader's clock.
	From Now `json:"-"`
}

// SiblingSeen is this node's own look at a sibling's instance.
type SiblingSeen struct {
	Node    string
	Outcome steadycast.Outcome
	From    Now
}

// PromiseAsked is a sibling that wants to leave, and asks who stays. Ordered: a
// person wants it, so nobody has to see it fail.
type PromiseAsked struct {
	Node    string
	ID      steadycast.RequestID
	Ordered bool
}

// PromiseAnswered is a sibling's answer to this node's request.
type PromiseAnswered struct {
	Node string
	ID   steadycast.RequestID
	Word Word
}

// Word is what one node says to another that wants to leave.
type Word struct {
	// Stays is the promise: it announces, is well, has room, and will not leave
	// by itself for promiseFor.
	Stays bool `json:"stays,omitempty"`
	// Agrees: its own look at the asking node's instance fails.
	Agrees bool `json:"agrees,omitempty"`
	// Objects says why nobody else's promise is enough; empty if it does not.
	Objects string `json:"objects,omitempty"`
	// Why says why it does not promise.
	Why string `json:"why,omitempty"`
}

// PromiseOver is a sibling that asked and will not leave on that request.
type PromiseOver struct {
	Node string
	ID   steadycast.RequestID
}

func (PromiseOver) input()     {}
func (SelfSeen) input()        {}
func (Hello) input()           {}
func (SiblingSeen) input()     {}
func (PromiseAsked) input()    {}
func (PromiseAnswered) input() {}

// AskPromise asks a sibling whether it stays.
type AskPromise struct {
	To      string
	ID      steadycast.RequestID
	Ordered bool
}

// AnswerPromise answers one.
type AnswerPromise struct {
	To   string
	ID   steadycast.RequestID
	Word Word
}

// PromiseDone tells a sibling that this node will not leave on a request.
type PromiseDone struct {
	To string
	ID steadycast.RequestID
}

// LookAt hurries this node's look at a sibling that asks: events hurry probes,
// probes decide.
type LookAt struct{ Node string }

// LeaveNode takes this node's own routes of the prefix away; its siblings stay.
type LeaveNode struct{ Reason string }

// GoNode takes them away by a person's order, or begins to.
type GoNode struct{ Reason string }

// KeepNode: they stay for now, although a person wants them out; it is asked again.
type KeepNode struct{}

// ReturnNode announces them again.
type ReturnNode struct{ Reason string }

// SiteMustLeave: this node is dead and may not leave alone, since too few would
// stay. What remains is the withdrawal of the whole site, on a permit.
type SiteMustLeave struct{ Reason string }

func (PromiseDone) effect()   {}
func (LookAt) effect()        {}
func (AskPromise) effect()    {}
func (AnswerPromise) effect() {}
func (LeaveNode) effect()     {}
func (GoNode) effect()        {}
func (KeepNode) effect()      {}
func (ReturnNode) effect()    {}
func (SiteMustLeave) effect() {}
