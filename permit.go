package steadycast

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"
)

// Unit is what a decision is about: one prefix at one site.
type Unit struct {
	Site   string       `json:"site"`
	Prefix netip.Prefix `json:"prefix"`
}

func (u Unit) String() string { return u.Site + " " + u.Prefix.String() }

// Compare orders units by site, then prefix.
func (u Unit) Compare(v Unit) int {
	return cmp.Or(cmp.Compare(u.Site, v.Site), u.Prefix.Addr().Compare(v.Prefix.Addr()), cmp.Compare(u.Prefix.Bits(), v.Prefix.Bits()))
}

// Phase is where the ledger counts a unit. Only In counts as announcing.
type Phase uint8

const (
	// Out: not announcing; also every unit that never announced.
	Out Phase = iota
	// Returning: may announce again, not counted until that is proven.
	Returning
	// In: announcing, or lost against its will.
	In
)

func (p Phase) String() string {
	switch p {
	case In:
		return "in"
	case Returning:
		return "returning"
	default:
		return "out"
	}
}

// MarshalText writes the word of String.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads one of out, returning, in.
func (p *Phase) UnmarshalText(b []byte) error { return parseWord(b, p, "phase", Out, Returning, In) }

// RequestID names a request: monotone per node, so one slot for each is enough
// for the ledger to tell repeats and stale ones. The zero ID is no request.
type RequestID struct {
	// Node that asks for its site, where the site has several; "" where it has one.
	Node string `json:"node,omitempty"`
	// Incarnation counts the starts of the site's agent; kept on disk.
	Incarnation uint64 `json:"inc"`
	// Seq counts requests within one incarnation.
	Seq uint64 `json:"seq"`
}

// Compare orders by node, then incarnation, then sequence. Only of one node does
// that say which was made later.
func (r RequestID) Compare(s RequestID) int {
	return cmp.Or(cmp.Compare(r.Node, s.Node), cmp.Compare(r.Incarnation, s.Incarnation), cmp.Compare(r.Seq, s.Seq))
}

// Through reports whether r is s, or an earlier request of the same node.
func (r RequestID) Through(s RequestID) bool { return r.Node == s.Node && r.Compare(s) <= 0 }

func (r RequestID) String() string {
	id := fmt.Sprintf("r-%d.%d", r.Incarnation, r.Seq)
	if r.Node != "" {
		id += "@" + r.Node
	}
	return id
}

// Action is what a request asks for, or a permit allows.
type Action uint8

const (
	// NoAction is the zero value.
	NoAction Action = iota
	// Withdraw takes the route away.
	Withdraw
	// Return announces it again.
	Return
	// Deprefer keeps the route, less attractive; it needs no coordination,
	// because if everyone does it the prefix is still reachable.
	Deprefer
)

func (a Action) String() string {
	switch a {
	case Withdraw:
		return "withdraw"
	case Return:
		return "return"
	case Deprefer:
		return "deprefer"
	default:
		return "none"
	}
}

// MarshalText writes the word of String.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads one of none, withdraw, return, deprefer.
func (a *Action) UnmarshalText(b []byte) error {
	return parseWord(b, a, "action", NoAction, Withdraw, Return, Deprefer)
}

// Request is a site asking the ledger for leave to change some of its own routes.
type Request struct {
	ID       RequestID      `json:"id"`
	Site     string         `json:"site"`
	Prefixes []netip.Prefix `json:"prefixes"`
	Action   Action         `json:"action"`
	Service  string         `json:"service,omitempty"`
	Class    Class          `json:"class,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	// Evidence is what the ledger re-checks; it enters the log only with a grant.
	Evidence []Observation `json:"evidence,omitempty"`
	// Conditions are what the services of the prefixes require for this action,
	// each as it came out at the site.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is what a service requires before it leaves or returns, as it came
// out. Only Up lets it pass.
type Condition struct {
	Service string  `json:"service"`
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text,omitempty"`
}

// Fence orders everything that acts: an actuator refuses a lower one than it
// has seen, so that an old leader or a restored backup cannot act.
type Fence struct {
	Epoch uint64 `json:"epoch"`
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// Compare orders by epoch, then index. Term only explains.
func (f Fence) Compare(g Fence) int {
	return cmp.Or(cmp.Compare(f.Epoch, g.Epoch), cmp.Compare(f.Index, g.Index))
}

func (f Fence) String() string { return fmt.Sprintf("%d.%d", f.Epoch, f.Index) }

// Permit is the ledger's leave to carry out one decision. The right to act ends
// TTL after the request was first sent, on the holder's own monotonic clock;
// the accounting in the ledger ends only on positive evidence.
type Permit struct {
	Unit   Unit      `json:"unit"`
	ID     RequestID `json:"id"`
	Action Action    `json:"action"`
	Fence  Fence     `json:"fence"`
}

// GuardAnswer is what one guard said of one request, with its numbers.
type GuardAnswer struct {
	// Guard is its name in the fixed order: freeze, order, phase, lock, cooldown, evidence, …
	Guard string `json:"guard"`
	// Pass is false for the guard that refuses.
	Pass bool `json:"pass"`
	// Text gives the numbers: "2 of 3 would announce; floor 2".
	Text string `json:"text"`
	// Override says how a person gets past it, and at what cost; empty if nobody may.
	Override string `json:"override,omitempty"`
	// RetryAfter is the least time after which the answer could differ; 0 if time does not help.
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
}

func (g GuardAnswer) String() string {
	verb := "passes"
	if !g.Pass {
		verb = "refuses"
	}
	return g.Guard + " " + verb + ": " + g.Text
}
