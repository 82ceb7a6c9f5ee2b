package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
)

// planWithin only ends a test that has failed.
const planWithin = 2 * time.Minute

// planBed is one node with a ledger of its own and a plan.
type planBed struct {
	t      *testing.T
	ledger *ledger.Local
	behind ledger.Ledger // what a node that starts has instead; nil for the ledger itself
	plan   atomic.Pointer[Plan]
	end    func()
}

// newPlanBed makes a bed whose plan has these steps. Nothing runs yet.
func newPlanBed(t *testing.T, onFailure string, programs []string, steps ...config.PlanStep) *planBed {
	p := decide.Plan{Name: "move", OnFailure: onFailure}
	for i := range steps {
		steps[i].Undoes = steps[i].Undo != nil
		p.Steps = append(p.Steps, steps[i].Step)
	}
	p = p.WithDefaults()
	for i := range steps {
		steps[i].Step = p.Steps[i]
	}
	table := decide.Table{
		Revision: 1, Sites: []decide.Place{{Name: "fra"}}, Plans: []decide.Plan{p},
		Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
	}.WithDefaults()
	l, err := ledger.Open("", table, ledger.Options{Fleet: "test", Node: "fra-1"})
	if err != nil {
		t.Fatal(err)
	}
	b := &planBed{t: t, ledger: l, end: func() {}}
	b.plan.Store(&Plan{Table: table, Plans: []config.Plan{{Name: "move", Steps: steps}}, Programs: programs})
	t.Cleanup(func() { b.end(); l.Close() })
	return b
}

// start lets the node carry out steps until it ends or starts anew.
func (b *planBed) start() {
	b.end()
	ctx, cancel := context.WithCancel(b.t.Context())
	var led ledger.Ledger = b.ledger
	if b.behind != nil {
		led = b.behind
	}
	a := &Agent{o: Options{Site: "fra", Node: "fra-1", Fleet: "test", Ledger: led, Logger: slog.New(slog.DiscardHandler)}}
	s := newSteps(a)
	s.plan = b.plan.Load
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	b.end = func() { cancel(); running.Wait() }
}

func (b *planBed) tell(do string) {
	b.t.Helper()
	r, err := b.ledger.Enter(b.t.Context(), decide.Wish{Kind: decide.KindPlan, By: "ann", Reason: "test", Plan: &decide.PlanWish{Do: do, Plan: "move"}})
	if err != nil || r.Refused != nil {
		b.t.Fatalf("%s: %v %v", do, r.Refused, err)
	}
}

func (b *planBed) run() decide.PlanRun { return b.ledger.View().Plans[0] }

func (b *planBed) until(what string, so func(decide.PlanRun) bool) decide.PlanRun {
	b.t.Helper()
	for end := time.Now().Add(planWithin); ; time.Sleep(20 * time.Millisecond) {
		switch r := b.run(); {
		case so(r):
			return r
		case time.Now().After(end):
			b.t.Fatalf("%s did not come: %+v", what, r)
		}
	}
}

func is(state decide.PlanState) func(decide.PlanRun) bool {
	return func(r decide.PlanRun) bool { return r.State == state }
}

// script writes a program that notes what it is told, and then does the rest.
func script(t *testing.T, rest string) (program string, told func() []string) {
	dir := t.TempDir()
	program, notes := filepath.Join(dir, "run"), filepath.Join(dir, "notes")
	text := "#!/bin/sh\necho \"$STEADYCAST_STEP $STEADYCAST_DO $STEADYCAST_KEY $STEADYCAST_EPOCH $STEADYCAST_NUMBER $CLUSTER\" >> " + notes + "\n" + rest + "\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, func() []string {
		b, _ := os.ReadFile(notes)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

// TestPlanRuns: a node fences by a program and promotes by a call, each told by its
// key and its token, and takes both back.
func TestPlanRuns(t *testing.T) {
	t.Parallel()
	program, told := script(t, "echo fenced")
	var calls sync.Map
	tries := new(atomic.Int64)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 { // the first is answered by nobody who knows
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		calls.Store(r.URL.Path, r.Header.Clone())
		fmt.Fprintln(w, "well")
	}))
	defer web.Close()
	b := newPlanBed(t, "", []string{program},
		config.PlanStep{Step: decide.Step{Do: decide.DoCheck}},
		config.PlanStep{Step: decide.Step{Do: decide.DoRun, Name: "fence", At: "fra", Effect: decide.EffectFence},
			Run: &config.PlanRun{Argv: []string{program}, Env: map[string]string{"CLUSTER": "web"}}, Undo: &config.PlanRun{Argv: []string{program}}},
		config.PlanStep{Step: decide.Step{Do: decide.DoRun, Name: "promote", Effect: decide.EffectPromote},
			Run: &config.PlanRun{URL: web.URL + "/promote", Method: "POST"}, Undo: &config.PlanRun{URL: web.URL + "/demote", Method: "POST"}},
		config.PlanStep{Step: decide.Step{Do: decide.DoVerify, For: time.Second}},
	)
	b.tell(decide.PlanRunIt)
	b.start()
	r := b.until("the end", is(decide.PlanComplete))
	if s := r.Steps[1]; s.Evidence != "exit status 0: fenced" || s.Who != "fra-1" || s.Try != 1 {
		t.Errorf("%+v", s)
	}
	if s := r.Steps[2]; s.Evidence != "200 OK: well" || s.Try != 2 {
		t.Errorf("a call that may not have been done is made again: %+v", s)
	}
	b.tell(decide.PlanRollback)
	b.until("the way back", is(decide.PlanRolledBack))
	lines := told()
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "fence do test/move/1.1/fence/do 1 ") || !strings.HasSuffix(lines[0], " web") ||
		!strings.HasPrefix(lines[1], "fence undo test/move/1.1/fence/undo 1 ") {
		t.Errorf("the program was told %q", lines)
	}
	for _, path := range []string{"/promote", "/demote"} {
		h, ok := calls.Load(path)
		if !ok {
			t.Fatalf("%s was not called", path)
		}
		if key := h.(http.Header).Get("Idempotency-Key"); !strings.HasPrefix(key, "test/move/1.1/promote/") {
			t.Errorf("%s was called with key %q", path, key)
		}
	}
}

