package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Explanation is everything a person may ask of a site: what it believes, what
// it wants, and what stands in the way. It is a copy and stays as it is.
type Explanation struct {
	Site string `json:"site"`
	Node string `json:"node,omitempty"`
	Solo bool   `json:"solo,omitempty"`
	// At is the newest instant the machine was told.
	At Now `json:"at_ns"`
	// Fence is the highest ledger position seen; Revision the table's.
	Fence    steadycast.Fence `json:"fence"`
	Revision uint64           `json:"revision"`
	// Waiting says what must arrive before anything is announced at all.
	Waiting string `json:"waiting,omitempty"`
	// Frozen says why automation is frozen here for want of a ledger.
	Frozen string `json:"frozen,omitempty"`
	// LedgerLost and SpeakerLost say why they cannot be reached.
	LedgerLost  string `json:"ledger_lost,omitempty"`
	SpeakerLost string `json:"speaker_lost,omitempty"`
	// Asked is the request in flight, and for how long it has been.
	Asked    *steadycast.Request `json:"asked,omitempty"`
	AskedFor time.Duration       `json:"asked_for_ns,omitempty"`
	// Set is what the speaker was last given; Version 0 means nothing yet.
	Set steadycast.RouteSet `json:"set"`
	// Services in the order of the table, Units in order of prefix.
	Services []ServiceStatus `json:"services"`
	Units    []UnitStatus    `json:"units"`
	// Alarms that stand.
	Alarms []steadycast.Event `json:"alarms,omitempty"`
}

// ServiceStatus is one service at this site.
type ServiceStatus struct {
	Verdict steadycast.Verdict `json:"verdict"`
	// For is how long the state has stood.
	For time.Duration `json:"for_ns"`
	// Held says what evidence is missing; empty when there is enough.
	Held string `json:"held,omitempty"`
	// Fast: probed at fast_interval.
	Fast bool `json:"fast,omitempty"`
	// Fresh voices, how many of them are a quorum, and the fewest that can judge.
	Fresh   int `json:"fresh"`
	Quorum  int `json:"quorum"`
	Least   int `json:"least"`
	Failing int `json:"failing"`
	Passing int `json:"passing"`
	// Next says what the state waits for: "unhealthy at 3 failing rounds (2 now)".
	Next   string        `json:"next"`
	Voices []VoiceStatus `json:"voices"`
}

// VoiceStatus is one vantage of a service.
type VoiceStatus struct {
	Vantage string `json:"vantage"`
	Group   string `json:"group"`
	// Local is the site's own check; Counted is false where it is no voice.
	Local   bool `json:"local,omitempty"`
	Counted bool `json:"counted"`
	// Fresh is false when it is too old, or never came; then the rest is what it last said.
	Fresh bool `json:"fresh"`
	// Ineligible says why it is absent although it is fresh: its controls failed.
	Ineligible string            `json:"ineligible,omitempty"`
	Age        time.Duration     `json:"age_ns"`
	Result     steadycast.Result `json:"result"`
	Bad        int               `json:"bad"`
	Good       int               `json:"good"`
}

// UnitStatus is one prefix at this site.
type UnitStatus struct {
	Unit steadycast.Unit `json:"unit"`
	// View is what the ledger holds of it.
	View UnitView `json:"view"`
	// Announced: it is in the wanted set, with this stance, for this reason.
	Announced bool              `json:"announced"`
	Stance    steadycast.Stance `json:"stance"`
	Reason    string            `json:"reason"`
	// Wants is what the evidence calls for now, Blocked what keeps the site from
	// asking for it, and RetryIn how long that lasts if it ends by itself.
	Wants   steadycast.Action `json:"wants"`
	Blocked string            `json:"blocked,omitempty"`
	RetryIn time.Duration     `json:"retry_in_ns,omitempty"`
	// Refused is the last refusal in a row, with its numbers.
	Refused string `json:"refused,omitempty"`
	// OnWire: at least one established peer was sent it. Proven: every peer that
	// is up has acknowledged what is wanted; Unproven says who has not.
	OnWire   bool   `json:"on_wire"`
	Proven   bool   `json:"proven"`
	Unproven string `json:"unproven,omitempty"`
	// Moving: its site is on the way from one path to another, and a router has
	// acknowledged it all the while.
	Moving bool `json:"moving,omitempty"`
	// Nodes of the site where it has several, in order of name.
	Nodes []NodeStatus `json:"nodes,omitempty"`
}

