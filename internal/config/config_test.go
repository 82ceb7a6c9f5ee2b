package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// good is a small node without a mistake.
const good = `site: fra
services:
  - name: web
    prefixes: [192.0.2.0/24, "2001:db8:80::80/128"]
    vips: [192.0.2.80]
    checks: [{name: port, kind: tcp, target: "192.0.2.80:80"}]
bgp:
  asn: 65010
  router_id: 10.0.0.10
  neighbors: [{name: tor1, address: 10.0.0.1, asn: 65001, next_hop6: "2001:db8::10"}]
`

// load loads a text as node.yaml, with nothing from outside.
func load(t testing.TB, src string) *Config {
	t.Helper()
	c, ps := loading{env: []string{}, open: read}.node("node.yaml", []byte(src))
	if c == nil {
		t.Fatalf("%v", ps)
	}
	return c
}

func write(t testing.TB, name, src string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoad(t *testing.T) {
	c, ps := Load(Options{File: write(t, "node.yaml", good), Env: []string{}})
	if len(ps) > 0 {
		t.Fatalf("%v", ps)
	}
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.80/32"), netip.MustParsePrefix("2001:db8:80::80/128")}
	if got := c.VIPs(); !slices.Equal(got, want) {
		t.Errorf("VIPs %v, want %v", got, want)
	}
	table := c.Table()
	if got := table.Sites; len(got) != 1 || got[0].Name != "fra" {
		t.Errorf("a solo node's table has the sites %v", got)
	}
	if got := table.Services[0].Health.HoldUp; got != 5*time.Minute {
		t.Errorf("hold_up is %v without being written, want the default 5m", got)
	}
	if got := c.Node.BGP.Allow; !slices.Equal(got, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:80::80/128")}) {
		t.Errorf("allow is %v, want the services' prefixes", got)
	}
	probes := c.Probes("fra", "fra")
	if len(probes) != 1 || probes[0].Subject != "fra" || probes[0].Vantage != "fra" || probes[0].Interval != time.Second || len(probes[0].Checks) != 1 {
		t.Errorf("probes %+v", probes)
	}
	if got := c.Probes("fra", "ams"); got != nil {
		t.Errorf("a solo node has no vantages, but got %+v", got)
	}
	if got := c.Probes("ams", "ams"); got != nil {
		t.Errorf("a site that serves nothing looks at %+v", got)
	}
}

// TestWrittenZerosHold: a zero that means something is kept.
func TestWrittenZerosHold(t *testing.T) {
	src := strings.Replace(good, "    vips:", "    health: {down_for: 0}\n    vips:", 1) + "stop: {drain: 0, after_withdraw: 0s}\n"
	c := load(t, src)
	if d := c.Fleet.Services[0].Health.DownFor; d == nil || *d != 0 {
		t.Errorf("down_for: 0 came to %v", d)
	}
	if s := c.Node.Stop; s.Drain != 0 || s.AfterWithdraw != 0 || s.Timeout != 15*time.Second {
		t.Errorf("stop came to %+v", s)
	}
}

func TestTableFile(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{
		"node.yaml": "site: fra\ntable: tables/fra.yaml\nbgp:\n  asn: 65010\n  router_id: 10.0.0.10\n  allow: [192.0.2.0/24]\n" +
			"  neighbors: [{name: tor1, address: 10.0.0.1, asn: 65001}]\n",
		"tables/fra.yaml": "revision: 7\nsites: [{name: fra}]\nservices:\n  - name: web\n    prefixes: [192.0.2.80/32]\n" +
			"    checks: [{name: port, kind: tcp, target: \"192.0.2.80:80\"}]\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, ps := Load(Options{File: filepath.Join(dir, "node.yaml"), Env: []string{}})
	if len(ps) > 0 {
		t.Fatalf("%v", ps)
	}
	if c.TableFile != filepath.Join(dir, "tables/fra.yaml") || c.Table().Revision != 7 || len(c.Table().Services) != 1 {
		t.Errorf("table %s gave %+v", c.TableFile, c.Table())
	}
}

// TestLayers lays environment over file and flags over both.
func TestLayers(t *testing.T) {
	file := write(t, "node.yaml", good+"log: {level: warn}\nmetrics: {listen: \"off\"}\nstate_dir: /srv/file\nrun_dir: /run/file\n")
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("log-format", "text", "the caller's own flag of that name is used as it is")
	AddFlags(fs)
	if err := fs.Parse([]string{"--log-level=error", "--run-dir", "/run/flag"}); err != nil {
		t.Fatal(err)
	}
	c, ps := Load(Options{File: file, Flags: fs, Env: []string{
		"STEADYCAST_LOG_LEVEL=debug", "STEADYCAST_LOG_FORMAT=json", "STEADYCAST_STATE_DIR=/srv/env", "STEADYCAST_RUN_DIR=/run/env",
		"STEADYCAST_SITE=", "STEADYCAST_CONFIG=/elsewhere", "HOME=/root",
		"STEADYCAST_SERVICE_HOST=10.96.0.1", "STEADYCAST_PORT=tcp://10.96.0.1:179", "STEADYCAST_PORT_179_TCP_ADDR=10.96.0.1",
	}})
	if len(ps) > 0 {
		t.Fatalf("%v", ps)
	}
	n := c.Node
	for _, x := range []struct{ what, got, want string }{
		{"a flag over a variable over the file", n.Log.Level, "error"},
		{"a variable over the default, the flag not given", n.Log.Format, "json"},
		{"a variable over the file", n.StateDir, "/srv/env"},
		{"a flag over a variable over the file", n.RunDir, "/run/flag"},
		{"what rests on a flag", n.Socket, "/run/flag/agent.sock"},
		{"the file over the default", n.Metrics.Listen, "off"},
		{"an empty variable is not set", n.Site, "fra"},
		{"the default", n.Fleet, "default"},
		{"what rests on the file", n.Node, "fra-1"},
	} {
		if x.got != x.want {
			t.Errorf("%s: %q, want %q", x.what, x.got, x.want)
		}
	}
}

// TestEveryLayeredSetting sets each by variable and by flag.
func TestEveryLayeredSetting(t *testing.T) {
	for _, s := range settings {
		value := map[string]string{
			"mode": "solo", "log.level": "error", "log.format": "json", "metrics.listen": "[::1]:1", "site": "ams", "node": "ams-9", "fleet": "edge",
			"socket_group": "ops", "table": "missing.yaml",
		}[s.path]
		if value == "" {
			value = "/run/" + s.flag
		}
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFlags(fs)
		if err := fs.Parse([]string{"--" + s.flag, value}); err != nil {
			t.Fatal(err)
		}
		for from, l := range map[string]loading{s.env: {env: []string{s.env + "=" + value}, open: read}, "--" + s.flag: {flags: fs, open: read}} {
			c, ps := l.node("node.yaml", []byte(good))
			if s.path == "table" { // there is no such file, which must be said of where it was named
				if len(ps) == 0 || !slices.ContainsFunc(ps, func(p Problem) bool { return p.Place.File == from && p.Path == "table" }) {
					t.Errorf("%s=%s: %v", from, value, ps)
				}
				continue
			}
			if c == nil {
				t.Errorf("%s=%s: %v", from, value, ps)
			} else if !slices.Contains(c.Effective(), s.path+": "+value) {
				t.Errorf("%s=%s changes nothing", from, value)
			}
		}
	}
}

// TestOutsideProblems: what a variable or flag gets wrong is told of it by name.
func TestOutsideProblems(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse([]string{"--log-format=xml", "--site="}); err != nil {
		t.Fatal(err)
	}
	_, ps := loading{flags: fs, open: read, env: []string{"STEADYCAST_LOG_LEVEL=loud", "STEADYCAST_LOG_LEVLE=info", "STEADYCAST_COLOUR=blue"}}.node("node.yaml", []byte(good))
	got := ps.Lines()
	slices.Sort(got)
	want := []string{
		`--log-format: log.format: "xml" is not known; allowed: text, json`,
		`--site: site: is missing; allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -`,
		`STEADYCAST_COLOUR: warning: is not a variable of steadycast; it is ignored`,
		`STEADYCAST_LOG_LEVEL: log.level: "loud" is not known; allowed: debug, info, warn, error`,
		`STEADYCAST_LOG_LEVLE: unknown variable; did you mean STEADYCAST_LOG_LEVEL?`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	fine, bad := filepath.Join(dir, "fine.yaml"), filepath.Join(dir, "bad.yaml")
	for file, src := range map[string]string{fine: good, bad: good + "zone: 1\n"} {
		if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cleanEnv(t)
	if lines, ok := Report([]string{fine}, Check(fine)); !ok || !slices.Equal(lines, []string{fine + ": ok"}) {
		t.Errorf("a good file: %v, ok %v", lines, ok)
	}
	lines, ok := Report([]string{fine, bad}, Check(fine, bad))
	if ok || len(lines) != 3 || !strings.HasPrefix(lines[0], bad+":11:1: zone: unknown key") || lines[1] != fine+": ok" || lines[2] != bad+": 1 problem" {
		t.Errorf("a good and a bad file: ok %v\n%s", ok, strings.Join(lines, "\n"))
	}
}

// TestEveryMisspeltKeyIsFound appends a letter to each key of the references
// and wants just that told, with the right key, at its place.
func TestEveryMisspeltKeyIsFound(t *testing.T) {
	for _, name := range []string{"node.yaml", "fleet.yaml"} {
		src, err := os.ReadFile(filepath.Join(configs, name))
		if err != nil {
			t.Fatal(err)
		}
		var into any = new(Node)
		if name == "fleet.yaml" {
			into = new(Fleet)
		}
		plain := strings.Split(string(src), "\n")
		lines := strings.Split(with(plain, shownLines(plain)...), "\n")
		r := newReader(name)
		if ps := r.read([]byte(strings.Join(lines, "\n")), into); ps != nil {
			t.Fatal(ps)
		}
		tried := 0
		for path, m := range r.marks {
			key := path[strings.LastIndex(path, ".")+1:]
			line := lines[max(m.key.Line-1, 0)]
			at := len(string([]rune(line)[:m.key.Col-1]))
			if path == "" || strings.HasSuffix(path, "]") || inside(path, parent(path)) && strings.Contains(parent(path), "headers") || strings.Contains(path, ".env.") || strings.Contains(path, ".addresses.") || !strings.HasPrefix(line[at:], key+":") {
				continue // no key of ours stands there
			}
			tried++
			broken := slices.Clone(lines)
			broken[m.key.Line-1] = line[:at] + key + "q" + line[at+len(key):]
			again := newReader(name)
			ps := again.read([]byte(strings.Join(broken, "\n")), into)
			likely := "" // the key itself, or another as near: header and headers
			if len(ps) == 1 {
				_, after, _ := strings.Cut(ps[0].Text, `did you mean "`)
				likely, _, _ = strings.Cut(after, `"?`)
			}
			if len(ps) != 1 || ps[0].Place != m.key || ps[0].Path != path+"q" || distance(likely, key+"q") > 1 {
				t.Errorf("%s written %sq at %v: %v", path, key, m.key, ps)
			}
		}
		if tried < 50 {
			t.Errorf("only %d keys of %s were tried", tried, name)
		}
	}
}
