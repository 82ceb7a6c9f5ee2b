package steadycast

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestEventKinds: every kind of event that is declared is listed, once.
func TestEventKinds(t *testing.T) {
	source, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []EventKind
	for _, m := range regexp.MustCompile(`EventKind = "(\w+)"`).FindAllSubmatch(source, -1) {
		declared = append(declared, EventKind(m[1]))
	}
	if got := EventKinds(); len(declared) == 0 || !slices.Equal(got, declared) {
		t.Errorf("listed %v\ndeclared %v", got, declared)
	}
}
