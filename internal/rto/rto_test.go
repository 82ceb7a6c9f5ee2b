package rto

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
)

const ms = time.Millisecond

// solo is a site alone with the defaults, fleet three that watch each other.
var (
	look  = Look{Interval: 1000 * ms, Fast: 200 * ms, Timeout: 1000 * ms}
	solo  = Facts{Service: "web", Own: look, Voices: 1, Quorum: 1, Fall: 3, FallCertain: 2, DownFor: 1000 * ms, Mode: "auto", Solo: true, HoldTime: 9 * time.Second, Private: true}
	fleet = Facts{Service: "web", Own: look, Remote: look, Voices: 3, Quorum: 2, Fall: 3, FallCertain: 2, DownFor: 1000 * ms, Mode: "auto", MaxRTT: 100 * ms,
		HoldTime: 9 * time.Second, Name: "www.example.com", TTL: time.Minute}
)

func with(f Facts, change func(*Facts)) Facts { change(&f); return f }

// Every number here was added up by hand from the rules in the comments of rto.go.
func TestAccount(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts Facts
		fault Fault
		path  Path
		want  string // stage typical/worst, in milliseconds
	}{
		{"alone, refused", solo, Refused, Route,
			// half an interval; five fast rounds reach down_for; one write; 3+61 and 25+177; half of 1566, all of 2206
			"detection 500/1000, confirmation 1000/1000, permit 2/4, bgp 64/202, client 783/2206, total 2349/4412"},
		{"alone, refused, at once", with(solo, func(f *Facts) { f.DownFor = 0 }), Refused, Route,
			"detection 500/1000, confirmation 200/200, permit 2/4, bgp 64/202, client 500/1406, total 1266/2812"},
		{"alone, refused, tripwire", with(solo, func(f *Facts) { f.DownFor, f.Tripwire = 0, true }), Refused, Route,
			"detection 0/0, confirmation 200/200, permit 2/4, bgp 64/202, client 500/1000, total 766/1406"},
		{"alone, wrong, at once", with(solo, func(f *Facts) { f.DownFor, f.Tripwire = 0, true }), Wrong, Route,
			"detection 500/1000, confirmation 400/400, permit 2/4, bgp 64/202, client 500/1606, total 1466/3212"},
		{"alone, silent: rounds wait for the one before", solo, Silent, Route,
			"detection 1500/2000, confirmation 2000/2000, permit 2/4, bgp 64/202, client 1783/4206, total 5349/8412"},
		{"alone, cut: the hold time less half a KEEPALIVE", solo, Cut, Route,
			"detection 7500/9000, bgp 61/177, client 3780/9177, total 11341/18354"},
		{"three, refused: the second of three voices after half an interval", fleet, Refused, Route,
			// permit 2 round trips of 50, or of 100 with an election of 2×1000+100
			"detection 500/1000, confirmation 1000/1000, permit 102/2304, bgp 10003/120025, client 5802/60000, total 17407/184329"},
		{"three, by answers: no route, and half the TTL", fleet, Refused, Answer,
			"detection 500/1000, confirmation 1000/1000, verdict 102/2304, dns ttl 30000/60000, client 15801/60000, total 47403/124304"},
		{"nine, five must agree; slow voters", with(fleet, func(f *Facts) { f.Voices, f.Quorum, f.MaxRTT, f.Private = 9, 5, 300*ms, true }), Wrong, Route,
			"detection 500/1000, confirmation 1000/1000, permit 302/6904, bgp 64/202, client 933/9106, total 2799/18212"},
		{"a long down_for: the tenth failing round of another site is followed by slow ones", with(fleet, func(f *Facts) { f.DownFor, f.Private = 4*time.Second, true }), Wrong, Route,
			// nine fast rounds are 1.8 s; three more of 1 s reach 4 s
			"detection 500/1000, confirmation 4800/4800, permit 102/2304, bgp 64/202, client 2733/8306, total 8199/16612"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.facts.Account(c.fault, c.path)
			var got []string
			for _, s := range append(a.Stages, Stage{Name: "total", Typical: a.Typical, Worst: a.Worst}) {
				got = append(got, fmt.Sprintf("%s %d/%d", s.Name, s.Typical.Milliseconds(), s.Worst.Milliseconds()))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

func TestNever(t *testing.T) {
	for _, c := range []struct {
		mode  string
		fault Fault
		path  Path
		want  string
	}{
		{"auto", Cut, Answer, "a site that is gone gives no verdict"},
		{"observe", Wrong, Route, "mode observe"},
		{"approve", Wrong, Route, "mode approve"},
		{"approve", Cut, Route, ""}, // a dead router asks nobody
		{"observe", Wrong, Answer, ""},
	} {
		f := fleet
		f.Mode = c.mode
		if a := f.Account(c.fault, c.path); !strings.HasPrefix(a.Never, c.want) || (c.want == "") != (a.Never == "") {
			t.Errorf("%s %s by %s: %q, want %q", c.mode, c.fault, c.path, a.Never, c.want)
		}
	}
}

// What a setting is said to buy is the difference of two accounts, and the one
// that buys most stands first; a setting that something else hides buys nothing.
func TestGains(t *testing.T) {
	a := solo.Account(Refused, Route)
	var got []string
	for _, g := range a.Gains {
		got = append(got, fmt.Sprintf("%s %s to %s: %d/%d", g.Setting, g.From, g.To, g.Typical.Milliseconds(), g.Worst.Milliseconds()))
	}
	want := []string{
		"tripwire false to true: 750/2000", // 500 of detection and half of it at the client; 1000 and all of it
		"down_for 1s to 0s: 1083/1600",     // to 200 of confirmation; the client's half is bounded by 500
		"interval 1s to 500ms: 375/1000",   // half of it all
	}
	slices.Sort(want)
	sorted := slices.Sorted(slices.Values(got))
	if !slices.Equal(sorted, want) {
		t.Errorf("got  %q\nwant %q", sorted, want)
	}
	if !slices.IsSortedFunc(a.Gains, func(x, y Gain) int { return cmp.Compare(y.Typical+y.Worst, x.Typical+x.Worst) }) {
		t.Errorf("not the greatest first: %q", got)
	}
	for _, f := range []Facts{solo, fleet} {
		for _, a := range f.Accounts() {
			for _, g := range a.Gains {
				if g.Typical < 0 || g.Worst < 0 || g.Cost == "" {
					t.Errorf("%s by %s: %+v", a.Fault, a.Path, g)
				}
			}
		}
	}
}

const table = `
sites:
  - {name: ams, address: [198.51.100.1], nodes: [{name: ams-1, mesh: "198.51.100.1:7482"}]}
  - {name: fra, address: [198.51.100.2], nodes: [{name: fra-1, mesh: "198.51.100.2:7482"}]}
  - {name: iad, address: [198.51.100.3], nodes: [{name: iad-1, mesh: "198.51.100.3:7482"}]}
services:
  - name: web
    prefixes: [192.0.2.0/24]
    vips: [192.0.2.80]
    mode: approve
    health: {interval: 2s, fall: 4}
    checks: [{name: page, kind: tcp, target: "192.0.2.80:80", timeout: 300ms, tripwire: true}]
    remote:
      interval: 3s
      checks: [{name: page, kind: tcp, target: "{address}:80", timeout: 400ms}]
zones:
  - name: example.com
    ns: [ns1.example.net.]
    names:
      - {name: any, service: web, ttl: 1h, members: [{site: ams, addresses: [192.0.2.80]}]}
      - {name: "@", service: web, ttl: 1m, members: [{pool: all}]}
      - {name: other, ttl: 30m, members: [{name: cdn, cname: cdn.example.net.}]}
pools:
  - {name: all, service: web, members: [{site: ams, addresses: [198.51.100.1]}, {site: fra, addresses: [198.51.100.2]}]}
`

// What a table says of a service: the slowest check, the voices that judge it, and
// the name that leads to single sites, by a pool if need be. An answer with the
// anycast address is no name to wait for.
func TestOf(t *testing.T) {
	f, ps := config.ParseTable("fleet.yaml", []byte(table))
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	got := Of(f, config.Around(f, "fleet.yaml").Node, f.Services[0])
	want := Facts{Service: "web",
		Own: Look{2000 * ms, 200 * ms, 300 * ms}, Remote: Look{3000 * ms, 200 * ms, 400 * ms}, Voices: 3, Quorum: 2,
		Fall: 4, FallCertain: 2, DownFor: 1000 * ms, Tripwire: true, Mode: "approve", MaxRTT: 100 * ms,
		HoldTime: 9 * time.Second, Name: "example.com", TTL: time.Minute}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// How soon a service can leave answers and return to them, added up by hand, and what
// a name whose TTL is auto is kept for by that.
func TestPace(t *testing.T) {
	health := decide.Health{Interval: 1000 * ms, FastInterval: 200 * ms, Rise: 20, HoldUp: 5 * time.Minute}
	for _, c := range []struct {
		name            string
		facts           Facts
		health          decide.Health
		leaves, returns time.Duration
	}{
		{"five fast rounds reach down_for", fleet, health, 1000 * ms, 5 * time.Minute},
		{"refused: one round after the first", with(fleet, func(f *Facts) { f.DownFor = 0 }), health, 200 * ms, 5 * time.Minute},
		{"a long down_for", with(solo, func(f *Facts) { f.DownFor = 4 * time.Second }), health, 4 * time.Second, 5 * time.Minute},
		{"a dead site is known sooner", with(fleet, func(f *Facts) { f.DownFor = time.Minute }), health, 5 * time.Second, 5 * time.Minute},
		{"and later where rounds are far apart", with(fleet, func(f *Facts) { f.DownFor, f.Own.Interval = time.Minute, 5*time.Second }), health, 16 * time.Second, 5 * time.Minute},
		{"back by its rounds", fleet, decide.Health{Interval: 1000 * ms, FastInterval: 200 * ms, Rise: 20}, 1000 * ms, 3800 * ms},
	} {
		if got, want := paceOf(c.facts, c.health), (dnsfallback.Pace{Leaves: c.leaves, Returns: c.returns}); got != want {
			t.Errorf("%s: %v; want %v", c.name, got, want)
		}
	}
	f, ps := config.ParseTable("fleet.yaml", []byte(strings.Replace(table, "ttl: 1m", "ttl: auto", 1)))
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	if got, want := Known(f).Pace["web"], (dnsfallback.Pace{Leaves: 1000 * ms, Returns: 5 * time.Minute}); got != want {
		t.Errorf("the table's service: %v; want %v", got, want)
	}
	if got := Of(f, config.Around(f, "fleet.yaml").Node, f.Services[0]); got.Name != "example.com" || got.TTL != time.Second {
		t.Errorf("%s is kept for %v; want example.com, for 1s", got.Name, got.TTL)
	}
}
