package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// policy is one way to set the guards. Guards hide each other's faults: where a
// budget is tight, nobody ever comes near the floor. So besides the policy that
// has them all there is one for each, in which only that one is tight.
type policy struct {
	name string
	tune func(t *decide.Table)
	// later is the table that comes into force when all have come up; nil for none.
	later func(t *decide.Table)
}

// loose is what stands in for "no such guard" where a policy leaves one out.
const loose = 1000

var policies = []policy{
	{name: "all", tune: func(t *decide.Table) {
		t.Guards.FleetBudget, t.Guards.SiteBudget, t.Guards.SiteLongBudget, t.Guards.LockCycles = 2, 2, 4, 3
		t.Guards.BreakerSites, t.Guards.BreakerPercent = 2, 20
		setFloor(t, (len(t.Announcers())+1)/2, 1)
	}},
	{name: "floor", tune: func(t *decide.Table) { setFloor(t, (len(t.Announcers())+1)/2, 0) }},
	{name: "healthy-floor", tune: func(t *decide.Table) { setFloor(t, 0, 2) }},
	{name: "fleet-budget", tune: func(t *decide.Table) { t.Guards.FleetBudget = 2 }},
	{name: "site-budget", tune: func(t *decide.Table) { t.Guards.SiteBudget, t.Guards.SiteLongBudget = 1, 2 }},
	{name: "lock", tune: func(t *decide.Table) { t.Guards.LockCycles = 2 }},
	{name: "cooldown", tune: func(t *decide.Table) { t.Guards.Cooldown = 45 * time.Second }},
	{name: "breaker", tune: func(t *decide.Table) { t.Guards.BreakerSites, t.Guards.BreakerPercent = 2, 25 }},
	{name: "none", tune: func(*decide.Table) {}},
	{name: "groups", tune: func(t *decide.Table) { // the first half of the sites are one provider's: one voice
		for i := range t.Sites {
			if i < len(t.Sites)/2 {
				t.Sites[i].Group = "carrier"
			}
		}
	}},
	{name: "capacity", tune: func(t *decide.Table) { // of every other site it is known where its clients go
		t.Prefixes = t.Prefixes[:1]
		for i := range t.Services {
			t.Services[i].Prefixes = t.Services[i].Prefixes[:1]
		}
		n := len(t.Announcers())
		for i := range n {
			t.Sites[i].Capacity = 100
			if n > 2 && i%2 == 0 {
				t.Sites[i].Spill = []decide.Spill{{Site: t.Sites[(i+1)%n].Name, Percent: 60}, {Site: t.Sites[(i+2)%n].Name, Percent: 40}}
			}
		}
	}},
	{name: "nodes", tune: func(t *decide.Table) { // some sites have two or three nodes
		for i, n := range []struct{ nodes, least int }{{2, 1}, {3, 2}, {3, 1}} {
			if i < len(t.Announcers()) {
				t.Sites[i].Nodes, t.Sites[i].MinNodes = nodesOf(i, t.Sites[i].Name, n.nodes), n.least
			}
		}
	}},
	{name: "approve", tune: func(*decide.Table) {}, later: func(t *decide.Table) { setMode(t, decide.ModeApprove) }},
	{name: "observe", tune: func(*decide.Table) {}, later: func(t *decide.Table) { setMode(t, decide.ModeObserve) }},
}

// setMode makes automation ask, or only look.
func setMode(t *decide.Table, mode string) {
	t.Services = slices.Clone(t.Services)
	for i := range t.Services {
		t.Services[i].Mode = mode
	}
}

func setFloor(t *decide.Table, floor, healthy int) {
	for i := range t.Prefixes {
		f, h := floor, healthy
		t.Prefixes[i].Floor, t.Prefixes[i].HealthyFloor = &f, &h
	}
}

func findPolicy(name string) policy {
	for _, p := range policies {
		if p.name == name {
			return p
		}
	}
	return policies[0]
}

// newTable makes the table of a schedule. The windows are minutes where
// production has hours, so that many of them fit; their proportions stay.
func newTable(o Options, p policy, dice *rand.Rand) decide.Table {
	downFor := time.Second
	t := decide.Table{
		Revision:  1,
		DrainWait: 3 * time.Second,
		Guards: decide.Guards{
			Cooldown: 5 * time.Second, SiteWindow: 2 * time.Minute, SiteLongWindow: 8 * time.Minute,
			FleetWindow: time.Minute, LockWindow: 8 * time.Minute, BreakerWindow: 30 * time.Second,
			BreakerClear: 30 * time.Second, BreakerClearPct: 10, PermitTTL: 5 * time.Second,
			FleetBudget: loose, SiteBudget: loose, SiteLongBudget: loose, LockCycles: loose,
			BreakerSites: loose, BreakerPercent: 100,
		},
	}
	for i := range o.Sites {
		t.Sites = append(t.Sites, decide.Place{
			Name: fmt.Sprintf("s%02d", i), Region: fmt.Sprintf("r%d", i%4), Upstreams: []string{fmt.Sprintf("u%d", i%5)},
		})
	}
	if o.Sites == 2 {
		t.Sites = append(t.Sites, decide.Place{Name: "w00", Region: "r9", Upstreams: []string{"u9"}, Witness: true})
	}
	health := decide.Health{
		Interval: time.Second, Fall: 3, FallCertain: 2, Rise: 5, HoldUp: 8 * time.Second, DownFor: &downFor, ResumeRounds: 3,
	}
	prefixes := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if dice.IntN(2) == 0 {
		prefixes = append(prefixes, netip.MustParsePrefix("2001:db8:1::/48"))
	}
	t.Services = []decide.Service{{Name: "web", Prefixes: prefixes, Health: health}}
	if dice.IntN(4) == 0 {
		t.Services = append(t.Services, decide.Service{Name: "dns", Prefixes: prefixes[:1], Health: health})
	}
	needs := []string{decide.NeedsAll, decide.NeedsAny}[dice.IntN(2)]
	for _, x := range prefixes {
		t.Prefixes = append(t.Prefixes, decide.Prefix{Prefix: x, Needs: needs})
	}
	setFloor(&t, 0, 0)
	p.tune(&t)
	if wrong := t.Problems(); len(wrong) > 0 {
		panic(wrong[0])
	}
	return t.WithDefaults()
}
