package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/speaker"
)

// daemon is what a reload needs; mu keeps reloads apart.
type daemon struct {
	agent *Agent
	load  func() (*config.Config, config.Problems)

	mu  sync.Mutex
	cfg *config.Config
}

// reload reads the configuration, says what would change, and carries it out:
// the agent's part first, then the speaker's. A bad file changes nothing.
func (d *daemon) reload(ctx context.Context, who string, dryRun bool) (api.Reload, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, problems := d.load()
	if problems.Err() == nil {
		problems = append(problems, fixed(d.cfg, next)...)
	}
	if problems.Err() != nil {
		problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.Warning })
		if !dryRun {
			d.agent.reloadFailed(problems[0].String())
		}
		return api.Reload{DryRun: dryRun, Hash: d.cfg.Hash(), Problems: problems.Lines()}, nil
	}
	for _, line := range problems.Lines() {
		d.agent.o.Logger.Warn("configuration", "problem", line)
	}
	out := api.Reload{DryRun: dryRun, Hash: next.Hash()}
	fleet := next.Node.Mode == "fleet"
	old, new := d.cfg, next
	if fleet {
		old, new = old.Own(), new.Own()
	}
	changes := config.Diff(old, new)
	for _, c := range changes {
		out.Changes = append(out.Changes, c.String())
	}
	plan, err := d.agent.spk.Plan(ctx)
	if no, refused := errors.AsType[*speaker.Refused](err); refused { // before anything has changed
		text := "speaker: " + no.Text
		if !dryRun {
			d.agent.reloadFailed(text)
		}
		return api.Reload{DryRun: dryRun, Hash: d.cfg.Hash(), Problems: []string{text}}, nil
	}
	out.Changes = append(out.Changes, behind(plan, err, changes)...)
	if dryRun {
		return out, nil
	}
	if fleet && len(out.Changes) == 0 { // what was missing on this host may be there now
		if err := d.agent.rederive(ctx, derive(next)); err != nil {
			d.agent.reloadFailed(err.Error())
			return out, err
		}
	}
	if len(out.Changes) == 0 { // addresses that others removed come back by a person's wish
		if _, err := d.agent.spk.Reload(ctx); err != nil && !errors.Is(err, speaker.ErrLost) {
			return out, err
		}
		return out, d.agent.reloadWorked(ctx)
	}
	if fleet {
		err = d.agent.rederive(ctx, derive(next))
	} else {
		err = d.agent.Reload(ctx, planOf(next), who)
	}
	if err != nil {
		d.agent.reloadFailed(err.Error())
		return out, err
	}
	d.cfg = next
	if err := d.agent.reloadWorked(ctx); err != nil {
		return out, err
	}
	if _, err := d.agent.spk.Reload(ctx); err != nil {
		err = fmt.Errorf("the agent has the new configuration; the speaker has not: %w", err)
		d.agent.reloadedHalf(err.Error())
		return out, err
	}
	out.Applied = true
	d.agent.say(steadycast.Event{Kind: steadycast.EventConfig, Actor: who, Reason: fmt.Sprintf("%d changes loaded from %s", len(out.Changes), next.File)})
	return out, nil
}

// fixed are the settings that say who the node is. The table that comes with
// another answer would be another node's, so nothing of the file is taken.
func fixed(old, next *config.Config) (ps config.Problems) {
	for _, x := range []struct{ path, was, is string }{
		{"mode", old.Node.Mode, next.Node.Mode},
		{"fleet", old.Node.Fleet, next.Node.Fleet},
		{"site", old.Node.Site, next.Node.Site},
		{"node", old.Node.Node, next.Node.Node},
		{"state_dir", old.Node.StateDir, next.Node.StateDir},
	} {
		if x.was != x.is {
			ps = append(ps, config.Problem{Place: config.Place{File: next.File}, Path: x.path,
				Text: fmt.Sprintf("%s cannot become %s while the processes run; change it back, or restart them", x.was, x.is)})
		}
	}
	return ps
}

// behind says what the speaker would change beyond the differences that this
// process knows of: a speaker that runs longer than an agent restarted on a new
// file has older settings.
func behind(plan speaker.Plan, err error, known []config.Change) (out []string) {
	switch {
	case err != nil && len(known) == 0:
		return nil // nothing is to be done, and its absence is said elsewhere
	case err != nil:
		return []string{fmt.Sprintf("speaker: cannot be asked what it would change: %v", err)}
	}
	for _, n := range plan.Neighbors {
		if !slices.ContainsFunc(known, func(c config.Change) bool { return c.Peer == n.Neighbor || c.Peer == "*" }) {
			out = append(out, fmt.Sprintf("the speaker has older settings of %s: %s", n.Neighbor, n.Reason))
		}
	}
	if len(known) == 0 {
		for _, n := range plan.Notes {
			out = append(out, "the speaker has older settings: "+n)
		}
	}
	return out
}
