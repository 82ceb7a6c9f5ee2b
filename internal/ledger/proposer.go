package ledger

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Proposer is the proposer by itself, for whoever brings a log and a clock of
// their own: the simulator runs the very code that the ledgers run, under a
// clock that does not exist. It is pure, and belongs to whoever made it. now is
// the monotonic time of its process.
//
// Make one when all entries so far were applied to fleet, and for each
// leadership a new one: the offset of its ledger time is fixed here (rule T1).
type Proposer struct{ lead *leader }

// NewProposer begins to lead fleet.
func NewProposer(fleet *decide.Fleet, node string, now time.Duration) *Proposer {
	return &Proposer{newLeader(fleet, node, now)}
}

// Hear takes a beat whose age counts from an instant.
func (p *Proposer) Hear(from time.Duration, b decide.Beat) { p.lead.hear(from, b) }

// Observe takes what a vantage observed of anybody, whose age counts from an
// instant: the proposer holds it against the evidence of requests.
func (p *Proposer) Observe(from time.Duration, o steadycast.Observation) { p.lead.cross.hear(from, o) }

// Verify sets how the evidence of requests is opened; without it, it is taken as
// the request has it.
func (p *Proposer) Verify(v Verifier) { p.lead.verify = v }

// Entry begins an entry of a kind, for a person's wish or a site's statement.
func (p *Proposer) Entry(now time.Duration, kind decide.Kind) decide.Entry {
	return p.lead.entry(now, kind)
}

// Seen is who announces each prefix, by phases and fresh beats.
func (p *Proposer) Seen(now time.Duration) []decide.Seen { return p.lead.seen(now) }

// Loads are what the sites carry, by their beats.
func (p *Proposer) Loads(now time.Duration) []decide.Load { return p.lead.loads(now) }

// Propose judges requests, and gives the entry that must be written, if any, and
// the answers that need none. What is reported beside goes into the same entry.
func (p *Proposer) Propose(now time.Duration, requests []steadycast.Request, reported []steadycast.Verdict) (e decide.Entry, write bool, answers []decide.Answer, err error) {
	return p.lead.propose(now, requests, p.news(reported)...)
}

// Report gives the entry for verdicts that are news; false when none is.
func (p *Proposer) Report(now time.Duration, reported []steadycast.Verdict) (decide.Entry, bool) {
	e := p.lead.entry(now, decide.KindVerdict)
	e.Verdicts = p.news(reported)
	return e, len(e.Verdicts) > 0
}

func (p *Proposer) news(reported []steadycast.Verdict) []steadycast.Verdict {
	return p.lead.changed(slices.DeleteFunc(slices.Clone(reported), func(v steadycast.Verdict) bool {
		return !serves(p.lead.view.Table, v.Site, v.Service)
	}))
}

// Duties is the next entry that beats and time call for. Ask again when it was applied.
func (p *Proposer) Duties(now time.Duration) (decide.Entry, bool) { return p.lead.duties(now) }

// Wake is when [Proposer.Duties], which has found nothing now, could find something
// without another beat or entry.
func (p *Proposer) Wake() time.Duration { return p.lead.wake() }

// Applied notes that an entry was applied, with what it answered.
func (p *Proposer) Applied(now time.Duration, answers []decide.Answer) {
	p.lead.applied(now)
	p.lead.answered(now, answers)
}

// View is the state after the newest entry that was noted.
func (p *Proposer) View() decide.View { return p.lead.view }
