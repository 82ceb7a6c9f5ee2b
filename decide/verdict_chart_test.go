package decide

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// TestChart writes the chart of a service's verdict from what next really does,
// over all states and inputs, and compares it with the file and with the comment
// above next.
func TestChart(t *testing.T) {
	states := []struct {
		name string
		sv   service
	}{
		{"unknown", service{}},
		{"healthy", service{state: steadycast.Healthy, settled: true}},
		{"suspect", service{state: steadycast.Suspect, settled: true}},
		{"suspect*", service{state: steadycast.Suspect}},
		{"unhealthy", service{state: steadycast.Unhealthy}},
		{"recovering", service{state: steadycast.Recovering}},
	}
	inputs := []struct {
		name string
		f    facts
	}{
		{"neither bad nor good", facts{ledger: true}},
		{"1 bad", facts{bad: 1}},
		{"fall_certain bad for down_for, certain here", facts{bad: 2, failingFor: time.Second, certain: true}},
		{"fall bad, not for down_for", facts{bad: 3, failingFor: time.Second - 1}},
		{"fall bad for down_for", facts{bad: 3, failingFor: time.Second}},
		{"fall bad for down_for, fine here", facts{bad: 3, failingFor: time.Second, local: steadycast.Up}},
		{"2×fall bad for down_for, fine here", facts{bad: 6, failingFor: time.Second, local: steadycast.Up}},
		{"rise good, ledger not known", facts{good: 20}},
		{"1 good", facts{good: 1, ledger: true}},
		{"2 good", facts{good: 2, ledger: true}},
		{"2 good, counted in", facts{good: 2, ledger: true, in: true}},
		{"resume_rounds good, counted in", facts{good: 3, ledger: true, in: true}},
		{"3 good", facts{good: 3, ledger: true}},
		{"rise good, not for hold_up", facts{good: 20, quietFor: 5*time.Minute - 1, ledger: true}},
		{"rise good for hold_up", facts{good: 20, quietFor: 5 * time.Minute, ledger: true}},
		{"rise good for hold_up, failing here", facts{good: 20, quietFor: 5 * time.Minute, ledger: true, local: steadycast.Down}},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-44s", "")
	for _, st := range states {
		fmt.Fprintf(&b, "%-12s", st.name)
	}
	for _, in := range inputs {
		fmt.Fprintf(&b, "\n%-44s", in.name)
		for _, st := range states {
			sv := st.sv
			sv.conf.Health = Health{}.withDefaults()
			sv.jury = newJury(Table{}, "fra", true, time.Second, jury{})
			to, why := sv.next(in.f)
			cell := "·"
			if to != sv.state {
				cell = to.String()
			}
			if (why != "") != (to != sv.state) {
				t.Errorf("%s becomes %s at %q with the reason %q", st.name, to, in.name, why)
			}
			fmt.Fprintf(&b, "%-12s", cell)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	chart := strings.Join(lines, "\n") + "\n"
	const file = "testdata/site/chart.txt"
	if *updateSite {
		if err := os.WriteFile(file, []byte(chart), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != chart {
		t.Errorf("the chart differs from %s:\n%s", file, lineDiff(string(want), chart))
	}
	source, err := os.ReadFile("verdict.go")
	if err != nil {
		t.Fatal(err)
	}
	comment := "//\t" + strings.ReplaceAll(strings.TrimRight(chart, "\n"), "\n", "\n//\t")
	if *updateSite {
		head, rest, _ := strings.Cut(string(source), "default numbers:\n//\n")
		_, tail, ok := strings.Cut(rest, "func (sv *service) next(")
		if !ok {
			t.Fatal("verdict.go has no place for the chart")
		}
		source = []byte(head + "default numbers:\n//\n" + comment + "\nfunc (sv *service) next(" + tail)
		if err := os.WriteFile("verdict.go", source, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(source), comment) {
		t.Error("the comment above next is not the chart; run with -update")
	}
}
