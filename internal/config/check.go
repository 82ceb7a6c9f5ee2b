package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Check judges files as a daemon would that starts with them in this
// environment, each by itself. A file is taken for fleet.yaml when its keys say
// so, else for node.yaml; a table that a node.yaml names is judged with it.
func Check(files ...string) Problems {
	var all Problems
	for _, file := range files {
		src, ps := read(file)
		if ps == nil {
			l := loading{env: os.Environ(), open: read}
			if isTable(file, src) {
				_, ps = alone(file, src)
			} else {
				_, ps = l.node(file, src)
			}
		}
		all = append(all, ps...)
	}
	return all.sorted()
}

// isTable tells fleet.yaml from node.yaml by the keys that only one of them has.
func isTable(file string, src []byte) bool {
	named := strings.HasPrefix(filepath.Base(file), "fleet")
	root, ps := parse(file, src)
	if ps != nil {
		return named
	}
	has := func(keys ...string) bool {
		for i := 0; i+1 < len(root.Content); i += 2 {
			for _, k := range keys {
				if n := root.Content[i]; n.Kind == yaml.ScalarNode && n.Value == k {
					return true
				}
			}
		}
		return false
	}
	switch {
	case has("bgp", "site", "node", "mode", "table", "vip"):
		return false
	case has("sites", "revision", "zones", "pools", "maps"):
		return true
	default:
		return named
	}
}

// alone judges a fleet.yaml without a node.
func alone(file string, src []byte) (Fleet, Problems) {
	f := Fleet{Source: string(src)}
	r := newReader(file)
	ps := r.read(src, &f)
	if len(r.marks) == 0 {
		return f, ps
	}
	j := &judge{table: r, cfg: &Config{TableFile: file, Fleet: f}, known: true}
	j.fleet()
	j.between()
	return j.cfg.Fleet, append(ps, j.problems...).sorted()
}

// Report is what `steadycast check` prints and whether it is content: every
// problem on a line of its own, then one line per file, and one for each further
// file or variable that a problem is in.
func Report(files []string, ps Problems) (lines []string, ok bool) {
	lines = ps.Lines()
	named := slices.Clone(files)
	by := map[string]Problems{}
	for _, p := range ps {
		by[p.Place.File] = append(by[p.Place.File], p)
		if !slices.Contains(named, p.Place.File) {
			named = append(named, p.Place.File)
		}
	}
	for _, name := range named {
		lines = append(lines, name+": "+by[name].sum())
	}
	return lines, ps.Fatal() == 0
}

// sum counts in words.
func (ps Problems) sum() string {
	count := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	fatal := ps.Fatal()
	switch warnings := len(ps) - fatal; {
	case fatal > 0 && warnings > 0:
		return count(fatal, "problem") + ", " + count(warnings, "warning")
	case fatal > 0:
		return count(fatal, "problem")
	case warnings > 0:
		return "usable, " + count(warnings, "warning")
	default:
		return "ok"
	}
}

// LoadTable reads a fleet.yaml by itself, fills in its defaults and judges it.
// What it holds is of use only when Problems.Err is nil.
func LoadTable(file string) (Fleet, Problems) {
	src, ps := read(file)
	if ps != nil {
		return Fleet{}, ps
	}
	return alone(file, src)
}

// ParseTable is LoadTable for a text that is called file in problems.
func ParseTable(file string, src []byte) (Fleet, Problems) { return alone(file, src) }
