package steadycast

import (
	"fmt"
	"strings"
	"time"
)

// Outcome is what a probe, or an expression over probes, found. It is
// three-valued (Kleene): Unknown is neither true nor false, so that "we could
// not look" never reads as "it is broken".
type Outcome int8

// The three outcomes; their order makes min an "and" and max an "or".
const (
	Down    Outcome = -1
	Unknown Outcome = 0
	Up      Outcome = 1
)

func (o Outcome) String() string {
	switch o {
	case Down:
		return "down"
	case Up:
		return "up"
	default:
		return "unknown"
	}
}

// MarshalText writes the word of String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads one of down, unknown, up.
func (o *Outcome) UnmarshalText(b []byte) error {
	return parseWord(b, o, "outcome", Down, Unknown, Up)
}

// Class says how certain a failure is.
type Class uint8

const (
	// NoFailure is the class of everything that is not Down.
	NoFailure Class = iota
	// Soft failures may be the path's or the load's fault: timeout, slow, wrong content.
	Soft
	// Hard failures are certain: refused, reset, address absent, process gone, wrong identity.
	Hard
)

func (c Class) String() string {
	switch c {
	case Soft:
		return "soft"
	case Hard:
		return "hard"
	default:
		return "none"
	}
}

// MarshalText writes the word of String.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads one of none, soft, hard.
func (c *Class) UnmarshalText(b []byte) error {
	return parseWord(b, c, "failure class", NoFailure, Soft, Hard)
}

// Result is what one probe, or one round of a service's probes, found.
type Result struct {
	Outcome Outcome `json:"outcome"`
	// Class is Soft or Hard when Outcome is Down, NoFailure otherwise.
	Class Class `json:"class,omitempty"`
	// Reason says why, in words an operator acts on: "connection refused by 192.0.2.53:443".
	Reason string `json:"reason,omitempty"`
	// Took is how long the probe ran; for a round, its slowest part.
	Took time.Duration `json:"took_ns,omitempty"`
	// Why explains a round: the expression with the value of each part.
	Why *Tree `json:"why,omitempty"`
}

// Tree is an expression with the value of each of its parts, for explanation.
type Tree struct {
	// Text is a check's name or an operator: and, or, not, at_least(2).
	Text    string  `json:"text"`
	Outcome Outcome `json:"outcome"`
	Class   Class   `json:"class,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Kids    []Tree  `json:"kids,omitempty"`
}

// String writes the tree on one line: and(web=up, or(dns=down, wan=unknown)=unknown)=unknown.
func (t Tree) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t Tree) write(b *strings.Builder) {
	b.WriteString(t.Text)
	if len(t.Kids) > 0 {
		b.WriteByte('(')
		for i, k := range t.Kids {
			if i > 0 {
				b.WriteString(", ")
			}
			k.write(b)
		}
		b.WriteByte(')')
	}
	b.WriteByte('=')
	b.WriteString(t.Outcome.String())
}

// Observation is one result of looking at one site's service from one vantage.
// All checks of a service make one observation a round: one vantage is one
// voice however many probes it runs.
type Observation struct {
	// Vantage is the site (or witness) that looked.
	Vantage string `json:"vantage"`
	// Node of the vantage that looked; "" where the vantage has one.
	Node string `json:"node,omitempty"`
	// Group is the vantage's independence group; one group is one voice. Empty means its own.
	Group string `json:"group,omitempty"`
	// Subject is the site looked at. Subject == Vantage is the site's own local check.
	Subject string `json:"subject"`
	Service string `json:"service"`
	Result  Result `json:"result"`
	// Seq counts up per vantage, subject and service; a repeat or an older one is dropped.
	Seq uint64 `json:"seq"`
	// Nonce echoes the reader's newest nonce, from which the reader takes the age. 0 inside one node.
	Nonce uint64 `json:"nonce,omitempty"`
	// Ineligible says why this vantage is no voice now: its controls did not come
	// out right, so it cannot trust what it sees. It is absent then, whatever the
	// result is. Empty means that it is a voice.
	Ineligible string `json:"ineligible,omitempty"`
	// Signed is the report in which the vantage said so, for whoever must believe
	// it without having heard it. It goes along in requests and is never logged.
	Signed *Signed `json:"signed,omitempty"`
}

// Signed is a vantage's own word: a report as it signed it, and the certificate
// in DER that verifies it. Neither may be changed.
type Signed struct {
	Report []byte `json:"report"`
	Cert   []byte `json:"cert"`
}

// Local reports whether the site looked at itself.
func (o Observation) Local() bool { return o.Vantage == o.Subject }

// parseWord sets *v to the one of values whose String is b.
func parseWord[T fmt.Stringer](b []byte, v *T, what string, values ...T) error {
	words := make([]string, len(values))
	for i, x := range values {
		words[i] = x.String()
		if words[i] == string(b) {
			*v = x
			return nil
		}
	}
	return fmt.Errorf("%q is not a %s; allowed: %s", b, what, strings.Join(words, ", "))
}
