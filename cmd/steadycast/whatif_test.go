package main

import (
	"strings"
	"testing"

	"github.com/steadycast/steadycast/decide"
)

// TestBurdenNotes: only what was supposed to be gone is called so, and no percentage
// is made of a load that nobody knows.
func TestBurdenNotes(t *testing.T) {
	got := renderCapacity(style{width: 200}, capacityPage{
		Without: []string{"fra"}, Red: 80, Movable: []movable{{"fra", 0}},
		Sites: []decide.Burden{{Site: "ams", Gone: true}, {Site: "fra", Gone: true}, {Site: "iad"}},
	})
	for _, want := range []string{"ams     ?      -      -    -      -  announces nothing", "gone\n", "nobody reports its load", "how many clients of fra could go elsewhere by DNS is not known"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "0%") {
		t.Errorf("a percentage of what is not known:\n%s", got)
	}
}
