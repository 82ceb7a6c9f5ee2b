package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const configs = "../../configs"

// shown is a line of a reference file that begins with # and a key.
type shown struct {
	at      int // index of the line
	indent  int
	example bool // has no default
	header  bool // only opens a section
}

var shownLine = regexp.MustCompile(`^( *)#([a-z0-9_]+):( .*)?$`)

func shownLines(lines []string) []shown {
	var out []shown
	for i, l := range lines {
		if m := shownLine.FindStringSubmatch(l); m != nil {
			value, comment, _ := strings.Cut(m[3], " #")
			out = append(out, shown{i, len(m[1]), strings.Contains(comment, "example"), strings.TrimSpace(value) == ""})
		}
	}
	return out
}

// with takes the # away from the given lines.
func with(lines []string, which ...shown) string {
	lines = slices.Clone(lines)
	for _, s := range which {
		lines[s.at] = strings.Replace(lines[s.at], "#", "", 1)
	}
	return strings.Join(lines, "\n")
}

// loaded gives everything that a file comes to, as lines.
func loaded(t *testing.T, file, src string) []string {
	t.Helper()
	var out []string
	var ps Problems
	if isTable(file, []byte(src)) {
		var f Fleet
		f, ps = alone(file, []byte(src))
		for _, l := range leavesOf(f, false) {
			out = append(out, l.path+": "+l.value)
		}
	} else {
		var c *Config
		l := loading{env: []string{}, open: read}
		if c, ps = l.node(file, []byte(src)); c != nil {
			out = c.Effective()
		}
	}
	if err := ps.Err(); err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// TestReferenceShowsDefaults takes the # away from each line of the reference
// that shows a default, one at a time, and wants nothing changed by it.
func TestReferenceShowsDefaults(t *testing.T) {
	for _, name := range []string{"node.yaml", "fleet.yaml"} {
		src, err := os.ReadFile(filepath.Join(configs, name))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(src), "\n")
		base := loaded(t, name, string(src))
		tried := 0
		for _, s := range shownLines(lines) {
			if s.example || s.header {
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%s:%d", name, s.at+1), func(t *testing.T) {
				if got := loaded(t, name, with(lines, s)); !slices.Equal(got, base) {
					t.Errorf("%q is not the default:\n%s", strings.TrimSpace(lines[s.at]), difference(base, got))
				}
			})
		}
		if tried < 20 {
			t.Errorf("%s shows %d defaults; the pattern of such lines no longer fits the file", name, tried)
		}
	}
}

func difference(a, b []string) string {
	var out []string
	for _, l := range a {
		if !slices.Contains(b, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out, "\n")
}

// TestReferenceShowsEveryKey takes the # away from every line and compares the
// keys with those of the structs.
func TestReferenceShowsEveryKey(t *testing.T) {
	index := regexp.MustCompile(`\[\d+\]`)
	for _, c := range []struct {
		file string
		into any
		// elsewhere are the sections that the other reference has, or that are
		// shown once for several places.
		elsewhere []string
	}{
		{"node.yaml", new(Node), []string{"services", "prefixes", "guards", "levels", "outside[]", "elsewhere[]", "who_answers[]"}},
		{"fleet.yaml", new(Fleet), []string{"services[].remote.checks[]", "controls.positive[]", "controls.negative[]", "pools[]", "plans[].metric", "plans[].steps[].check", "plans[].steps[].undo"}},
	} {
		src, err := os.ReadFile(filepath.Join(configs, c.file))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(src), "\n")
		r := newReader(c.file)
		for _, p := range r.read([]byte(with(lines, shownLines(lines)...)), c.into) {
			t.Error(p)
		}
		has := map[string]bool{}
		for path := range r.marks {
			has[index.ReplaceAllString(path, "[]")] = true
		}
		for _, key := range keysOf(reflect.TypeOf(c.into).Elem(), "") {
			other := slices.ContainsFunc(c.elsewhere, func(s string) bool { return inside(key, s) })
			if !has[key] && !other {
				t.Errorf("%s does not show %s", c.file, key)
			}
		}
	}
}

// keysOf lists every key below t, as services[].checks[].dns.rcode.
func keysOf(t reflect.Type, path string) []string {
	var out []string
	eachSection(t, path, func(section string, fs fields) {
		if section == "the top level" {
			section = ""
		}
		for _, f := range fs {
			out = append(out, join(section, f.name))
		}
	})
	return out
}

// TestEveryFileLoads loads every node.yaml and fleet.yaml that configs/ ships, and
// those of the lab.
func TestEveryFileLoads(t *testing.T) {
	var files []string
	for _, glob := range []string{"*.yaml", "examples/*.yaml", "examples/*/*.yaml", "../lab/containerlab/configs/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(configs, glob))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 8 {
		t.Fatalf("only %d files: %v", len(files), files)
	}
	cleanEnv(t)
	for _, f := range files {
		for _, p := range Check(f) {
			if !p.Warning { // how the checkout set the modes of files is not the files' fault
				t.Error(p)
			}
		}
	}
}

// TestMinimalIsShort holds the first configuration to what fits one look.
func TestMinimalIsShort(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(configs, "minimal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), "\n"); n > 25 {
		t.Errorf("minimal.yaml has %d lines; a whole first node takes at most 25", n)
	}
}
