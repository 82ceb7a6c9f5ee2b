package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// Backend is what the API shows and does: one agent, or in the demo several
// that share a ledger. It holds no state; its methods may be called from
// anywhere.
type Backend struct {
	Agents []*Agent
	Ledger ledger.Ledger
	Ring   *api.Ring
	// Breaks makes a fault at a site of the demo; nil elsewhere.
	Breaks func(site, what string) error
	// Reloads reads the configuration again, of this process and of the
	// speaker's; nil where there is none.
	Reloads func(ctx context.Context, who string, dryRun bool) (api.Reload, error)
}

// Snapshot joins the agents' newest snapshots with the newest view of the ledger.
func (b *Backend) Snapshot() *api.Snapshot {
	first := b.Agents[0].snapshot.Load()
	if first == nil {
		first = b.Agents[0].blank()
	}
	s := *first
	s.At = time.Now()
	s.View = shown(b.Ledger.View())
	if len(b.Agents) == 1 {
		return &s
	}
	s.Sites, s.Alarms = slices.Clone(s.Sites), slices.Clone(s.Alarms)
	for _, a := range b.Agents[1:] {
		if more := a.snapshot.Load(); more != nil {
			for _, x := range more.Sites {
				if !slices.ContainsFunc(s.Sites, func(y api.Site) bool { return y.Name == x.Name }) {
					s.Sites = append(s.Sites, x) // of a site of several nodes its first speaks; it tells of the others
				}
			}
			s.Alarms = append(s.Alarms, more.Alarms...)
			s.Counts = addCounts(s.Counts, more.Counts)
		}
	}
	slices.SortFunc(s.Sites, func(a, b api.Site) int { return cmp.Compare(a.Name, b.Name) })
	return &s
}

// Order gives a person's wish to the ledger.
func (b *Backend) Order(ctx context.Context, _ api.Caller, o steadycast.Order, dryRun bool) (decide.Reply, error) {
	for _, a := range b.Agents {
		a.beatNow() // the floor counts what is true now
	}
	if dryRun {
		return b.Ledger.Try(ctx, o)
	}
	return b.Ledger.Order(ctx, o)
}

// Do gives one of a person's plain entries to the ledger.
func (b *Backend) Do(ctx context.Context, who api.Caller, kind decide.Kind, scope decide.Scope, reason string, dryRun bool) (decide.Reply, error) {
	if dryRun {
		return b.Ledger.TryDo(ctx, kind, scope, who.String(), reason)
	}
	return b.Ledger.Do(ctx, kind, scope, who.String(), reason)
}

// Carry brings what a person signed to the ledger.
func (b *Backend) Carry(ctx context.Context, _ api.Caller, signed decide.Signed) (decide.Reply, error) {
	for _, a := range b.Agents {
		a.beatNow()
	}
	return b.Ledger.Carry(ctx, signed)
}

// Enter enters a wish that nobody signed.
func (b *Backend) Enter(ctx context.Context, who api.Caller, wish decide.Wish) (decide.Reply, error) {
	for _, a := range b.Agents {
		a.beatNow()
	}
	wish.By = who.String()
	return b.Ledger.Enter(ctx, wish)
}

// Rehearse asks what would come of a wish.
func (b *Backend) Rehearse(ctx context.Context, wish decide.Wish) (decide.Reply, error) {
	for _, a := range b.Agents {
		a.beatNow()
	}
	return b.Ledger.Rehearse(ctx, wish)
}

// Revision gives a table that is in force, or was.
func (b *Backend) Revision(ctx context.Context, revision uint64) (decide.Table, error) {
	if v := b.Ledger.View(); revision == 0 || revision == v.Table.Revision {
		return v.Table, nil
	}
	t, err := b.Ledger.Revision(ctx, revision)
	if unknown, ok := errors.AsType[ledger.Invalid](err); ok {
		return t, &api.Error{Code: api.CodeNotFound, Message: unknown.Error(), Next: "steadycast revisions"}
	}
	return t, err
}

// BreakGlass orders this node's own site out or in while there is no ledger. Where
// several nodes of a site are in this process, what is for the site is for each.
func (b *Backend) BreakGlass(ctx context.Context, who api.Caller, o steadycast.Order) error {
	o.Actor = who.String()
	if len(b.Agents) == 1 {
		return b.Agents[0].BreakGlass(ctx, o)
	}
	var failed []error
	found, ended, together := false, false, 0
	for _, a := range b.Agents {
		if a.o.Site == o.Site {
			together++
		}
	}
	for _, a := range b.Agents {
		if a.o.Site != o.Site || o.Node != "" && a.o.Node != o.Node {
			continue
		}
		found = true
		own := o
		if together > 1 {
			own.Node = a.o.Node
		}
		err := a.BreakGlass(ctx, own)
		if err == nil && o.Kind == steadycast.OrderNone {
			ended = true
		}
		failed = append(failed, err)
	}
	if ended {
		return nil // at the others nothing stood
	}
	if !found {
		return &api.Error{Code: api.CodeNotFound, Message: "no node " + o.Target() + " is here"}
	}
	return errors.Join(failed...)
}

