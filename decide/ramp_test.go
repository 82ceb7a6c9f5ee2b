package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestRampWalks: whatever sites see, fail and are ordered, and at whatever entry a
// replica is stopped and started anew: the same log gives the same state; a share
// grows by one step at a time, after its dwell, on figures of that very step; and
// what fails goes back.
func TestRampWalks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24"), TTL: 30 * time.Second}},
			Sites: []Place{{Name: "ams"}, {Name: "fra"}, {Name: "lon"}, {Name: "par"}},
			Ramp:  &Ramp{Dwell: time.Minute, Prove: 10 * time.Second, Steps: rapid.SampledFrom([][]int{nil, {100}, {1, 100}, {10, 50, 100}}).Draw(rt, "steps")}}
		table.Guards.Cooldown, table.Guards.BreakerWindow, table.Guards.BreakerPercent = time.Second, time.Second, 100
		f, twin := NewFleet(), NewFleet()
		lt := Time(0)
		var before View
		enter := func(e Entry) Reply {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, lt
			before = f.View()
			if rapid.IntRange(0, 3).Draw(rt, "crash") == 0 && before.Fence.Index > 0 {
				twin = NewFleet()
				if err := twin.Restore(f.Snapshot()); err != nil {
					rt.Fatal(err)
				}
			}
			r, err := f.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := twin.Apply(e); err != nil || twin.Hash() != f.Hash() {
				rt.Fatalf("a replica that was started anew goes another way (%v):\n%s\n%s", err, twin.Snapshot(), f.Snapshot())
			}
			return r
		}
		seen := func() []Seen {
			x := Seen{Prefix: table.Services[0].Prefixes[0]}
			for _, u := range f.View().Units {
				if u.Phase == steadycast.In {
					x.Announcing, x.Healthy = append(x.Announcing, u.Unit.Site), append(x.Healthy, u.Unit.Site)
				}
			}
			return []Seen{x}
		}
		seq := uint64(0)
		verdict := func(site string, s steadycast.State) {
			enter(Entry{Kind: KindVerdict, Verdicts: []steadycast.Verdict{{Site: site, Service: "web", State: s, Class: steadycast.Hard, Reason: "refused"}}})
		}
		back := func(site string) {
			seq++
			enter(Entry{Kind: KindDecide, Decide: &Decide{Seen: seen(), Requests: []steadycast.Request{{
				ID: steadycast.RequestID{Incarnation: 1, Seq: seq}, Site: site, Service: "web", Action: steadycast.Return, Prefixes: table.Services[0].Prefixes,
				Evidence: f.s.Table.evidence(site, "web", seq, steadycast.Result{Outcome: steadycast.Up}),
			}}}})
		}
		prove := func(site string) {
			u := steadycast.Unit{Site: site, Prefix: table.Services[0].Prefixes[0]}
			enter(Entry{Kind: KindIn, Return: &ReturnProof{Unit: u, ID: f.s.unit(site, u.Prefix).Return}})
		}
		enter(Entry{Kind: KindGenesis, Table: &table})
		for _, site := range []string{"ams", "fra", "lon", "par"} {
			verdict(site, steadycast.Healthy)
			back(site)
			prove(site)
		}
		if v := f.View(); len(v.Shares) > 0 {
			rt.Fatalf("a first announcement walks a ramp: %+v", v.Shares)
		}
		site := func(rt *rapid.T) string { return rapid.SampledFrom([]string{"ams", "fra"}).Draw(rt, "site") }
		rt.Repeat(map[string]func(*rapid.T){
			"time": func(rt *rapid.T) {
				lt += Time(rapid.SampledFrom([]int{1000, 9999, 30_000, 60_000}).Draw(rt, "ms"))
				enter(Entry{Kind: KindTick})
				if x := f.View(); !slices.EqualFunc(x.Shares, before.Shares, func(a, b ShareView) bool { a.Ramp.LeftMS, b.Ramp.LeftMS = 0, 0; return a == b }) {
					rt.Fatal("time alone moves clients")
				}
			},
			"drain": func(rt *rapid.T) {
				enter(Entry{Kind: KindOrder, Order: &steadycast.Order{Kind: steadycast.OrderDrain, Site: site(rt), Actor: "ann", Reason: "r"}, Decide: &Decide{Seen: seen()}})
			},
			"undrain": func(rt *rapid.T) {
				enter(Entry{Kind: KindOrderClear, Scope: &Scope{Site: site(rt)}, Actor: "ann", Reason: "r"})
			},
			"freeze": func(rt *rapid.T) {
				enter(Entry{Kind: rapid.SampledFrom([]Kind{KindFreeze, KindThaw}).Draw(rt, "kind"), Scope: &Scope{Site: "fra"}, Actor: "ann", Reason: "r"})
			},
			"verdict": func(rt *rapid.T) {
				verdict(site(rt), rapid.SampledFrom([]steadycast.State{steadycast.Healthy, steadycast.Healthy, steadycast.Suspect, steadycast.Unhealthy}).Draw(rt, "state"))
			},
			"return": func(rt *rapid.T) { back(site(rt)) },
			"prove":  func(rt *rapid.T) { prove(site(rt)) },
			"ramp": func(rt *rapid.T) {
				e := Entry{Kind: KindRamp, Decide: &Decide{Seen: seen()}}
				for _, x := range f.View().Shares {
					r := RampedAt{Site: x.Site, Ramped: Ramped{Service: x.Service, Step: x.Ramp.Fence}}
					r.Passed = rapid.SampledFrom([]int64{0, 9, 10, 1000, 1000, -1, 1 << 62}).Draw(rt, "passed")
					r.Failed = rapid.SampledFrom([]int64{0, 0, 0, 1, 50, -1, 1 << 62}).Draw(rt, "failed")
					if rapid.IntRange(0, 4).Draw(rt, "old") == 0 {
						r.Step.Index--
					}
					e.Decide.Ramped = append(e.Decide.Ramped, r)
				}
				enter(e)
				is := f.View()
				for _, x := range e.Decide.Ramped {
					was, _ := before.ShareOf(x.Site, "web")
					now, returns := is.ShareOf(x.Site, "web")
					rounds := x.Passed + x.Failed
					honest := x.Step == was.Ramp.Fence && min(x.Passed, x.Failed) >= 0 && max(x.Passed, x.Failed) < 1<<40
					failed := honest && rounds >= 10 && x.Passed*100 < rounds*99 && was.Ramp.Step > 0
					passed := honest && rounds >= 10 && x.Passed*100 >= rounds*99 && was.Ramp.LeftMS == 0
					switch {
					case failed:
						if !returns || now.Ramp.Step != was.Ramp.Step-1 || now.Ramp.Backs != was.Ramp.Backs+1 {
							rt.Fatalf("%+v fails and becomes %+v", was, now)
						}
					case !passed && now.Ramp != was.Ramp:
						rt.Fatalf("%+v becomes %+v by %+v", was, now, x)
					case returns && now.Ramp.Step > was.Ramp.Step+1, !returns && was.Ramp.Step != was.Ramp.Of:
						rt.Fatalf("%+v leaves steps out: %+v", was, now)
					}
				}
			},
			"": func(rt *rapid.T) {
				v := f.View()
				for _, u := range v.Units {
					x, returns := v.ShareOf(u.Unit.Site, "web")
					if u.Backup != (returns && x.Ramp.Step == 0) || u.Backup && x.Permille != 0 {
						rt.Fatalf("%+v and %+v", u, x)
					}
					if returns && u.Phase == steadycast.Out {
						rt.Fatalf("%+v and %+v", u, x)
					}
					was, ok := before.ShareOf(u.Unit.Site, "web")
					if state := f.s.troubledVerdict(u.Unit); ok && returns && state && x.Permille > was.Permille && x.Ramp.Fence == v.Fence {
						rt.Fatalf("a site in trouble is given more: %+v, %+v", was, x)
					}
				}
			},
		})
	})
}
