package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestSwitches lets paths fail and come back, people divert, freeze and unlock, time
// pass and replicas begin from snapshots, and holds every change of path to what may
// cause one:
//
//   - automation goes only to a path that is healthy on evidence, and leaves only one
//     that is unhealthy on evidence, or for one that the table prefers;
//   - it leaves a site alone that a person diverted, that is frozen or locked, and in
//     any mode but auto;
//   - in no window are more failing paths left than the budget has, and none is left
//     for more sites than its limit;
//   - what is called for and refused by no guard is done in the same entry.
func TestSwitches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]string{ModeAuto, ModeAuto, ModeAuto, ModeApprove, ModeObserve}).Draw(rt, "mode")
		level := Level{Do: LevelPath, Mode: mode, Return: rapid.SampledFrom([]string{ReturnAuto, ReturnHold}).Draw(rt, "return"),
			Limits: []PathLimit{{"scrubbed", rapid.IntRange(1, 2).Draw(rt, "limit")}}}
		table := Table{
			Revision: 1,
			Sites:    []Place{{Name: "ams", Paths: []string{"direct", "scrubbed", "far"}}, {Name: "fra", Paths: []string{"direct", "scrubbed"}}, {Name: "lon"}},
			Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24")}, {Name: "straight", Path: "direct"}, {Name: "scrubber", Path: "scrubbed"}, {Name: "cable", Path: "far"}},
			Levels:   []Level{{Do: LevelMember}, level, {Do: LevelSite}},
			Guards:   Guards{Cooldown: time.Minute, SiteBudget: 2, SiteWindow: 10 * time.Minute, LockCycles: 4, LockWindow: time.Hour},
		}
		f, now := NewFleet(), Time(0)
		away := map[string][]Time{} // of each site, when automation left a path that failed
		byHand := map[string]bool{}
		where := func(v *View, site string) string { return v.Path(v.Table, site) }
		enter := func(e Entry) Reply {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, now
			before := f.View()
			twin := NewFleet()
			if e.Kind != KindGenesis {
				if err := twin.Restore(f.Snapshot()); err != nil {
					rt.Fatal(err)
				}
			}
			r, err := f.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := twin.Apply(e); err != nil || twin.Hash() != f.Hash() {
				rt.Fatalf("a restored replica goes another way (%v)", err)
			}
			v := f.View()
			for _, p := range table.Sites {
				from, to := where(&before, p.Name), where(&v, p.Name)
				d, diverted := v.DivertOf(p.Name)
				if e.Kind == KindDivert && e.Divert.Site == p.Name && r.Refused == nil {
					byHand[p.Name] = diverted
					continue
				}
				if from == to {
					continue
				}
				state := func(path string) steadycast.State {
					for _, x := range v.Paths(p.Name) {
						held := slices.ContainsFunc(v.Verdicts, func(k steadycast.Verdict) bool {
							return k.Site == p.Name && k.Service == x.Service && k.Held
						})
						if x.Path == path && !held {
							return x.State
						}
					}
					return steadycast.StateUnknown
				}
				home := slices.Index(p.Paths, to) < slices.Index(p.Paths, from)
				switch {
				case before.Fence.Index == 0:
				case mode != ModeAuto:
					rt.Fatalf("%s went from %s to %s in mode %s", p.Name, from, to, mode)
				case byHand[p.Name]:
					rt.Fatalf("%s went from %s to %s, and a person had diverted it", p.Name, from, to)
				case slices.ContainsFunc(v.Freezes, func(x StandingFreeze) bool { return x.Scope.Site == p.Name }):
					rt.Fatalf("%s went from %s to %s, and is frozen", p.Name, from, to)
				case state(to) != steadycast.Healthy:
					rt.Fatalf("%s went from %s to %s, which is %s", p.Name, from, to, state(to))
				case state(from) == steadycast.Unhealthy:
					away[p.Name] = append(away[p.Name], now)
				case !home || level.Return == ReturnHold:
					rt.Fatalf("%s left %s, which is %s, for %s", p.Name, from, state(from), to)
				}
				if diverted && (!d.Auto || len(d.Guards) == 0) {
					rt.Fatalf("no person diverted %s, and it says %+v", p.Name, d)
				}
				on := 0
				for _, q := range table.Sites {
					if where(&v, q.Name) == "scrubbed" {
						on++
					}
				}
				if to == "scrubbed" && on > level.Limits[0].Sites {
					rt.Fatalf("%d sites go by scrubbed", on)
				}
			}
			for site, at := range away {
				for i := range at {
					if n := i + table.Guards.SiteBudget; n < len(at) && at[n]-at[i] < lt(table.Guards.SiteWindow) {
						rt.Fatalf("%s left %d failing paths from %d to %d", site, table.Guards.SiteBudget+1, at[i], at[n])
					}
				}
			}
			for _, w := range v.PathWishes {
				if _, refused := w.Refusal(); !refused {
					rt.Fatalf("no guard refuses it, and it was not done: %+v", w)
				}
			}
			for _, w := range v.PathWishes {
				if g, _ := w.Refusal(); g.RetryAfter > 0 {
					if at, ok := f.NextEnd(); !ok || at > now+lt(g.RetryAfter) {
						rt.Fatalf("%s may go in %s, and the next end is %d, %t", w.Site, g.RetryAfter, at, ok)
					}
				}
			}
			return r
		}
		enter(Entry{Kind: KindGenesis, Table: &table})
		site := rapid.SampledFrom([]string{"ams", "fra"})
		states := rapid.SampledFrom([]steadycast.State{steadycast.StateUnknown, steadycast.Healthy, steadycast.Healthy, steadycast.Suspect, steadycast.Unhealthy, steadycast.Unhealthy, steadycast.Recovering})
		rt.Repeat(map[string]func(*rapid.T){
			"path": func(rt *rapid.T) {
				v := steadycast.Verdict{Site: site.Draw(rt, "site"), State: states.Draw(rt, "state"), Held: rapid.IntRange(0, 5).Draw(rt, "held") == 0, Reason: "test"}
				services := []string{"straight", "scrubber"}
				if v.Site == "ams" {
					services = append(services, "cable")
				}
				v.Service = rapid.SampledFrom(services).Draw(rt, "service")
				enter(Entry{Kind: KindVerdict, Verdicts: []steadycast.Verdict{v}})
			},
			"time": func(rt *rapid.T) {
				now += Time(rapid.SampledFrom([]int{1, 1000, 30_000, 60_000, 600_000}).Draw(rt, "ms"))
				enter(Entry{Kind: KindTick})
			},
			"divert": func(rt *rapid.T) {
				o := DivertOrder{Site: site.Draw(rt, "site"), Path: rapid.SampledFrom([]string{"", "scrubbed", "far"}).Draw(rt, "path")}
				enter(Entry{Kind: KindDivert, Actor: "ann", Reason: "test", Divert: &o})
			},
			"freeze": func(rt *rapid.T) {
				kind := rapid.SampledFrom([]Kind{KindFreeze, KindThaw, KindUnlock}).Draw(rt, "kind")
				enter(Entry{Kind: kind, Actor: "ann", Reason: "test", Scope: &Scope{Site: site.Draw(rt, "site")}})
			},
		})
	})
}
