package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestRungs: whatever comes of health, freezes, time and what people order, the answers
// are never above what there is a cause for, nor below it and the order once it has been
// over for breaker_clear; minimal is not left sooner; and what is held is there exactly
// where answers keep to it.
func TestRungs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sites := []string{"ams", "fra"}
		table := Table{
			Revision: 1, Sites: []Place{{Name: "ams"}, {Name: "fra"}}, Levels: []Level{{Do: LevelMember}, {Do: LevelSite}, {Do: LevelMinimal}},
			Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24"), TTL: time.Minute}, {Name: "inner", Prefixes: prefixes("198.51.100.0/24")}},
		}
		table.Guards.BreakerSites, table.Guards.BreakerPercent = 10, 100
		clear := lt(table.WithDefaults().Guards.BreakerClear)
		f := NewFleet()
		bad := map[string]bool{}
		frozen, waived, ordered := false, 0, NamesNormal
		lowest, over := 0, Time(0) // of the causes: the rung now, and since when there was none for minimal
		enter := func(after Time, e Entry) {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, f.LT()+after
			twin := NewFleet()
			if e.Kind != KindGenesis {
				if err := twin.Restore(f.Snapshot()); err != nil {
					rt.Fatal(err)
				}
			}
			r, err := f.Apply(e)
			if err != nil || r.Invalid != "" || r.Refused != nil {
				rt.Fatal(err, r.Invalid, r.Refused)
			}
			if _, err := twin.Apply(e); err != nil || twin.Hash() != f.Hash() {
				rt.Fatalf("a restored replica goes another way (%v)", err)
			}
		}
		enter(1, Entry{Kind: KindGenesis, Table: &table})
		rung := func() int { v := f.View(); m, _ := v.Names.Rung(); return slices.Index(namesModes, m) }
		rt.Repeat(map[string]func(*rapid.T){
			"verdict": func(rt *rapid.T) {
				v := steadycast.Verdict{Site: rapid.SampledFrom(sites).Draw(rt, "site"), Service: rapid.SampledFrom([]string{"web", "web", "web", "inner"}).Draw(rt, "service")}
				v.State = rapid.SampledFrom([]steadycast.State{steadycast.Healthy, steadycast.Unhealthy, steadycast.Unhealthy, steadycast.Suspect}).Draw(rt, "state")
				if v.Service == "web" {
					bad[v.Site] = v.State == steadycast.Unhealthy
				}
				enter(1, Entry{Kind: KindVerdict, Verdicts: []steadycast.Verdict{v}})
			},
			"freeze": func(rt *rapid.T) {
				kind := KindFreeze
				if frozen {
					kind = KindThaw
				}
				frozen = !frozen
				enter(1, Entry{Kind: kind, Scope: &Scope{}, Actor: "ann", Reason: "test"})
			},
			"time": func(rt *rapid.T) {
				enter(rapid.SampledFrom([]Time{1000, clear - 1, clear}).Draw(rt, "ms"), Entry{Kind: KindTick})
			},
			"mode": func(rt *rapid.T) {
				ordered = rapid.SampledFrom(namesModes).Draw(rt, "mode")
				if v := f.View(); ordered == NamesNormal && v.Names.Auto.Mode != "" {
					waived = slices.Index(namesModes, v.Names.Auto.Mode)
				}
				enter(1, Entry{Kind: KindNames, Names: &NamesOrder{Mode: ordered}, Actor: "ann", Reason: "test"})
			},
			"": func(rt *rapid.T) {
				was := lowest
				lowest = 0
				if frozen {
					lowest = 1
				}
				if bad["ams"] && bad["fra"] {
					lowest = 3
				}
				if was == 3 && lowest < 3 {
					over = f.LT()
				}
				if lowest == 0 || lowest > waived {
					waived = 0
				}
				v, order := f.View(), slices.Index(namesModes, ordered)
				calm := lowest < 3 && (over == 0 || f.LT()-over >= clear)
				switch is := rung(); {
				case waived > 0 && is != order:
					rt.Fatalf("rung %d, where a person said %s", is, ordered)
				case waived == 0 && is < max(lowest, order):
					rt.Fatalf("rung %d above the cause, %d, or the order %s", is, lowest, ordered)
				case waived == 0 && calm && is != max(lowest, order):
					rt.Fatalf("rung %d, long after the cause of %d; ordered is %s", is, lowest, ordered)
				case (is == 1 || is == 2) != (v.Names.Held != nil) && is != 3:
					rt.Fatalf("rung %d holds %v", is, v.Names.Held)
				}
				if v.Names.Auto.Mode == NamesMinimal && lowest < 3 && over > 0 && f.LT()-over >= clear {
					rt.Fatalf("minimal stays for %s", wait(f.LT()-over))
				}
				if err := f.s.sound(); err != nil {
					rt.Fatal(err)
				}
			},
		})
	})
}
