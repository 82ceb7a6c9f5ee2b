package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
)

const fleetNode = `mode: fleet
fleet: edge
site: SITE
roles: [speaker, agent]
mesh: {listen: 198.51.100.2:7482}
ledger:
  peers:
    - {node: ams-1, address: 198.51.100.1:7481, failure_domain: ams, mesh: 198.51.100.1:7483}
    - {node: fra-1, address: 198.51.100.2:7481, failure_domain: fra, mesh: 198.51.100.2:7483}
    - {node: lon-1, address: 198.51.100.3:7481, failure_domain: lon, mesh: 198.51.100.3:7483}
bgp:
  asn: 65010
  router_id: 10.0.0.10
  allow: [192.0.2.0/24]
  neighbors: [{name: tor1, address: 10.0.0.1, asn: 65001}]
exec: [/usr/bin/true]
`

const fleetTable = `# what all sites serve
sites:
  - {name: ams, address: [198.51.100.1], nodes: [{name: ams-1, mesh: 198.51.100.1:7482}]}
  - {name: fra, address: [198.51.100.2], nodes: [{name: fra-1, mesh: 198.51.100.2:7482}]}
  - {name: lon, address: [198.51.100.3], nodes: [{name: lon-1, mesh: 198.51.100.3:7482}]}
services:
  - name: web
    prefixes: [192.0.2.80/32]
    health: {fall: 2}
    checks: [{name: port, kind: tcp, target: "192.0.2.80:80"}]
    remote: {checks: [{name: port, kind: tcp, target: "{address}:80"}]}
  - name: dns
    prefixes: [192.0.2.53/32]
    checks: [{name: own, kind: exec, exec: {argv: [/usr/bin/true]}}]
    remote: {checks: [{name: port, kind: tcp, target: "{address}:53"}]}
`

