package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// try is what a program of a plan was told in one try.
type try struct {
	do, key       string
	epoch, number uint64
}

// after reports whether a try has a token that whoever saw the other one accepts.
func (a try) after(b try) bool {
	return a.epoch > b.epoch || a.epoch == b.epoch && a.number > b.number
}

// TestPlanOfAFleet: a plan of nine processes whose program is under way when its agent,
// and then the voter that leads, are killed. The program is tried again with the same
// key and a greater token, never with a smaller one, the plan goes on where it was,
// and what it moves is moved once.
func TestPlanOfAFleet(t *testing.T) {
	t.Parallel()
	f := newEdge(t)
	// A program that notes what it is told and waits for a file. It outlives its agent.
	program, notes, ready := filepath.Join(f.dir, "fence"), filepath.Join(f.dir, "notes"), filepath.Join(f.dir, "ready")
	f.write("fence", fmt.Sprintf("#!/bin/sh\necho \"$STEADYCAST_DO $STEADYCAST_KEY $STEADYCAST_EPOCH $STEADYCAST_NUMBER\" >> %s\nwhile [ -d %s ] && [ ! -e %s ]; do sleep 0.05; done\n", notes, f.dir, ready))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	add := func(name, text string) {
		b, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f.write(name, string(b)+text)
	}
	for _, n := range f.nodes {
		add(n.site+".yaml", "exec: ["+program+"]\n")
	}
	add("fleet.yaml", fmt.Sprintf(`plans:
  - name: leave
    steps:
      - {do: run, name: fence, at: ams, effect: fence, timeout: 2m, run: {argv: [%[1]s, "on"]}, undo: {argv: [%[1]s, "off"]}}
      - {do: withdraw, site: fra}
`, program))
	f.begin("", "")
	f.allIn()
	ams := f.node("ams")
	tries := func() (out []try) {
		b, _ := os.ReadFile(notes)
		for line := range strings.Lines(string(b)) {
			var x try
			if n, _ := fmt.Sscan(line, &x.do, &x.key, &x.epoch, &x.number); n == 4 {
				out = append(out, x)
			}
		}
		return out
	}
	run := func() (r decide.PlanRun) {
		for _, n := range f.nodes {
			var plans api.Plans
			if err := n.api.Get(t.Context(), "plans", nil, &plans); err == nil && len(plans.Runs) == 1 {
				return plans.Runs[0]
			}
		}
		return r
	}
	if out, err := f.command("plan", "run", "leave", "--key", filepath.Join(f.dir, "maria.key"), "--socket", filepath.Join(f.node("lon").dir, "agent.sock"), "--reason", "cooling", "--yes"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.until("the program is under way", func() bool { return len(tries()) == 1 })

	ams.kill("agent")
	ams.start("agent")
	f.until("it is tried again after its agent was killed", func() bool { return len(tries()) >= 2 })

	leader := f.node(f.leads())
	leader.kill("ledger")
	f.until("another voter leads", func() bool { l := f.leads(); return l != "" && l != leader.site })
	if r := run(); r.State != decide.PlanRunning || r.At != 0 {
		t.Errorf("with another leader the plan is %s in step %d", r.State, r.At)
	}
	if !f.node("fra").in() {
		t.Error("fra has left before the writer was fenced")
	}
	f.write("ready", "")
	f.until("the plan is complete", func() bool { return run().State == decide.PlanComplete })
	f.out("fra")
	leader.start("ledger")

	all := tries()
	for i, x := range all {
		if x.do != "do" || x.key == "" || x.key != all[0].key {
			t.Errorf("try %d was told %+v, the first %+v", i+1, x, all[0])
		}
		if i > 0 && !x.after(all[i-1]) {
			t.Errorf("the token of try %d is %d.%d, after %d.%d", i+1, x.epoch, x.number, all[i-1].epoch, all[i-1].number)
		}
	}
	if n := f.node("fra").log.count("msg=route", "prefix=192.0.2.80/32", "from=announced to=withdrawn"); n != 1 {
		t.Errorf("fra left %d times", n)
	}
}
