package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/steadycast/steadycast"
)

// pastKept is how many transitions the ledger remembers.
const pastKept = 256

// pastReason bounds a remembered reason, in bytes.
const pastReason = 500

// Past is one transition of the ledger: what people and automation did, who,
// why, and when by ledger time.
type Past struct {
	Fence steadycast.Fence `json:"fence"`
	LT    Time             `json:"lt"`
	Event steadycast.Event `json:"event"`
}

// historic are the kinds of event that are remembered: what changed what is
// announced, or who may change it. Verdicts and denials are too many.
func historic(e *steadycast.Event) bool {
	switch e.Kind {
	case steadycast.EventPermit, steadycast.EventOrder, steadycast.EventFreeze, steadycast.EventConfig, steadycast.EventAlarm,
		steadycast.EventRecovery, steadycast.EventOperator, steadycast.EventDecision, steadycast.EventShare, steadycast.EventPath, steadycast.EventPlan, steadycast.EventNames:
		return true
	case steadycast.EventRefused:
		return e.Actor != "" // a person's
	}
	return false
}

// note remembers what an entry did.
func (a *applying) note() {
	for i := range a.reply.Events {
		e := &a.reply.Events[i]
		if !historic(e) {
			continue
		}
		if over := len(a.Past) - pastKept + 1; over > 0 {
			a.Past = a.Past[over:]
		}
		p := Past{a.Fence, a.LT, *e}
		p.Event.Reason = cut(p.Event.Reason, pastReason)
		a.Past = grow(a.Past, p)
	}
}

// History is what is remembered, the oldest first.
func (f *Fleet) History() []Past { return slices.Clone(f.s.Past) }

// Hash is the state as 64 hex digits: equal on every replica that applied the
// same entries, and after [Restore]. What is only remembered is left out: it
// follows from the rest, and would be most of the work.
func (f *Fleet) Hash() string {
	sum := f.Digest()
	return hex.EncodeToString(sum[:])
}

// Digest is Hash in bytes.
func (f *Fleet) Digest() [sha256.Size]byte {
	s := f.s
	s.Past = nil
	b, err := json.Marshal(&s)
	if err != nil {
		panic("decide: the state cannot be written: " + err.Error()) // as in Snapshot
	}
	return sha256.Sum256(b)
}
