package config

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/bgp"
)

// edit gives the text with each old part replaced by a new one.
func edit(t *testing.T, src string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(src, pairs[i]) {
			t.Fatalf("%q is not in the text", pairs[i])
		}
		src = strings.Replace(src, pairs[i], pairs[i+1], 1)
	}
	return src
}

// TestDiff: what a reload changes, and that nothing but what must be is reset.
func TestDiff(t *testing.T) {
	const nb = "{name: tor1, address: 10.0.0.1, asn: 65001, next_hop6: \"2001:db8::10\"}"
	for _, c := range []struct {
		name string
		edit []string
		want []string
	}{
		{"nothing", nil, nil},
		{"layout only", []string{"site: fra", "# a comment\nsite:    \"fra\""}, nil},
		{"a default written out", []string{"asn: 65001,", "asn: 65001, hold_time: 9s, port: 179,"}, nil},
		{"entries in another order", []string{`[192.0.2.0/24, "2001:db8:80::80/128"]`, `["2001:db8:80::80/128", 192.0.2.0/24]`}, nil},
		{"policy", []string{"    vips:", "    health: {fall: 5}\n    vips:"}, []string{
			"services[web].health.fall 3 → 5: no session or route is touched",
		}},
		{"a guard", []string{"bgp:", "guards: {cooldown: 10m}\nbgp:"}, []string{
			"guards.cooldown 5m0s → 10m0s: no session or route is touched",
		}},
		{"a check", []string{"[{name: port,", "[{name: page, kind: http, target: http://192.0.2.80/}, {name: port,"}, []string{
			"services[web].checks[page] added: no session or route is touched",
		}},
		{"a community", []string{nb, "{name: tor1, address: 10.0.0.1, asn: 65001, next_hop6: \"2001:db8::10\", communities: [\"1:1\"]}"}, []string{
			"bgp.neighbors[tor1].communities[1:1] added: routes are sent once more to tor1, sessions stay",
		}},
		{"a prefix's community", []string{"bgp:", "prefixes: [{prefix: 192.0.2.0/24, communities: [\"1:1\"]}]\nbgp:"}, []string{
			"prefixes[192.0.2.0/24] added: routes are sent once more to every neighbour, sessions stay",
		}},
		{"a hold time", []string{"asn: 65001,", "asn: 65001, hold_time: 30s, keepalive: 3s,"}, []string{
			"bgp.neighbors[tor1].hold_time 9s → 30s: the session with tor1 is reset",
		}},
		{"a pause between attempts", []string{"asn: 65001,", "asn: 65001, connect_retry: 5s,"}, []string{
			"bgp.neighbors[tor1].connect_retry 2s → 5s: no session or route is touched",
		}},
		{"families in another order", []string{"asn: 65001,", "asn: 65001, families: [ipv6, ipv4],"}, nil},
		{"a password", []string{"asn: 65001,", "asn: 65001, password: hunter2,"}, []string{
			"bgp.neighbors[tor1].password changed: the session with tor1 is reset",
		}},
		{"a new neighbour", []string{"[{name: tor1", "[{name: tor2, address: 10.0.0.2, asn: 65001, families: [ipv4]}, {name: tor1"}, []string{
			"bgp.neighbors[tor2] added: a session with tor2 is opened",
		}},
		{"another neighbour", []string{"name: tor1", "name: tor9"}, []string{
			"bgp.neighbors[tor1] removed: the session with tor1 is closed",
			"bgp.neighbors[tor9] added: a session with tor9 is opened",
		}},
		{"the AS", []string{"asn: 65010", "asn: 65011"}, []string{
			"bgp.asn 65010 → 65011: the session with every neighbour is reset",
		}},
		{"a prefix", []string{"[192.0.2.0/24,", "[192.0.2.0/24, 198.51.100.1/32,"}, []string{
			"bgp.allow[198.51.100.1/32] added: what is announced changes",
			"services[web].prefixes[198.51.100.1/32] added: what is announced changes",
		}},
		{"an address", []string{"[192.0.2.80]", "[192.0.2.80, 192.0.2.81]"}, []string{
			"services[web].vips[192.0.2.81] added: addresses of this host change",
		}},
		{"paths and log", []string{"site: fra", "site: fra\nlog: {level: debug}\nstate_dir: /srv/x"}, []string{
			"state_dir /var/lib/steadycast → /srv/x: holds after a restart",
			"log.level info → debug: holds after a restart",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, next := load(t, good), load(t, edit(t, good, c.edit...))
			var got []string
			for _, x := range Diff(old, next) {
				got = append(got, x.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if back := Diff(next, old); len(back) != len(got) {
				t.Errorf("there are %d changes one way and %d the other: %v", len(got), len(back), back)
			}
			if same := old.Hash() == next.Hash(); same != (len(got) == 0) && c.name != "a password" && c.name != "entries in another order" {
				t.Errorf("%d changes, and the hash is the same: %v", len(got), same)
			}
		})
	}
}

// TestDiffSeesAnotherPassword: the file's path stays, its content changes.
func TestDiffSeesAnotherPassword(t *testing.T) {
	file := write(t, "tor1.md5", "hunter2\n")
	src := edit(t, good, "asn: 65001,", "asn: 65001, password_file: "+file+",")
	old := load(t, src)
	if d := Diff(old, load(t, src)); len(d) > 0 {
		t.Fatalf("nothing changed, but %v", d)
	}
	if err := os.WriteFile(file, []byte("hunter3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := Diff(old, load(t, src))
	if len(d) != 1 || d[0].Effect != EffectReset || d[0].Peer != "tor1" || d[0].String() != "bgp.neighbors[tor1].password_file content changed: the session with tor1 is reset" {
		t.Errorf("%v", d)
	}
}

// TestDiffSeesTheSamePasswordElsewhere: moving a secret into a file resets nothing.
func TestDiffSeesTheSamePasswordElsewhere(t *testing.T) {
	old := load(t, edit(t, good, "asn: 65001,", "asn: 65001, password: hunter2,"))
	next := load(t, edit(t, good, "asn: 65001,", "asn: 65001, password_file: "+write(t, "tor1.md5", "hunter2\n")+","))
	for _, c := range Diff(old, next) {
		if c.Effect != EffectPolicy {
			t.Errorf("%v", c)
		}
	}
	// Two files that cannot be seen from here may hold anything.
	const hidden = "asn: 65001, password_file: /run/credentials/steadycast-speaker.service/"
	a, b := load(t, edit(t, good, "asn: 65001,", hidden+"a,")), load(t, edit(t, good, "asn: 65001,", hidden+"b,"))
	if d := Diff(a, b); len(d) != 1 || d[0].Effect != EffectReset {
		t.Errorf("%v", d)
	}
}

// TestDiffSaysWhatTheSpeakerDoes changes each setting of a neighbour, and wants
// the same of Diff as of the speaker's own plan.
func TestDiffSaysWhatTheSpeakerDoes(t *testing.T) {
	base := edit(t, good, "address: 10.0.0.1,", "address: 127.0.0.1, port: 1,", "next_hop6: \"2001:db8::10\"", "next_hop6: \"2001:db8::10\", next_hop4: 10.0.0.10")
	old := load(t, base)
	s, err := bgp.New(old.Node.BGP, bgp.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(t.Context(), "the test is over")
	of := map[Effect]bgp.ChangeKind{
		EffectPolicy: bgp.ChangeNone, EffectUpdate: bgp.ChangeAttributes, EffectReset: bgp.ChangeReset,
		EffectSession: bgp.ChangeAdd,
	}
	edits := map[string][]string{
		"address": {"127.0.0.1", "127.0.0.2"}, "port": {"port: 1", "port: 2"}, "asn": {"asn: 65001", "asn: 65002"},
		"local_asn": {"asn: 65001", "asn: 65001, local_asn: 65099"}, "local_address": {"asn: 65001", "asn: 65001, local_address: 127.0.0.9"},
		"bind_device": {"asn: 65001", "asn: 65001, bind_device: lo"}, "passive": {"asn: 65001", "asn: 65001, passive: true, listen_port: 1179"},
		"password": {"asn: 65001", "asn: 65001, password: hunter2"}, "ttl_security": {"asn: 65001", "asn: 65001, ttl_security: 1"},
		"multihop": {"asn: 65001", "asn: 65001, multihop: 3"}, "hold_time": {"asn: 65001", "asn: 65001, hold_time: 30s, keepalive: 3s"},
		"keepalive": {"asn: 65001", "asn: 65001, keepalive: 2s"}, "connect_retry": {"asn: 65001", "asn: 65001, connect_retry: 9s"},
		"bfd":      {"asn: 65001", "asn: 65001, bfd: {}"},
		"families": {"asn: 65001", "asn: 65001, families: [ipv6, ipv4]"}, "next_hop4": {"10.0.0.10}", "10.0.0.11}"}, "next_hop6": {"2001:db8::10", "2001:db8::11"},
		"communities": {"asn: 65001", "asn: 65001, communities: [\"1:1\"]"}, "large_communities": {"asn: 65001", "asn: 65001, large_communities: [\"1:1:1\"]"},
		"path": {"asn: 65001", "asn: 65001, path: direct", "site: fra", "site: fra\npaths: [direct]"}, "med": {"asn: 65001", "asn: 65001, med: 5"}, "prepend": {"asn: 65001", "asn: 65001, prepend: 2"}, "name": {"tor1", "tor2"},
		"deprefer": {"asn: 65001", "asn: 65001, deprefer: {prepend: 1}"}, "drain": {"asn: 65001", "asn: 65001, drain: {prepend: 1}"}, "backup": {"asn: 65001", "asn: 65001, backup: {prepend: 1}"},
		"router_id": {"router_id: 10.0.0.10", "router_id: 10.0.0.11"}, "our asn": {"asn: 65010", "asn: 65011"},
		"a guard": {"bgp:", "guards: {cooldown: 1m}\nbgp:"}, "nothing": {"site: fra", "site: fra"},
	}
	for key, e := range edits {
		next := load(t, edit(t, base, e...))
		said := bgp.ChangeNone
		for _, c := range Diff(old, next) {
			if kind := of[c.Effect]; severity(kind) > severity(said) {
				said = kind
			}
		}
		does := bgp.ChangeNone
		for _, c := range s.Plan(next.Node.BGP) {
			if severity(c.Kind) > severity(does) {
				does = c.Kind
			}
		}
		if does == bgp.ChangeRemove {
			does = bgp.ChangeReset // a session that goes, as Diff has it
		}
		if said != does {
			t.Errorf("%s: Diff says %s, the speaker does %s", key, said, does)
		}
	}
	for _, key := range keysOf(reflect.TypeFor[bgp.Neighbor](), "") {
		// listen_port goes with passive, local_pref with iBGP, and a file of passwords has tests of its own.
		if edits[key] == nil && !strings.Contains(key, ".") && !slices.Contains([]string{"listen_port", "local_pref", "password_file"}, key) {
			t.Errorf("%s is not tried", key)
		}
	}
}

func severity(k bgp.ChangeKind) int {
	return slices.Index([]bgp.ChangeKind{bgp.ChangeNone, bgp.ChangeAttributes, bgp.ChangeAdd, bgp.ChangeReset, bgp.ChangeRemove}, k)
}

// TestNoPrintShowsASecret prints a configuration in every way there is.
func TestNoPrintShowsASecret(t *testing.T) {
	src := edit(t, good, "asn: 65001,", "asn: 65001, password: hunter2,",
		`target: "192.0.2.80:80"}`, `target: "192.0.2.80:80"}, {name: page, kind: http, target: "http://user:hunter2@192.0.2.80/", http: {headers: {Authorization: hunter2}}},`+
			` {name: own, kind: exec, exec: {argv: [/bin/sh, -c, "true"], env: {TOKEN: hunter2}}}`)
	c, ps := loading{env: []string{}, open: read}.node("node.yaml", []byte(src))
	if c == nil {
		for _, l := range ps.Lines() {
			if strings.Contains(l, "hunter2") {
				t.Errorf("a problem shows it: %s", l)
			}
		}
		src = strings.Replace(src, "user:hunter2@", "", 1) // where addresses with passwords are refused
		c = load(t, src)
	}
	m := Masked(c.Node)
	for what, text := range map[string]string{
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c), "String": c.String(),
		"LogValue": c.LogValue().String(), "Effective": strings.Join(c.Effective(), "\n"),
		"Masked": fmt.Sprintf("%#v %v", leavesOf(m, false), m.BGP), "Diff": fmt.Sprint(Diff(load(t, good), c), Diff(c, load(t, good))),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s shows a secret:\n%s", what, text)
		}
	}
	if c.Node.BGP.Neighbors[0].Password != "hunter2" {
		t.Error("masking changed the original")
	}
	if got := m.BGP.Neighbors[0].Password; got != masked {
		t.Errorf("the masked copy has %q", got)
	}
}
