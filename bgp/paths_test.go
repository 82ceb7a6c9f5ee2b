package bgp

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

// onPaths are settings for one neighbour per router, each of its path.
func onPaths(paths []string, rs ...*sink.Router) Settings {
	s := towards(rs...)
	for i := range s.Neighbors {
		s.Neighbors[i].Path = paths[i]
		s.Neighbors[i].ConnectRetry = 100 * time.Millisecond
	}
	return s
}

const overlap = 50 * time.Millisecond

// along applies routes as the next version, to go a path.
func along(t testing.TB, sp *Speaker, path string, rs ...steadycast.Route) {
	t.Helper()
	if err := sp.Apply(steadycast.RouteSet{Incarnation: 1, Version: sp.Actual().Version + 1, Path: path, Overlap: overlap, Routes: rs}); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(a steadycast.Actual, peer string) (rows []steadycast.Sent) {
	for _, r := range a.Sent {
		if r.Peer == peer {
			rows = append(rows, r)
		}
	}
	return rows
}

func with(n int) func(sink.Table) bool {
	return func(tb sink.Table) bool { return len(tb[home]) == n }
}

// TestPathMakeBeforeBreak: the old router hears the withdrawal after the new one's TCP
// has the announcement, and who is of no path keeps what it has.
func TestPathMakeBeforeBreak(t *testing.T) {
	t.Parallel()
	direct, scrubbed, always := listenSink(t, sink.Options{}), listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
	sp := speak(t, onPaths([]string{"direct", "scrubbed", ""}, direct, scrubbed, always))
	eventually(t, sp, "three sessions", established)
	along(t, sp, "direct", routes(net1, net6)...)
	hears(t, direct, "both", with(2))
	hears(t, always, "both", with(2))
	if tb := scrubbed.Table(); len(tb[home]) != 0 {
		t.Fatalf("the other path has %v", tb)
	}
	old, kept := "r0", always.Updates(home)
	for _, to := range []struct {
		path, peer string
		new, left  *sink.Router
	}{{"scrubbed", "r1", scrubbed, direct}, {"direct", "r0", direct, scrubbed}} {
		along(t, sp, to.path, routes(net1, net6)...)
		hears(t, to.new, "both", with(2))
		hears(t, to.left, "none", with(0))
		eventually(t, sp, "at "+to.path, func(a steadycast.Actual) bool {
			return a.Path == to.path && a.Toward == to.path && a.PathWait == "" && a.Alarm == ""
		})
		var last time.Time
		for _, r := range rowsOf(sp.Actual(), to.peer) {
			if !r.Announced || r.Acked.IsZero() {
				t.Fatalf("to %s: %+v", to.path, r)
			}
			if r.Acked.After(last) {
				last = r.Acked
			}
		}
		for _, r := range rowsOf(sp.Actual(), old) {
			if r.Announced || r.At.Sub(last) < overlap {
				t.Errorf("to %s: withdrawn at %v, the new path had acknowledged at %v", to.path, r.At, last)
			}
		}
		old = to.peer
	}
	if n := always.Updates(home); n != kept {
		t.Errorf("who is of no path heard %d more updates", n-kept)
	}
}

// TestPathKeepsTheOldOne: while nobody of the new path acknowledges (it is down, does
// not read, or is not in the settings) the old path keeps all, hears what is new, and
// loses what is withdrawn; also in a process that starts in the middle of it.
func TestPathKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, why string
		to        string
		spoil     func(t *testing.T, s *Settings, r *sink.Router)
	}{
		{"down", "no session of path scrubbed is up", "scrubbed", func(t *testing.T, s *Settings, r *sink.Router) { r.Close() }},
		{"not here", "no neighbour of node.yaml is of path far", "far", func(t *testing.T, s *Settings, r *sink.Router) {}},
		{"other family", "no session of path scrubbed carries", "scrubbed", func(t *testing.T, s *Settings, r *sink.Router) { s.Neighbors[1].Families = []string{"ipv6"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			direct, scrubbed := listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
			s := onPaths([]string{"direct", "scrubbed"}, direct, scrubbed)
			c.spoil(t, &s, scrubbed)
			sp, err := New(s, Options{Logger: quiet, Path: new("direct")})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { sp.Stop(context.Background(), "the test is over") }()
			along(t, sp, c.to, routes(net1, net6)...)
			hears(t, direct, "both, as before", with(2))
			waits := func(a steadycast.Actual) bool {
				return a.Path == "direct" && a.Toward == c.to && len(a.PathWait) >= len(c.why) && a.PathWait[:len(c.why)] == c.why
			}
			eventually(t, sp, c.why, waits)
			along(t, sp, c.to, routes(net1, net2, net6)...)
			hears(t, direct, "what is new", with(3))
			along(t, sp, c.to, routes(net1)...)
			hears(t, direct, "one", with(1))
			eventually(t, sp, c.why, waits)
		})
	}
}

