package decide

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// goodTable is a new table each time, equal but distinct.
func goodTable() Table {
	return Table{
		Revision: 1,
		Sites:    []Place{{Name: "fra", Nodes: []Node{{Name: "fra-1", Mesh: at("10.0.0.1:7482")}}}, {Name: "ams"}, {Name: "nyc"}, {Name: "w", Witness: true}},
		Services: []Service{
			{Name: "web", Prefixes: []netip.Prefix{prefix("192.0.2.0/24"), prefix("2001:db8:1::/48")}},
			{Name: "dns", Prefixes: []netip.Prefix{prefix("192.0.2.0/24")}, Sites: []string{"ams", "fra"}},
		},
		Prefixes: []Prefix{{Prefix: prefix("192.0.2.0/24"), Needs: NeedsAny, Communities: []steadycast.Community{1}, MED: new(uint32)}},
	}
}

func TestDefaults(t *testing.T) {
	d := goodTable().WithDefaults()
	second := time.Second
	if want := (Health{
		Interval: time.Second, FastInterval: 200 * time.Millisecond, Fall: 3, FallCertain: 2, Rise: 20,
		HoldUp: 5 * time.Minute, DownFor: &second, ResumeRounds: 3, WarmStart: time.Minute,
	}); !reflect.DeepEqual(d.Services[0].Health, want) {
		t.Errorf("health is %+v, want %+v", d.Services[0].Health, want)
	}
	if want := (Guards{
		Cooldown: 5 * time.Minute, SiteBudget: 2, SiteWindow: time.Hour, SiteLongBudget: 4, SiteLongWindow: 6 * time.Hour,
		FleetBudget: 1, FleetWindow: 10 * time.Minute, LockCycles: 3, LockWindow: 6 * time.Hour,
		BreakerSites: 2, BreakerPercent: 20, BreakerWindow: 30 * time.Second, BreakerClear: 5 * time.Minute, BreakerClearPct: 10,
		PermitTTL: 5 * time.Second, CapacityRed: 80,
	}); d.Guards != want {
		t.Errorf("guards are %+v, want %+v", d.Guards, want)
	}
	if got := strings.Join([]string{fmt.Sprint(d.Services[0].Sites), d.Services[0].Mode, d.Services[0].Return, d.Sites[0].Group, d.DrainWait.String()}, " "); got != "[ams fra nyc] auto auto fra 3s" {
		t.Errorf("the rest is %s", got)
	}
	if again := d.WithDefaults(); !reflect.DeepEqual(again, d) {
		t.Errorf("a second time changes something:\n%+v\n%+v", again, d)
	}
	// What was written stays.
	none := time.Duration(0)
	table := goodTable()
	table.Services[0].Health = Health{Interval: 100 * time.Millisecond, Fall: 1, DownFor: &none}
	if h := table.WithDefaults().Services[0].Health; h.FastInterval != 100*time.Millisecond || h.FallCertain != 1 || *h.DownFor != 0 {
		t.Errorf("defaults overrule what is written, or exceed it: %+v", h)
	}
}

// TestDownForDefault: a second, or from the first to the last of fall rounds at
// the ordinary pace where that is less.
func TestDownForDefault(t *testing.T) {
	for _, x := range []struct {
		interval time.Duration
		fall     int
		want     time.Duration
	}{
		{0, 0, time.Second},
		{time.Second, 2, time.Second},
		{time.Second, 1, 0},
		{10 * time.Second, 3, time.Second},
		{200 * time.Millisecond, 2, 200 * time.Millisecond},
		{200 * time.Millisecond, 4, 600 * time.Millisecond},
		{200 * time.Millisecond, 6, time.Second},
	} {
		table := goodTable()
		table.Services[0].Health = Health{Interval: x.interval, Fall: x.fall}
		if got := *table.WithDefaults().Services[0].Health.DownFor; got != x.want {
			t.Errorf("interval %s, fall %d: down_for %s; want %s", x.interval, x.fall, got, x.want)
		}
	}
}

