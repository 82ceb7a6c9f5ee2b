package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestShedsOnlyWhereRoomIs: whatever the loads, and at whatever entry a replica is
// started anew: clients are given away only by a site above the red line, by one site
// at a time, only as far as each other site has room for all of them, and taken back
// only below the low line.
func TestShedsOnlyWhereRoomIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24"), TTL: 30 * time.Second}, {Name: "video", Prefixes: prefixes("198.51.100.0/24"), TTL: time.Second}},
			Sites: []Place{{Name: "ams", Capacity: 100}, {Name: "fra", Capacity: 100}, {Name: "lon", Capacity: 200}}, Shed: &Shed{Services: []string{"video", "web"}}}
		sites := []string{"ams", "fra", "lon"}
		capacity := map[string]int64{"ams": 100, "fra": 100, "lon": 200}
		f := NewFleet()
		lt := Time(0)
		enter := func(e Entry) {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, lt
			twin, born := NewFleet(), e.Kind != KindGenesis
			if born {
				if err := twin.Restore(f.Snapshot()); err != nil {
					rt.Fatal(err)
				}
			}
			if r, err := f.Apply(e); err != nil || r.Invalid != "" {
				rt.Fatal(err, r.Invalid)
			}
			if _, err := twin.Apply(e); err != nil || twin.Hash() != f.Hash() {
				rt.Fatalf("a replica that was started anew goes another way (%v)", err)
			}
		}
		enter(Entry{Kind: KindGenesis, Table: &table})
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			lt += Time(rapid.SampledFrom([]int{0, 1000, 29_999, 30_000}).Draw(rt, "ms"))
			var loads []Load
			known := map[string]int64{}
			for _, site := range sites {
				l := Load{Site: site, Load: rapid.Int64Range(0, 220).Draw(rt, "load"), AgeSeconds: rapid.SampledFrom([]int64{0, 0, 0, 60, 61}).Draw(rt, "age")}
				if loads = append(loads, l); l.AgeSeconds <= loadMaxAge {
					known[site] = l.Load
				}
			}
			before := f.View()
			enter(Entry{Kind: KindShed, Decide: &Decide{Loads: loads}})
			after := f.View()
			gave := map[string]bool{}
			for _, site := range sites {
				for _, service := range []string{"video", "web"} {
					was, is := before.Share(site, service), after.Share(site, service)
					load, ok := known[site]
					switch {
					case is < was:
						gave[site] = true
						if !ok || load*100 <= 80*capacity[site] || is < shedLeast || was-is > shedStep {
							rt.Fatalf("%s with a load of %d (%t) goes from %d to %d of %s", site, load, ok, was, is, service)
						}
						for _, other := range sites {
							if l, ok := known[other]; other != site && (!ok || (l*int64(was)+load*int64(was-is))*100 > 80*capacity[other]*int64(was)) {
								rt.Fatalf("%s has no room (load %d, %t) for what %s gives away: %d of %d at a load of %d", other, l, ok, site, was-is, was, load)
							}
						}
					case is > was && (!ok || load*100 >= 60*capacity[site]):
						rt.Fatalf("%s with a load of %d takes clients back", site, load)
					}
				}
			}
			if len(gave) > 1 {
				rt.Fatalf("several give away at once: %v", gave)
			}
		}
		if ps := (Table{Shed: &Shed{}}).Problems(); !slices.ContainsFunc(ps, func(p Problem) bool { return p.Path == "shed.services" }) {
			rt.Fatal("a shed of nothing passes")
		}
	})
}
