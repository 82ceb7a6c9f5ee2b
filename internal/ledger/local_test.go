package ledger

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

var prefix = netip.MustParsePrefix("192.0.2.0/24")

// policy is a table of sites that announce one prefix.
func policy(sites ...string) decide.Table {
	t := decide.Table{Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	for _, s := range sites {
		t.Sites = append(t.Sites, decide.Place{Name: s})
	}
	return t
}

// logbook collects what the ledger tells people.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(p))
	return len(p), nil
}

// all are its lines, while others may still write.
func (b *logbook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

func (b *logbook) count(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.lines {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

func (b *logbook) options() Options {
	return Options{Fleet: "test", Node: "n1", Log: slog.New(slog.NewTextHandler(b, nil))}
}

func mustOpen(t testing.TB, dir string, table decide.Table) (*Local, *logbook) {
	t.Helper()
	book := &logbook{}
	l, err := Open(dir, table, book.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, book
}

// site speaks for one site of the test, as an agent would.
type site struct {
	t    testing.TB
	l    *Local
	name string
	seq  uint64
	dead steadycast.RequestID
}

func (s *site) unit() steadycast.Unit { return steadycast.Unit{Site: s.name, Prefix: prefix} }

func (s *site) view() decide.UnitView {
	for _, u := range s.l.View().Units {
		if u.Unit == s.unit() {
			return u
		}
	}
	s.t.Fatalf("no unit %s", s.unit())
	return decide.UnitView{}
}

func (s *site) report(state steadycast.State) {
	s.t.Helper()
	v := steadycast.Verdict{Site: s.name, Service: "web", State: state, Reason: s.name + " says so"}
	if state.Troubled() {
		v.Class = steadycast.Hard
	}
	if err := s.l.Report(s.t.Context(), []steadycast.Verdict{v}); err != nil {
		s.t.Fatal(err)
	}
}

// request asks for an action; a withdrawal with the word of everybody who watches
// (of ams, fra and lon, where the site has no ledger).
func (s *site) request(a steadycast.Action) steadycast.Request {
	s.seq++
	r := steadycast.Request{
		ID: steadycast.RequestID{Incarnation: 1, Seq: s.seq}, Site: s.name, Prefixes: []netip.Prefix{prefix},
		Action: a, Service: "web", Reason: "test",
	}
	if a == steadycast.Withdraw {
		r.Class = steadycast.Hard
		who := []string{"ams", "fra", "lon"}
		if s.l != nil {
			who = append(s.l.View().Table.Vantages(s.name), s.name)
		}
		down := steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused"}
		for _, v := range who {
			r.Evidence = append(r.Evidence, steadycast.Observation{Vantage: v, Subject: s.name, Service: "web", Seq: s.seq, Result: down})
		}
	}
	return r
}

func (s *site) ask(r steadycast.Request) decide.Answer {
	s.t.Helper()
	a, err := s.l.Ask(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// beat says that the site announces, and proves what return the ledger waits for.
func (s *site) beat(announcing bool) {
	b := decide.Beat{Site: s.name, Incarnation: 1, DeadThrough: s.dead}
	if announcing {
		b.Announcing = []steadycast.Unit{s.unit()}
		if u := s.view(); u.Phase == steadycast.Returning {
			b.Returned = []decide.ReturnProof{{Unit: s.unit(), ID: u.Return}}
		}
	}
	s.l.Beat(b)
}

// up brings a site to In.
func (s *site) up() {
	s.t.Helper()
	s.report(steadycast.Healthy)
	if a := s.ask(s.request(steadycast.Return)); a.Rulings[0].Permit == nil {
		s.t.Fatalf("the first return was refused: %+v", a)
	}
	s.beat(true)
	s.until(func() bool { return s.view().Phase == steadycast.In })
}

// until waits for something that the ledger does by itself.
func (s *site) until(ok func() bool) {
	s.t.Helper()
	changed, cancel := s.l.Watch()
	defer cancel()
	deadline := time.After(5 * time.Second)
	for !ok() {
		select {
		case <-changed:
		case <-deadline:
			s.t.Fatalf("it did not come to that; the unit is %+v", s.view())
		}
	}
}

func sites(t testing.TB, l *Local, names ...string) []*site {
	var ss []*site
	for _, n := range names {
		s := &site{t: t, l: l, name: n}
		s.up()
		ss = append(ss, s)
	}
	return ss
}

func permitted(a decide.Answer) steadycast.Action {
	if len(a.Rulings) != 1 || a.Rulings[0].Permit == nil {
		return steadycast.NoAction
	}
	return a.Rulings[0].Permit.Action
}

func TestOnePipe(t *testing.T) {
	l, _ := mustOpen(t, t.TempDir(), policy("ams", "fra", "lon"))
	var mu sync.Mutex
	var told []string
	cancel := l.OnEvents(func(events []steadycast.Event) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			told = append(told, fmt.Sprintf("%s %s %s→%s", e.Kind, e.Site, e.From, e.To))
		}
	})
	ss := sites(t, l, "ams", "fra", "lon")
	fra := ss[1]
	fra.report(steadycast.Unhealthy)
	r := fra.request(steadycast.Withdraw)
	first := fra.ask(r)
	if permitted(first) != steadycast.Withdraw {
		t.Fatalf("one of three may leave, but: %+v", first)
	}
	if u := fra.view(); u.Phase != steadycast.Out || u.Permit != *first.Rulings[0].Permit {
		t.Errorf("the view does not hold what was answered: %+v", u)
	}
	if again := fra.ask(r); *again.Rulings[0].Permit != *first.Rulings[0].Permit {
		t.Errorf("asked again, it answers %+v", again)
	}
	ams := ss[0]
	if a := ams.ask(ams.request(steadycast.Withdraw)); permitted(a) != steadycast.Deprefer {
		t.Errorf("under the floor it says %+v", a)
	}
	cancel()
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"permit fra out→return", "proof fra returning→in", "permit fra in→withdraw", "permit ams in→deprefer"} {
		if !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("no event %q in\n%s", want, strings.Join(told, "\n"))
		}
	}
}

// TestRestart compares the whole machine before and after, by its hash.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, policy("ams", "fra", "lon"))
	ss := sites(t, l, "ams", "fra", "lon")
	ss[1].ask(ss[1].request(steadycast.Withdraw))
	if r, err := l.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Actor: "ann", Reason: "new disks", For: time.Hour}); err != nil || r.Refused != nil {
		t.Fatal(r, err)
	}
	if _, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "lon"}, "ann", "change window"); err != nil {
		t.Fatal(err)
	}
	before := l.View()

	killed := t.TempDir() // what a kill -9 leaves: the file as it is
	copyFile(t, filepath.Join(dir, journalName), filepath.Join(killed, journalName))
	k, _ := mustOpen(t, killed, policy("other"))
	if got := k.View(); fmt.Sprint(got.Units, got.Verdicts) != fmt.Sprint(before.Units, before.Verdicts) || got.Fence.Index != before.Fence.Index+1 {
		t.Errorf("after kill -9:\n%+v\nbefore:\n%+v", got, before)
	}

	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if onDisk(t, dir).Hash() != l.fleet.Hash() {
		t.Error("the state on disk is another")
	}
	again, _ := mustOpen(t, dir, policy("other"))
	v := again.View()
	if len(v.Orders) != 1 || v.Orders[0].Order.Actor != "ann" || v.Orders[0].LeftMS <= 0 || len(v.Freezes) != 1 {
		t.Errorf("orders %+v, freezes %+v", v.Orders, v.Freezes)
	}
	fra := site{t: t, l: again, name: "fra", seq: 100}
	if u := fra.view(); u.BudgetUsed != 1 || u.Order != steadycast.OrderDrain {
		t.Errorf("fra is %+v", u)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOrderEndsWhileIdle: nobody calls, and still the order ends when it says.
func TestOrderEndsWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l, err := Open(dir, policy("fra"), Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		order := steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test", For: 90 * time.Second}
		if r, err := l.Order(t.Context(), order); err != nil || r.Refused != nil {
			t.Fatal(r, err)
		}
		time.Sleep(90*time.Second - time.Millisecond)
		synctest.Wait()
		if n := len(l.View().Orders); n != 1 {
			t.Fatalf("%d orders a moment too early", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := len(l.View().Orders); n != 0 {
			t.Fatalf("%d orders after their time", n)
		}

		// The time that the ledger is down does not count, the time before does.
		if _, err := l.Order(t.Context(), order); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		l, err = Open(dir, policy("fra"), Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if o := l.View().Orders; len(o) != 1 || o[0].LeftMS != 30_000 {
			t.Fatalf("after the restart: %+v", o)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := len(l.View().Orders); n != 0 {
			t.Fatalf("%d orders after their time", n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestIdleWritesLittle: a tick a minute when nothing waits, one in ten seconds
// while something does.
func TestIdleWritesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(t.TempDir(), policy("fra"), Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		fra := &site{t: t, l: l, name: "fra"}
		fra.up()
		from := l.View().Fence.Index
		for range 600 {
			fra.beat(true)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := l.View().Fence.Index - from; n < 9 || n > 11 {
			t.Errorf("%d entries in ten idle minutes", n)
		}
		if lt := l.View().LT; lt < 540_000 || lt > 601_000 {
			t.Errorf("ledger time is %d ms after ten minutes", lt)
		}
		if _, err := l.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Actor: "ann", Reason: "test", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		from = l.View().Fence.Index
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := l.View().Fence.Index - from; n < 58 || n > 62 {
			t.Errorf("%d entries in ten minutes of waiting", n)
		}
	})
}

// TestDenialsAreNotWritten: a site that asks again and again is answered, and
// the log does not grow.
func TestDenialsAreNotWritten(t *testing.T) {
	l, _ := mustOpen(t, "", policy("ams", "fra", "lon"))
	ss := sites(t, l, "ams", "fra", "lon")
	if _, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{}, "ann", "hands off"); err != nil {
		t.Fatal(err)
	}
	from := l.View().Fence.Index
	for range 50 {
		if a := ss[0].ask(ss[0].request(steadycast.Withdraw)); permitted(a) != steadycast.NoAction || a.Rulings[0].Guards == nil {
			t.Fatalf("%+v", a)
		}
	}
	if n := l.View().Fence.Index - from; n != 1 {
		t.Errorf("50 refusals made %d entries; the first alone is written", n)
	}
}

// TestManyAtOnce: calls from everywhere are all answered, and share entries.
func TestManyAtOnce(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	l, _ := mustOpen(t, t.TempDir(), policy(names...))
	var wg sync.WaitGroup
	for _, n := range names {
		wg.Go(func() {
			s := &site{t: t, l: l, name: n}
			s.report(steadycast.Healthy)
			for range 5 {
				r := s.request(steadycast.Return)
				if a := s.ask(r); a.Site != n || a.ID != r.ID {
					t.Errorf("%s asked %s and got the answer to %s of %s", n, r.ID, a.ID, a.Site)
				}
			}
		})
	}
	wg.Wait()
	if n := l.View().Fence.Index; n > 200 {
		t.Errorf("240 calls made %d entries; those that wait should share one", n)
	}
}

// TestCallsEnd: no call hangs, whatever the context or the ledger does.
func TestCallsEnd(t *testing.T) {
	l, _ := mustOpen(t, "", policy("fra"))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	fra := site{t: t, l: l, name: "fra"}
	for range 200 {
		if _, err := l.Ask(over, fra.request(steadycast.Return)); err == nil {
			t.Fatal("a call whose context is over was answered")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Order(t.Context(), steadycast.Order{}); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	l.Beat(decide.Beat{Site: "fra"})
	if err := l.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// TestPersonsCalls: refusals come back as refusals, mistakes as errors, and
// trying changes nothing.
func TestPersonsCalls(t *testing.T) {
	l, _ := mustOpen(t, "", policy("ams", "fra"))
	sites(t, l, "ams", "fra")
	hash := func() string { return fmt.Sprint(l.View().Units, l.View().Orders, l.View().Freezes, l.View().Fence) }
	before := hash()
	o := steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "par", Actor: "ann", Reason: "test"}
	if r, err := l.Order(t.Context(), o); err != nil || r.Refused == nil || !strings.Contains(r.Refused.Text, "no site named par announces anything; sites: ams, fra") {
		t.Errorf("%+v %v", r, err)
	}
	o.Site = "fra"
	if r, err := l.Try(t.Context(), o); err != nil || r.Refused == nil || r.Refused.Guard != "floor" {
		t.Errorf("%+v %v", r, err)
	}
	o.Force = true
	if r, err := l.Try(t.Context(), o); err != nil || r.Refused != nil || len(r.Rulings) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := l.TryDo(t.Context(), decide.KindFreeze, decide.Scope{}, "ann", "test"); err != nil || r.Refused != nil || len(r.Events) == 0 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := l.Do(t.Context(), decide.KindTick, decide.Scope{}, "ann", "test"); err == nil {
		t.Error("a person may make a tick")
	}
	if r, err := l.SetTable(t.Context(), policy("ams", "fra"), "ann", "same"); err != nil || r.Refused != nil {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := l.SetTable(t.Context(), decide.Table{}, "ann", "nothing in it"); err == nil {
		t.Error("an empty table was taken")
	}
	if err := l.Report(t.Context(), []steadycast.Verdict{{Site: "par", Service: "web"}}); err == nil {
		t.Error("a verdict of nobody was taken")
	}
	if after := hash(); after != before {
		t.Errorf("that should have changed nothing:\n%s\n%s", before, after)
	}
	if r, err := l.SetTable(t.Context(), policy("ams", "fra", "par"), "ann", "one more"); err != nil || r.Refused != nil || l.View().Table.Revision != 2 {
		t.Errorf("%+v %v, revision %d", r, err, l.View().Table.Revision)
	}
}

// TestNoWallClock: the clock is read once, for its monotonic part. A step of the
// wall clock then cannot matter.
func TestNoWallClock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch x, _ := s.X.(*ast.Ident); {
			case x != nil && x.Name == "time" && s.Sel.Name == "Now":
				reads++
			case s.Sel.Name == "Round", s.Sel.Name == "Unix", s.Sel.Name == "UnixMilli", s.Sel.Name == "UTC", s.Sel.Name == "Format":
				t.Errorf("%s: %s drops the monotonic reading or uses the date", fset.Position(n.Pos()), s.Sel.Name)
			}
			return true
		})
	}
	if reads != 1 {
		t.Errorf("the clock is read in %d places; one is enough", reads)
	}
}