// TestDefaultsCopy: the copy shares nothing that could be written through.
func TestDefaultsCopy(t *testing.T) {
	in, want := goodTable(), goodTable()
	d := in.WithDefaults()
	d.Sites[0].Name = "x"
	d.Sites[0].Nodes[0].Name = "x"
	d.Services[0].Prefixes[0] = prefix("203.0.113.0/24")
	d.Services[1].Sites[0] = "x"
	d.Prefixes[0].Communities[0] = 9
	*d.Prefixes[0].MED = 9
	*d.PrefixPolicy(prefix("192.0.2.0/24")).MED = 10
	if !reflect.DeepEqual(in, want) {
		t.Errorf("writing to the copy changed the original: %+v", in)
	}
}

func TestTableQueries(t *testing.T) {
	table := goodTable()
	p, q := prefix("192.0.2.0/24"), prefix("2001:db8:1::/48")
	for _, tt := range []struct{ what, got, want string }{
		{"all prefixes", fmt.Sprint(table.AllPrefixes()), "[192.0.2.0/24 2001:db8:1::/48]"},
		{"sites of a shared prefix", fmt.Sprint(table.SitesOf(p)), "[ams fra nyc]"},
		{"prefixes at nyc", fmt.Sprint(table.PrefixesAt("nyc")), "[192.0.2.0/24 2001:db8:1::/48]"},
		{"prefixes at a witness", fmt.Sprint(table.PrefixesAt("w")), "[]"},
		{"services at nyc", fmt.Sprint(len(table.ServicesAt("nyc", p))), "1"},
		{"services at fra", fmt.Sprint(len(table.ServicesAt("fra", p))), "2"},
		{"needs", table.PrefixPolicy(p).Needs + " " + table.PrefixPolicy(q).Needs, "any all"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, tt.got, tt.want)
		}
	}
}

func TestFloors(t *testing.T) {
	zero, two := 0, 2
	for _, tt := range []struct {
		sites, witnesses, at int // at: sites that serve the prefix, 0 for all
		floor                *int
		want, healthy        int
	}{
		{sites: 1, want: 0, healthy: 0},
		{sites: 1, witnesses: 1, want: 0, healthy: 0},
		{sites: 2, want: 2, healthy: 1},
		{sites: 2, witnesses: 1, want: 1, healthy: 1},
		{sites: 3, want: 2, healthy: 1},
		{sites: 4, want: 2, healthy: 1},
		{sites: 5, want: 3, healthy: 1},
		{sites: 9, witnesses: 2, want: 5, healthy: 1},
		{sites: 5, at: 1, want: 1, healthy: 1},
		{sites: 5, floor: &zero, want: 0, healthy: 1},
		{sites: 5, floor: &two, want: 2, healthy: 1},
	} {
		p := prefix("192.0.2.0/24")
		table := Table{Services: []Service{{Name: "web", Prefixes: []netip.Prefix{p}}}}
		for i := range tt.sites + tt.witnesses {
			table.Sites = append(table.Sites, Place{Name: fmt.Sprint("s", i), Witness: i >= tt.sites})
		}
		for i := range tt.at {
			table.Services[0].Sites = append(table.Services[0].Sites, fmt.Sprint("s", i))
		}
		if tt.floor != nil {
			table.Prefixes = []Prefix{{Prefix: p, Floor: tt.floor}}
		}
		if f, h := table.Floor(p), table.HealthyFloor(p); f != tt.want || h != tt.healthy {
			t.Errorf("%+v: floors %d and %d", tt, f, h)
		}
	}
}