// Explain answers for the newest instant the machine was told.
func (s *Site) Explain() Explanation {
	e := Explanation{
		Site: s.name, Node: s.o.Node, Solo: s.o.Solo, At: s.now,
		Fence: s.fence, Revision: s.table.Revision,
		LedgerLost: s.ledgerGone, SpeakerLost: s.speakerGone, Set: s.set,
	}
	switch {
	case !s.committed:
		e.Waiting = "the ledger's state; nothing is announced before it is known"
	case !s.proved:
		e.Waiting = "the speaker's state; nothing is announced before it is known"
	}
	if s.frozen {
		e.Frozen = "no ledger for " + seconds(s.now-s.ledgerSince) + ": " + s.ledgerGone
	}
	if s.asked != nil {
		req := s.asked.req
		req.Evidence = slices.Clone(req.Evidence)
		for i := range req.Evidence {
			req.Evidence[i].Signed = nil // for voters, not for people
		}
		e.Asked, e.AskedFor = &req, s.now-s.asked.first
	}
	e.Services, e.Units = make([]ServiceStatus, 0, len(s.services)), make([]UnitStatus, 0, len(s.units))
	for i := range s.services {
		e.Services = append(e.Services, s.explainService(&s.services[i]))
	}
	for i := range s.units {
		e.Units = append(e.Units, s.explainUnit(&s.units[i]))
	}
	for _, a := range s.alarms {
		e.Alarms = append(e.Alarms, a.event)
	}
	return e
}

func (s *Site) explainService(sv *service) ServiceStatus {
	st := ServiceStatus{
		Verdict: s.verdict(sv), For: s.now - sv.since, Held: sv.why, Fast: sv.fast,
		Fresh: sv.tally.voices, Quorum: sv.tally.quorum, Least: sv.tally.least,
		Failing: sv.tally.failing, Passing: sv.tally.passing,
		Next: sv.nextText(s.facts(s.now, sv)),
	}
	st.Voices = make([]VoiceStatus, 0, len(sv.jury.all))
	for i, v := range sv.jury.all {
		st.Voices = append(st.Voices, VoiceStatus{
			Vantage: v.name, Group: v.group, Local: i == sv.jury.own,
			Counted: i != sv.jury.own || sv.jury.ownVotes, Fresh: v.fresh, Ineligible: v.last.Ineligible,
			Age: s.now - v.from, Result: v.last.Result, Bad: v.vote.bad, Good: v.vote.good,
		})
	}
	return st
}

// nextText says what the present state waits for, with the numbers.
func (sv *service) nextText(f facts) string {
	h := sv.conf.Health
	switch {
	case sv.held:
		return "evidence: " + sv.why
	case sv.state == steadycast.Healthy:
		return "suspect at the first failing round"
	case sv.state == steadycast.Suspect:
		return fmt.Sprintf("unhealthy at %d failing rounds over %s (%d over %s now), or healthy at 2 passing ones",
			sv.fall(f), seconds(*h.DownFor), f.bad, seconds(f.failingFor))
	case sv.state == steadycast.Unhealthy:
		return fmt.Sprintf("recovering at %d passing rounds (%d now)", recoverRounds, f.good)
	case sv.state == steadycast.Recovering:
		return fmt.Sprintf("healthy at %d passing rounds (%d now) and %s since the last bad one (%s now)",
			h.Rise, f.good, seconds(h.HoldUp), seconds(f.quietFor))
	case !f.ledger:
		return "the ledger's state"
	case f.in:
		return fmt.Sprintf("healthy at %d passing rounds (%d now)", h.ResumeRounds, f.good)
	default:
		return "recovering at the first passing round"
	}
}

func (s *Site) explainUnit(u *unit) UnitStatus {
	st := UnitStatus{
		Unit: u.id, View: u.view, Announced: u.announced, Reason: u.reason,
		Wants: s.wants(u), OnWire: u.onWire, Proven: u.proven, Unproven: u.unproven,
		Moving: u.announced && u.acked && s.pathOpen() != "",
		Nodes:  s.explainNodes(u),
	}
	if !s.begun {
		st.Proven, st.Unproven = false, "nothing is wanted yet"
	}
	if u.announced {
		st.Stance = u.stance(s.now)
	}
	if u.guard != "" {
		st.Refused = u.refused
	}
	if st.Wants != steadycast.NoAction {
		var until Now
		if st.Blocked, until = s.blocked(u, st.Wants); until > s.now && until < forever {
			st.RetryIn = until - s.now
		}
	}
	return st
}
