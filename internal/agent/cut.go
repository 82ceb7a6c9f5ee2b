package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/role"
)

// What became of routes that left: [decide.Cutter] judges, and here it is told,
// once a second and whenever what is announced changes.

// cuts is what the agent knows of them.
type cuts struct {
	judge *decide.Cutter
	kept  bool // what is on disk is what is known
	due   bool // what is announced has changed
	// rates are what comes for each prefix in a second; nil where nothing is counted.
	rates atomic.Pointer[map[netip.Prefix]int64]
	// open: a cut is not done, and others are asked how far they are.
	open   atomic.Bool
	others atomic.Pointer[others]
}

// others is what the ledger said of all sites.
type others struct {
	sites []decide.SiteNow
	at    time.Time
	err   error
}

const (
	cutsFile = "cuts.json"
	// asked is how old what the ledger said of others may be.
	othersFresh = 5 * time.Second
)

// recallCuts reads what was kept. A cut that was going on goes on; a file that
// cannot be read is said, and forgotten with the next that is written.
func (a *Agent) recallCuts() {
	a.cuts.judge, a.cuts.kept = decide.NewCutter(nil), true
	if a.o.StateDir == "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(a.o.StateDir, cutsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var kept []api.Cut
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		a.o.Logger.Warn("the record of past cuts cannot be read, and begins anew", "why", err)
		return
	}
	var cs []decide.Cut
	for _, c := range kept {
		c.Cut.Began = a.now() - max(time.Since(c.At), 0)
		cs = append(cs, c.Cut)
	}
	a.cuts.judge = decide.NewCutter(cs)
}

// keepCuts writes them. A cut is a few hundred bytes and changes a few times.
func (a *Agent) keepCuts() {
	if a.o.StateDir == "" {
		return
	}
	text, err := json.MarshalIndent(a.pastCuts(time.Now()), "", "  ")
	if err == nil {
		err = role.WriteFile(filepath.Join(a.o.StateDir, cutsFile), append(text, '\n'), 0o640)
	}
	if err != nil {
		a.writeErrors.Add(1)
	}
	a.cuts.kept = err == nil
}

// pastCuts are all of them with the time by the wall clock.
func (a *Agent) pastCuts(wall time.Time) []api.Cut {
	now := a.now()
	var out []api.Cut
	for _, c := range a.cuts.judge.Cuts() {
		out = append(out, api.Cut{Cut: c, Node: a.o.Node, At: wall.Add(c.Began - now)})
	}
	return out
}

// lookAtCuts tells the judge what is so now.
func (a *Agent) lookAtCuts() {
	a.cuts.due = false
	if a.o.Speak == nil {
		return
	}
	x := a.explain()
	var rates map[netip.Prefix]int64
	if r := a.cuts.rates.Load(); r != nil {
		rates = *r
	}
	view := a.o.Ledger.View()
	failing := failingBy(&view.Table, x.Services)
	alone := len(view.Table.Announcers()) < 2
	facts := make([]decide.CutFacts, 0, len(x.Units))
	for _, u := range x.Units {
		f := decide.CutFacts{Unit: u.Unit, Announced: u.Announced, Fence: x.Fence, Reason: u.Reason, Proven: u.Proven, Unproven: u.Unproven, Alone: alone}
		if x.SpeakerLost != "" {
			f.Proven, f.Unproven = false, x.SpeakerLost
		}
		if s := failing[u.Unit.Prefix]; s != nil {
			f.Failing, f.Voices = s.Failing, s.Fresh
		}
		f.Rate, f.Counted = rates[u.Unit.Prefix]
		if !f.Announced {
			a.takers(&f, &view)
		}
		facts = append(facts, f)
	}
	before := a.cuts.judge.Cuts()
	changed := a.cuts.judge.Look(a.now(), facts)
	after := a.cuts.judge.Cuts()
	if changed {
		a.sayCuts(before, after)
	}
	if a.cuts.judge.Remembered(a.o.Node, view.Cuts) || changed || !a.cuts.kept {
		a.keepCuts()
	}
	a.cuts.open.Store(slices.ContainsFunc(after, func(c decide.Cut) bool {
		return !c.Over && (c.State == decide.CutInProgress || c.State == decide.CutFailed)
	}))
}

// failingBy finds for each prefix the service of it that the largest share of
// voices sees fail. While all is well it costs nothing.
func failingBy(table *decide.Table, services []decide.ServiceStatus) map[netip.Prefix]*decide.ServiceStatus {
	out := map[netip.Prefix]*decide.ServiceStatus{}
	for i := range services {
		s := &services[i]
		if s.Failing == 0 {
			continue
		}
		of, _ := table.Service(s.Verdict.Service)
		for _, p := range of.Prefixes {
			if was := out[p]; was == nil || s.Failing*was.Fresh > was.Failing*s.Fresh {
				out[p] = s
			}
		}
	}
	return out
}

