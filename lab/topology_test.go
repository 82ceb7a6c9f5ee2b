package lab

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// The files are containerlab's: they fit the schema it publishes. That file is
// not ours to ship; CLAB_SCHEMA says where it lies.
func TestTopologiesFitContainerlabsSchema(t *testing.T) {
	path := os.Getenv("CLAB_SCHEMA")
	if path == "" {
		t.Skip("CLAB_SCHEMA is not set: it names a copy of containerlab's schemas/clab.schema.json, against which the topologies would be checked")
	}
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files(t, "containerlab/*.clab.yml", "") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := expand(file, string(b), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		// A checker that takes everything would be none.
		if err := schema.Validate(asJSON(t, text+"\nno-such-key: 1\n")); err == nil {
			t.Errorf("%s: the schema takes a key that containerlab does not have", file)
		}
	}
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is bound into a node exists, but for what a fleet makes first, and is the
// node's own or the fleet's; the single ones differ in their router only.
func TestTopologies(t *testing.T) {
	kinds := map[string]int{}
	for _, file := range files(t, "containerlab/*.clab.yml", "") {
		topo, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		single := strings.HasPrefix(topo.Name, "single-")
		var names []string
		for _, n := range topo.Nodes {
			names = append(names, n.Name)
			if kind := routerOf(n.Image); kind != "" && topo.Name == "fleet" {
				kinds[kind]++
			}
			for _, b := range topo.binds(n) {
				if made := filepath.Join("containerlab", "fleet-pki"); filepath.Dir(b.from) == made && !single {
					continue
				}
				if _, err := os.Stat(b.from); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				if dir := filepath.Join("containerlab", "configs", n.Name); single && filepath.Dir(b.from) != dir {
					t.Errorf("%s: %s is not in %s", file, b.from, dir)
				}
			}
		}
		if !single {
			continue
		}
		if want := []string{"tor", "edge", "service"}; !slices.Equal(names, want) {
			t.Errorf("%s has the nodes %v, want %v", file, names, want)
		}
		if kind := routerOf(topo.node("tor").Image); "single-"+kind != topo.Name {
			t.Errorf("%s holds %q", file, kind)
		}
		if r := routerOf(topo.node("edge").Image); r != "" {
			t.Errorf("%s: the edge is taken for %s", file, r)
		}
	}
	if want := map[string]int{"frr": 2, "bird": 1, "openbgpd": 1}; !maps.Equal(kinds, want) {
		t.Errorf("the routers of the fleet, and of what lies between, are %v", kinds)
	}
}

const good = `name: x
topology:
  defaults: {kind: linux, network-mode: none}
  nodes:
    b: {image: "${IMG:=bird:2}", exec: ["ip link"]}
    a:
      image: ${OTHER:-plain}
      network-mode: container:b
      env: {K: v}
  links:
    - endpoints: ["b:eth1", "b:eth2"]
`

func TestParseTopology(t *testing.T) {
	topo, err := parseTopology("x.clab.yml", good, func(k string) string { return map[string]string{"OTHER": "mine:1"}[k] })
	if err != nil {
		t.Fatal(err)
	}
	if got := topo.Nodes[0]; got.Name != "b" || got.Image != "bird:2" || got.Kind != "linux" || got.NetworkMode != "none" {
		t.Errorf("the first node is %+v", got)
	}
	if got := topo.Nodes[1]; got.Name != "a" || got.Image != "mine:1" || got.NetworkMode != "container:b" || got.Env["K"] != "v" {
		t.Errorf("the second node is %+v", got)
	}
}

// Every mistake is named with its line, and a key that would not be built is one.
func TestTopologyMistakes(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"name: x", "mgmt: {network: m}\nname: x", `x.clab.yml:1: unknown key "mgmt": this runner would not build it`},
		{"env: {K: v}", "startup-delay: 5", `x.clab.yml:9: unknown key "startup-delay"`},
		{"env: {K: v}", "env: [v]", `x.clab.yml:9: cannot unmarshal`},
		{"endpoints: [", "vars: {}\n      endpoints: [", `x.clab.yml:11: unknown key "vars"`},
		{"kind: linux", "kind: nokia_srlinux", `b.kind: "nokia_srlinux"; only linux nodes are built here`},
		{", network-mode: none", "", `x.clab.yml:5: b.network-mode: ""; write none`},
		{"container:b", "container:c", `x.clab.yml:6: a.network-mode: "c" is no other node`},
		{"container:b", "host", `a.network-mode: "host"`},
		{`exec: ["ip link"]`, `exec: ["ip 'link"]`, "a quote is open"},
		{`exec: ["ip link"]`, `binds: ["x:y"]`, `b.binds: "x:y"; write source:/target`},
		{"b:eth2", "c:eth2", `topology.links[0]: "c:eth2": no node "c"`},
		{"b:eth2", "b:an-interface-too-long", "1 to 15 characters"},
		{"b:eth2", "a:eth2", "has no network of its own"},
		{"${IMG:=bird:2}", "${IMG?}", `x.clab.yml:5: "${IMG?}" is not a variable`},
		{"${IMG:=bird:2}", "", "b.image: missing"},
		{"name: x", "name: [x", "x.clab.yml:"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q is not in the text", c.old)
		}
		_, err := parseTopology("x.clab.yml", text, func(string) string { return "" })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s → %s: got %v, want %s", c.old, c.new, err, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{``, nil},
		{`  a  b `, []string{"a", "b"}},
		{`a 'b c' "d e"f`, []string{"a", "b c", "d ef"}},
		{`'' ""`, []string{"", ""}},
		{`sh -c "x && 'y'"`, []string{"sh", "-c", "x && 'y'"}},
		{`a\ b "\"" "\n" '\'`, []string{"a b", `"`, `\n`, `\`}},
	} {
		got, err := words(c.line)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.line, got, err, c.want)
		}
	}
	for _, bad := range []string{`'a`, `"a`, `a\`} {
		if got, err := words(bad); err == nil {
			t.Errorf("%s: got %q, want an error", bad, got)
		}
	}
}
