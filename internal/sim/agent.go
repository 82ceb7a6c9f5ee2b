package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// agent is the process around one [decide.Site]: it probes, carries inputs in
// and effects out, and forgets everything when it dies. A witness's has no
// machine; it only probes.
type agent struct {
	w     *world
	p     *place
	inc   uint64
	life  uint64 // never used twice, whatever the disk says
	clock clock
	site  *decide.Site

	issued []time.Duration // when each nonce was issued, by the agent's own clock
	echo   []nonce         // the newest nonce of each place, to be echoed
	looks  uint64          // rounds so far: the sequence of what it observes
	wakeAt time.Duration   // the next event that will look whether time has come; 0 for none
	fast   bool
	table  int // which of the tables that were in force its last set rests on
	client client
	kin    kinMutations
	ending bool // it will start again from a higher number

	wanted steadycast.RouteSet
	given  bool
	seen   []seen // raw, of each place and service; for the mutations that count otherwise
	good   []int  // passing local rounds in a row since the start, by service
	onset  time.Duration
	uneasy bool            // a service is Suspect or worse, since onset
	sick   []time.Duration // since when each service is Unhealthy or not back from there; never if it is not
}

// nonce is one that another agent or a voter issued, in one of its lives.
type nonce struct {
	life uint64
	n    int
}

// cause is why a route changed.
type cause struct {
	prefix int // -1 for all
	kind   causeKind
	id     steadycast.RequestID
	reason string
	good   []int // passing local rounds when it was decided
}

type causeKind uint8

const (
	byNobody   causeKind = iota
	byPermit             // automation, with leave
	byOrder              // a person
	byPhase              // the ledger counts it out
	byRestart            // the speaker was started anew
	byResume             // counted in, and local rounds pass
	byReturn             // with a permit
	byReplay             // the session came back
	byLoss               // power, process or session lost
	byUpgrade            // people restarted the speaker
	byKin                // its siblings stay
	bySite               // automation, with the leave that a sibling asked for
	byMutation           // a rejected rule acted
)

var involuntary = cause{prefix: -1, kind: byLoss}

// startAgent starts the agent's process; off is how long it did not run.
func (p *place) startAgent(off time.Duration) {
	w := p.w
	p.starts++
	a := &agent{
		w: w, p: p, inc: p.starts, life: uint64(p.deaths) + 1, clock: clock{zero: w.now, ppm: p.ppm},
		echo: make([]nonce, len(w.places)), good: make([]int, len(w.table.Services)), sick: slices.Repeat([]time.Duration{never}, len(w.table.Services)),
		seen: make([]seen, len(w.places)*len(w.table.Services)),
	}
	p.agent = a
	a.client = newClient(a)
	if !p.witness {
		fence := p.speaker.high.Fence // which its speaker keeps on disk
		if w.is(startUnfenced) {
			fence = steadycast.Fence{}
		}
		inc := a.inc
		if w.is(sameIncarnation) {
			inc = 1
		}
		a.site = decide.NewSite(decide.SiteOptions{
			Name: p.name, Node: p.node, Incarnation: inc, Table: w.bendTable(w.table), Off: off,
			Fence: fence, Jitter: w.between(0, 2*time.Second), DeafFor: w.bendDeaf(),
		})
		if p.kept != nil {
			a.step(decide.Committed{View: a.bendView(*p.kept)})
		}
		if p.glass != nil {
			p.glass.at = steadycast.Fence{}
			a.local()
			w.judge.obeyed(p)
		}
		if w.is(voidOnRestart) && a.inc > 1 {
			a.claimAll()
		}
	}
	w.say("%s: the agent starts, incarnation %d", p.name, a.inc)
	a.round()
	a.beating()
	a.client.watching()
	if p.speaker.up {
		p.prove()
	}
}

// killAgent ends it. What it said is on its way; what it knew is gone.
func (p *place) killAgent() {
	if p.agent == nil {
		return
	}
	before := slices.Clone(p.speaker.out)
	p.w.judge.happen("agent dies")
	p.agent = nil
	p.deaths++
	if p.w.is(restartWithdraws) && p.speaker.up {
		p.speaker.set = steadycast.RouteSet{}
		p.wire(cause{prefix: -1, kind: byMutation, reason: "the speaker lives in the agent's process"})
	}
	p.w.judge.holds(iDeath, slices.Equal(before, p.speaker.out), "the routes of %s were %v and are %v when its agent died", p.name, before, p.speaker.out)
}

func (a *agent) alive() bool { return a.p.agent == a }

func (a *agent) now() decide.Now { return a.clock.at(a.w.now) }