func TestProblems(t *testing.T) {
	if ps := goodTable().Problems(); len(ps) > 0 {
		t.Fatalf("a good table has problems: %v", ps)
	}
	if ps := goodTable().WithDefaults().Problems(); len(ps) > 0 {
		t.Fatalf("a good table with its defaults has problems: %v", ps)
	}
	ms, neg, four := time.Millisecond, -time.Second, 4
	for _, tt := range []struct {
		change func(*Table)
		want   string
	}{
		{func(t *Table) { t.Sites = nil }, "sites: no site announces anything"},
		{func(t *Table) { t.Sites[1].Name = "fra" }, `sites[1].name: "fra" is the name of sites[0] already`},
		{func(t *Table) { t.Sites[0].Name = "f ra" }, `sites[0].name: "f ra" is not a site name`},
		{func(t *Table) { t.Sites[0].LoadPerAnswer = -1 }, "sites[0].load_per_answer: -1 is out of range; allowed: 1 to 1000000, or leave it out"},
		{func(t *Table) { t.Sites[0].LoadPerAnswer = maxPerAnswer + 1 }, "sites[0].load_per_answer: 1000001 is out of range"},
		{func(t *Table) { t.Sites[0].LoadPerAnswer, t.Sites[0].Load = 40, 7 }, "sites[0].load_per_answer: is one source of the load while the site reports none, and load: another; name one"},
		{func(t *Table) { t.Sites[0].Capacity = -1 }, "sites[0].capacity: -1 is negative"},
		{func(t *Table) { t.Sites[0].Nodes = []Node{{Name: "f 1", Mesh: at("10.0.0.1:7482")}} }, `sites[0].nodes[0].name: "f 1" is not a node name`},
		{func(t *Table) { t.Sites[0].Nodes = []Node{{Name: "fra-1"}} }, "sites[0].nodes[0].mesh: is not where a node can be called"},
		{func(t *Table) { t.Sites[0].Nodes = []Node{{Name: "fra-1", Mesh: at("[::]:7482")}} }, "sites[0].nodes[0].mesh: is not where a node can be called"},
		{func(t *Table) { t.Sites[0].Nodes = []Node{{Name: "fra-1", Mesh: at("192.0.2.9:7482")}} }, "sites[0].nodes[0].mesh: 192.0.2.9 is inside a prefix that the fleet announces"},
		{func(t *Table) { t.Sites[1].Nodes = []Node{{Name: "fra-1", Mesh: at("10.0.0.2:7482")}} }, `sites[1].nodes[0].name: "fra-1" is the name of sites[0].nodes[0] already`},
		{func(t *Table) { t.Sites[1].Nodes = []Node{{Name: "ams-1", Mesh: at("10.0.0.1:7482")}} }, `sites[1].nodes[0].mesh: 10.0.0.1:7482 is the address of sites[0].nodes[0] already`},
		{func(t *Table) { t.Services = nil }, "services: there is none"},
		{func(t *Table) { t.Services[1].Name = "web" }, `services[1].name: "web" is the name of services[0] already`},
		{func(t *Table) { t.Services[0].Prefixes[0] = netip.Prefix{} }, "services[0].prefixes[0]: is not a prefix"},
		{func(t *Table) { t.Services[0].Prefixes[1] = prefix("203.0.113.1/24") }, "services[0].prefixes[1]: 203.0.113.1/24 has host bits set; write 203.0.113.0/24"},
		{func(t *Table) { t.Services[0].Prefixes[1] = prefix("0.0.0.0/0") }, "services[0].prefixes[1]: 0.0.0.0/0 is the default route"},
		{func(t *Table) { t.Services[0].Prefixes[1] = prefix("127.0.0.0/8") }, "services[0].prefixes[1]: 127.0.0.0/8 cannot be routed"},
		{func(t *Table) { t.Services[0].Prefixes[1] = prefix("::ffff:1.2.3.0/120") }, "is an IPv4 prefix written as IPv6"},
		{func(t *Table) { t.Services[0].Prefixes[1] = prefix("192.0.2.0/24") }, "services[0].prefixes[1]: 192.0.2.0/24 stands here twice"},
		{func(t *Table) { t.Services[1].Prefixes[0] = prefix("192.0.2.128/25") }, "services[1].prefixes[0]: 192.0.2.128/25 overlaps 192.0.2.0/24 of services[0]"},
		{func(t *Table) { t.Services[1].Sites = []string{} }, "services[1].sites: is empty, so nobody would announce"},
		{func(t *Table) { t.Services[1].Sites[1] = "fra1" }, `services[1].sites[1]: "fra1" is not a site of this table; known: ams, fra, nyc`},
		{func(t *Table) { t.Services[1].Sites[1] = "w" }, `services[1].sites[1]: "w" is a witness`},
		{func(t *Table) { t.Services[1].Sites[1] = "ams" }, `services[1].sites[1]: "ams" stands here twice`},
		{func(t *Table) { t.Services[0].Mode = "manual" }, `services[0].mode: "manual" is not known; allowed: auto, approve, observe`},
		{func(t *Table) { t.Services[0].Return = "no" }, `services[0].return: "no" is not known; allowed: auto, hold`},
		{func(t *Table) { t.Services[0].Health.Interval = ms }, "services[0].health.interval: 1ms is under the least interval of 10ms"},
		{func(t *Table) { t.Services[0].Health.FastInterval = 2 * time.Second }, "services[0].health.fast_interval: 2s is longer than interval 1s"},
		{func(t *Table) { t.Services[0].Health.Fall = -1 }, "services[0].health.fall: -1 is out of range"},
		{func(t *Table) { t.Services[0].Health.FallCertain = 4 }, "services[0].health.fall_certain: 4 is more than fall 3"},
		{func(t *Table) { t.Services[0].Health.Rise = -3 }, "services[0].health.rise: -3 is out of range"},
		{func(t *Table) { t.Services[0].Health.HoldUp = neg }, "services[0].health.hold_up: -1s is out of range"},
		{func(t *Table) { t.Services[0].Health.DownFor = &neg }, "services[0].health.down_for: -1s is out of range"},
		{func(t *Table) { t.Services[0].Health.ResumeRounds = -1 }, "services[0].health.resume_rounds: -1"},
		{func(t *Table) { t.Services[0].Health.WarmStart = neg }, "services[0].health.warm_start: -1s"},
		{func(t *Table) { t.Prefixes[0].Prefix = prefix("203.0.113.0/24") }, "prefixes[0].prefix: 203.0.113.0/24 belongs to no service"},
		{func(t *Table) { t.Prefixes = append(t.Prefixes, t.Prefixes[0]) }, "prefixes[1].prefix: 192.0.2.0/24 stands here twice"},
		{func(t *Table) { t.Prefixes[0].Needs = "most" }, `prefixes[0].needs: "most" is not known; allowed: all, any`},
		{func(t *Table) { t.Prefixes[0].Floor = &four }, "prefixes[0].floor: 4 cannot be kept: 3 sites announce the prefix; allowed: 0 to 3"},
		{func(t *Table) { t.Prefixes[0].HealthyFloor = &four }, "prefixes[0].healthy_floor: 4 cannot be kept"},
		{func(t *Table) { t.Guards.Cooldown = neg }, "guards.cooldown: -1s"},
		{func(t *Table) { t.Guards.SiteBudget, t.Guards.SiteLongBudget = 5, 4 }, "guards.site_long_budget: 4 is under site_budget 5"},
		{func(t *Table) { t.Guards.SiteLongWindow = time.Minute }, "guards.site_long_window: 1m0s is shorter than site_window 1h0m0s"},
		{func(t *Table) { t.Guards.BreakerPercent = 101 }, "guards.breaker_percent: 101 is out of range; allowed: 1 to 100"},
		{func(t *Table) { t.Guards.BreakerClearPct = 30 }, "guards.breaker_clear_percent: 30 is over breaker_percent 20"},
		{func(t *Table) { t.Guards.PermitTTL = 10 * ms }, "guards.permit_ttl: 10ms is under 1s"},
		{func(t *Table) { t.Guards.CapacityRed = 200 }, "guards.capacity_red_percent: 200"},
		{func(t *Table) { t.DrainWait = time.Hour }, "drain_wait: 1h0m0s is out of range"},
		{func(t *Table) { t.Source = strings.Repeat("#", MaxSource+1) }, "the text of the table has 1048577 bytes; the ledger carries 1048576"},
		{func(t *Table) { t.Source = "sites: [\xff]" }, "the text of the table is not UTF-8"},
	} {
		table := goodTable()
		tt.change(&table)
		ps := table.Problems()
		if !slices.ContainsFunc(ps, func(p Problem) bool { return strings.Contains(p.String(), tt.want) }) {
			t.Errorf("found %v, want %q", ps, tt.want)
		}
	}
	// All at once, in the order of the file.
	table := goodTable()
	table.Sites[0].Capacity = -1
	table.Services[0].Mode = "x"
	table.DrainWait = neg
	var paths []string
	for _, p := range table.Problems() {
		paths = append(paths, p.Path)
	}
	if got := strings.Join(paths, " "); got != "sites[0].capacity services[0].mode drain_wait" {
		t.Errorf("found %s", got)
	}
}
