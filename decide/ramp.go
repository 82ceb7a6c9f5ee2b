package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// A site that comes back is not given all its clients at once: half of all flows
// move when a route returns, and what failed under load may fail under it again.
// So where the table has a ramp, a return walks it, each service at the site by
// itself:
//
//	backup ──▶ 5% ──▶ 20% ──▶ 50% ──▶ 100% ──▶ done
//	   ◀────────◀──────◀───────◀────────┘  a gate fails, or the service is suspect
//
// As backup the route is announced depreferred and no name leads to the site;
// that proves the route. Then DNS sends it the share of each step. One step takes
// at least the dwell, and what the site saw of itself in this very step must pass
// the gates. What is not known neither passes nor fails: the step lasts.
//
// Everything moves by entries, at ledger time: what the site saw travels in the
// entry of whoever leads, so a new leader goes on where the old one was.
//
// BGP alone cannot send a twentieth: for a service to which no name leads (its
// ttl is 0) there is backup, and then all.

// Ramp says how a site gets its clients back after it was out.
type Ramp struct {
	// Steps are the shares by DNS, in percent; default 5, 20, 50, 100.
	Steps []int `yaml:"steps" json:"steps"`
	// Prove is how long it is announced as backup first; default 30s.
	Prove time.Duration `yaml:"prove" json:"prove_ns"`
	// Dwell is the least time at each step; default 5m.
	Dwell time.Duration `yaml:"dwell" json:"dwell_ns"`
	// Success is the least percentage of rounds that pass; default 99.
	Success int `yaml:"success" json:"success"`
	// Latency is what 19 of 20 rounds must keep under; 0 is not asked.
	Latency time.Duration `yaml:"latency" json:"latency_ns,omitempty"`
	// Load is the most that the site carries, in percent of its capacity; default
	// guards.capacity_red_percent.
	Load int `yaml:"load" json:"load"`
	// Rounds are how many a gate wants to have seen in a step before it says anything;
	// default 10.
	Rounds int64 `yaml:"rounds" json:"rounds"`
}

func (r *Ramp) withDefaults(g Guards) *Ramp {
	if r == nil {
		return nil
	}
	full := *r
	full.Steps = slices.Clone(r.Steps)
	if len(full.Steps) == 0 {
		full.Steps = []int{5, 20, 50, 100}
	}
	setDefault(&full.Prove, 30*time.Second)
	setDefault(&full.Dwell, 5*time.Minute)
	setDefault(&full.Success, 99)
	setDefault(&full.Load, g.CapacityRed)
	setDefault(&full.Rounds, 10)
	return &full
}

// ramp finds what of it cannot be meant.
func (c *critic) ramp() {
	r := c.d.Ramp
	if r == nil {
		return
	}
	last := 0
	for i, s := range r.Steps {
		if at := fmt.Sprintf("ramp.steps[%d]", i); s <= last || s > 100 {
			c.say(at, "%d%%; allowed: above the %d%% before it, and 100%% at most, as in [5, 20, 50, 100]", s, last)
			return
		}
		last = s
	}
	if last != 100 {
		c.say("ramp.steps", "end at %d%%; the last is 100", last)
	}
	if len(r.Steps) > 20 {
		c.say("ramp.steps", "are %d; at most 20", len(r.Steps))
	}
	c.span("ramp.prove", r.Prove, time.Hour)
	c.span("ramp.dwell", r.Dwell, 24*time.Hour)
	c.span("ramp.latency", r.Latency, time.Minute)
	if r.Success < 1 || r.Success > 100 {
		c.say("ramp.success", "%d is out of range; allowed: 1 to 100", r.Success)
	}
	if r.Rounds < 1 || r.Rounds > 10_000 {
		c.say("ramp.rounds", "%d is out of range; allowed: 1 to 10000", r.Rounds)
	}
	if r.Load < 1 || r.Load > 100 {
		c.say("ramp.load", "%d is out of range; allowed: 1 to 100", r.Load)
	}
}