// fleetConfig is a node of a fleet, without a table.
func fleetConfig(t *testing.T, site string) *Config {
	t.Helper()
	cleanEnv(t)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(fleetNode, "SITE", site, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, ps := Load(Options{File: file})
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// committed is what a ledger makes of a table's text: it counts revisions, fills
// in defaults, and keeps it as JSON.
func committed(t *testing.T, text string) decide.Table {
	t.Helper()
	f, ps := ParseTable("fleet.yaml", []byte(text))
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	table := f.Table().WithDefaults()
	table.Revision = 41
	b, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	var kept decide.Table
	if err := json.Unmarshal(b, &kept); err != nil {
		t.Fatal(err)
	}
	return kept
}

func names(c *Config, site string) []string {
	var out []string
	for _, p := range c.Probes(site, site) {
		out = append(out, p.Name)
	}
	return out
}

// TestWithCommitted: a node without services makes them of the committed text,
// checks and all.
func TestWithCommitted(t *testing.T) {
	c := fleetConfig(t, "fra")
	if got := c.Probes("fra", "fra"); len(got) != 0 {
		t.Fatalf("it probes %v before there is a table", got)
	}
	next, ps, err := c.With(committed(t, fleetTable))
	if err != nil || ps.Fatal() > 0 {
		t.Fatal(err, ps)
	}
	if got := names(next, "fra"); !slices.Equal(got, []string{"web", "dns"}) {
		t.Errorf("it probes %v", got)
	}
	if got := next.Probes("fra", "fra")[0]; got.Interval != time.Second || got.Checks[0].Target != "192.0.2.80:80" {
		t.Errorf("%+v", got)
	}
	if next.Fleet.Revision != 41 || len(next.VIPs()) != 2 || next.Fleet.Sites[1].Nodes[0].Mesh.Port() != 7482 {
		t.Errorf("%+v", next.Fleet)
	}
	if c.Fleet.Services != nil {
		t.Error("it wrote to the configuration that it was made of")
	}
	// A newer voter may have committed the same of another form of it.
	other := committed(t, fleetTable)
	other.Source += "# a word\n"
	if _, _, err := c.With(other); err != nil {
		t.Error(err)
	}
}

// TestCommittedUnfit: what cannot be used as a whole is refused, with its place;
// what does not fit this node costs the service that it is about, and no other.
func TestCommittedUnfit(t *testing.T) {
	good := committed(t, fleetTable)
	change := func(f func(*decide.Table)) decide.Table {
		b, _ := json.Marshal(good)
		var other decide.Table
		if err := json.Unmarshal(b, &other); err != nil {
			t.Fatal(err)
		}
		f(&other)
		return other
	}
	for _, x := range []struct {
		name  string
		table decide.Table
		err   string
	}{
		{"no text", change(func(t *decide.Table) { t.Source = "" }), "the ledger has no text for it"},
		{"another text", change(func(t *decide.Table) { t.Source = strings.Replace(t.Source, "fall: 2", "fall: 3", 1) }), "does not say what the ledger committed: services"},
		{"another floor", change(func(t *decide.Table) { t.Guards.Cooldown = time.Hour }), "does not say what the ledger committed: guards"},
		{"of a later version", change(func(t *decide.Table) { t.Source += "shiny: true\n" }), `fleet.yaml:16:1: shiny: unknown key "shiny"`},
		{"no YAML", change(func(t *decide.Table) { t.Source = "sites: [" }), "fleet.yaml:1:"},
	} {
		if c, _, err := fleetConfig(t, "fra").With(x.table); err == nil || !strings.Contains(err.Error(), x.err) || c != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	for _, x := range []struct {
		name, site, old, new string
		want                 string // the problem
		left                 []string
	}{
		{"a program that the table may not run", "fra", "argv: [/usr/bin/true]", "argv: [/bin/sh]",
			`fleet.yaml:14:52: services[1].checks[0].exec.argv[0]: "/bin/sh" is not among exec: of node.yaml`, []string{"web"}},
		{"a prefix outside the allow-list", "fra", "prefixes: [192.0.2.53/32]", "prefixes: [203.0.113.53/32]",
			"fleet.yaml:13:16: services[1].prefixes[0]: 203.0.113.53/32 is outside bgp.allow (192.0.2.0/24)", []string{"web"}},
		{"a neighbour that is not here", "fra", "kind: exec, exec: {argv: [/usr/bin/true]}", "kind: bgp, target: tor9",
			`"tor9" is not a neighbour`, []string{"web"}},
		{"a site that is not this one's", "par", "", "", "site: \"par\" is not a site of fleet.yaml", nil},
		{"a node that nobody is told of", "fra", "fra-1", "fra-7", "fleet.yaml:4:49: sites[1].nodes: does not name fra-1", []string{"web", "dns"}},
		{"a service of other sites", "fra", "argv: [/usr/bin/true]}}]", "argv: [/bin/sh]}}]\n    sites: [ams, lon]", "", []string{"web"}},
	} {
		c, ps, err := fleetConfig(t, x.site).With(committed(t, strings.Replace(fleetTable, x.old, x.new, 1)))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		lines := strings.Join(ps.Lines(), "\n")
		if x.want == "" && ps.Fatal() > 0 || !strings.Contains(lines, x.want) {
			t.Errorf("%s: it says\n%s", x.name, lines)
		}
		if got := names(c, x.site); !slices.Equal(got, x.left) {
			t.Errorf("%s: it probes %v, want %v", x.name, got, x.left)
		}
		if len(c.VIPs()) != len(x.left) {
			t.Errorf("%s: addresses %v", x.name, c.VIPs())
		}
	}
}

// TestTableTextIsKept: what a file says goes along with the table it makes.
func TestTableTextIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(fleetTable), 0o600); err != nil {
		t.Fatal(err)
	}
	f, ps := LoadTable(file)
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	if got := f.Table().Source; got != fleetTable {
		t.Errorf("the text is %q", got)
	}
	if err := os.WriteFile(file, []byte(fleetTable+strings.Repeat("# much\n", decide.MaxSource/7)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ps := LoadTable(file); ps.Err() == nil || !strings.Contains(ps[0].Text, "the ledger carries 1048576") {
		t.Errorf("it says %v", ps)
	}
}

// TestFileNotInForce: a process of a fleet starts whatever the file is like that
// its node.yaml names to be judged with; check minds it.
func TestFileNotInForce(t *testing.T) {
	cleanEnv(t)
	file := filepath.Join(t.TempDir(), "node.yaml")
	text := strings.Replace(fleetNode, "SITE", "fra", 1) + "table: gone.yaml\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ps := Load(Options{File: file}); ps.Err() != nil {
		t.Error(ps)
	}
	if ps := Check(file); ps.Err() == nil || !strings.Contains(ps.Error(), "gone.yaml") {
		t.Errorf("check says %v", ps)
	}
}

// TestDiffTables: what only the text of two tables says is told, too; a comment
// is a change of nothing else.
func TestDiffTables(t *testing.T) {
	for _, x := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"a comment", "# what all", "# what else all", "the text of the table changes, and nothing that it says"},
		{"a check", "192.0.2.80:80", "192.0.2.80:81", "services[web].checks[port].target 192.0.2.80:80 → 192.0.2.80:81: no session or route is touched"},
		{"a rule", "fall: 2", "fall: 4", "services[web].health.fall 2 → 4: no session or route is touched"},
		{"an address", "address: [198.51.100.3]", "address: [198.51.100.4]", "sites[lon].address"},
	} {
		var lines []string
		for _, c := range DiffTables(committed(t, fleetTable), committed(t, strings.Replace(fleetTable, x.old, x.new, 1))) {
			lines = append(lines, c.Text)
		}
		got := strings.Join(lines, "\n")
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%s: %s", x.name, got)
		}
	}
}
