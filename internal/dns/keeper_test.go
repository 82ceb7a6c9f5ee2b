package dns

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/loopback"
)

// room is a keeper with a server, in the test's own process.
type room struct {
	*keeper
	source *fakeSource
	at     netip.AddrPort
	log    *bytes.Buffer
	stop   func()
	turns  atomic.Int32 // of the keeper's loop
}

// begin starts a keeper in dir, which may hold what an earlier one remembered.
func begin(t *testing.T, dir string, change func(*config.DNS)) *room {
	t.Helper()
	r := &room{source: newSource(), at: loopback.Own(t), log: &bytes.Buffer{}}
	var lines sync.Mutex
	log := slog.New(slog.NewTextHandler(guarded{&lines, r.log}, nil))
	node := config.Node{Fleet: "edge", Node: "fra-1", DNS: config.DNS{StaleAfter: time.Minute, Remember: time.Hour}}
	if change != nil {
		change(&node.DNS)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	r.keeper = &keeper{node: node, source: r.source, log: log, beat: 20 * time.Millisecond, freshFor: 100 * time.Millisecond, memory: &memory{path: filepath.Join(dir, "dns-view.json"), fleet: "edge", log: log}}
	r.serve = func(first *dnsfallback.Table) (*dnsfallback.Server, error) {
		s, err := dnsfallback.Listen(dnsfallback.Settings{Listen: []netip.AddrPort{r.at}, Workers: 1}, nil)
		if err != nil {
			return nil, err
		}
		if err := s.Set(first); err != nil {
			return nil, err
		}
		running.Go(func() { s.Serve(ctx) })
		return s, nil
	}
	running.Go(func() { r.run(ctx, func() { r.turns.Add(1) }, nil) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

// looked waits until the keeper has taken the source's state at its start, and has
// done with it what it does.
func (r *room) looked(t *testing.T) {
	t.Helper()
	eventually(t, "it looks at the source", func() bool { return r.source.viewed.Load() > 0 })
	r.turn(t)
}

// watched waits until the keeper has asked from now on whether the ledger is lost,
// and has done with it what it does.
func (r *room) watched(t *testing.T) {
	t.Helper()
	before := r.source.asked.Load()
	eventually(t, "it asks whether the ledger is lost", func() bool { return r.source.asked.Load() > before+1 })
	r.turn(t)
}

func (r *room) turn(t *testing.T) {
	t.Helper()
	before := r.turns.Load()
	eventually(t, "it goes on", func() bool { return r.turns.Load() > before })
}

type guarded struct {
	*sync.Mutex
	b *bytes.Buffer
}

func (g guarded) Write(p []byte) (int, error) {
	g.Lock()
	defer g.Unlock()
	return g.b.Write(p)
}

func (r *room) answers(t *testing.T, name, want string) {
	t.Helper()
	eventually(t, name+" is "+want, func() bool { return ask(r.at, name) == want })
}

// A server says nothing before it knows the table and the state; then it follows
// every committed change, and each table has a greater version.
func TestAnswersFollowTheLedger(t *testing.T) {
	r := begin(t, t.TempDir(), nil)
	r.looked(t)
	if _, server, _ := r.show(); server != nil {
		t.Fatal("it answers without a table")
	}
	r.source.commit(view(t, 1, table))
	r.answers(t, "www.example.com", "192.0.2.1")
	first, _, _ := r.show()
	r.source.commit(view(t, 2, table, "fra"))
	r.answers(t, "www.example.com", "192.0.2.2")
	second, _, _ := r.show()
	if second.Table.Version() <= first.Table.Version() || second.Position != "1.2" {
		t.Errorf("version %d at %s after %d at %s", second.Table.Version(), second.Position, first.Table.Version(), first.Position)
	}
	// Another table comes by the same way.
	v := view(t, 3, "revision: 2\n"+strings.Replace(table, "192.0.2.99", "192.0.2.98", 1))
	r.source.commit(v)
	r.answers(t, "static.example.com", "192.0.2.98")
	// An older position, as of a backup that was restored, changes nothing.
	r.source.commit(view(t, 2, table))
	eventually(t, "the older position is refused", func() bool {
		s, _, _ := r.show()
		return strings.Contains(s.Refused, "the ledger is at 1.2, before 1.3 that was answered from")
	})
	if got := ask(r.at, "static.example.com"); got != "192.0.2.98" {
		t.Errorf("the older table is answered from: %s", got)
	}
	// The state in which a question was asked, by another revision of the table.
	then, err := r.keeper.at(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := then.Explain("static.example.com", "A", netip.MustParsePrefix("203.0.113.0/24")); err != nil || !strings.Contains(strings.Join(e.Records, ""), "192.0.2.99") {
		t.Errorf("revision 1 says %v, %v", e.Records, err)
	}
	if _, err := r.keeper.at(t.Context(), 9); err == nil {
		t.Error("a revision that nobody remembers is answered by")
	}
}

// A storm of changes makes a bounded number of tables, and the last of them is of
// the last change; one change alone does not wait for others.
func TestStormIsGathered(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	at := loopback.Own(t)
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		k := &keeper{node: config.Node{Fleet: "edge", Node: "fra-1", DNS: config.DNS{StaleAfter: time.Minute}}, source: source, log: log,
			beat: beat, freshFor: freshFor, memory: &memory{path: filepath.Join(dir, "dns-view.json"), fleet: "edge", log: log}}
		k.serve = func(first *dnsfallback.Table) (*dnsfallback.Server, error) {
			s, err := dnsfallback.Listen(dnsfallback.Settings{Listen: []netip.AddrPort{at}, Workers: 1}, nil)
			if err != nil {
				return nil, err
			}
			return s, s.Set(first)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.run(ctx, func() {}, nil) })
		tables := map[uint64]bool{}
		note := func() (position string) {
			synctest.Wait()
			s, _, _ := k.show()
			if s.Table != nil {
				tables[s.Table.Version()] = true
			}
			return s.Position
		}
		source.commit(view(t, 1, table))
		time.Sleep(gather)
		if got := note(); got != "1.1" {
			t.Errorf("the first table is of %q", got)
		}
		time.Sleep(time.Second)
		source.commit(view(t, 2, table))
		if got := note(); got != "1.2" {
			t.Errorf("a change alone waits: %q", got)
		}
		time.Sleep(time.Second)
		note()
		clear(tables)
		const changes, each = 1000, time.Millisecond
		for i := range uint64(changes) {
			source.commit(view(t, 3+i, table, []string{"fra", "ams"}[i%2]))
			note()
			time.Sleep(each)
		}
		if most := int(changes*each/gather) + 1; len(tables) > most+1 || len(tables) < most/2 {
			t.Errorf("%d tables of %d changes within %v; want about %d", len(tables), changes, changes*each, most)
		}
		time.Sleep(gather)
		if got, want := note(), fmt.Sprintf("1.%d", 2+changes); got != want {
			t.Errorf("the last table is of %s; want %s", got, want)
		}
		cancel()
		running.Wait()
		_, server, _ := k.show()
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if err := server.Serve(ctx); err != nil { // closes what it listens at
			t.Error(err)
		}
	})
}

// What cannot be read, in whatever way, leaves the table before in use and is said.
func TestBadTableChangesNothing(t *testing.T) {
	for name, bad := range map[string]func(string) string{
		"no yaml":           func(string) string { return "zones: [" },
		"a CNAME with data": func(s string) string { return strings.Replace(s, "[static", "[www CNAME static, static", 1) },
		"outside": func(s string) string {
			return strings.Replace(s, "[static", "[other.example.org. A 192.0.2.1, static", 1)
		},
		"an unknown member": func(s string) string { return strings.Replace(s, "{site: ams, addresses", "{site: mars, addresses", 1) },
		"an unknown key":    func(s string) string { return s + "zebra: 1\n" },
		"no zones":          func(s string) string { return s[:strings.Index(s, "zones:")] },
		"no text":           func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := begin(t, dir, nil)
			good := view(t, 1, table)
			r.source.commit(good)
			r.answers(t, "static.example.com", "192.0.2.99")
			v := view(t, 2, table, "fra")
			v.Table.Revision, v.Table.Source = 2, bad(table)
			r.source.commit(v)
			eventually(t, "it is refused", func() bool {
				s, _, _ := r.show()
				return strings.HasPrefix(s.Refused, "revision 2 of the table is not answered from: ")
			})
			r.answers(t, "static.example.com", "192.0.2.99")
			// The state goes on, by the zones that are in use, and which they are is said.
			r.answers(t, "www.example.com", "192.0.2.2")
			if s, _, _ := r.show(); s.Revision != 1 {
				t.Errorf("it is said to answer by revision %d, which is refused", s.Revision)
			}
			// Over a restart as well, from which there may be no ledger.
			r.stop()
			r = begin(t, dir, nil)
			r.source.lose(2 * time.Minute)
			r.answers(t, "static.example.com", "192.0.2.99")
			r.answers(t, "www.example.com", "192.0.2.2")
			if s, _, _ := r.show(); s.Revision != 1 || !strings.HasPrefix(s.Refused, "revision 2 of the table is not answered from: ") {
				t.Errorf("after a restart by revision %d, refused: %q", s.Revision, s.Refused)
			}
			r.source.lose(0)
			next := view(t, 3, table)
			next.Table.Revision = 3
			r.source.commit(next)
			eventually(t, "a good one ends it", func() bool { s, _, _ := r.show(); return s.Refused == "" && s.Revision == 3 })
		})
	}
}

