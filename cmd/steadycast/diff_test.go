package main

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
)

// TestRouteEffects tells by site what comes, goes and changes.
func TestRouteEffects(t *testing.T) {
	a, b := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
	table := func(prefixes []netip.Prefix, med uint32, sites ...string) decide.Table {
		t := decide.Table{Services: []decide.Service{{Name: "web", Prefixes: prefixes}}, Prefixes: []decide.Prefix{{Prefix: a, MED: &med}}}
		for _, s := range sites {
			t.Sites = append(t.Sites, decide.Place{Name: s})
		}
		return t.WithDefaults()
	}
	was := table([]netip.Prefix{a}, 10, "ams", "fra", "lon")
	for _, x := range []struct {
		name string
		is   decide.Table
		want string
	}{
		{"nothing", table([]netip.Prefix{a}, 10, "ams", "fra", "lon"), ""},
		{"a prefix comes", table([]netip.Prefix{a, b}, 10, "ams", "fra", "lon"),
			"ams: announced, once its checks pass and a permit is given: 198.51.100.0/24 | fra: announced, once its checks pass and a permit is given: 198.51.100.0/24 | lon: announced, once its checks pass and a permit is given: 198.51.100.0/24"},
		{"a site goes, one comes", table([]netip.Prefix{a}, 10, "ams", "fra", "par"),
			"lon: not announced any more: 192.0.2.0/24 | par: announced, once its checks pass and a permit is given: 192.0.2.0/24"},
		{"another MED", table([]netip.Prefix{a}, 11, "ams", "fra", "lon"),
			"ams: announced in another way: 192.0.2.0/24 | fra: announced in another way: 192.0.2.0/24 | lon: announced in another way: 192.0.2.0/24"},
	} {
		if got := strings.Join(texts(routeEffects(was, x.is)), " | "); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, got, x.want)
		}
	}
}

// TestAnswerEffects reads the names in the texts of two tables.
func TestAnswerEffects(t *testing.T) {
	const text = `sites:
  - {name: ams, address: [198.51.100.10], nodes: [{name: ams-1, mesh: "198.51.100.10:7482"}]}
  - {name: fra, address: [198.51.100.20], nodes: [{name: fra-1, mesh: "198.51.100.20:7482"}]}
  - {name: iad, address: [198.51.100.30], nodes: [{name: iad-1, mesh: "198.51.100.30:7482"}]}
services:
  - name: web
    prefixes: [192.0.2.80/32]
    checks: [{name: page, kind: http, target: "http://192.0.2.80/health"}]
    remote: {checks: [{name: page, kind: http, target: "http://{address}/health"}]}
zones:
  - name: gslb.example.com
    ns: [ns1.example.net.]
    names:
      - {name: www, service: web, methods: [hash], members: [{site: ams, addresses: [192.0.2.1]}, {site: fra, addresses: [192.0.2.2]}]}
      - {name: old, service: web, members: [{site: ams, addresses: [192.0.2.1]}]}
`
	table := func(edits ...string) decide.Table {
		f, ps := config.ParseTable("fleet.yaml", []byte(strings.NewReplacer(edits...).Replace(text)))
		if err := ps.Err(); err != nil {
			t.Fatal(err)
		}
		return f.Table()
	}
	was := table()
	if got := answerEffects(was, table()); len(got) > 0 {
		t.Errorf("a table differs from itself: %v", got)
	}
	next := table("192.0.2.2", "192.0.2.9", "      - {name: old, service: web, members: [{site: ams, addresses: [192.0.2.1]}]}\n", "")
	got := effectsOf(was, next)
	text0 := strings.Join(texts(got.Answers), "\n")
	for _, want := range []string{
		"old.gslb.example.com A: no more ams 192.0.2.1; nobody that is well is left to answer with",
		"www.gslb.example.com A: no more fra 192.0.2.2; also fra 192.0.2.9; ",
		" of 256 sample clients are answered otherwise",
	} {
		if !strings.Contains(text0, want) {
			t.Errorf("%q is missing in\n%s", want, text0)
		}
	}
	if m := got.Answers[1].Moved; m < 64 || m > 192 { // fra has about half of them, and keeps those
		t.Errorf("%d clients moved", m)
	}
	if b, err := json.Marshal(effectsOf(was, was)); err != nil || string(b) != `{"routes":[],"answers":[]}` {
		t.Errorf("%s %v", b, err)
	}
}
