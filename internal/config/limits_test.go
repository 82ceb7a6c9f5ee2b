package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// judgeText judges a text and wants it refused before it has cost much.
func judgeText(t *testing.T, src string) Problems {
	t.Helper()
	began := time.Now()
	c, ps := loading{env: []string{}, open: read}.node("node.yaml", []byte(src))
	if took := time.Since(began); took > time.Minute { // a bomb would take hours
		t.Errorf("took %v", took)
	}
	if c != nil || ps.Fatal() == 0 {
		t.Fatal("was taken")
	}
	for _, p := range ps {
		if p.Place.Line < 1 || p.Place.Col < 1 {
			t.Errorf("no place: %v", p)
		}
	}
	return ps
}

// TestAliasBombs: a small file that expands to millions of values is refused
// before it does.
func TestAliasBombs(t *testing.T) {
	list := func(item string, n int) string { return "[" + strings.Repeat(item+", ", n-1) + item + "]" }
	for name, src := range map[string]string{
		"lists": "services:\n  - &s {name: a, checks: [&c {name: a, kind: dns, dns: {names: &n " + list("a", 1000) + "}}, " +
			strings.Repeat("*c, ", 999) + "*c]}\n" + strings.Repeat("  - *s\n", 1000),
		"merges": "log: &a {level: info}\n" + func() string {
			var b strings.Builder
			prev := "a"
			for _, next := range "bcdefghij" {
				fmt.Fprintf(&b, "x%c: &%c {<<: %s}\n", next, next, list("*"+prev, 30))
				prev = string(next)
			}
			return b.String() + "vip: {<<: *j}\n"
		}(),
		"merges alone": "log: {level: info}\nvip: &v {interface: lo}\nbgp:\n  neighbors:\n    - &n {name: a, port: 1, asn: 65001}\n" +
			strings.Repeat("    - {<<: "+list("*n", 500)+"}\n", 500),
		"merges of nothing": "vip:\n  <<:\n    - &a [{}, {}]\n    - &b " + list("*a", 500) + "\n    - &c " + list("*b", 500) + "\n    - &d " + list("*c", 500) +
			"\n    - &e " + list("*d", 500) + "\n    - " + list("*e", 500) + "\n",
		"itself":        "services: &s [*s, *s, *s]\nbgp: &b {neighbors: *b}\n",
		"merges itself": "log: &l {<<: [*l, *l, *l, *l, *l, *l, *l, *l]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			ps := judgeText(t, src)
			if name == "itself" {
				return
			}
			if !strings.Contains(ps.Error(), "aliases expand to over 100000 values") && !strings.Contains(ps.Error(), "nest over 8 deep") {
				t.Errorf("the bomb is not named:\n%v", ps)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"great": {"# " + strings.Repeat("x", maxFile) + "\n", "is over 4 MiB"},
		"deep":  {strings.Repeat("[", 200_000), "is not YAML"},
		"deep blocks": {func() string {
			var b strings.Builder
			for i := range 2000 {
				fmt.Fprintf(&b, "%*sa:\n", i, "")
			}
			return b.String()
		}(), "unknown key"},
		"many problems": {strings.Repeat("zebra: 1\n", 100_000), "repair these first"},
		"a long key":    {strings.Repeat("k", 1000) + ": 1\n", "unknown key"},
		"UTF-16":        {"\xff\xfes\x00i\x00t\x00e\x00", "is not UTF-8"},
		"not UTF-8":     {"site: fra\nnode: caf\xe9\n", "is not UTF-8"},
		"a null byte":   {"site: f\x00ra\n", "control characters"},
		"an escape":     {"\"\\e[2Jsite\": fra\n", `unknown key`},
	} {
		t.Run(name, func(t *testing.T) {
			ps := judgeText(t, c.src)
			if !strings.Contains(ps.Error(), c.want) {
				t.Errorf("%q is not said in\n%.2000s", c.want, ps.Error())
			}
			if len(ps) > 2*maxProblems {
				t.Errorf("%d problems are told", len(ps))
			}
			for _, l := range ps.Lines() {
				if len(l) > 1000 || strings.ContainsAny(l, "\n\x1b\x00") {
					t.Errorf("a line that spoils a terminal: %.200q", l)
				}
			}
		})
	}
}

// TestGreatFiles: a file over the limit is not read whole.
func TestGreatFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil { // sparse
		if os.Getenv("CI") == "true" {
			t.Fatal("this file system has no files of 1 TiB")
		}
		t.Skip("this file system has no files of 1 TiB")
	}
	c, ps := Load(Options{File: file, Env: []string{}})
	if c != nil || !strings.Contains(ps.Error(), "is over 4 MiB") {
		t.Errorf("%v", ps)
	}
}

// TestThousandsOfPrefixes: a large but honest file is taken, and quickly.
func TestThousandsOfPrefixes(t *testing.T) {
	var b strings.Builder
	b.WriteString("site: fra\nservices:\n")
	for s := range 30 {
		fmt.Fprintf(&b, "  - name: s%d\n    prefixes:\n", s)
		for p := range 100 {
			fmt.Fprintf(&b, "      - 10.%d.%d.1/32\n", s, p)
		}
		fmt.Fprintf(&b, "    checks: [{name: port, kind: tcp, target: \"10.%d.0.1:80\"}]\n", s)
	}
	b.WriteString("bgp: {asn: 65010, router_id: 10.200.0.10, allow: [10.0.0.0/8], neighbors: [{name: tor1, address: 172.16.0.1, asn: 65001}]}\n")
	began := time.Now()
	c := load(t, b.String())
	if n := len(c.VIPs()); n != 3000 {
		t.Errorf("%d addresses", n)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}
