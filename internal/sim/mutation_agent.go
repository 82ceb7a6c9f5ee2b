package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// outvote makes fewer voices than a quorum enough: when so many say down, all do.
func (a *agent) outvote(service int, o *steadycast.Observation) {
	enough := 0
	switch a.w.mut {
	case ownCheckDecides:
		if own := a.seen[a.p.i*len(a.w.table.Services)+service]; own.heard && own.down {
			o.Result = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "outvoted"}
		}
		return
	case oneVoice:
		enough = 1
	case twoVoices:
		enough = 2
	default:
		return
	}
	n := 0
	for _, p := range a.w.places {
		x := a.seen[p.i*len(a.w.table.Services)+service]
		if p != a.p && x.heard && x.down && a.now()-x.from <= a.window() {
			n++
		}
	}
	if n >= enough {
		o.Result = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "outvoted"}
	}
}

func (a *agent) window() time.Duration {
	return 3*a.w.table.Services[0].Health.Interval + time.Second
}

// forged: a liar says the same in the name of everybody.
func (a *agent) forged(from *place, service int, o steadycast.Observation, age decide.Now) {
	if !a.w.is(unsigned) || from.lies != saysBad {
		return
	}
	for _, x := range a.p.peers {
		if x.place != from {
			o.Vantage = x.place.name
			o.Seq++ // and a little later than that one itself
			a.take(x.place, service, o, age)
		}
	}
}

// missing makes vantages that are not heard say down.
func (a *agent) missing() {
	if !a.w.is(absenceIsFailure) || a.site == nil || a.now() < 10*time.Second {
		return
	}
	for _, x := range a.p.peers {
		for s, sv := range a.w.table.Services {
			y := &a.seen[x.place.i*len(a.w.table.Services)+s]
			if y.heard && a.now()-y.from <= a.window() {
				continue
			}
			a.take(x.place, s, steadycast.Observation{
				Vantage: x.place.name, Subject: a.p.name, Service: sv.Name, Seq: y.seq + 1,
				Result: steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "not heard"},
			}, a.now())
			y.heard = false // it was not really
		}
	}
}

// alone withdraws without asking while the ledger is out of reach.
func (c *client) alone() {
	a := c.a
	if !a.w.is(isolatedWithdraw) || !c.lost || len(a.wanted.Routes) == 0 {
		return
	}
	for _, v := range a.site.Verdicts() {
		if v.State == steadycast.Unhealthy && !v.Held {
			set := a.wanted
			set.Version++
			set.Routes = nil
			a.announce(set, nil)
			return
		}
	}
}

// bendLocal gives the machine once more the view that it had last, as if it were
// the newest.
func (a *agent) bendLocal() {
	if v := a.client.shown; a.w.is(localForgets) && v != nil {
		again := *v
		again.Fence = a.site.Beat().At
		a.step(decide.Committed{View: again})
	}
}

// claimAll gives back every permit of the site, and says that it announces.
func (a *agent) claimAll() {
	var units []steadycast.Unit
	for i := range a.w.prefixes {
		units = append(units, a.w.unit(a.p, i))
	}
	a.client.giveUp(steadycast.RequestID{Incarnation: a.inc - 1, Seq: 1 << 40}, units)
}

// rogueSeq is far above what a machine counts to.
const rogueSeq = 1 << 30

// askWithoutEvidence is what an agent with a fault in it might do.
func (c *client) askWithoutEvidence() {
	c.ask(steadycast.Request{
		ID: steadycast.RequestID{Node: c.a.p.voice(), Incarnation: c.a.inc, Seq: rogueSeq}, Site: c.a.p.name, Action: steadycast.Withdraw,
		Prefixes: slices.Clone(c.a.w.prefixes), Class: steadycast.Hard, Reason: "a fault in the agent",
	}, nil)
}

// carryOut withdraws on a permit, whatever the machine makes of it.
func (c *client) carryOut(ans decide.Answer) {
	a := c.a
	if len(a.wanted.Routes) == 0 {
		return
	}
	set := a.wanted
	set.Version++
	set.Routes = nil
	var causes []cause
	for _, x := range ans.Rulings {
		if _, still := a.wanted.Find(x.Unit.Prefix); still && x.Permit != nil && x.Permit.Action == steadycast.Withdraw {
			set.Fence = x.Permit.Fence
			causes = append(causes, cause{prefix: a.w.prefixAt(x.Unit.Prefix), kind: byPermit, id: ans.ID})
		}
	}
	for _, r := range a.wanted.Routes {
		if !slices.ContainsFunc(causes, func(c cause) bool { return a.w.prefixes[c.prefix] == r.Prefix }) {
			set.Routes = append(set.Routes, r)
		}
	}
	if len(causes) > 0 {
		a.announce(set, causes)
	}
}

// words are the agent's verdicts, for people.
func (a *agent) words() string {
	if a == nil {
		return "no agent"
	}
	var words []string
	for _, v := range a.site.Verdicts() {
		words = append(words, fmt.Sprintf("%s %s held=%v bad=%d good=%d (%s)", v.Service, v.State, v.Held, v.Bad, v.Good, v.Reason))
	}
	return join(words)
}

func join(words []string) string { return strings.Join(words, ", ") }