// TestPlanProgramNotAllowed: what node.yaml does not name is not run, and the plan
// says where that stands.
func TestPlanProgramNotAllowed(t *testing.T) {
	t.Parallel()
	program, told := script(t, "")
	b := newPlanBed(t, "", nil, config.PlanStep{Step: decide.Step{Do: decide.DoRun, At: "fra"}, Run: &config.PlanRun{Argv: []string{program}}})
	b.tell(decide.PlanRunIt)
	b.start()
	r := b.until("the failure", func(r decide.PlanRun) bool { return r.Hold != nil })
	if !r.Hold.Failed || !strings.Contains(r.Hold.Reason, "is not among exec: of node.yaml at fra-1") {
		t.Errorf("%+v", r.Hold)
	}
	if lines := told(); lines[0] != "" {
		t.Errorf("it ran: %q", lines)
	}
	b.plan.Load().Programs = append(b.plan.Load().Programs, program)
	b.tell(decide.PlanResume)
	b.until("the end", is(decide.PlanComplete))
}

// TestPlanRestart: a node that is started anew does not know what its earlier start
// did, says so at once, and the step is tried again with the same key.
func TestPlanRestart(t *testing.T) {
	t.Parallel()
	program, told := script(t, "sleep 600")
	b := newPlanBed(t, "", []string{program}, config.PlanStep{Step: decide.Step{Do: decide.DoRun, At: "fra"}, Run: &config.PlanRun{Argv: []string{program}}})
	b.tell(decide.PlanRunIt)
	b.start()
	began := func(n int) {
		for end := time.Now().Add(planWithin); len(told()) < n || told()[0] == ""; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the program was not begun %d times: %q", n, told())
			}
		}
	}
	began(1)
	b.start() // kills what runs, with the process that ran it
	began(2)
	if s := b.run().Steps[0]; s.Try != 2 || !s.Held() {
		t.Errorf("%+v", s)
	}
	key := func(line string) string { return strings.Fields(line)[2] }
	token := func(line string) int {
		n, err := strconv.Atoi(strings.Fields(line)[4])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if lines := told(); key(lines[0]) != key(lines[1]) || token(lines[0]) >= token(lines[1]) {
		t.Errorf("it was told %q", lines)
	}
}

// behindLedger is one whose view is an old one until a word was said to it.
type behindLedger struct {
	ledger.Ledger
	old  decide.View
	said atomic.Bool
}

func (b *behindLedger) View() decide.View {
	if b.said.Load() {
		return b.Ledger.View()
	}
	return b.old
}

func (b *behindLedger) Step(ctx context.Context, w decide.StepWord) (decide.Reply, error) {
	r, err := b.Ledger.Step(ctx, w)
	b.said.Store(true)
	return r, err
}

// TestPlanRestartFromOlderView: a node that starts from a view in which the step was
// not taken yet, by its own earlier start, does not take that start's try for its
// own: what ran may still run, and only a greater token tells the two apart.
func TestPlanRestartFromOlderView(t *testing.T) {
	t.Parallel()
	program, told := script(t, "sleep 600")
	b := newPlanBed(t, "", []string{program}, config.PlanStep{Step: decide.Step{Do: decide.DoRun, At: "fra"}, Run: &config.PlanRun{Argv: []string{program}}})
	b.tell(decide.PlanRunIt)
	old := b.ledger.View()
	b.start()
	b.until("the program is begun", func(decide.PlanRun) bool { return told()[0] != "" })
	b.end()
	b.behind, b.end = &behindLedger{Ledger: b.ledger, old: old}, func() {}
	b.start()
	b.until("another try", func(decide.PlanRun) bool { return len(told()) > 1 })
	if lines := told(); strings.Fields(lines[0])[2] != strings.Fields(lines[1])[2] || strings.Fields(lines[0])[4] == strings.Fields(lines[1])[4] {
		t.Errorf("it was told %q", lines)
	}
}