// A server that starts without a ledger answers from what it remembers, if that is
// young, and not otherwise; its versions go on.
func TestRemembers(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, dir, nil)
	r.source.commit(view(t, 7, table, "fra"))
	r.answers(t, "www.example.com", "192.0.2.2")
	before, _, _ := r.show()
	r.stop()

	again := begin(t, dir, nil)
	again.source.lose(time.Minute)
	again.answers(t, "www.example.com", "192.0.2.2")
	if s, _, _ := again.show(); s.Table.Version() <= before.Table.Version() || s.Position != "1.7" {
		t.Errorf("version %d at %s after %d", s.Table.Version(), s.Position, before.Table.Version())
	}
	again.stop()

	for name, spoil := range map[string]func(*testing.T, string, *config.DNS){
		"too old": func(t *testing.T, path string, c *config.DNS) { c.Remember = time.Nanosecond },
		"never":   func(t *testing.T, path string, c *config.DNS) { c.Remember = 0 },
		"damaged": func(t *testing.T, path string, c *config.DNS) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(path, bytes.Replace(b, []byte("192.0.2.2]"), []byte("192.0.2.3]"), 1), 0o600)
		},
		"torn": func(t *testing.T, path string, c *config.DNS) { os.Truncate(path, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			own := t.TempDir()
			b, err := os.ReadFile(filepath.Join(dir, "dns-view.json"))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(own, "dns-view.json")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			r := begin(t, own, func(c *config.DNS) { spoil(t, path, c) })
			r.looked(t)
			if _, server, _ := r.show(); server != nil {
				t.Fatal("it answers")
			}
			r.source.commit(view(t, 8, table))
			r.answers(t, "www.example.com", "192.0.2.1")
		})
	}
}

