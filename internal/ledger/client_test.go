package ledger

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// client is an agent's client of a cluster.
func (c *cluster) client(site string, tweak func(*ClientOptions)) *Client {
	c.t.Helper()
	o := ClientOptions{
		Fleet: "test", Site: site, Node: site + "-9", Voters: c.peers, TLS: c.ca.node("test", site, site+"-9"),
		Log: slog.New(slog.DiscardHandler), Dial: c.wires.dialFrom(site+"-9", c.who),
	}
	if tweak != nil {
		tweak(&o)
	}
	cl, err := OpenClient(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cl.Close() })
	return cl
}

func unitOf(name string) steadycast.Unit {
	return steadycast.Unit{Site: name, Prefix: netip.MustParsePrefix("192.0.2.0/24")}
}

func phaseOf(l Ledger, name string) steadycast.Phase {
	for _, u := range l.View().Units {
		if u.Unit == unitOf(name) {
			return u.Phase
		}
	}
	return steadycast.Out
}

// up brings a site's unit in, over the network, by the way an agent does it.
func (c *cluster) up(cl *Client) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	name := cl.opts.Site
	if err := cl.Report(ctx, []steadycast.Verdict{{Site: name, Service: "web", State: steadycast.Healthy}}); err != nil {
		c.t.Fatal(err)
	}
	id := steadycast.RequestID{Incarnation: 1, Seq: 1}
	a, err := cl.Ask(ctx, (&site{name: name}).request(steadycast.Return))
	if err != nil || permitted(a) != steadycast.Return {
		c.t.Fatalf("%s: %+v %v", name, a, err)
	}
	until(c.t, name+" to be in", func() bool {
		cl.Beat(decide.Beat{Site: name, Incarnation: 1, Announcing: []steadycast.Unit{unitOf(name)}, Returned: []decide.ReturnProof{{Unit: unitOf(name), ID: id}}})
		return phaseOf(cl, name) == steadycast.In
	})
}

// TestAgentsOfAFleet: three sites come in and one asks to leave, each through its
// own client; the leader is lost in between and the request sent again; there is
// one permit.
func TestAgentsOfAFleet(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	var all []*Client
	for _, s := range c.sites {
		cl := c.client(s, nil)
		c.up(cl)
		all = append(all, cl)
	}
	fra := all[1]
	var events []steadycast.Event
	heard := make(chan []steadycast.Event, 64)
	defer all[0].OnEvents(func(e []steadycast.Event) { heard <- e })()
	// The beats must be with whoever leads next, too.
	beating, stop := context.WithCancel(t.Context())
	defer stop()
	for _, cl := range all {
		go func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for {
				cl.Beat(decide.Beat{Site: cl.opts.Site, Incarnation: 1, Announcing: []steadycast.Unit{unitOf(cl.opts.Site)}})
				select {
				case <-beating.Done():
					return
				case <-tick.C:
				}
			}
		}()
	}
	request := (&site{name: "fra", seq: 1}).request(steadycast.Withdraw)
	down := steadycast.Verdict{Site: "fra", Service: "web", State: steadycast.Unhealthy, Class: steadycast.Hard, Reason: "refused"}
	var first decide.Answer
	until(t, "the permit", func() bool {
		var err error
		first, err = fra.Ask(t.Context(), request, down)
		if err != nil {
			t.Fatal(err)
		}
		request.ID.Seq++ // a refusal: the beats were not there yet
		return permitted(first) == steadycast.Withdraw
	})
	request.ID.Seq--
	old := c.leader()
	c.stop(old.opts.Node)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	again, err := fra.Ask(ctx, request, down)
	if err != nil || len(again.Rulings) != 1 || again.Rulings[0].Permit == nil || *again.Rulings[0].Permit != *first.Rulings[0].Permit {
		t.Errorf("sent again:\n%+v %v\n%+v", again, err, first)
	}
	until(t, "all to see it", func() bool {
		return !slices.ContainsFunc(all, func(cl *Client) bool { return phaseOf(cl, "fra") != steadycast.Out })
	})
	for len(heard) > 0 {
		events = append(events, <-heard...)
	}
	if !slices.ContainsFunc(events, func(e steadycast.Event) bool { return e.Kind == steadycast.EventPermit && e.Site == "fra" }) {
		t.Errorf("another site heard %+v", events)
	}
}

