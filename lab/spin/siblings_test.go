package spin

import (
	"strings"
	"testing"
)

// TestSiblings: no order of events lets a node leave alone while fewer than min_nodes
// others stay, nor two by themselves on one promise.
func TestSiblings(t *testing.T) {
	for _, i := range []instance{
		{"two nodes, one request each", []string{"-DNODES=2", "-DIDS=1"}, []string{"-DHC4"}, false},
	} {
		if i.full && !*full {
			continue // `make spin` checks it
		}
		t.Run(i.name, func(t *testing.T) {
			said, dir := check(t, "siblings.pml", i.define, i.keep)
			if broken := assertion.FindString(said); broken != "" || !strings.Contains(said, "errors: 0") {
				t.Fatalf("%s\n%s", said, trail(t, "siblings.pml", dir, i.define))
			}
			if strings.Contains(said, "max search depth too small") || strings.Contains(said, "reached -DMEMLIM") {
				t.Fatalf("it did not look everywhere:\n%s", said)
			}
			t.Log(states.FindString(said))
		})
	}
}

// siblingMutants are the rules that were left out, each with the size in which it is
// found, and what it breaks first.
var siblingMutants = map[string]struct {
	define []string
	depth  string // in which it is found soon
	breaks string
}{
	"SILENT": {[]string{"-DNODES=2", "-DIDS=1"}, "-m500000", "announcing>=1"},
	"FORGET": {[]string{"-DNODES=2", "-DIDS=2"}, "-m500000", "used[x]<=1"},
	"FREE":   {[]string{"-DNODES=3", "-DIDS=1"}, "-m250", "used[x]<=1"},
}

// TestSiblingMutants: without each of these rules something does break.
func TestSiblingMutants(t *testing.T) {
	for name, m := range siblingMutants {
		t.Run(name, func(t *testing.T) {
			said, _ := check(t, "siblings.pml", append(m.define, "-D"+name), []string{"-DHC4"}, m.depth)
			broken := assertion.FindString(said)
			if !strings.Contains(broken, m.breaks) {
				t.Fatalf("it should break %s:\n%s", m.breaks, said)
			}
			t.Log(broken)
		})
	}
}
