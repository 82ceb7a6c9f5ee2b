package whatif

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

var (
	one = netip.MustParsePrefix("192.0.2.0/24")
	two = netip.MustParsePrefix("198.51.100.0/24")
)

// sites are n of them, each carrying load of 100 for web.
func sites(n int, load int64) decide.Table {
	t := decide.Table{Revision: 1, Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{one}}}}
	for i := range n {
		t.Sites = append(t.Sites, decide.Place{Name: string(rune('a' + i)), Capacity: 100, Load: load})
	}
	return t
}

func spill(t decide.Table, from string, to ...decide.Spill) decide.Table {
	for i := range t.Sites {
		if t.Sites[i].Name == from {
			t.Sites[i].Spill = to
		}
	}
	return t
}

// TestAsk: what becomes of each failing site's routes, by which guard, and what the
// others carry at the end (what is known to come, and the worst).
func TestAsk(t *testing.T) {
	hard, soft := steadycast.Hard, steadycast.Soft
	for _, c := range []struct {
		name string
		q    Question
		want string
	}{
		{"one of three, room everywhere", Question{Table: sites(3, 20), Fail: []string{"a"}, Class: soft},
			"a: withdrawn | b 20..40 c 20..40 | 2 left, 2 healthy"},
		{"one of three at half, nothing known of where clients go", Question{Table: sites(3, 50), Fail: []string{"a"}, Class: soft},
			"a: stays by capacity, 60% could go | b 50..50 c 50..50 | 3 left, 2 healthy"},
		{"the same, and it is certain", Question{Table: sites(3, 50), Fail: []string{"a"}, Class: hard},
			"a: withdrawn | b 50..100 c 50..100 | 2 left, 2 healthy"},
		{"the same, half to each", Question{Table: spill(sites(3, 50), "a", decide.Spill{Site: "b", Percent: 50}, decide.Spill{Site: "c", Percent: 50}), Fail: []string{"a"}, Class: soft},
			"a: withdrawn | b 75..75 c 75..75 | 2 left, 2 healthy"},
		{"a second of three is one too few", Question{Table: sites(3, 10), Fail: []string{"a", "b"}, Class: hard, Apart: time.Hour},
			"a: withdrawn; b: depreferred by floor, 100% could go | b 10..20 c 10..20 | 2 left, 1 healthy"},
		{"of six a second at once waits for the fleet's budget", Question{Table: sites(6, 10), Fail: []string{"a", "b"}, Class: soft, Apart: time.Second},
			"a: withdrawn; b: depreferred by fleet budget, 100% could go | b 10..20 c 10..20 d 10..20 e 10..20 f 10..20 | 5 left, 4 healthy"},
		{"an hour later it does not", Question{Table: sites(6, 10), Fail: []string{"a", "b"}, Class: soft, Apart: time.Hour},
			"a: withdrawn; b: withdrawn | c 10..30 d 10..30 e 10..30 f 10..30 | 4 left, 4 healthy"},
		{"the third of a common cause meets the breaker", Question{Table: sites(8, 10), Fail: []string{"a", "b", "c"}, Class: soft, Apart: time.Second},
			"a: withdrawn; b: depreferred by fleet budget, 100% could go; c: stays by breaker, 100% could go | b 10..20 c 10..20 d 10..20 e 10..20 f 10..20 g 10..20 h 10..20 | 7 left, 5 healthy"},
		{"reported loads count, not the table's", Question{Table: sites(3, 10), Fail: []string{"a"}, Class: soft, Loads: []decide.Load{{Site: "b", Load: 75}}},
			"a: stays by capacity, 50% could go | b 75..75 c 10..10 | 3 left, 2 healthy"},
		{"what left before is counted for what could go", Question{Table: sites(4, 30), Fail: []string{"a", "b"}, Class: soft, Apart: time.Second},
			"a: withdrawn; b: stays by capacity, 66% could go | b 30..60 c 30..60 d 30..60 | 3 left, 2 healthy"},
		{"frozen", Question{Table: sites(3, 10), Fail: []string{"a"}, Class: hard, Frozen: true},
			"a: stays by freeze, 100% could go | b 10..10 c 10..10 | 3 left, 2 healthy"},
		{"one is out already", Question{Table: sites(4, 10), Fail: []string{"b", "a"}, Class: hard, Out: []steadycast.Unit{{Site: "b", Prefix: one}}},
			"b: was out; a: withdrawn | c 10..20 d 10..20 | 2 left, 2 healthy"},
		{"a site alone", Question{Table: sites(1, 10), Fail: []string{"a"}, Class: soft},
			"a: withdrawn |  | 0 left, 0 healthy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := Ask(c.q)
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(a); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func brief(a *Answer) string {
	var steps, loads []string
	for _, s := range a.Steps {
		var us []string
		for _, u := range s.Units {
			text := u.Outcome
			if u.Guard != "" {
				text += fmt.Sprintf(" by %s, %d%% could go", u.Guard, u.Movable)
			}
			us = append(us, text)
		}
		steps = append(steps, s.Site+": "+strings.Join(us, ", "))
	}
	for _, b := range a.Sites {
		if !b.Gone && b.Site != a.Steps[0].Site {
			loads = append(loads, fmt.Sprintf("%s %d..%d", b.Site, b.After, b.Most))
		}
	}
	return fmt.Sprintf("%s | %s | %d left, %d healthy", strings.Join(steps, "; "), strings.Join(loads, " "), len(a.Prefixes[0].Announcing), len(a.Prefixes[0].Healthy))
}

// Prefixes of the same services are asked about in one request, as a site does, so
// that they cost the fleet's budget once; others in their own.
func TestTogether(t *testing.T) {
	table := sites(4, 0)
	table.Guards.FleetBudget = 2
	table.Services[0].Prefixes = []netip.Prefix{one, netip.MustParsePrefix("2001:db8::/48")}
	table.Services = append(table.Services, decide.Service{Name: "dns", Prefixes: []netip.Prefix{two}, Mode: decide.ModeObserve},
		decide.Service{Name: "ntp", Prefixes: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, Mode: decide.ModeApprove})
	a, err := Ask(Question{Table: table, Fail: []string{"a"}, Class: steadycast.Hard})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range a.Steps[0].Units {
		got = append(got, u.Unit.Prefix.String()+" "+u.Outcome)
	}
	want := []string{"192.0.2.0/24 withdrawn", "198.51.100.0/24 stays", "203.0.113.0/24 waits", "2001:db8::/48 withdrawn"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAskRefuses(t *testing.T) {
	table := sites(3, 0)
	table.Sites = append(table.Sites, decide.Place{Name: "w", Witness: true})
	for fail, want := range map[string]string{"mars": `"mars" is not a site`, "w": `"w" is not a site`, "a,a": "a is named twice"} {
		if _, err := Ask(Question{Table: table, Fail: strings.Split(fail, ",")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fail, err)
		}
	}
}
