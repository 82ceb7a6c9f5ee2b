package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// What the ledger makes of a request's evidence.
//
// It counts again with the site's own rules (count.go) over the site's own
// vantages, by the committed table: who is assigned, who is one group with whom,
// how many voices are enough. What the request says of groups is not believed.
// It does not count
//
//   - a vantage that said itself that it is ineligible;
//   - one whose word the proposer did not take, for a reason that is in the
//     entry (Decide.Ineligible): it fails what a majority of others sees up, or
//     its observation is forged, or older than evidence may be.
//
// Signatures and ages are judged by the proposer, before the entry is made: a
// replica has neither the certificates nor the clock that issued the nonces. The
// entry says what the proposer found, and Apply counts by that; so a replay
// comes to the same, and the record shows what was believed.

// ballot is the count of one service's evidence in one request.
type ballot struct {
	service string
	tally
	assigned int
	// absent says who spoke and was not counted.
	absent []string
	// against are the voices that pass by later observations than the request's.
	against []string
}

// down: a quorum of enough voices says down.
func (b *ballot) down() bool { return b.enough && b.failing >= b.quorum }

// conflict: as many voices as are a quorum pass by later observations.
func (b *ballot) conflict() bool { return len(b.against) >= max(b.quorum, 1) }

func (b *ballot) String() string {
	var s string
	switch {
	case !b.enough:
		s = fmt.Sprintf("%d of %d voices of %s count; %d are needed to judge", b.voices, b.assigned, b.service, b.least)
	case b.down() && b.conflict():
		s = fmt.Sprintf("conflict: %d voices (%s) pass %s by later observations than the %d that say down", len(b.against), list(b.against), b.service, b.failing)
	default:
		s = fmt.Sprintf("%d of %d voices say down; %d needed", b.failing, b.voices, b.quorum)
	}
	if len(b.absent) > 0 {
		s += "; not counted: " + list(b.absent)
	}
	return s
}

// ballots counts a request's evidence, for each service that it is about, in
// order of name.
func (a *applying) ballots(r steadycast.Request) []ballot {
	evidence := a.ordered(r.Evidence)
	var bs []ballot
	for i := 0; i < len(evidence); {
		end := i + 1
		for end < len(evidence) && evidence[end].Service == evidence[i].Service {
			end++
		}
		bs = append(bs, a.ballot(r.Site, evidence[i].Service, evidence[i:end]))
		i = end
	}
	return bs
}

// ordered is evidence in the order in which it is counted, in a list of its own.
func (a *applying) ordered(evidence []steadycast.Observation) []steadycast.Observation {
	evidence = slices.Clone(evidence)
	slices.SortStableFunc(evidence, func(x, y steadycast.Observation) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Vantage, y.Vantage), cmp.Compare(x.Seq, y.Seq),
			cmp.Compare(y.Result.Outcome, x.Result.Outcome))
	})
	return evidence
}

// ballot counts the evidence of one service, in order of vantage and sequence.
func (a *applying) ballot(site, service string, evidence []steadycast.Observation) ballot {
	// A table of one site in all is the only one that a solo node may have.
	j := newJury(a.Table, site, len(a.Table.Sites) <= 1, time.Second, jury{})
	b := ballot{service: service}
	for _, o := range evidence {
		if o.Subject != site {
			continue
		}
		if why := a.ineligible(o); why != "" {
			o.Ineligible = why
		}
		if j.hear(0, o, 0) && o.Ineligible != "" {
			b.absent = append(b.absent, o.Vantage+" ("+o.Ineligible+")")
		}
	}
	b.tally, b.assigned = j.count(), j.assigned
	if a.e.Decide == nil {
		return b
	}
	for _, p := range a.e.Decide.Passing {
		if p.Subject == site && p.Service == service {
			b.against = append(b.against, a.passing(&j, p)...)
		}
	}
	slices.Sort(b.against)
	b.against = slices.Compact(b.against)
	return b
}

// passing names the independence groups of the vantages that pass later than the
// evidence. The site's own word does not acquit it, and neither does that of one
// who is no voice.
func (a *applying) passing(j *jury, p Passing) []string {
	var groups []string
	for _, name := range p.Vantages {
		o := steadycast.Observation{Vantage: name, Subject: p.Subject, Service: p.Service}
		if i := j.find(name); i >= 0 && i != j.own && a.ineligible(o) == "" {
			groups = append(groups, j.all[i].group)
		}
	}
	return groups
}

// ineligible says why an observation is not counted; empty if it is.
func (a *applying) ineligible(o steadycast.Observation) string {
	if o.Ineligible != "" {
		return o.Ineligible
	}
	if a.e.Decide != nil {
		for _, x := range a.e.Decide.Ineligible {
			if x.Vantage == o.Vantage && (x.Subject == "" || x.Subject == o.Subject) && (x.Service == "" || x.Service == o.Service) {
				return cmp.Or(x.Reason, "ineligible")
			}
		}
	}
	return ""
}

// margin is by how much the clearest of the ballots is above its quorum.
func margin(bs []ballot) int {
	most := -1
	for i := range bs {
		if b := &bs[i]; b.enough {
			most = max(most, b.failing-b.quorum)
		}
	}
	return most
}
