package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// In a fleet the policy comes from the ledger: each node makes its own plan of
// the table that all have committed, and of its node.yaml.

// edition tells one committed table from another. Revisions grow, but for a ledger
// that was recovered, which has another epoch.
type edition struct{ epoch, revision uint64 }

func editionOf(v decide.View) edition { return edition{v.Fence.Epoch, v.Table.Revision} }

// committed takes the newest state of the ledger to the machine, and carries out
// its table. A ledger that has not begun says nothing.
func (a *Agent) committed() {
	v := a.o.Ledger.View()
	defer a.reconcile()
	if v.Fence != a.newest {
		a.newest, a.viewAt = v.Fence, time.Now()
	}
	if a.o.Derive == nil {
		a.step(decide.Committed{View: v})
		return
	}
	if v.Fence.Epoch == 0 {
		return
	}
	a.step(decide.Committed{View: v})
	if e := editionOf(v); e != a.edition {
		a.edition = e
		if a.follow(v.Table) {
			a.regarded = outOf(&v) // its looks were made with the orders as they stand
		}
	}
	a.regard(&v)
	a.try(v)
}

// follow makes the plan of a table, and uses it. One that cannot be carried out
// here leaves the plan before in force, and is an alarm until another comes. The
// machine counts by the new table all the same: a service without a check here
// is not judged here, and moves nothing. It reports whether the new plan is in force.
func (a *Agent) follow(t decide.Table) bool {
	p, err := a.derive(t)
	if err == nil {
		err = a.use(a.fitting(p))
	}
	a.tellPeers(t)
	if err != nil {
		a.unfit = fmt.Sprintf("revision %d of the table cannot be carried out here, the plan before goes on: %v", t.Revision, err)
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: a.unfit})
		return false
	}
	a.unfit, a.acting = "", t.Revision
	a.say(steadycast.Event{Kind: steadycast.EventConfig, Reason: fmt.Sprintf("revision %d of the table is in force here", t.Revision)})
	return true
}

// fitting is a plan without the services whose checks cannot be made on this
// host, for want of a file say: one that is missing must not blind a node for the rest.
func (a *Agent) fitting(p Plan) Plan {
	p, left := a.fits(p)
	p.Alarms = append(slices.Clone(p.Alarms), left...)
	for _, text := range p.Notes {
		if !slices.Contains(a.plan.Load().Notes, text) {
			a.o.Logger.Warn("the fleet's table", "problem", text)
		}
	}
	for _, text := range p.Alarms {
		if !slices.Contains(a.plan.Load().Alarms, text) {
			a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: text})
		}
	}
	return p
}

// fits is a plan with what can be made here, and what was left out and why.
func (a *Agent) fits(p Plan) (_ Plan, left []string) {
	p.Probes = slices.DeleteFunc(slices.Clone(p.Probes), func(s probe.Service) bool {
		for _, c := range s.Checks {
			if _, err := probe.Compile(c, a.env()); err != nil {
				left = append(left, fmt.Sprintf("%s of %s is not looked at from here: %v", s.Name, s.Subject, err))
				return true
			}
		}
		return false
	})
	return p, left
}

// use makes a plan the one in force, in one turn of the owner.
func (a *Agent) use(p Plan) error {
	if err := a.probes.Set(a.withVIPs(p)); err != nil {
		return err
	}
	a.plan.Store(&p)
	a.views.use(p.Outside)
	a.others.use(p.Elsewhere)
	a.step(decide.Equipped{VIPs: p.VIPs, Views: viewNames(p.Outside)})
	return nil
}

// tellPeers says to the mesh whom this node tells what it sees.
func (a *Agent) tellPeers(t decide.Table) {
	if a.link == nil {
		return
	}
	place, _ := t.Place(a.o.Site)
	a.named.Store(len(place.Nodes) > 1)
	a.link.SetDigest(digestOf(t, a.o.Site))
	a.unlinked = ""
	if err := a.link.SetPeers(readers(t, a.o.Site, a.o.Node, a.o.Voters)); err != nil {
		a.unlinked = fmt.Sprintf("the links to other nodes stay as they were: %v", err)
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: a.unlinked})
	}
}

// rederive makes plans anew from another node.yaml, at once and from now on.
func (a *Agent) rederive(ctx context.Context, derive func(decide.Table) (Plan, error)) error {
	var failed error
	err := a.do(ctx, func() {
		var p Plan
		v := a.o.Ledger.View()
		if v.Fence.Epoch > 0 {
			if p, failed = derive(v.Table); failed == nil {
				failed = a.use(a.fitting(p))
			}
		}
		if failed == nil {
			a.o.Derive, a.unfit, a.acting, a.regarded = derive, "", v.Table.Revision, ""
			a.regard(&v)
		}
	})
	return errors.Join(err, failed)
}

// remote is a ledger in other processes, whose calls fail while a leader is
// elected and which counts as lost only after a while.
type remote interface{ Lost() error }

var _ remote = (*ledger.Client)(nil)

// listenToLedger notes that a remote ledger is lost, or heard again, and repeats
// reports that it may not have got. It is called once a second.
func (a *Agent) listenToLedger() {
	l, ok := a.o.Ledger.(remote)
	if !ok {
		return
	}
	why := l.Lost()
	switch lost, _ := errors.AsType[*ledger.LostError](why); {
	case lost != nil && !a.ledgerLost:
		a.ledgerLost = true
		a.step(decide.LedgerLost{Reason: why.Error(), At: a.o.Ledger.View().Fence, For: lost.For})
	case why == nil && a.ledgerLost:
		a.ledgerLost = false
		if a.pulled { // the ledger's table again
			a.edition, a.pulled = edition{}, false
		}
		a.step(decide.LedgerFound{})
		a.committed()
	case a.untold.Swap(false):
		a.committed()
	}
}

// mute is the speaker of a node that has none, a witness.
type mute struct{ speaker.Interface }

func (mute) Apply(context.Context, steadycast.RouteSet) error   { return nil }
func (mute) Actual() (x steadycast.Actual, ok bool)             { return x, false }
func (mute) Intent(context.Context) (i speaker.Intent, e error) { return i, e }
func (mute) Plan(context.Context) (p speaker.Plan, e error)     { return p, e }
func (mute) Reload(context.Context) (p speaker.Plan, e error)   { return p, e }
func (mute) Clear(context.Context, speaker.Clearance) error     { return errMute }
func (mute) Stop(context.Context, speaker.StopReason) error     { return errMute }
func (mute) Close() error                                       { return nil }

var errMute = errors.New("this node has no speaker")