// rampState is one service of one site on its way back.
type rampState struct {
	Site    string `json:"site"`
	Service string `json:"service"`
	// Step is 0 as backup, then one more than the position in the steps.
	Step int `json:"step"`
	// Since and Fence are when and where the step began, Backs how often a gate failed.
	Since Time             `json:"since"`
	Fence steadycast.Fence `json:"fence"`
	Backs int              `json:"backs,omitempty"`
	// Why the step is this one.
	Why string `json:"why,omitempty"`
}

// RampView is where a returning service stands.
type RampView struct {
	// Step of Of; 0 as backup. Both 0 for one that does not return.
	Step int `json:"step"`
	Of   int `json:"of"`
	// Backs is how often a gate failed, Why what was decided last.
	Backs int    `json:"backs,omitempty"`
	Why   string `json:"why,omitempty"`
	// Fence is where the step began, LeftMS what is left of its dwell at View.LT.
	Fence  steadycast.Fence `json:"fence"`
	LeftMS int64            `json:"left_ms"`
}

// Ramped is what a site saw of a service of its own in one step of its ramp.
type Ramped struct {
	Service string `json:"service"`
	// Step is the fence where the step began.
	Step steadycast.Fence `json:"step"`
	// Passed, Failed and Slow are rounds of whoever looks at the service; Slow passed
	// and took longer than the ramp's latency.
	Passed int64 `json:"passed"`
	Failed int64 `json:"failed"`
	Slow   int64 `json:"slow,omitempty"`
}

// RampedAt is the same with its site, as the proposer hands it on.
type RampedAt struct {
	Site string `json:"site"`
	Ramped
}

// steps are the shares of a service's ramp in permille, behind backup.
func (s *state) steps(service string) []int {
	if sv, _ := s.Table.Service(service); sv.TTL == 0 {
		return []int{Whole}
	}
	out := make([]int, len(s.Table.Ramp.Steps))
	for i, percent := range s.Table.Ramp.Steps {
		out[i] = percent * 10
	}
	return out
}

func (s *state) rampAt(site, service string) (int, bool) {
	return slices.BinarySearchFunc(s.Moves.Ramps, [2]string{site, service}, func(x rampState, w [2]string) int {
		return cmp.Or(cmp.Compare(x.Site, w[0]), cmp.Compare(x.Service, w[1]))
	})
}

// ramped is the share that the ramp lets a site take, and where it stands there.
func (s *state) ramped(site, service string) (permille int, v RampView) {
	i, ok := s.rampAt(site, service)
	if !ok {
		return Whole, v
	}
	r, steps := &s.Moves.Ramps[i], s.steps(service)
	if r.Step > 0 {
		permille = steps[r.Step-1]
	}
	left := s.rampEnds(r) - s.LT
	return permille, RampView{Step: r.Step, Of: len(steps), Backs: r.Backs, Why: r.Why, Fence: r.Fence, LeftMS: int64(max(left, 0))}
}

// rampEnds is when the dwell of the step is over. As backup it counts from when the
// last of its routes was proven.
func (s *state) rampEnds(r *rampState) Time {
	if r.Step > 0 {
		return r.Since + lt(s.Table.Ramp.Dwell)
	}
	since := r.Since
	for _, u := range s.unitsOf(r.Site, r.Service) {
		since = max(since, u.Changed)
	}
	return since + lt(s.Table.Ramp.Prove)
}

// unitsOf are those of a service at a site, in order of prefix.
func (s *state) unitsOf(site, service string) (us []*unitState) {
	sv, _ := s.Table.Service(service)
	for _, p := range sv.Prefixes {
		if u := s.unit(site, p); u != nil {
			us = append(us, u)
		}
	}
	return us
}

// backup: the unit is announced depreferred, because a service of it only begins to return.
func (s *state) backup(u steadycast.Unit) bool {
	for _, i := range s.services(u) {
		if k, ok := s.rampAt(u.Site, s.Table.Services[i].Name); ok && s.Moves.Ramps[k].Step == 0 {
			return true
		}
	}
	return false
}