// TestPathComesUp: what waited for the new path is done when it comes.
func TestPathComesUp(t *testing.T) {
	t.Parallel()
	direct, gone := listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
	at := gone.Addr()
	gone.Close()
	s := onPaths([]string{"direct", "scrubbed"}, direct, gone)
	sp, err := New(s, Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Path: new("direct")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { sp.Stop(context.Background(), "the test is over") }()
	along(t, sp, "scrubbed", routes(net1)...)
	hears(t, direct, "one, as before", with(1))
	scrubbed := listenSink(t, sink.Options{Address: at.String()})
	hears(t, scrubbed, "one", with(1))
	hears(t, direct, "none", with(0))
}

// TestWayNeverNobody: whatever the order of sets, proofs and neighbours, while there
// are routes the path that is proven hears them, so a set never takes the last one that
// has the route; and the speaker arrives nowhere that has not acknowledged everything.
func TestWayNeverNobody(t *testing.T) {
	paths := []string{"", "direct", "scrubbed", "far"}
	rapid.Check(t, func(rt *rapid.T) {
		s := &Speaker{logger: quiet, dirty: make(chan struct{}, 1)}
		holds := "" // a path that has acknowledged all of the routes
		first := true
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				was := s.set.Path
				s.set = steadycast.RouteSet{Version: s.set.Version + 1, Path: rapid.SampledFrom(paths).Draw(rt, "path"),
					Overlap: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "overlap"), Routes: routes(net1)}
				if first {
					was = rapid.SampledFrom(paths).Draw(rt, "remembered")
				}
				if holds == "" || s.set.Path == "" { // of all neighbours one has it
					holds = was
				}
				first = false
				s.head(was)
			},
			"look": func(rt *rapid.T) {
				if first {
					return
				}
				w := s.way()
				a := &steadycast.Actual{}
				has := false
				for _, p := range paths[1:] {
					state := rapid.SampledFrom([]string{"established", "connect", "stuck"}).Draw(rt, "state")
					row := steadycast.Sent{Peer: p, Prefix: net1, Announced: w.leads(p) && rapid.Bool().Draw(rt, "sent"), Stale: rapid.Bool().Draw(rt, "stale")}
					if rapid.Bool().Draw(rt, "acked") {
						row.Acked = time.Unix(1, 0)
					}
					a.Peers = append(a.Peers, steadycast.Peer{Name: p, Path: p, State: state, Families: []string{"ipv4"}})
					a.Sent = append(a.Sent, row)
					has = has || p == w.toward && state == "established" && row.Announced && !row.Stale && !row.Acked.IsZero()
				}
				if len(w.held) == 0 {
					return
				}
				if !s.provenAt.IsZero() && rapid.Bool().Draw(rt, "over") {
					s.provenAt = s.provenAt.Add(-s.set.Overlap)
				}
				leaving := w.leaving
				s.proceed(w, s.set, a)
				switch {
				case !has && (s.way().leaving || s.way().path() != w.path()):
					rt.Fatalf("it leaves %v with %+v", w, a)
				case has && !leaving && s.set.Overlap > 0 && !s.way().leaving:
					rt.Fatalf("it does not begin to leave %v with %+v", w, a)
				case has && s.way().path() != w.path() && s.set.Overlap > 0 && !leaving:
					rt.Fatalf("no overlap at %v", w)
				}
				if has && len(s.held) == 0 {
					holds = w.toward
				}
			},
			"": func(rt *rapid.T) {
				if first {
					return
				}
				if len(s.way().routesFor(holds)) == 0 {
					rt.Fatalf("who has the route by %q loses it: %+v", holds, s.way())
				}
				if len(s.way().routesFor("")) == 0 || len(s.way().routesFor(s.set.Path)) == 0 {
					rt.Fatalf("who should hear does not: %+v", s.way())
				}
			},
		})
	})
}

// TestPathNames: what is no name of a path is said with its place.
func TestPathNames(t *testing.T) {
	s := towards()
	s.Neighbors = []Neighbor{{Name: "tor1", Address: netip.MustParseAddr("192.0.2.9"), ASN: 65000, NextHop6: netip.MustParseAddr("2001:db8::1"), Path: "not a path"}}
	ps := s.Problems()
	if len(ps) != 1 || ps[0].Path != "neighbors[0].path" {
		t.Errorf("got %v", ps)
	}
}

// TestPathIsKnownBeforeTheFirstSet: a process that starts says by which path the routes
// went, so that who orders something here without a ledger moves no path by that.
func TestPathIsKnownBeforeTheFirstSet(t *testing.T) {
	t.Parallel()
	sp, err := New(onPaths([]string{"direct", "scrubbed"}, listenSink(t, sink.Options{}), listenSink(t, sink.Options{})), Options{Logger: quiet, Path: new("scrubbed")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { sp.Stop(context.Background(), "the test is over") }()
	eventually(t, sp, "at scrubbed", func(a steadycast.Actual) bool {
		return a.Path == "scrubbed" && a.Toward == "scrubbed" && a.PathWait == ""
	})
}