// TestNewLeaderIsWarm: who is elected has heard the beats like the leader before,
// so a site may leave by its first word.
func TestNewLeaderIsWarm(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	var all []*Client
	for _, s := range c.sites {
		cl := c.client(s, nil)
		c.up(cl)
		all = append(all, cl)
	}
	beats := func(v *Voter) (n int) {
		v.beats.mu.Lock()
		defer v.beats.mu.Unlock()
		return len(v.beats.beats)
	}
	down := steadycast.Verdict{Site: "fra", Service: "web", State: steadycast.Unhealthy, Class: steadycast.Hard, Reason: "refused"}
	request := (&site{name: "fra", seq: 1}).request(steadycast.Withdraw)
	for try := 1; ; try++ {
		old := c.leader()
		at := time.Now()
		for _, cl := range all {
			cl.Beat(decide.Beat{Site: cl.opts.Site, Incarnation: 1, Announcing: []steadycast.Unit{unitOf(cl.opts.Site)}})
		}
		until(t, "the beats to be with those that follow", func() bool {
			return !slices.ContainsFunc(c.all(), func(v *Voter) bool { return v != old && beats(v) < len(all) })
		})
		if err := old.raft.LeadershipTransfer().Error(); err != nil {
			t.Fatal(err)
		}
		c.leader(old.opts.Node)
		a, err := all[1].Ask(t.Context(), request, down)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case permitted(a) == steadycast.Withdraw:
			return
		case time.Since(at) < beatFresh || try == 5:
			t.Fatalf("%s after the beats: %+v", time.Since(at), a)
		}
		request.ID.Seq++ // it took so long that the beats do not count any more
	}
}

// TestOnlyItself: a node reports, asks and beats for its own site only, and a
// node that is no voter passes on nothing.
func TestOnlyItself(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	cl := c.client("fra", nil)
	beat := func(b decide.Beat) func() error {
		b.Site, b.Incarnation = cmp.Or(b.Site, "fra"), 1
		return func() error { return cl.links[0].call(t.Context(), pathBeat, nil, beatCall{Beat: b}, nil) }
	}
	ack := func(site, node string) func() error {
		return func() error {
			return cl.links[0].call(t.Context(), pathAck, nil, decide.Ack{Revision: 2, Site: site, Node: node}, nil)
		}
	}
	step := func(site, node string) func() error {
		return func() error {
			return cl.links[0].call(t.Context(), pathStep, nil, decide.StepWord{Run: 1, Try: 1, Site: site, Node: node, Say: decide.SayTake}, nil)
		}
	}
	theirs := []steadycast.Unit{unitOf("fra"), unitOf("ams")}
	p := []netip.Prefix{unitOf("ams").Prefix}
	id := steadycast.RequestID{Incarnation: 1, Seq: 1}
	for what, call := range map[string]func() error{
		"report": func() error {
			return cl.Report(t.Context(), []steadycast.Verdict{{Site: "ams", Service: "web", State: steadycast.Unhealthy}})
		},
		"ask": func() error {
			_, err := cl.Ask(t.Context(), steadycast.Request{ID: id, Site: "ams", Prefixes: p, Action: steadycast.Withdraw})
			return err
		},
		"report beside": func() error {
			_, err := cl.Ask(t.Context(), steadycast.Request{ID: id, Site: "fra", Prefixes: p, Action: steadycast.Withdraw}, steadycast.Verdict{Site: "ams", Service: "web"})
			return err
		},
		"give up":                   func() error { return cl.GiveUp(t.Context(), "ams", id, []steadycast.Unit{unitOf("ams")}) },
		"give up a unit":            func() error { return cl.GiveUp(t.Context(), "fra", id, theirs) },
		"beat":                      beat(decide.Beat{Site: "ams"}),
		"beat of what it announces": beat(decide.Beat{Announcing: theirs}),
		"beat of what is unproven":  beat(decide.Beat{Unproven: theirs}),
		"beat of its return":        beat(decide.Beat{Returned: []decide.ReturnProof{{Unit: theirs[1], ID: id}}}),
		"beat of its load":          beat(decide.Beat{Load: &decide.Load{Site: "ams", Load: 1}}),
		"take a step for its site":  step("ams", "ams-1"),
		"take a step as another":    step("fra", "fra-1"),
		"acknowledge for its site":  ack("ams", "ams-1"),
		"acknowledge for its node":  ack("fra", "fra-1"),
		"acknowledge as another's":  ack("ams", "fra-9"),
		"pass on": func() error {
			return cl.links[0].call(t.Context(), pathReport, map[string][]string{onBehalfOf: {"ams/ams-1"}},
				reportCall{[]steadycast.Verdict{{Site: "ams", Service: "web", State: steadycast.Unhealthy}}}, nil)
		},
	} {
		if _, ok := errors.AsType[Forbidden](call()); !ok {
			t.Errorf("%s for another: %v", what, call())
		}
	}
	if v := c.leader().View().Verdicts; len(v) > 0 {
		t.Errorf("%+v", v)
	}
	// What has no meaning is the ledger's answer, and is not asked of every voter.
	_, err := cl.Do(t.Context(), decide.KindTick, decide.Scope{}, "ann", "x")
	if _, ok := errors.AsType[Invalid](err); !ok {
		t.Errorf("%v", err)
	}
	err = cl.links[0].call(t.Context(), pathReport, nil, map[string]any{"verdicts": nil, "what": 1}, nil)
	if _, ok := errors.AsType[Invalid](err); !ok || !strings.Contains(err.Error(), "what") {
		t.Errorf("%v", err)
	}
}

