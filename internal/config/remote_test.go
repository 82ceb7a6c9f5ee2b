package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/probe"
)

// loadFleet loads one node of the example fleet.
func loadFleet(t *testing.T, node string) *Config {
	t.Helper()
	c, ps := Load(Options{File: filepath.Join(configs, "examples/fleet", node+".yaml"), Env: []string{}})
	if c == nil {
		t.Fatal(ps)
	}
	if c.Fleet.Services != nil {
		t.Fatal("the file is in force, and not what the ledger has")
	}
	text, err := os.ReadFile(filepath.Join(configs, "examples/fleet/fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, ps, err = c.With(committed(t, string(text)))
	if err != nil || ps.Fatal() > 0 {
		t.Fatal(err, ps)
	}
	return c
}

// told says a probe service in a line.
func told(s probe.Service) string {
	var targets []string
	for _, c := range s.Checks {
		targets = append(targets, c.Name+"="+c.Target)
	}
	return fmt.Sprintf("%s of %q from %s every %v, %v: %s", s.Name, s.Subject, s.Vantage, s.Interval, s.FastInterval, strings.Join(targets, " "))
}

// TestLooks: each node of a fleet looks at itself by the services' checks, at
// every other site by their remote ones, and at the controls.
func TestLooks(t *testing.T) {
	const controls = `controls of "" from %s every 1s, 50ms: resolver=198.51.100.53:53 page=198.51.100.80:443 router=198.51.100.1 nothing=198.51.100.80:9`
	web := func(site, v4, v6 string) string {
		return fmt.Sprintf(`web of %q from %%s every 1s, 200ms: page=https://%s/health page6=https://[%s]/health`, site, v4, v6)
	}
	dns := func(site, v4 string) string {
		return fmt.Sprintf(`dns of %q from %%s every 1s, 200ms: answers=%s:53`, site, v4)
	}
	own := func(site string) string { return web(site, "192.0.2.80", "2001:db8:80::80") }
	ams, amsDNS := web("ams", "203.0.113.10", "2001:db8:a::10"), dns("ams", "203.0.113.10")
	fra, fraDNS := web("fra", "203.0.113.20", "2001:db8:f::10"), dns("fra", "203.0.113.20")
	iad := web("iad", "203.0.113.30", "2001:db8:1::10")
	for node, want := range map[string][]string{
		"ams":  {own("ams"), dns("ams", "192.0.2.53"), fra, fraDNS, iad, controls},
		"iad":  {own("iad"), ams, amsDNS, fra, fraDNS, controls},
		"home": {ams, amsDNS, fra, fraDNS, iad, controls},
	} {
		c := loadFleet(t, node)
		var got []string
		for _, s := range c.Looks(node) {
			if ps := s.Problems(); len(ps) > 0 {
				t.Errorf("%s: %v", told(s), ps)
			}
			got = append(got, told(s))
		}
		for i := range want {
			want[i] = fmt.Sprintf(want[i], node)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s looks at\n%s\nwant\n%s", node, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	c := loadFleet(t, "ams")
	page := c.Probes("fra", "ams")[0].Checks[0].HTTP
	if page.Identity != "X-Site: fra" || c.Fleet.Services[0].Remote.Checks[0].HTTP.Identity != "X-Site: {site}" {
		t.Errorf("the identity is %q, and that of the table %q", page.Identity, c.Fleet.Services[0].Remote.Checks[0].HTTP.Identity)
	}
	if got := c.Probes("fra", "nowhere"); got != nil {
		t.Errorf("who is no vantage looks at %v", got)
	}
	if got := c.Probes("home", "ams"); got != nil {
		t.Errorf("a witness is looked at: %v", got)
	}
}

// TestOnlyVantagesLook: in a fleet of ten and more not everybody looks at everybody.
func TestOnlyVantagesLook(t *testing.T) {
	var b strings.Builder
	b.WriteString("sites:\n")
	for i := range 30 {
		fmt.Fprintf(&b, "  - {name: s%02d, region: r%d, upstreams: [u%d], address: [203.0.113.%d]}\n", i, i%5, i%4, i+1)
	}
	b.WriteString("services:\n  - name: web\n    prefixes: [192.0.2.80/32]\n    health: {interval: 2s}\n" +
		"    checks: [{name: port, kind: tcp, target: \"192.0.2.80:80\"}]\n" +
		"    remote: {interval: 3s, checks: [{name: port, kind: tcp, target: \"{address}:80\"}]}\n")
	f, ps := alone("fleet.yaml", []byte(b.String()))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	c := &Config{Fleet: f}
	looks := map[string]int{}
	for _, v := range f.Sites {
		for _, s := range c.Looks(v.Name) {
			if s.Subject != v.Name {
				looks[s.Subject]++
				if s.Interval != 3*time.Second || len(c.Probes(s.Subject, v.Name)) != 1 {
					t.Errorf("%s, and by itself %v", told(s), c.Probes(s.Subject, v.Name))
				}
			}
		}
	}
	for _, s := range f.Sites {
		if looks[s.Name] != 9 {
			t.Errorf("%d look at %s", looks[s.Name], s.Name)
		}
	}
}

// TestWhereWordsAreFilledIn writes a placeholder into every text of a check: it
// is filled in where that is documented, and nowhere else.
func TestWhereWordsAreFilledIn(t *testing.T) {
	for _, section := range []string{"", "DNS", "HTTP", "TCP", "TLS", "GRPC", "Prometheus", "Exec"} {
		var c probe.Check
		v := reflect.ValueOf(&c).Elem()
		if section != "" {
			f := v.FieldByName(section)
			f.Set(reflect.New(f.Type().Elem()))
			v = f.Elem()
		}
		for i := range v.NumField() {
			switch f := v.Field(i); f.Interface().(type) {
			case string:
				f.SetString("{site}")
			case []string:
				f.Set(reflect.ValueOf([]string{"{site}", "x{site}"}))
			}
		}
		before := leavesOf(c, false)
		for i, l := range leavesOf(about(c, strings.NewReplacer("{site}", "fra")), false) {
			if !strings.Contains(before[i].value, "{site}") {
				continue
			}
			if done := !strings.Contains(l.value, "{site}"); done != isReplaced(l.path) {
				t.Errorf("%s: filled in is %v, documented %v", l.path, done, isReplaced(l.path))
			}
		}
		if after := leavesOf(c, false); !slices.Equal(before, after) {
			t.Errorf("the check itself was changed: %v", after)
		}
	}
}

// TestWhichAddress: a service's own address is before the site's, by family.
func TestWhichAddress(t *testing.T) {
	f, ps := alone("fleet.yaml", []byte(`sites:
  - {name: ams, address: ["2001:db8:a::1", 203.0.113.1], addresses: {dns: [203.0.113.53]}}
  - {name: fra, addresses: {web: [203.0.113.2], dns: ["2001:db8:f::53", 203.0.113.3]}}
  - {name: iad, address: ["2001:db8:1::1", 203.0.113.4]}
services:
  - name: web
    prefixes: [192.0.2.80/32]
    checks: [{name: port, kind: tcp, target: "192.0.2.80:80"}]
    remote: {checks: [{name: port, kind: tcp, target: "{address}:80"}]}
  - name: dns
    prefixes: [192.0.2.53/32]
    checks: [{name: port, kind: tcp, target: "192.0.2.53:53"}]
    remote: {checks: [{name: port, kind: tcp, target: "{address}:53"}, {name: port6, kind: tcp, target: "[{address6}]:53"}]}
`))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	for site, want := range map[string]string{
		"ams": "203.0.113.1:80 203.0.113.53:53 [2001:db8:a::1]:53",
		"fra": "203.0.113.2:80 203.0.113.3:53 [2001:db8:f::53]:53",
		"iad": "203.0.113.4:80 203.0.113.4:53 [2001:db8:1::1]:53",
	} {
		var got []string
		for _, s := range (&Config{Fleet: f}).Probes(site, map[bool]string{true: "ams", false: "iad"}[site != "ams"]) {
			for _, c := range s.Checks {
				got = append(got, c.Target)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is reached at %v, want %s", site, got, want)
		}
	}
}