// Guards says what every guard would answer now.
func (b *Backend) Guards(ctx context.Context) ([]decide.Ruling, error) {
	for _, a := range b.Agents {
		a.beatNow()
	}
	return b.Ledger.Guards(ctx)
}

// SitesNow says what the ledger heard last of each site.
func (b *Backend) SitesNow(ctx context.Context) ([]decide.SiteNow, error) { return b.Ledger.Sites(ctx) }

// History is what the ledger remembers.
func (b *Backend) History(ctx context.Context) ([]decide.Past, error) { return b.Ledger.History(ctx) }

// Reload reads the configuration again.
func (b *Backend) Reload(ctx context.Context, who api.Caller, dryRun bool) (api.Reload, error) {
	if b.Reloads == nil {
		return api.Reload{}, &api.Error{Code: api.CodeUsage, Message: "this daemon has no configuration file to reload"}
	}
	return b.Reloads(ctx, who.String(), dryRun)
}

// Clear ends a state of the speaker that only a person may end.
func (b *Backend) Clear(ctx context.Context, who api.Caller, what string) error {
	for _, a := range b.Agents {
		if err := a.spk.Clear(ctx, speaker.Clearance(what)); err != nil {
			return err
		}
		a.say(steadycast.Event{Kind: steadycast.EventConfig, Actor: who.String(), Reason: "cleared the speaker's " + what})
		again := a.sayAgain // what it refused before it may take now
		if speaker.Clearance(what) == speaker.ClearFence {
			again = a.forgetFence
		}
		if err := a.do(ctx, again); err != nil {
			return err
		}
	}
	return nil
}

// ProbeNow hurries the checks of a service, or of all.
func (b *Backend) ProbeNow(_ context.Context, _ api.Caller, site, service string) error {
	for _, a := range b.Agents {
		if a.o.Site != site && site != "" {
			continue
		}
		for _, s := range a.plan.Load().Probes {
			if service == "" || s.Name == service {
				a.probes.Hurry(s.Name)
			}
		}
	}
	return nil
}

// Fault breaks or mends a service of the demo.
func (b *Backend) Fault(_ context.Context, who api.Caller, site, what string) error {
	if b.Breaks == nil {
		return api.ErrNotDemo
	}
	if err := b.Breaks(site, what); err != nil {
		return &api.Error{Code: api.CodeUsage, Message: err.Error()}
	}
	return nil
}

// Events reads the ring.
func (b *Backend) Events(after uint64) ([]steadycast.Event, <-chan struct{}) {
	return b.Ring.Since(after)
}

// addCounts joins what two sites counted.
func addCounts(a, b api.Counts) api.Counts {
	a.Transitions = append(slices.Clone(a.Transitions), b.Transitions...)
	a.Refusals = slices.Clone(a.Refusals)
	for _, r := range b.Refusals {
		if i := slices.IndexFunc(a.Refusals, func(x api.Refusals) bool { return x.Guard == r.Guard }); i >= 0 {
			a.Refusals[i].Count += r.Count
		} else {
			a.Refusals = append(a.Refusals, r)
		}
	}
	slices.SortFunc(a.Refusals, func(x, y api.Refusals) int { return cmp.Compare(x.Guard, y.Guard) })
	a.Detect.Add(b.Detect)
	a.Decide.Add(b.Decide)
	a.Announce.Add(b.Announce)
	a.Confirm.Add(b.Confirm)
	a.Dropped += b.Dropped
	a.StateWriteErrors += b.StateWriteErrors
	if b.LoopRan.Before(a.LoopRan) {
		a.LoopRan = b.LoopRan // the slowest loop is the one that matters
	}
	return a
}

// blank is shown before the first turn of the loop.
func (a *Agent) blank() *api.Snapshot {
	return &api.Snapshot{Node: a.o.Node, Fleet: a.o.Fleet, Mode: a.o.Mode, Version: a.o.Version,
		At: time.Now(), Started: a.start, Config: a.plan.Load().Config, Sites: []api.Site{}}
}

// Reload gives the agent of a solo node a new plan: whole, in one turn of its loop.
// The ledger is told the new table first, since the machine follows what is committed.
func (a *Agent) Reload(ctx context.Context, p Plan, actor string) error {
	for _, s := range a.withVIPs(p) { // nothing is committed that could not be carried out
		for _, c := range s.Checks {
			if _, err := probe.Compile(c, a.env()); err != nil {
				return err
			}
		}
	}
	if err := commit(ctx, a.o.Ledger, p.Table, actor, "reload"); err != nil {
		return err
	}
	var failed error
	err := a.do(ctx, func() { failed = a.use(p) })
	if err != nil {
		return err
	}
	return failed
}