// TestRelayed: a client that reaches one voter only, which does not lead, is
// served all the same.
func TestRelayed(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	i := slices.IndexFunc(c.peers, func(p Peer) bool { return p.Node != lead.opts.Node })
	cl := c.client("fra", func(o *ClientOptions) { o.Voters = c.peers[i : i+1] })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := freeze(ctx, cl, "by a follower"); err != nil {
		t.Fatal(err)
	}
	if frozen(cl) != "by a follower" {
		t.Errorf("a person does not see what was just done: %+v", cl.View().Freezes)
	}
	if err := cl.Report(ctx, []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Healthy}}); err != nil {
		t.Fatal(err)
	}
	_, err := cl.Ask(ctx, steadycast.Request{ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: "ams", Action: steadycast.Withdraw})
	if _, ok := errors.AsType[Forbidden](err); !ok {
		t.Errorf("for another site: %v", err)
	}
}

// TestSilence: with no voter in reach calls end with their context; after 15 s
// the ledger is lost, and says so; and it is back with the first word.
func TestSilence(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	cl := c.client("fra", nil)
	until(t, "the view", func() bool { return cl.View().Fence.Epoch == 1 })
	for _, p := range c.peers {
		c.stop(p.Node)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := cl.Report(ctx, []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Healthy}})
	var lost *LostError
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &lost) || cl.Lost() != nil {
		t.Errorf("after a moment: %v", err)
	}
	cl.heard.Store(int64(cl.clock.now() - lostAfterSilence - time.Millisecond))
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = cl.Report(ctx, []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Healthy}})
	if !errors.As(err, &lost) || cl.Lost() == nil || lost.Last == nil {
		t.Errorf("after 15 s: %v", err)
	}
	if cl.View().Fence.Epoch != 1 {
		t.Error("the view is gone")
	}
	for _, p := range c.peers {
		c.start(p.Node)
	}
	until(t, "to be back", func() bool { return cl.Lost() == nil })
}

