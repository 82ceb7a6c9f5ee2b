package decide

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/steadycast/steadycast"
)

// WishLife is how long a person's signature is good for, in ledger time since
// what he knew when he signed. What was held back longer is refused.
const WishLife = 10 * time.Minute

// maxWish bounds what a person signs, in bytes: a table is the largest, and its
// text is escaped once more inside the entry.
const maxWish = MaxEntry / 2

// Signed is a person's wish, in the very bytes that were signed. They stand in
// the log as they are: an entry that was altered anywhere between the person
// and the ledger fits its signature no more, and a later version of this code
// reads in it what this one reads.
type Signed struct {
	// Text is a [Wish] in JSON.
	Text string `json:"text"`
	// Signature is Ed25519ctx (RFC 8032 §5.1) over Text, in the context of its kind.
	Signature []byte `json:"signature"`
}

// Wish is what a person wants of the ledger, with all that binds it to one
// ledger and to one time: whoever carries it can deliver it once, soon, as it
// is, or not at all. Kind names the body that is set, as in [Entry].
type Wish struct {
	// Fleet and Epoch are those of the ledger it is for.
	Fleet string `json:"fleet"`
	Epoch uint64 `json:"epoch"`
	// By is the operator who signs.
	By string `json:"by"`
	// Serial is one more than that of this operator's entry before.
	Serial uint64 `json:"serial"`
	// At is the ledger time that the person knew; see [WishLife].
	At     Time   `json:"at"`
	Kind   Kind   `json:"kind"`
	Reason string `json:"reason"`

	// Order has neither actor nor reason of its own: they are By and Reason.
	Order    *steadycast.Order    `json:"order,omitempty"`
	Scope    *Scope               `json:"scope,omitempty"`
	Operator *steadycast.Operator `json:"operator,omitempty"`
	Name     string               `json:"name,omitempty"`
	Decision uint64               `json:"decision,omitempty"`
	Table    *Table               `json:"table,omitempty"`
	Revision uint64               `json:"revision,omitempty"`
	Waive    []string             `json:"waive,omitempty"`
	Force    bool                 `json:"force,omitempty"`
	Share    *ShareOrder          `json:"share,omitempty"`
	Divert   *DivertOrder         `json:"divert,omitempty"`
	// Of is the digest of the signed stage that an activation is for; see [Seal].
	Of    string      `json:"of,omitempty"`
	Names *NamesOrder `json:"names,omitempty"`
	// ConfirmWithin is how long the table is on trial.
	ConfirmWithin time.Duration `json:"confirm_within_ns,omitempty"`
	Plan          *PlanWish     `json:"plan,omitempty"`
}

// Context is what a wish of this kind is signed in.
func (k Kind) Context() string {
	if need := k.Role(); need == steadycast.Admin {
		return steadycast.ContextTable
	}
	return steadycast.ContextOrder
}

// Role is the least that a person must be to wish an entry of this kind; NoRole
// for those that the ledger makes by itself.
func (k Kind) Role() steadycast.Role {
	kb, _ := bodiesOf(k)
	return kb.role
}

// Looks reports whether the guards of this kind count who announces, so that the
// proposer must add what it sees.
func (k Kind) Looks() bool {
	kb, _ := bodiesOf(k)
	return (kb.need|kb.may)&bodyDecide != 0
}

// Sign makes the bytes of a wish and has them signed by an operator's key.
func (w Wish) Sign(sign func(context string, text []byte) []byte) (Signed, error) {
	b, err := json.Marshal(w)
	if err != nil {
		return Signed{}, fmt.Errorf("wish of kind %s: %w", w.Kind, err)
	}
	s := Signed{Text: string(b), Signature: sign(w.Kind.Context(), b)}
	_, err = s.Wish()
	return s, err
}

// Wish reads what was signed, strictly, and believes nothing of it.
func (s Signed) Wish() (w Wish, err error) {
	switch {
	case len(s.Text) > maxWish:
		return w, fmt.Errorf("what was signed has %d bytes; at most %d", len(s.Text), maxWish)
	case !utf8.ValidString(s.Text):
		return w, fmt.Errorf("what was signed is not text")
	}
	if err := strict([]byte(s.Text), &w); err != nil {
		return w, fmt.Errorf("what was signed is not understood: %w", err)
	}
	return w, nil
}

// String is the wish in a few words.
func (w Wish) String() string {
	text := strings.ReplaceAll(string(w.Kind), "_", " ")
	switch {
	case w.Order != nil:
		text = w.Order.Kind.String() + " " + w.Order.Target()
	case w.Scope != nil:
		text += w.Scope.args()
	case w.Names != nil:
		text = w.Names.String()
	case w.Share != nil:
		text = strings.TrimSpace("share "+w.Share.Site+" "+w.Share.Service) + " " + Percent(w.Share.Permille)
	case w.Divert != nil:
		text = w.Divert.String()
	case w.Plan != nil:
		text += " " + w.Plan.Do + " " + w.Plan.Plan
	case w.Decision != 0:
		text += fmt.Sprintf(" decision %d", w.Decision)
	case w.Revision != 0:
		text += fmt.Sprintf(" revision %d", w.Revision)
	case w.Operator != nil:
		text += " " + w.Operator.Name
	case w.Name != "":
		text += " " + w.Name
	}
	return text
}

// of is the site, the node and the prefix that the wish is about, where it is about
// one; nothing of them for a wish about the fleet.
func (w Wish) of() (s Scope) {
	switch {
	case w.Order != nil:
		s.Site, s.Node = w.Order.Site, w.Order.Node
		if len(w.Order.Prefixes) == 1 {
			s.Prefix = w.Order.Prefixes[0]
		}
	case w.Scope != nil:
		s = *w.Scope
	case w.Share != nil:
		s.Site = w.Share.Site
	case w.Divert != nil:
		s.Site = w.Divert.Site
	}
	return s
}

// Into puts what is wished into an entry, as it is rehearsed without a signature,
// and as a ledger without operators takes it.
func (w Wish) Into(e *Entry) {
	e.Kind, e.Actor, e.Reason = w.Kind, w.By, w.Reason
	e.Scope, e.Operator, e.Name, e.Decision = w.Scope, w.Operator, w.Name, w.Decision
	e.Table, e.Revision, e.Waive, e.Force = w.Table, w.Revision, w.Waive, w.Force
	e.Share, e.Divert, e.Names = w.Share, w.Divert, w.Names
	e.ConfirmWithin = w.ConfirmWithin
	e.Plan = w.Plan
	if w.Order != nil {
		o := *w.Order
		o.Actor, o.Reason = w.By, w.Reason
		e.Order = &o
	}
}
