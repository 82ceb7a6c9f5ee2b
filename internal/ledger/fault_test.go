package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// split cuts the links between one voter and all others, both ways or one.
func (c *cluster) split(node string, out, in bool) {
	for _, p := range c.peers {
		if p.Node != node {
			c.wires.cut(node, p.Node, out)
			c.wires.cut(p.Node, node, in)
		}
	}
}

// TestMinority: a leader that is cut off gives no permits, not even ones it
// could answer from what it knows; the others go on; and when the cut heals
// nothing that it may have written counts.
func TestMinority(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	old := c.leader()
	if err := freeze(t.Context(), old, "before"); err != nil {
		t.Fatal(err)
	}
	c.agree()
	c.split(old.opts.Node, true, true)
	// An entry that no majority has.
	lost := make(chan error, 1)
	go func() { lost <- freeze(context.Background(), old, "lost") }()
	next := c.leader(old.opts.Node)
	if err := freeze(t.Context(), next, "after"); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err == nil {
		t.Error("a leader without a majority recorded a freeze")
	}
	// A repeat needs no entry, so that it could be answered from memory.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := old.TryDo(ctx, decide.KindFreeze, decide.Scope{}, "ann", "try")
	if _, ok := errors.AsType[*NotLeader](err); !ok {
		t.Errorf("the old leader answers from what it knows: %v", err)
	}
	if old.current() {
		t.Error("the old leader vouches for its state")
	}
	c.split(old.opts.Node, false, false)
	c.agree()
	if got := frozen(old); got != "after" {
		t.Errorf("after the cut it has %q", got)
	}
}

// TestDeaf: a leader that hears nobody steps down, though all others hear it.
func TestDeaf(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	old := c.leader()
	c.split(old.opts.Node, false, true)
	next := c.leader(old.opts.Node)
	if err := freeze(t.Context(), next, "after"); err != nil {
		t.Fatal(err)
	}
	until(t, "the deaf one to step down", func() bool { return old.raft.State() != raft.Leader })
	c.split(old.opts.Node, false, false)
	c.agree()
}

// TestMajorityLost: one voter alone gives nothing, shows nothing as true, and
// says why.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	if err := freeze(t.Context(), c.leader(), "before"); err != nil {
		t.Fatal(err)
	}
	c.agree()
	c.stop("fra-1")
	c.stop("lon-1")
	one := c.voter("ams-1")
	until(t, "nobody to lead", func() bool { _, ok := one.leaderPeer(); return !ok })
	err := freeze(t.Context(), one, "alone")
	if err == nil || !strings.Contains(err.Error(), "knows nobody who does") {
		t.Errorf("alone: %v", err)
	}
	if one.current() {
		t.Error("alone it vouches for its state")
	}
	c.start("fra-1")
	if err := freeze(t.Context(), c.leader(), "again"); err != nil {
		t.Fatal(err)
	}
	c.start("lon-1")
	c.agree()
}

// TestHandOver: a leader that ends in order is replaced at once: by the one whom
// it tells, and not when others miss it.
func TestHandOver(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	old := c.leader()
	if err := freeze(t.Context(), old, "before"); err != nil {
		t.Fatal(err)
	}
	c.agree()
	missed := func() (n int) {
		for _, b := range c.books {
			n += b.count("heartbeat timeout reached")
		}
		return n
	}
	before := missed()
	c.stop(old.opts.Node)
	next := c.leader()
	if n := missed() - before; n > 0 {
		t.Errorf("%d voters missed the old leader before there was a new one", n)
	}
	if frozen(next) != "before" {
		t.Errorf("%q", frozen(next))
	}
	c.start(old.opts.Node)
	c.agree()
}

// TestAllRestart: everything that was answered is there after all voters were
// off; and a voter alone does not pass off what it reads from its disk as true.
func TestAllRestart(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	if _, err := lead.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test", Force: true, For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	at, hash := c.agree()
	before := lead.View().LT
	for _, p := range c.peers {
		c.stop(p.Node)
	}
	one := c.start("ams-1")
	if one.current() || one.View().Fence.Index != 0 {
		t.Errorf("a voter alone shows %s", one.View().Fence)
	}
	c.start("fra-1")
	c.start("lon-1")
	again := c.leader()
	c.agree()
	if again.View().Fence.Epoch != at.Epoch || len(again.View().Orders) != 1 || again.View().LT < before {
		t.Errorf("%s, hash %s…: %+v", again.View().Fence, hash[:6], again.View().Orders)
	}
}

