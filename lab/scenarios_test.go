package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every scenario on every topology it names. LAB_T and LAB_S choose among them
// by regular expression, STEADYCAST_BIN gives another binary to test.
func TestScenarios(t *testing.T) {
	for _, path := range files(t, "scenarios/*.txt", os.Getenv("LAB_S")) {
		s, err := LoadScenario(path)
		if err != nil {
			t.Fatal(err)
		}
		s.Patience = 4 // other tests run beside this one
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for _, file := range topologies(t) {
				topo, err := Load(file)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(s.On, topo.Name) {
					continue
				}
				t.Run(topo.Name, func(t *testing.T) {
					t.Parallel()
					need(t, topo, "nft")
					p, err := programs()
					if err != nil {
						t.Fatal(err)
					}
					if topo, err = Load(file); err != nil { // with what the programs have made
						t.Fatal(err)
					}
					l, err := Up(t.Context(), topo, p)
					if err != nil {
						t.Fatal(err)
					}
					defer l.Down()
					var out strings.Builder
					if err := Play(t.Context(), l, s, &out); err != nil {
						t.Errorf("%v\n%s", err, &out)
						return
					}
					t.Logf("\n%s", &out)
				})
			}
		})
	}
}

// A scenario names only topologies that exist, and each topology has scenarios.
func TestScenariosFitTheTopologies(t *testing.T) {
	used := map[string]bool{}
	for _, path := range files(t, "scenarios/*.txt", "") {
		s, err := LoadScenario(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range s.On {
			topo, err := Load(filepath.Join("containerlab", name+".clab.yml"))
			if err != nil {
				t.Errorf("%s: on %s: %v", path, name, err)
				continue
			}
			used[name] = true
			called := map[string]bool{}
			for _, st := range s.steps {
				if st.fact != nil && st.fact.alias != "" {
					called[st.fact.alias] = true
					if topo.node(st.fact.alias) != nil {
						t.Errorf("%s:%d: %s is a node of %s already", path, st.line, st.fact.alias, name)
					}
				}
				for _, node := range st.nodes() {
					if topo.node(node) == nil && !called[node] {
						t.Errorf("%s:%d: %s has no node %q", path, st.line, name, node)
					}
				}
			}
		}
	}
	for _, file := range files(t, "containerlab/*.clab.yml", "") {
		if name := strings.TrimSuffix(filepath.Base(file), ".clab.yml"); !used[name] {
			t.Errorf("no scenario is played on %s", name)
		}
	}
}

func (st step) nodes() (out []string) {
	if st.act != nil && st.act.node != "" {
		out = append(out, st.act.node)
	}
	switch {
	case st.fact == nil:
	case st.fact.among != nil:
		out = append(out, st.fact.among...)
	default:
		out = append(out, st.fact.node)
	}
	return out
}
