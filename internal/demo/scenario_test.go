package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/loopback"
)

// atOnce is how many scenarios are played at once, unless -parallel says
// otherwise. They wait more than they work, so it is more than most machines have
// processors.
const atOnce = 6

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Every scenario goes as it should, and an outside reader of the JSON lines
// comes to the same numbers as the summary.
func TestScenarios(t *testing.T) {
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			err := Run(ctx, Options{Sites: max(3, s.Sites), Socket: filepath.Join(t.TempDir(), "d.sock"), Scenario: &s, JSON: true, Out: &out, DNS: loopback.Own(t)})
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(lines[max(0, len(lines)-60):], "\n"))
			}
			judge(t, s, lines)
		})
	}
}

func judge(t *testing.T, s Scenario, lines []string) {
	var sum Summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatal(err)
	}
	if !sum.OK || sum.Scenario != s.Name {
		t.Fatalf("the summary says %+v", sum)
	}
	again := read(t, max(3, s.Sites), lines[:len(lines)-1])
	if again.changes != sum.RouteChanges || again.fewest != sum.AnnouncingMin || again.lost != sum.Lost {
		t.Errorf("the lines say %+v, the summary %d changes, %d at least, %d lost",
			again, sum.RouteChanges, sum.AnnouncingMin, sum.Lost)
	}
	if len(sum.Held) != len(invariants) {
		t.Errorf("only %q hold", sum.Held)
	}
	if sum.Requests == 0 {
		t.Error("the client sent nothing: that it lost little would prove nothing")
	}
	switch s.Name {
	case "all-fail", "partition-minority":
		if again.withdrawn != 0 || sum.AnnouncingMin != 3 {
			t.Errorf("%d withdrawals, %d at least; nothing may leave", again.withdrawn, sum.AnnouncingMin)
		}
	case "force-withdraw":
		if again.withdrawn != 2 || sum.AnnouncingMin != 1 {
			t.Errorf("%d withdrawals, %d at least", again.withdrawn, sum.AnnouncingMin)
		}
	case "drain":
		if again.withdrawn != 1 || sum.AnnouncingMin != 2 || sum.Lost != 0 || sum.PermitMS != nil {
			t.Errorf("%d withdrawals, %d at least, %d lost, permitted after %v", again.withdrawn, sum.AnnouncingMin, sum.Lost, sum.PermitMS)
		}
	case "site-gone":
		if again.withdrawn != 0 || again.died != 1 || sum.AnnouncingMin != 3 || sum.PermitMS != nil || sum.NamesMS == nil {
			t.Errorf("%d withdrawals, %d sessions lost, %d at least, permitted after %v, names after %v", again.withdrawn, again.died, sum.AnnouncingMin, sum.PermitMS, sum.NamesMS)
		}
	case "plan", "plan-rollback":
		if again.withdrawn != 1 || sum.AnnouncingMin != 2 || sum.PermitMS != nil {
			t.Errorf("%d withdrawals, %d at least, permitted after %v", again.withdrawn, sum.AnnouncingMin, sum.PermitMS)
		}
	case "bad-table":
		if again.withdrawn != 1 || sum.AnnouncingMin != 2 || sum.PermitMS != nil {
			t.Errorf("%d withdrawals, %d at least, permitted after %v", again.withdrawn, sum.AnnouncingMin, sum.PermitMS)
		}
	default:
		if again.withdrawn != 1 || sum.WithdrawMS == nil || sum.DetectMS == nil || sum.PermitMS == nil || *sum.WithdrawMS < *sum.PermitMS {
			t.Errorf("%d withdrawals, withdrawn after %v, permitted after %v, judged after %v", again.withdrawn, sum.WithdrawMS, sum.PermitMS, sum.DetectMS)
		}
	}
	t.Logf("judged after %s, permitted after %s, gone at the router after %s; %d of %d requests lost",
		figure(sum.DetectMS), figure(sum.PermitMS), figure(sum.WithdrawMS), sum.Lost, sum.Requests)
}

func figure(ms *int64) string {
	if ms == nil {
		return "—"
	}
	return fmt.Sprintf("%d ms", *ms)
}

type reading struct {
	changes, fewest, withdrawn, died int
	lost                             uint64
}

// read counts again from the lines alone, what is told of the anycast prefix. The
// story begins when somebody tells it; before, the fleet is not complete.
func read(t *testing.T, sites int, lines []string) reading {
	on := map[string]map[string]bool{} // nodes by site
	r, begun := reading{fewest: sites}, false
	for _, text := range lines {
		var l Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		switch {
		case l.Kind == "story":
			begun = true
		case l.Kind == "loss" && l.Prefix == "":
			r.lost++
		case l.Kind == "update" && l.Prefix == anycast.String():
			if on[l.Site] == nil {
				on[l.Site] = map[string]bool{}
			}
			on[l.Site][l.Node] = true
			left := false
			if !*l.Announce {
				delete(on[l.Site], l.Node)
				if left = len(on[l.Site]) == 0; left {
					delete(on, l.Site)
				}
			}
			if !begun {
				continue
			}
			r.changes++
			r.fewest = min(r.fewest, len(on))
			switch {
			case left && l.Lost:
				r.died++
			case left:
				r.withdrawn++
			}
		}
	}
	return r
}

func TestRunRefuses(t *testing.T) {
	s, gone := Scenarios[0], Scenario{Name: "gone", Sites: 4}
	for _, o := range []Options{{Sites: 0}, {Sites: maxSites + 1}, {Sites: 2, Scenario: &s}, {Sites: 3, Scenario: &gone}} {
		o.Out = &bytes.Buffer{}
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--sites") {
			t.Errorf("%d sites: %v", o.Sites, err)
		}
	}
	two := Scenario{Name: "two", nodes: 2}
	for _, o := range []Options{{Sites: 3, Nodes: -1}, {Sites: 3, Nodes: maxNodes + 1}, {Sites: 1, Nodes: 2}, {Sites: 3, Nodes: 1, Scenario: &two}} {
		o.Out = &bytes.Buffer{}
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--nodes") {
			t.Errorf("%d sites of %d nodes: %v", o.Sites, o.Nodes, err)
		}
	}
	if _, err := Find("crush"); err == nil || !strings.Contains(err.Error(), "crash, flap") {
		t.Errorf("an unknown scenario: %v", err)
	}
}