// TestOnlyForward: the view of a client never goes back, whoever says so; and
// with a cache not even over a restart.
func TestOnlyForward(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	file := filepath.Join(t.TempDir(), "node", "view")
	cache := func(o *ClientOptions) { o.Cache = file }
	cl := c.client("fra", cache)
	for i := range 5 {
		if err := freeze(t.Context(), lead, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the view", func() bool { return frozen(cl) == "4" })
	have := cl.View()
	older := have
	older.Fence.Index--
	lower := have
	lower.Fence = steadycast.Fence{Epoch: 0, Index: 1000}
	for _, r := range []report{{Full: &older}, {Full: &lower}, {From: older.Fence, Delta: &viewDelta{Fence: have.Fence}}} {
		if err := cl.take(r, "ams-1"); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
	if cl.View().Fence != have.Fence {
		t.Error("it went back")
	}
	if err := cl.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.peers {
		c.stop(p.Node)
	}

	again := c.client("fra", cache)
	if !same(again.View(), have) {
		t.Errorf("after a restart:\n%+v\n%+v", again.View(), have)
	}
	if again.Lost() != nil {
		t.Error("lost before anybody could be heard")
	}
	// The voters come back with an older backup.
	other := begun(t, nil, "ams", "fra", "lon")
	other.leader()
	book := &logbook{}
	back := other.client("fra", func(o *ClientOptions) { o.Cache, o.Log = file, slog.New(slog.NewTextHandler(book, nil)) })
	until(t, "the backup to be refused", func() bool { return book.count("a backup that was restored") > 0 })
	if back.View().Fence != have.Fence {
		t.Errorf("it took %s", back.View().Fence)
	}
}

// TestBrokenCache: a cache that cannot be read is as none, said once.
func TestBrokenCache(t *testing.T) {
	good, err := os.ReadFile(cacheFile(t, "test"))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(cacheFile(t, "other"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)/2], "changed": append([]byte("x"), good[1:]...), "another fleet's": foreign, "no frame": []byte("hello\n"),
	} {
		file := filepath.Join(t.TempDir(), "view")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		book := &logbook{}
		c := &Client{opts: ClientOptions{Fleet: "test", Cache: file}, log: slog.New(slog.NewTextHandler(book, nil))}
		if v := c.load(); v.Fence != (steadycast.Fence{}) || book.count("cannot be used") != 1 {
			t.Errorf("%s: %s, said %q", name, v.Fence, book.lines)
		}
	}
	file := cacheFile(t, "test")
	c := &Client{opts: ClientOptions{Fleet: "test", Cache: file}, log: slog.New(slog.DiscardHandler)}
	if v := c.load(); v.Fence.Index != 7 {
		t.Errorf("a good one: %s", v.Fence)
	}
}

func cacheFile(t *testing.T, fleet string) string {
	c := &Client{opts: ClientOptions{Fleet: fleet, Node: "fra-1", Cache: filepath.Join(t.TempDir(), "view")}}
	c.view.Store(&decide.View{Fence: steadycast.Fence{Epoch: 1, Index: 7}})
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	return c.opts.Cache
}

// TestStaleBeats: a beat counts from the nonce it echoes, however late it comes;
// one that echoes none of this process's, or one from the future, does not count.
func TestStaleBeats(t *testing.T) {
	v := &Voter{clock: newClock(), salt: "abc"}
	if age, ok := v.age(v.nonce()); !ok || age > time.Minute {
		t.Errorf("%s %t", age, ok)
	}
	v.clock.began = v.clock.began.Add(-time.Hour)
	old := "abc.1000"
	if age, ok := v.age(old); !ok || age < time.Hour-2*time.Second {
		t.Errorf("%s %t", age, ok)
	}
	for _, bad := range []string{"", "abc", "abc.", "abc.x", "abc.-1", "abc.99999999999", "xyz.1000", ".", "abc.1.2"} {
		if age, ok := v.age(bad); ok {
			t.Errorf("%q is %s old", bad, age)
		}
	}
}

// TestSlowWatcher: who reads slowly gets the newest whole view instead of every
// change, and who reads none costs nothing.
func TestSlowWatcher(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	at := lead.View().Fence
	for i := range feedKeeps + 10 {
		if err := freeze(t.Context(), lead, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	lines, newest := lead.feed.since(at)
	if len(lines) != 1 || newest != lead.View().Fence || !strings.Contains(string(lines[0]), `"full"`) {
		t.Errorf("%d lines to %s", len(lines), newest)
	}
	if n := len(lead.feed.ring); n > feedKeeps {
		t.Errorf("%d changes are kept", n)
	}
	if lines, _ := lead.feed.since(newest); len(lines) != 0 {
		t.Errorf("%d lines of news for who has all", len(lines))
	}
}

// TestRevokedWhileConnected: a connection that lasts does not outlive what it
// was opened with, neither an agent's nor a voter's.
func TestRevokedWhileConnected(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	c := begun(t, func(o *VoterOptions) {
		o.TLS.Again = func(s tls.ConnectionState) error {
			if who, err := peerOf(s); err != nil || who.Node == "fra-9" && revoked.Load() {
				return errors.New("revoked")
			}
			return nil
		}
	}, "ams", "fra", "lon")
	c.leader()
	cl := c.client("fra", nil)
	verdict := []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Healthy}}
	if err := cl.Report(t.Context(), verdict); err != nil {
		t.Fatal(err)
	}
	until(t, "the view", func() bool { return believed(cl) == steadycast.Healthy })
	revoked.Store(true)
	if _, ok := errors.AsType[Forbidden](cl.Report(t.Context(), verdict)); !ok {
		t.Error("a revoked node reports")
	}
	// Its stream ends, and no other begins.
	until(t, "silence", func() bool { return cl.silent() > 2*streamPauseMost })
}

// TestRevokedVoterIsNotListenedTo: nor does a connection to a voter: a revoked
// one that goes on answering gives no permit and shows no state, though it does
// not hang up.
func TestRevokedVoterIsNotListenedTo(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	var revoked atomic.Bool
	cl := c.client("fra", func(o *ClientOptions) {
		o.Voters = slices.DeleteFunc(slices.Clone(o.Voters), func(p Peer) bool { return p.Node != lead.opts.Node }) // it has nobody else
		o.TLS.Again = func(s tls.ConnectionState) error {
			if who, err := peerOf(s); err != nil || who.Node == lead.opts.Node && revoked.Load() {
				return errors.New("revoked")
			}
			return nil
		}
	})
	until(t, "the view", func() bool { return cl.View().Fence.Epoch == 1 })
	revoked.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	a, err := cl.Ask(ctx, (&site{t: t, name: "fra"}).request(steadycast.Return))
	if err == nil || !strings.Contains(err.Error(), "is not listened to: revoked") {
		t.Errorf("it answers: %+v %v", a, err)
	}
	until(t, "its stream to end", func() bool { return cl.silent() > 2*streamPauseMost })
	at := cl.View().Fence
	if err := freeze(t.Context(), lead, "by the revoked"); err != nil {
		t.Fatal(err)
	}
	if got := cl.View().Fence; got != at {
		t.Errorf("it is followed from %s to %s", at, got)
	}
}

// TestVoterRevokedWhileConnected: the same for raft's connections.
func TestVoterRevokedWhileConnected(t *testing.T) {
	left, right := net.Pipe()
	defer right.Close()
	bad := errors.New("revoked")
	k := &kept{Conn: left, door: &door{conns: map[net.Conn]bool{}}, raw: left, judge: func() error { return bad }, clock: newClock()}
	go func() {
		for {
			if _, err := right.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 1)
	if _, err := k.Read(b); err != nil {
		t.Fatal(err)
	}
	k.clock.began = k.clock.began.Add(-judgeEvery)
	if _, err := k.Read(b); !errors.Is(err, bad) {
		t.Error(err)
	}
	if _, err := k.Read(b); err == nil {
		t.Error("it is still open")
	}
}
