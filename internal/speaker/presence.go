package speaker

import (
	"fmt"
	"time"

	"github.com/steadycast/steadycast"
)

// agentJoined and agentLeft count the agents that are connected; a newer one
// overlaps the older for a moment.
func (e *engine) agentJoined(who string) {
	e.agents++
	e.agentGone = nil
	e.log.Info("agent connected", "who", who)
	e.alarm("agent", "")
}

func (e *engine) agentLeft(who string) {
	if e.agents--; e.agents > 0 || e.stop != nil {
		return
	}
	since := time.Now().Format(time.TimeOnly)
	if e.cfg.AgentLost == "deprefer" {
		e.agentGone = time.After(e.cfg.AgentLostAfter)
		e.alarm("agent", fmt.Sprintf("no agent since %s: routes stay, and are depreferred after %v", since, e.cfg.AgentLostAfter))
	} else {
		e.alarm("agent", fmt.Sprintf("no agent since %s: routes stay as they are", since))
	}
	e.log.Warn("agent lost", "who", who, "agent_lost", e.cfg.AgentLost)
}

// withoutAgent makes the routes less attractive. It never withdraws one: that
// nobody judges is no failure.
func (e *engine) withoutAgent() {
	e.agentGone = nil
	if len(e.given.Routes) == 0 {
		return
	}
	e.lost = true
	reason := fmt.Sprintf("no agent for %v", e.cfg.AgentLostAfter)
	if err := e.announce(withStance(e.given, steadycast.Depreferred, reason)); err != nil {
		e.log.Error("routes cannot be depreferred", "err", err)
		return
	}
	e.alarm("agent", reason+": routes are depreferred until an agent gives a set")
}

// withStance is set with no route more attractive than stance.
func withStance(set steadycast.RouteSet, stance steadycast.Stance, reason string) steadycast.RouteSet {
	routes := set.Routes
	set.Routes = make([]steadycast.Route, len(routes))
	for i, r := range routes {
		if r.Stance < stance {
			r.Stance, r.Reason = stance, reason
		}
		set.Routes[i] = r
	}
	return set
}

// clear ends a state that only a person may end.
func (e *engine) clear(what Clearance) error {
	switch what {
	case ClearCrashLoop:
		if e.loopOver == nil {
			return refuse("invalid", "there is no crash loop to clear")
		}
		e.endLoop("cleared by a person")
		return nil
	case ClearFence:
		e.log.Warn("the highest fence is forgotten by a person's wish", "fence", e.high.Fence, "inc", e.high.Incarnation, "version", e.high.Version)
		e.high = mark{}
		return nil
	}
	return refuse("invalid", "%q cannot be cleared; allowed: %s, %s", what, ClearCrashLoop, ClearFence)
}

// endLoop lets the speaker announce again. The connected agent's set counts;
// without an agent nothing is announced.
func (e *engine) endLoop(why string) {
	e.loopOver = nil
	e.alarm("crash_loop", "")
	e.log.Info("crash loop over", "why", why)
	var err error
	if e.starts, err = e.starts.Forgive(e.file("speaker-starts.json")); err != nil {
		e.log.Error("the count of starts cannot be written", "err", err)
	}
	if !e.remembered && e.agents > 0 && e.stop == nil {
		e.wantVIPs(e.newest.VIPs)
		e.unsaved = true
		e.keep()
	}
}
