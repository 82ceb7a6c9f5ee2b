package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// aliveEvery is how often agent.json is written while all is well: it bounds how
// wrong the length of an absence can be.
const aliveEvery = 5 * time.Second

// intentWithin bounds how long a start waits for the speaker's memory.
const intentWithin = 3 * time.Second

// awake makes the machine from what is remembered here, at the speaker and in
// the ledger. The incarnation exceeds all three, so that a lost agent.json cannot
// make a speaker or ledger take new words for old ones.
func (a *Agent) awake(ctx context.Context) error {
	floor := a.inLedger()
	intent, err := a.askIntent(ctx)
	switch {
	case err == nil:
		floor = max(floor, intent.Set.Incarnation)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, speaker.ErrLost), errors.Is(err, context.DeadlineExceeded):
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: "starting without the speaker: " + err.Error()})
	default:
		return err
	}
	a.memory = remembered{Schema: stateSchema, Node: a.o.Node, Incarnation: floor + 1}
	off := time.Duration(-1)
	if a.o.StateDir != "" {
		var problem error
		a.memory, off, problem = recall(a.o.StateDir, a.o.Node, floor)
		if problem != nil {
			a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: problem.Error()})
		}
		a.keep()
	}
	if v := a.o.Ledger.View(); a.o.Derive != nil && v.Fence.Epoch > 0 { // remembered from before
		if plan, err := a.o.Derive(v.Table); err == nil {
			a.edition, a.acting = editionOf(v), v.Table.Revision
			plan = a.fitting(plan)
			a.plan.Store(&plan)
		}
	}
	plan := a.plan.Load()
	for _, s := range plan.Table.WithDefaults().Services {
		a.warm = a.warm || off >= 0 && off < s.Health.WarmStart
	}
	resort := a.o.LastResort
	if resort == 0 {
		resort = -1 // to the machine 0 is the default
	}
	a.site = decide.NewSite(decide.SiteOptions{
		Name: a.o.Site, Node: a.o.Node, Incarnation: a.memory.Incarnation, Table: plan.Table,
		Solo: a.o.Solo, Isolated: a.o.Isolated, LastResort: resort, Off: off, Fence: intent.Fence, Jitter: a.o.Jitter, VIPs: plan.VIPs,
	})
	if a.o.StateDir == "" {
		return nil
	}
	local, err := recallLocal(a.o.StateDir)
	if err != nil {
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: err.Error()})
	}
	if local != nil {
		a.local = local
		a.site.Step(a.now(), decide.Local{Order: &local.Order})
	}
	return nil
}

// askIntent asks the speaker what it was told last. Both processes may have been
// started at the same moment, so a speaker that is not there yet is waited for.
func (a *Agent) askIntent(ctx context.Context) (speaker.Intent, error) {
	ctx, cancel := context.WithTimeout(ctx, intentWithin)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		intent, err := a.spk.Intent(ctx)
		if !errors.Is(err, speaker.ErrLost) {
			return intent, err
		}
		select {
		case <-ctx.Done():
			return intent, err
		case <-again.C:
			a.o.Alive()
		}
	}
}

// inLedger is the highest incarnation of this site that the ledger answered.
func (a *Agent) inLedger() (highest uint64) {
	for _, u := range a.o.Ledger.View().Units {
		if u.Unit.Site == a.o.Site {
			highest = max(highest, u.Permit.ID.Incarnation, u.Return.Incarnation)
		}
	}
	return highest
}

// outlived makes the next start continue after what the speaker carried out or
// the ledger answered, and says why this one must end: it counts from too low.
// That happens when agent.json was lost, or comes from a backup, and neither
// could be asked at the start: a node that was made anew has nothing but its name.
func (a *Agent) outlived(ctx context.Context) error {
	if other, ok := a.site.Overtaken(); ok {
		mine := a.memory.Incarnation
		a.memory.Incarnation = max(other, mine)
		if a.o.StateDir != "" {
			a.keep()
		}
		return fmt.Errorf("the ledger knows requests of this node's start %d that this one, start %d by its own count, did not make: starting again from there", other, mine)
	}
	intent, err := a.askIntent(ctx)
	if err != nil || intent.Set.Incarnation < a.memory.Incarnation {
		return err
	}
	mine := a.memory.Incarnation
	a.memory.Incarnation = intent.Set.Incarnation
	if a.o.StateDir != "" {
		a.keep()
	}
	return fmt.Errorf("the speaker carried out a set of this node's start %d, and this one counts itself as start %d: starting again from there",
		intent.Set.Incarnation, mine)
}

// keep writes agent.json. A failure is told once until it ends: a full disk
// must not stop a withdrawal.
func (a *Agent) keep() {
	err := remember(a.o.StateDir, a.memory, time.Now())
	if err != nil {
		a.writeErrors.Add(1)
	}
	if failed := err != nil; a.keepFailed.Swap(failed) != failed {
		if failed {
			a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: "state is not kept: " + err.Error()})
		} else {
			a.say(steadycast.Event{Kind: steadycast.EventRecovery, Reason: "state is kept again"})
		}
	}
}

// stayAlive writes agent.json until ctx ends, and once more then. It is the only
// one that does after awake.
func (a *Agent) stayAlive(ctx context.Context) {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.keep()
			return
		case <-tick.C:
			a.keep()
		}
	}
}

// env is what the built-in checks ask of the node: always what the speaker said last.
func (a *Agent) env() probe.Env {
	return probe.Env{
		VIPs: func() []steadycast.VIP {
			if x := a.actualNow.Load(); x != nil {
				return x.VIPs
			}
			return nil
		},
		Peers: func() []steadycast.Peer {
			if x := a.actualNow.Load(); x != nil {
				return x.Peers
			}
			return nil
		},
	}
}