// step tells the machine one thing and carries out what it answers, in order.
func (a *agent) step(in decide.Input) {
	if !a.alive() || a.site == nil {
		return
	}
	var reported []steadycast.Verdict
	var causes []cause
	for _, e := range a.site.Step(a.now(), in) {
		switch e := e.(type) {
		case decide.Report:
			reported = append(reported, e.Verdicts...)
		case decide.Ask:
			a.client.ask(e.Request, reported)
			reported = nil
		case decide.GiveUp:
			a.client.giveUp(e.ID, e.Units)
		case decide.Announce:
			a.announce(e.Set, causes)
		case decide.Pace:
			a.pace(e.Fast)
		case decide.Tell:
			a.tellKin(e.To, e.Kin)
		case decide.Look:
			a.lookAside(e.Node)
		case decide.Note:
			if c, ok := a.noted(e.Event); ok {
				causes = append(causes, c)
			}
		}
	}
	if len(reported) > 0 {
		a.client.report(reported)
	}
	a.judgeVerdicts()
	a.startAgain()
	a.arm()
}

// arm makes sure that an event comes when the machine wants to be woken.
func (a *agent) arm() {
	at, ok := a.site.Wake()
	if !ok {
		return
	}
	real := max(a.clock.when(at), a.w.now+time.Millisecond)
	if a.wakeAt > a.w.now && a.wakeAt <= real {
		return // that one will look again
	}
	a.wakeAt = real
	a.w.at(real, func() {
		if !a.alive() || a.wakeAt != real {
			return
		}
		a.wakeAt = 0
		if at, ok := a.site.Wake(); ok && at <= a.now() {
			a.step(decide.Tick{})
		} else {
			a.arm()
		}
	})
}

// noted reads in the machine's own record why a route will change.
func (a *agent) noted(e steadycast.Event) (cause, bool) {
	if e.Kind != steadycast.EventRoute {
		if e.Kind != steadycast.EventProof {
			a.w.say("%s: %s %s %s→%s %s", a.p.name, e.Kind, e.Service, e.From, e.To, e.Reason)
		}
		return cause{}, false
	}
	a.w.say("%s: route %s %s→%s: %s", a.p.name, e.Prefix, e.From, e.To, e.Reason)
	c := cause{prefix: a.w.prefixAt(e.Prefix), id: e.Request, reason: e.Reason, good: slices.Clone(a.good)}
	switch r := e.Reason; {
	case strings.HasPrefix(r, "withdrawn by permit "):
		c.kind = byPermit
	case strings.HasPrefix(r, "returned by permit "):
		c.kind = byReturn
	case strings.Contains(r, " by order"), strings.Contains(r, "drained; the order has ended"), strings.HasPrefix(r, "withdrawn at once while it drained"):
		c.kind = byOrder
	case strings.HasPrefix(r, "the ledger counts it as out"):
		c.kind = byPhase
	case strings.HasPrefix(r, "the speaker started anew"):
		c.kind = byRestart
	case strings.HasPrefix(r, "withdrawn with the site, by permit "):
		c.kind = bySite
	case strings.HasPrefix(r, "this node alone: "):
		c.kind = byKin
	case strings.HasPrefix(r, "resumed: "):
		c.kind = byResume
	default:
		return cause{}, false
	}
	return c, c.prefix >= 0 && (e.To == "withdrawn" || e.To == "announced" && e.From == "withdrawn")
}

// announce gives the speaker a set, a few milliseconds away.
func (a *agent) announce(set steadycast.RouteSet, causes []cause) {
	a.w.judge.decided(a, set, causes)
	a.wanted, a.given = set, true
	p, deaths := a.p, a.p.deaths
	a.w.in(a.w.between(time.Millisecond, 20*time.Millisecond), func() {
		if p.deaths == deaths && p.up {
			p.apply(set, causes)
		}
	})
}

// pace hurries the site's own checks.
func (a *agent) pace(fast bool) {
	if was := a.fast; fast && !was {
		a.fast = true
		a.hurry()
	}
	a.fast = fast
}

func (a *agent) hurry() {
	a.w.in(a.w.table.Services[0].Health.FastInterval, func() {
		if a.alive() && a.fast {
			a.lookHere()
			a.hurry()
		}
	})
}

// beating tells the ledger what is so, once a second.
func (a *agent) beating() {
	if a.site == nil || !a.alive() {
		return
	}
	a.measure()
	a.beat()
	if k, ok := a.site.Kin(a.now()); ok {
		a.tellKin("", k)
	}
	a.w.in(time.Second, a.beating)
}

func (a *agent) beat() {
	if a.alive() && a.site != nil {
		a.client.beat(a.site.Beat())
	}
}

// judgeVerdicts keeps since when the site has held itself to be in trouble.
func (a *agent) judgeVerdicts() {
	uneasy := false
	for i, v := range a.site.Verdicts() {
		uneasy = uneasy || v.State.Troubled()
		switch failing := v.State == steadycast.Unhealthy || v.State == steadycast.Recovering; {
		case !failing:
			a.sick[i] = never
		case a.sick[i] == never:
			a.sick[i] = a.w.now
		}
	}
	if uneasy && !a.uneasy {
		a.onset = a.w.now
	}
	a.uneasy = uneasy
}