// beginRamps begins the return of all that a unit carries. A first announcement is
// none, where too few announce healthily nobody waits, and what a plan gives back
// comes back as fast as it went.
func (q *asking) beginRamps() {
	u := q.u
	if q.Table.Ramp == nil || u.Phase != steadycast.Out || !u.Ever || q.pinned() || q.underFloor() || q.rollsBack(u.Unit) {
		return
	}
	for _, k := range q.services(u.Unit) {
		service := q.Table.Services[k].Name
		why := "announced as backup, to prove the route"
		if len(q.steps(service)) == 1 {
			why += "; then all at once, for no name leads to it and BGP knows no part"
		}
		r := rampState{Site: u.Unit.Site, Service: service, Since: q.LT, Fence: q.Fence, Why: why}
		i, ok := q.rampAt(r.Site, r.Service)
		if ok {
			continue // with another prefix of the service
		}
		q.Moves.Ramps = slices.Insert(slices.Clone(q.Moves.Ramps), i, r)
		q.event(steadycast.Event{Kind: steadycast.EventShare, Site: r.Site, Service: service, From: "out", To: "backup", Reason: why})
	}
}

// endRamps forgets those of services that are out altogether, whose next return
// begins anew, and of those that a person pinned.
func (a *applying) endRamps() {
	if len(a.Moves.Ramps) == 0 {
		return
	}
	a.Moves.Ramps = keep(a.Moves.Ramps, func(r rampState) bool {
		if a.Table.Ramp == nil || !a.serves(r.Site, r.Service) {
			return false
		}
		us := a.unitsOf(r.Site, r.Service)
		pinned := slices.ContainsFunc(us, func(u *unitState) bool {
			o := a.orderOver(u.Unit)
			return o != nil && o.Order.Kind == steadycast.OrderAnnounce
		})
		return !pinned && slices.ContainsFunc(us, func(u *unitState) bool { return u.Phase != steadycast.Out })
	})
}

// rampedShares are what the ramps let their sites take, in permille, in their order.
func (s *state) rampedShares() []int {
	out := make([]int, len(s.Moves.Ramps))
	for i, r := range s.Moves.Ramps {
		out[i], _ = s.ramped(r.Site, r.Service)
	}
	return out
}

// refitRamps finds each ramp its place among the steps of a new table: the highest
// that gives the site no more than it had. Where that is less, the step begins
// anew; a table never moves a returning site forward.
func (a *applying) refitRamps(had []int) {
	a.Moves.Ramps = slices.Clone(a.Moves.Ramps)
	for i := range a.Moves.Ramps {
		r := &a.Moves.Ramps[i]
		if a.Table.Ramp == nil || !a.serves(r.Site, r.Service) {
			continue // it is over
		}
		step, share := 0, 0
		for j, permille := range a.steps(r.Service) {
			if permille <= had[i] {
				step, share = j+1, permille
			}
		}
		if r.Step = step; share == had[i] {
			continue
		}
		r.Since, r.Fence, r.Why = a.LT, a.Fence, "the table has other steps now"
		a.event(steadycast.Event{Kind: steadycast.EventShare, Site: r.Site, Service: r.Service, From: Percent(had[i]), To: a.stepText(r), Reason: r.Why})
	}
}

// suspectRamp steps a service back that is seen to fail: in the same entry as the verdict.
func (a *applying) suspectRamp(was steadycast.State, v steadycast.Verdict) {
	i, ok := a.rampAt(v.Site, v.Service)
	if !ok || !v.State.Troubled() || was == v.State || a.Moves.Ramps[i].Step == 0 {
		return
	}
	a.stepRamp(i, a.Moves.Ramps[i].Step-1, true, v.State.String()+": "+cmp.Or(v.Reason, "no reason given"))
}

// judgeRamps holds every ramp against what its site saw.
func (a *applying) judgeRamps() {
	for i := 0; i < len(a.Moves.Ramps); i++ {
		r := a.Moves.Ramps[i]
		g := a.gate(&r)
		switch {
		case g.fails != "" && r.Step > 0:
			a.stepRamp(i, r.Step-1, true, g.fails)
		case g.passes == "" || a.frozen(r.Site, r.Service):
		case r.Step == len(a.steps(r.Service)):
			a.Moves.Ramps = slices.Delete(slices.Clone(a.Moves.Ramps), i, i+1)
			if len(a.Moves.Ramps) == 0 {
				a.Moves.Ramps = nil
			}
			i--
			a.event(steadycast.Event{Kind: steadycast.EventShare, Site: r.Site, Service: r.Service, From: "returning", To: "all", Reason: g.passes})
		default:
			a.stepRamp(i, r.Step+1, false, g.passes)
		}
	}
}