// Without a ledger the answers go on, count as stale after a while, and by
// minimal_after come down to the anycast addresses; and are fresh again after.
func TestStale(t *testing.T) {
	r := begin(t, t.TempDir(), func(c *config.DNS) { c.MinimalAfter = time.Hour })
	r.source.commit(view(t, 1, table, "fra"))
	r.answers(t, "www.example.com", "192.0.2.2")
	r.source.lose(30 * time.Second) // an election is no loss
	r.watched(t)
	if s, _, _ := r.show(); s.Stale != "" {
		t.Errorf("stale after half a minute: %s", s.Stale)
	}
	r.source.lose(0)
	eventually(t, "it is heard", func() bool { s, _, _ := r.show(); return time.Since(s.Heard) < 3*time.Second })
	r.source.lose(2 * time.Minute)
	eventually(t, "it is stale", func() bool {
		s, _, _ := r.show()
		return strings.Contains(s.Stale, "no voter of the ledger was heard") && s.Mode == answers.Frozen
	})
	r.answers(t, "www.example.com", "192.0.2.2")
	r.source.lose(0)
	eventually(t, "it is fresh", func() bool { s, _, _ := r.show(); return s.Stale == "" && s.Mode == answers.Normal })
	r.source.lose(2 * time.Hour)
	eventually(t, "it is minimal", func() bool { s, _, _ := r.show(); return s.Mode == answers.Minimal })
	r.answers(t, "www.example.com", "192.0.2.80")
	r.answers(t, "static.example.com", "192.0.2.99")
}

