package ledger

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// What a leader holds against the evidence of a request, before it proposes it.
//
// Each observation of another vantage comes with the report in which that
// vantage signed it, and the report echoes a nonce of this very process. So the
// leader reads what was really said, whoever passed it on, and how old it is, by
// its own clock alone: what is forged, or replayed, or from before a partition is
// told apart here. What the site says of itself needs neither: the request is its
// word. The signatures end here; into the log goes what was signed, and which of
// it is not taken and why ([decide.Decide].Ineligible), so that every replica
// counts the same.

// evidenceSlack is how much older than at its site evidence may be at the
// ledger: what a nonce may lie back, and the way here. With rounds of a second
// evidence may be five seconds old.
const evidenceSlack = time.Second

// Verifier opens the signed report of an observation: it returns what its
// vantage really said, and how long ago at most. An error says why that is not known.
type Verifier func(steadycast.Observation) (signed steadycast.Observation, age time.Duration, err error)

// crossBox is a cross-check that readers of the network fill while the leader's
// goroutine asks it.
type crossBox struct {
	mu    sync.Mutex
	check decide.CrossCheck
	table uint64 // the revision it was last shortened to
}

func (b *crossBox) hear(from time.Duration, o steadycast.Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.check.Hear(from, o)
}

// against finds what speaks against a request's evidence.
func (b *crossBox) against(now time.Duration, t decide.Table, r steadycast.Request) ([]decide.Ineligible, []decide.Passing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table != t.Revision {
		b.check.Keep(t)
		b.table = t.Revision
	}
	return b.check.Ineligible(now, t, r.Site), b.check.Passing(now, t, r)
}

// examine takes a request's evidence for what was signed, and adds to an entry
// what speaks against it.
func (l *leader) examine(now time.Duration, d *decide.Decide, r steadycast.Request) steadycast.Request {
	r.Evidence = slices.Clone(r.Evidence)
	for i := range r.Evidence {
		o := &r.Evidence[i]
		if why := l.read(o, r.Site); why != "" {
			x := decide.Ineligible{Vantage: o.Vantage, Subject: o.Subject, Service: o.Service, Reason: why}
			if !slices.Contains(d.Ineligible, x) {
				d.Ineligible = append(d.Ineligible, x)
			}
		}
		o.Signed = nil
	}
	if r.Action != steadycast.Withdraw {
		return r
	}
	ineligible, passing := l.cross.against(now, l.view.Table, r)
	d.Ineligible = append(d.Ineligible, ineligible...)
	d.Passing = append(d.Passing, passing...)
	return r
}

// read replaces an observation by what was signed, and says why it is not taken.
func (l *leader) read(o *steadycast.Observation, site string) string {
	if l.verify == nil || o.Vantage == site {
		return ""
	}
	signed, age, err := l.verify(*o)
	if err != nil {
		return err.Error()
	}
	group := o.Group
	*o = signed
	o.Group = group
	if most := l.evidenceAge(o.Service); age > most {
		return fmt.Sprintf("its observation is %d ms old; evidence may be %d", age.Milliseconds(), most.Milliseconds())
	}
	return ""
}

// evidenceAge is how old evidence about a service may be.
func (l *leader) evidenceAge(service string) time.Duration {
	s, _ := l.view.Table.Service(service)
	return decide.FreshFor(s.Health.Interval) + evidenceSlack
}