// stepRamp changes the step.
func (a *applying) stepRamp(i, step int, failed bool, why string) {
	a.Moves.Ramps = slices.Clone(a.Moves.Ramps)
	r := &a.Moves.Ramps[i]
	from := a.stepText(r)
	r.Step, r.Since, r.Fence, r.Why = step, a.LT, a.Fence, cut(why, pastReason)
	if failed {
		r.Backs++
	}
	a.event(steadycast.Event{Kind: steadycast.EventShare, Site: r.Site, Service: r.Service, From: from, To: a.stepText(r), Reason: r.Why})
}

func (s *state) stepText(r *rampState) string {
	if r.Step == 0 {
		return "backup"
	}
	return Percent(s.steps(r.Service)[r.Step-1])
}

// frozen: a person or the breaker stopped automation for something of the service there.
func (s *state) frozen(site, service string) bool {
	return slices.ContainsFunc(s.unitsOf(site, service), func(u *unitState) bool {
		return slices.ContainsFunc(s.Freezes, func(f StandingFreeze) bool { return f.Scope.Covers(u.Unit) })
	})
}

// gated is what the gates say of a step: why it fails or passes, or neither.
type gated struct{ fails, passes string }

// gate holds what a site saw in this very step against the table.
func (a *applying) gate(r *rampState) (g gated) {
	conf := a.Table.Ramp
	var saw Ramped
	if a.e.Decide != nil {
		for _, x := range a.e.Decide.Ramped {
			if x.Site == r.Site && x.Service == r.Service && x.Step == r.Fence && min(x.Passed, x.Failed, x.Slow) >= 0 && max(x.Passed, x.Failed, x.Slow) < 1<<40 {
				saw = x.Ramped
			}
		}
	}
	rounds := saw.Passed + saw.Failed
	load, known := a.load(r.Site)
	capacity := a.capacity(r.Site)
	switch {
	case rounds >= conf.Rounds && saw.Passed*100 < rounds*int64(conf.Success):
		g.fails = fmt.Sprintf("success: %d of %d rounds passed; at least %d%%", saw.Passed, rounds, conf.Success)
		return g
	case rounds >= conf.Rounds && conf.Latency > 0 && saw.Slow*20 > saw.Passed:
		g.fails = fmt.Sprintf("latency: %d of %d rounds took longer than %s; at most 1 of 20", saw.Slow, saw.Passed, conf.Latency)
		return g
	case r.Step > 0 && known && capacity > 0 && percent(load, capacity) > int64(conf.Load):
		g.fails = fmt.Sprintf("load: it carries %d%% of its capacity; at most %d%%", percent(load, capacity), conf.Load)
		return g
	case rounds < conf.Rounds, a.LT < a.rampEnds(r):
		return g
	case capacity > 0 && a.reports(r.Site) && !known:
		return g // it told its load once, and does not now
	}
	for _, u := range a.unitsOf(r.Site, r.Service) {
		if u.Phase != steadycast.In || u.Lost || u.Depreferred {
			return g
		}
	}
	if i, ok := a.verdict(r.Site, r.Service); !ok || a.Verdicts[i].Verdict.State != steadycast.Healthy {
		return g
	}
	g.passes = fmt.Sprintf("%d of %d rounds passed", saw.Passed, rounds)
	if conf.Latency > 0 {
		g.passes += fmt.Sprintf(", %d slow", saw.Slow)
	}
	if known && capacity > 0 {
		g.passes += fmt.Sprintf(", load %d%%", percent(load, capacity))
	}
	return g
}

// soundRamps checks of a snapshot what this code relies on.
func (s *state) soundRamps() error {
	for i, r := range s.Moves.Ramps {
		if s.Table.Ramp == nil || !s.serves(r.Site, r.Service) || r.Step < 0 || r.Step > len(s.steps(r.Service)) || r.Since > s.LT {
			return fmt.Errorf("the ramp of %s at %s cannot be", r.Service, r.Site)
		}
		if k, _ := s.rampAt(r.Site, r.Service); k != i {
			return fmt.Errorf("the ramps are out of order")
		}
	}
	return nil
}