// TestSnapshotIsLog: a voter that was given a snapshot has the state of those
// who applied every entry, and goes on from it; so has one restarted on it.
func TestSnapshotIsLog(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	away := c.peers[0].Node
	if lead.opts.Node == away {
		away = c.peers[1].Node
	}
	c.stop(away)
	for _, v := range c.all() {
		if err := v.raft.ReloadConfig(raft.ReloadableConfig{
			TrailingLogs: 1, SnapshotInterval: time.Hour, SnapshotThreshold: 1,
			HeartbeatTimeout: 10 * patient, ElectionTimeout: 10 * patient,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if err := freeze(t.Context(), lead, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := lead.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if first, _ := lead.store.FirstIndex(); first < 10 {
		t.Fatalf("the log still begins at %d", first)
	}
	back := c.start(away)
	c.agree()
	if err := freeze(t.Context(), lead, "after"); err != nil {
		t.Fatal(err)
	}
	_, hash := c.agree()
	if snaps, err := back.snaps.List(); err != nil || len(snaps) == 0 {
		t.Errorf("it was given no snapshot: %v", err)
	}
	c.stop(away)
	again := c.start(away)
	c.agree()
	if _, h := again.Hash(); h != hash {
		t.Error("restarted on the snapshot it has another state")
	}
}

// propose puts bytes into the log as a leader of another version would.
func propose(v *Voter, data []byte) error {
	f := v.raft.ApplyLog(raft.Log{Data: data, Extensions: stamp{term: v.raft.CurrentTerm()}.bytes()}, time.Second)
	return f.Error()
}

// TestUnknownKindStops: a voter ends at the entry that it does not know, in the
// state before it, and does not get over it by starting again.
func TestUnknownKindStops(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	if err := freeze(t.Context(), lead, "before"); err != nil {
		t.Fatal(err)
	}
	at, hash := c.agree()
	if err := propose(lead, []byte(`{"kind":"teleport","schema":1,"rules":1,"epoch":1,"lt":1}`)); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.peers {
		select {
		case code := <-c.exits[p.Node]:
			if code != ExitNotUnderstood {
				t.Errorf("%s ends with %d", p.Node, code)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s goes on", p.Node)
		}
		if f, h := c.voter(p.Node).Hash(); f != at || h != hash {
			t.Errorf("%s is at %s", p.Node, f)
		}
		if c.books[p.Node].count("teleport") != 1 {
			t.Errorf("%s says %q", p.Node, c.books[p.Node].lines)
		}
	}
	if err := freeze(t.Context(), lead, "after"); err == nil {
		t.Error("it goes on")
	}
	if s, err := lead.replica.Snapshot(); err == nil {
		t.Errorf("it makes a snapshot of %T over the entry", s)
	}
}

// TestPoison: bytes that no version writes change nothing and stop nobody.
func TestPoison(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	for _, b := range []string{"", "{", `{"kind":"tick"}`, `{"kind":"tick","schema":1,"rules":1,"epoch":1,"lt":1,"what":2}`, `[]`, "\x00\xff"} {
		if err := propose(lead, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := freeze(t.Context(), lead, "after"); err != nil {
		t.Fatal(err)
	}
	c.agree()
	for _, p := range c.peers {
		if len(c.exits[p.Node]) > 0 {
			t.Errorf("%s ended", p.Node)
		}
	}
}

// TestAstray: a voter whose state is not the leader's finds out and ends.
func TestAstray(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	old := c.leader()
	var one *Voter
	for _, v := range c.all() {
		if v != old {
			one = v
		}
	}
	c.agree()
	one.replica.mu.Lock()
	f := one.replica.fleet.Fence()
	_, err := one.replica.fleet.Apply(decide.Entry{Kind: decide.KindTick, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: f.Epoch, LT: 1 << 40})
	one.replica.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	c.stop(old.opts.Node) // the next leader's first entry carries its hash
	until(t, "one of them to end", func() bool {
		for _, v := range c.all() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_ = freeze(ctx, v, "after")
			cancel()
		}
		// It says why before it exits.
		return slices.ContainsFunc(c.all(), func(v *Voter) bool { return len(c.exits[v.opts.Node]) > 0 })
	})
	for _, v := range c.all() {
		if len(c.exits[v.opts.Node]) > 0 && c.books[v.opts.Node].count("decided differently") != 1 {
			t.Errorf("%s says %q", v.opts.Node, c.books[v.opts.Node].lines)
		}
	}
}

// TestOverturned: an entry that was judged under one leadership and written
// under another is void on every voter alike.
func TestOverturned(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	at, _ := c.agree()
	e := decide.Entry{Kind: decide.KindFreeze, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: 1, LT: 1, Actor: "ann", Reason: "late", Scope: &decide.Scope{}}
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f := lead.raft.ApplyLog(raft.Log{Data: b, Extensions: stamp{term: lead.raft.CurrentTerm() - 1}.bytes()}, time.Second)
	if err := f.Error(); err != nil {
		t.Fatal(err)
	}
	if got := f.Response().(applied); !errors.Is(got.err, errOverturned) {
		t.Errorf("%+v", got)
	}
	if now, _ := c.agree(); now != at || frozen(lead) != "" {
		t.Errorf("at %s, frozen by %q", now, frozen(lead))
	}
}

// TestStrangers: who is not of the fleet, or no voter, gets nowhere.
func TestStrangers(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	other := newAuthority(t)
	half := c.ca.node("test", "fra", "fra-1")
	half.Client = other.node("test", "fra", "fra-1").Client
	for _, s := range []struct {
		name     string
		tls      TLS
		fleet    string
		protocol string
	}{
		{"another fleet's certificate", c.ca.node("other", "fra", "fra-1"), "test", httpProtocol},
		{"another fleet's protocol", c.ca.node("test", "fra", "fra-1"), "test", RaftProtocol("other")},
		{"another authority", half, "test", httpProtocol},
		{"an expired certificate", c.ca.issue("steadycast://test/fra/fra-1", -time.Minute), "test", httpProtocol},
		{"a certificate of nobody", c.ca.issue("", time.Hour), "test", httpProtocol},
		{"raft from a node that does not vote", c.ca.node("test", "par", "par-1"), "test", RaftProtocol("test")},
		{"another fleet's raft", c.ca.node("other", "fra", "fra-1"), "test", RaftProtocol("test")},
		{"an expired voter", c.ca.issue("steadycast://test/fra/fra-1", -time.Minute), "test", RaftProtocol("test")},
	} {
		t.Run(s.name, func(t *testing.T) {
			if err := knock(t, s.tls, s.fleet, s.protocol, c.peers[0].Address); err == nil {
				t.Error("it was let in")
			} else {
				t.Log(err)
			}
		})
	}
	for _, p := range []string{httpProtocol, RaftProtocol("test")} {
		if err := knock(t, c.ca.node("test", "fra", "fra-1"), "test", p, c.peers[0].Address); err != nil {
			t.Errorf("a voter over %s: %v", p, err)
		}
	}
}

// TestNoProgress: a leader whose log takes nothing ends, though its heartbeats go
// on and nobody watches its disk.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	hang, release := make(chan struct{}), make(chan struct{})
	var stuck atomic.Pointer[Voter]
	c := begun(t, func(o *VoterOptions) {
		node := o.Node
		o.stall = time.Hour
		o.fault = func(string) error {
			select {
			case <-hang:
				if v := stuck.Load(); v != nil && v.opts.Node == node {
					<-release
				}
			default:
			}
			return nil
		}
	}, "ams", "fra", "lon")
	t.Cleanup(func() { close(release) }) // before the voters are closed
	lead := c.leader()
	c.agree()
	stuck.Store(lead)
	close(hang)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := freeze(ctx, lead, "stuck"); err == nil {
		t.Error("it was recorded")
	}
	select {
	case code := <-c.exits[lead.opts.Node]:
		if code != ExitStalled {
			t.Errorf("it ends with %d", code)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if c.books[lead.opts.Node].count("the ledger does not move") != 1 {
		t.Errorf("%q", c.books[lead.opts.Node].lines)
	}
}
