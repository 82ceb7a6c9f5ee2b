package decide

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestSurvivorsCarryIt is I15: whoever is let go by automation, also in one batch
// with others and by other prefixes, nobody who stays would be over the limit,
// with what left within a minute added where it may go at worst. The count is
// made from the beginning each time, in words of the rule.
func TestSurvivorsCarryIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(2, 5).Draw(t, "sites")]
		table := Table{Revision: 1, Services: []Service{{Name: "web"}, {Name: "dns"}}}
		one, two := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
		table.Services[0].Prefixes, table.Services[1].Prefixes = []netip.Prefix{one}, []netip.Prefix{two}
		floor := 0
		table.Prefixes = []Prefix{{Prefix: one, Floor: &floor, HealthyFloor: &floor}, {Prefix: two, Floor: &floor, HealthyFloor: &floor}}
		table.Guards = Guards{Cooldown: time.Millisecond, SiteBudget: 1000, SiteLongBudget: 1000, FleetBudget: 1000, LockCycles: 1000, BreakerPercent: 100, BreakerSites: 1000}
		for _, n := range names {
			p := Place{Name: n, Capacity: rapid.SampledFrom([]int64{0, 100, 100, 200}).Draw(t, "capacity"), Load: rapid.SampledFrom([]int64{0, 10, 40}).Draw(t, "usual")}
			left := 100
			for _, m := range names {
				if m != n && left > 0 && rapid.IntRange(0, 2).Draw(t, "row") == 0 {
					share := rapid.IntRange(0, left).Draw(t, "share")
					p.Spill = append(p.Spill, Spill{m, share})
					left -= share
				}
			}
			table.Sites = append(table.Sites, p)
		}
		if ps := table.Problems(); len(ps) > 0 {
			t.Fatal(ps)
		}
		d := table.WithDefaults()
		f, now, seq := NewFleet(), Time(0), uint64(0)
		apply := func(e Entry) Reply {
			e.Schema, e.Rules, e.Epoch, e.LT, e.Actor = Schema, RulesLevel, 1, now, "ann"
			r, err := f.Apply(e)
			if err != nil || r.Invalid != "" {
				t.Fatal(err, r.Invalid)
			}
			return r
		}
		apply(Entry{Kind: KindGenesis, Table: &table})
		ask := func(site string, p netip.Prefix, a steadycast.Action, c steadycast.Class) steadycast.Request {
			seq++
			r := steadycast.Request{ID: steadycast.RequestID{Incarnation: 1, Seq: seq}, Site: site, Prefixes: []netip.Prefix{p}, Action: a, Class: c}
			if a == steadycast.Withdraw {
				r.Evidence = d.evidence(site, d.ServicesOf(p)[0].Name, seq, steadycast.Result{Outcome: steadycast.Down, Class: c})
			}
			return r
		}
		in := map[steadycast.Unit]bool{}
		back := func(site string, p netip.Prefix) {
			apply(Entry{Kind: KindVerdict, Verdicts: []steadycast.Verdict{{Site: site, Service: d.ServicesOf(p)[0].Name, State: steadycast.Healthy}}})
			r := ask(site, p, steadycast.Return, steadycast.NoFailure)
			if a := apply(Entry{Kind: KindDecide, Decide: &Decide{Requests: []steadycast.Request{r}}}); a.Answers[0].Rulings[0].Permit == nil {
				return
			}
			u := steadycast.Unit{Site: site, Prefix: p}
			if !in[u] {
				apply(Entry{Kind: KindIn, Return: &ReturnProof{Unit: u, ID: r.ID}})
			}
			in[u] = true
		}
		for _, n := range names {
			back(n, one)
			back(n, two)
		}
		type gone struct {
			site string
			load int64
			at   Time
		}
		left := map[steadycast.Unit]gone{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now += Time(rapid.SampledFrom([]int{1, 1000, 30_000, 59_999, 60_000}).Draw(t, "ms"))
			if rapid.IntRange(0, 2).Draw(t, "back") == 0 {
				back(rapid.SampledFrom(names).Draw(t, "who"), rapid.SampledFrom([]netip.Prefix{one, two}).Draw(t, "prefix"))
				continue
			}
			var loads []Load
			carries := map[string]int64{} // what is known
			for _, p := range d.Sites {
				switch l := rapid.SampledFrom([]int64{-2, -1, 5, 20, 60, 90}).Draw(t, "load"); {
				case l == -1: // an old figure
					loads = append(loads, Load{p.Name, 50, 61})
				case l >= 0:
					loads = append(loads, Load{p.Name, l, 60})
					carries[p.Name] = l
				case p.Load > 0:
					carries[p.Name] = p.Load
				}
			}
			dec := Decide{Loads: loads}
			for _, p := range []netip.Prefix{one, two} {
				s := Seen{Prefix: p}
				for _, n := range names {
					if in[steadycast.Unit{Site: n, Prefix: p}] {
						s.Announcing = append(s.Announcing, n)
					}
				}
				dec.Seen = append(dec.Seen, s)
			}
			class := map[steadycast.RequestID]steadycast.Class{}
			for range rapid.IntRange(1, 4).Draw(t, "requests") {
				r := ask(rapid.SampledFrom(names).Draw(t, "asks"), rapid.SampledFrom([]netip.Prefix{one, two}).Draw(t, "for"), steadycast.Withdraw,
					rapid.SampledFrom([]steadycast.Class{steadycast.Soft, steadycast.Hard}).Draw(t, "class"))
				dec.Requests = append(dec.Requests, r)
				class[r.ID] = r.Class
			}
			for _, a := range apply(Entry{Kind: KindDecide, Decide: &dec}).Answers {
				for _, ru := range a.Rulings {
					if ru.Permit == nil || ru.Permit.Action != steadycast.Withdraw || !in[ru.Unit] {
						continue
					}
					u := ru.Unit
					in[u] = false
					delete(left, u)
					leaving := map[string]int64{}
					for v, g := range left {
						if !in[v] && now-g.at < 60_000 {
							leaving[g.site] = max(leaving[g.site], g.load)
						}
					}
					l, known := carries[u.Site]
					if !known {
						continue // then it was certain, or nobody knows anything; nor does anybody later
					}
					leaving[u.Site] = l
					left[u] = gone{u.Site, l, now}
					limit := int64(80)
					if class[a.ID] == steadycast.Hard {
						limit = 100
					}
					for _, y := range d.Sites {
						base, ok := carries[y.Name]
						if !in[steadycast.Unit{Site: y.Name, Prefix: u.Prefix}] || y.Capacity == 0 || !ok {
							continue
						}
						for x, l := range leaving {
							if x == y.Name {
								continue
							}
							place, _ := d.Place(x)
							share := 100 // what goes elsewhere for certain is taken off
							for _, s := range place.Spill {
								if s.Site != y.Name && in[steadycast.Unit{Site: s.Site, Prefix: u.Prefix}] {
									share -= s.Percent
								}
							}
							base += (l*int64(share) + 99) / 100
						}
						if 100*base > limit*y.Capacity {
							t.Fatalf("%s leaves (%s), and %s would carry %d of %d: %v leave, %v is carried", u, class[a.ID], y.Name, base, y.Capacity, leaving, carries)
						}
					}
				}
			}
		}
	})
}
