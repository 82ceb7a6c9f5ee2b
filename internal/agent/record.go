package agent

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// record counts what happened, for people and metrics. Nothing decides by it.
// It belongs to the owner's goroutine.
type record struct {
	refusals    map[string]uint64
	transitions map[transition]uint64
	sorted      []api.Transitions // of transitions, for people; nil when they have changed
	counts      api.Counts

	fast     map[string]bool                     // services whose probes hurry
	verdicts map[string]steadycast.Verdict       // newest reported, per service
	states   map[string]time.Time                // when the state began, per service
	suspect  map[string]decide.Now               // when the present trouble began
	asks     map[steadycast.RequestID]decide.Now // first send of requests not yet answered
	rulings  map[netip.Prefix]decide.Ruling      // newest per prefix
	changes  map[netip.Prefix]change             // newest per prefix
}

type transition struct {
	prefix    netip.Prefix
	to, cause string
}

// change is the newest change of one prefix: from the set to its proof.
type change struct {
	since   time.Time // wall, for people
	timed   bool      // its latencies are not yet both recorded
	wanted  bool
	version uint64
}

func newRecord() record {
	return record{
		refusals: map[string]uint64{}, transitions: map[transition]uint64{},
		fast: map[string]bool{}, verdicts: map[string]steadycast.Verdict{}, states: map[string]time.Time{},
		suspect: map[string]decide.Now{}, asks: map[steadycast.RequestID]decide.Now{},
		rulings: map[netip.Prefix]decide.Ruling{}, changes: map[netip.Prefix]change{},
	}
}

func (r *record) looped(at time.Time) { r.counts.LoopRan = at }

// judged takes verdicts that changed.
func (r *record) judged(vs []steadycast.Verdict, now decide.Now, wall time.Time) {
	for _, v := range vs {
		if r.verdicts[v.Service].State != v.State {
			r.states[v.Service] = wall
		}
		r.verdicts[v.Service] = v
		switch v.State {
		case steadycast.Suspect:
			if _, on := r.suspect[v.Service]; !on {
				r.suspect[v.Service] = now
			}
		case steadycast.Unhealthy:
			if began, on := r.suspect[v.Service]; on {
				r.counts.Detect.Observe(now - began)
				delete(r.suspect, v.Service)
			}
		default:
			delete(r.suspect, v.Service)
		}
	}
}

// asked remembers the first send of a request.
func (r *record) asked(id steadycast.RequestID, now decide.Now) {
	if _, on := r.asks[id]; !on {
		if len(r.asks) > 64 { // answers that never came
			clear(r.asks)
		}
		r.asks[id] = now
	}
}

// answered takes the ledger's answer.
func (r *record) answered(a decide.Answer, now decide.Now) {
	if sent, on := r.asks[a.ID]; on {
		r.counts.Decide.Observe(now - sent)
		delete(r.asks, a.ID)
	}
	for _, x := range a.Rulings {
		r.rulings[x.Unit.Prefix] = x
		if g, refused := x.Refusal(); refused {
			r.refusals[g.Guard]++
		}
	}
}

// announced compares two sets and counts each prefix that changed.
func (r *record) announced(old, next steadycast.RouteSet, cause func(netip.Prefix) string, wall time.Time) {
	for _, n := range next.Routes {
		o, had := old.Find(n.Prefix)
		if had && o.Stance == n.Stance {
			continue
		}
		to := "announced"
		switch n.Stance {
		case steadycast.Depreferred:
			to = "depreferred"
		case steadycast.Draining:
			to = "draining"
		case steadycast.Backup:
			to = "backup"
		}
		r.count(n.Prefix, to, cause(n.Prefix), change{since: wall, timed: true, wanted: true, version: next.Version})
	}
	for _, o := range old.Routes {
		if _, has := next.Find(o.Prefix); !has {
			r.count(o.Prefix, "withdrawn", cause(o.Prefix), change{since: wall, timed: true, version: next.Version})
		}
	}
}

func (r *record) count(p netip.Prefix, to, cause string, c change) {
	r.transitions[transition{p, to, cause}]++
	r.sorted = nil
	r.changes[p] = c
}

// proved looks for the proof of changes and records how long each part took.
func (r *record) proved(a steadycast.Actual) {
	for p, c := range r.changes {
		if !c.timed || a.Version < c.version {
			continue
		}
		var sent, acked time.Time
		for _, s := range a.Sent {
			if s.Prefix != p || s.Announced != c.wanted {
				continue
			}
			if s.At.After(sent) {
				sent = s.At
			}
			if s.Acked.IsZero() {
				sent = time.Time{}
				break
			}
			if s.Acked.After(acked) {
				acked = s.Acked
			}
		}
		if sent.IsZero() || acked.IsZero() || sent.Before(c.since) {
			continue
		}
		r.counts.Announce.Observe(sent.Sub(c.since))
		r.counts.Confirm.Observe(acked.Sub(sent))
		c.timed = false
		r.changes[p] = c
	}
}

// snapshot copies the counts in a fixed order.
func (r *record) snapshot(site string) api.Counts {
	c := r.counts
	for g, n := range r.refusals {
		c.Refusals = append(c.Refusals, api.Refusals{Guard: g, Count: n})
	}
	slices.SortFunc(c.Refusals, func(a, b api.Refusals) int { return cmp.Compare(a.Guard, b.Guard) })
	if r.sorted == nil {
		for t, n := range r.transitions {
			r.sorted = append(r.sorted, api.Transitions{
				Unit: steadycast.Unit{Site: site, Prefix: t.prefix}, To: t.to, Cause: t.cause, Count: n})
		}
		slices.SortFunc(r.sorted, func(a, b api.Transitions) int {
			return cmp.Or(a.Unit.Compare(b.Unit), cmp.Compare(a.To, b.To), cmp.Compare(a.Cause, b.Cause))
		})
	}
	c.Transitions = r.sorted
	return c
}