// sayCuts tells people of a cut that became another.
func (a *Agent) sayCuts(before, after []decide.Cut) {
	for _, c := range after {
		was := decide.CutState("")
		if i := slices.IndexFunc(before, func(b decide.Cut) bool { return b.Unit == c.Unit && b.Began == c.Began }); i >= 0 {
			was = before[i].State
		}
		if c.State == was || c.State == decide.CutInProgress {
			continue
		}
		e := steadycast.Event{Kind: steadycast.EventProof, Site: c.Unit.Site, Prefix: c.Unit.Prefix, From: string(was), To: "cut " + string(c.State), At: time.Now()}
		if e.Reason = fmt.Sprintf("decided in %v, in effect in %v, clients gone in %v, lost %v", c.Decided, c.Effect, c.Migrated, c.Lost); len(c.Why) > 0 {
			e.Reason = c.Why[0]
		}
		a.say(e)
	}
}

// takers adds who takes over, how they are, and who has not heard of it.
func (a *Agent) takers(f *decide.CutFacts, view *decide.View) {
	loads := []decide.Load(nil)
	o := a.cuts.others.Load()
	heard := o != nil && o.err == nil && time.Since(o.at) < othersFresh
	if heard {
		for _, x := range o.sites {
			if x.Load != nil {
				loads = append(loads, *x.Load)
			}
		}
	}
	var names []string
	for _, u := range view.Units {
		if u.Unit.Prefix != f.Unit.Prefix || u.Unit.Site == f.Unit.Site || u.Phase != steadycast.In || u.Lost {
			continue
		}
		t := decide.CutTarget{Site: u.Unit.Site}
		for _, s := range view.Table.ServicesAt(u.Unit.Site, u.Unit.Prefix) {
			for _, v := range view.Verdicts {
				if v.Site == u.Unit.Site && v.Service == s.Name && (v.State == steadycast.Unhealthy || v.State == steadycast.Recovering) {
					t.Bad = s.Name + " is " + v.State.String()
				}
			}
		}
		f.Targets = append(f.Targets, t)
		names = append(names, t.Site)
	}
	if f.Alone {
		return
	}
	red := int64(view.Table.Guards.CapacityRed)
	for _, b := range view.Table.Burdens(loads, names, nil) {
		if i := slices.Index(names, b.Site); i >= 0 && b.Percent > red && f.Targets[i].Bad == "" {
			f.Targets[i].Bad = fmt.Sprintf("carries %d%% of its capacity; red line %d%%", b.Percent, red)
		}
	}
	if !heard {
		f.Unasked = o == nil || o.err == nil
		f.Behind = []string{"the ledger, which cannot be asked how far the others are"}
		return
	}
	f.Led, f.LedBy, f.Named = decide.LedTo(o.sites, f.Unit.Site, view.Table.ServicesAt(f.Unit.Site, f.Unit.Prefix))
	f.Met, f.Asked, f.Askers = decide.MetBy(o.sites, f.Unit)
	fence := a.fenceOf(f)
	for _, site := range view.Table.Announcers() {
		x, ok := decide.Together(o.sites, site, api.Stale)
		if !ok || x.AgeMS > api.Stale.Milliseconds() {
			continue // gone, and no node of it can be behind
		}
		if x.At.Compare(fence) < 0 {
			f.Behind = append(f.Behind, site)
		}
	}
}

// fenceOf is the position that the cut of the unit was made at.
func (a *Agent) fenceOf(f *decide.CutFacts) steadycast.Fence {
	cs := a.cuts.judge.Cuts()
	for i := len(cs) - 1; i >= 0; i-- {
		if cs[i].Unit == f.Unit && !cs[i].Over {
			return cs[i].Fence
		}
	}
	return f.Fence
}

// watchTraffic counts what comes, once a second, until ctx ends. What cannot be
// counted is said once, and counts for nothing.
func (a *Agent) watchTraffic(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last map[netip.Prefix]uint64
	var at time.Time
	said := ""
	for {
		counts, err := a.o.Counts(a.prefixes())
		now := time.Now()
		if err != nil {
			if said != err.Error() {
				said = err.Error()
				a.o.Logger.Warn("what comes for the prefixes is not counted", "why", said)
			}
			a.cuts.rates.Store(nil)
		} else {
			said = ""
			rates, sum := map[netip.Prefix]int64{}, int64(0)
			for p, n := range counts {
				if was, ok := last[p]; ok && n >= was {
					rates[p] = perSecond(n-was, now.Sub(at))
					sum += rates[p]
				}
			}
			a.cuts.rates.Store(&rates)
			if a.o.LoadPackets && len(rates) == len(counts) && len(rates) > 0 {
				a.load(ctx, sum, now)
			}
		}
		last, at = counts, now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// perSecond rounds up: a single packet is not none.
func perSecond(n uint64, in time.Duration) int64 {
	ms := uint64(max(in.Milliseconds(), 1))
	return int64((n*1000 + ms - 1) / ms)
}

// watchOthers asks the ledger how far all sites are, while a cut is open.
func (a *Agent) watchOthers(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !a.cuts.open.Load() {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, othersFresh)
		sites, err := a.o.Ledger.Sites(ask)
		cancel()
		a.cuts.others.Store(&others{sites: sites, at: time.Now(), err: err})
	}
}

// showCuts adds them to what is shown of the site.
func (a *Agent) showCuts(site *api.Site, wall time.Time) {
	site.WithCuts(a.pastCuts(wall))
}