// What is older than no_response is not answered from, and the self-test says so;
// what is heard again is.
func TestNoResponse(t *testing.T) {
	r := begin(t, t.TempDir(), func(c *config.DNS) { c.NoResponse = time.Hour })
	r.source.commit(view(t, 1, table, "fra"))
	r.answers(t, "www.example.com", "192.0.2.2")
	r.source.lose(59 * time.Minute)
	eventually(t, "it is stale", func() bool { s, _, _ := r.show(); return s.Stale != "" })
	r.answers(t, "www.example.com", "192.0.2.2")
	r.source.lose(2 * time.Hour)
	eventually(t, "it is silent", func() bool { s, _, _ := r.show(); return s.Silent })
	s, server, _ := r.show()
	if err := server.SelfTest(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing is answered") {
		t.Errorf("the self-test says %v", err)
	}
	e, err := s.Table.Explain("www.example.com", "A", netip.MustParsePrefix("203.0.113.7/32"))
	if err != nil || len(e.Records) != 1 || !strings.Contains(e.Branch[0], "nothing is answered") {
		t.Errorf("%v, %+v", err, e)
	}
	m := new(mdns.Msg)
	m.SetQuestion("www.example.com.", mdns.TypeA)
	c := mdns.Client{Timeout: 200 * time.Millisecond}
	if got, _, err := c.Exchange(m, server.Addresses()[0].String()); err == nil {
		t.Errorf("it answers %v", got)
	}
	r.source.lose(0)
	eventually(t, "it answers again", func() bool { s, _, _ := r.show(); return !s.Silent && s.Stale == "" })
	r.answers(t, "www.example.com", "192.0.2.2")
}

// A ledger that is behind what was answered from is no news: its word keeps nothing fresh.
func TestBehindIsStale(t *testing.T) {
	r := begin(t, t.TempDir(), func(c *config.DNS) { c.StaleAfter = 10 * time.Millisecond })
	r.source.commit(view(t, 5, table, "fra"))
	r.answers(t, "www.example.com", "192.0.2.2")
	r.source.commit(view(t, 3, table))
	eventually(t, "it is stale", func() bool {
		s, _, _ := r.show()
		return strings.Contains(s.Stale, "the ledger is at 1.3, before 1.5 that was answered from") && s.Mode == answers.Frozen
	})
	r.answers(t, "www.example.com", "192.0.2.2")
	r.source.commit(view(t, 6, table))
	eventually(t, "it is fresh", func() bool { s, _, _ := r.show(); return s.Stale == "" && s.Mode == answers.Normal })
	r.answers(t, "www.example.com", "192.0.2.1")
}

// A disk that stalls takes away what a restart would remember, and nothing else:
// here the file to be written is a pipe that nobody reads.
func TestStalledDisk(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "dns-view.json.tmp")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, dir, nil)
	t.Cleanup(func() { // the write ends, and so can the keeper
		fd, err := unix.Open(pipe, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
		}
		r.stop()
		unix.Close(fd)
	})
	r.source.commit(view(t, 1, table))
	r.answers(t, "www.example.com", "192.0.2.1")
	for i, want := range []string{"192.0.2.2", "192.0.2.1", "192.0.2.2"} {
		down := "fra"
		if want == "192.0.2.1" {
			down = "ams"
		}
		heard, _, _ := r.show()
		eventually(t, "the clock is looked at", func() bool { s, _, _ := r.show(); return s.Heard.After(heard.Heard) })
		r.source.commit(view(t, uint64(i)+2, table, down))
		r.answers(t, "www.example.com", want)
	}
}
