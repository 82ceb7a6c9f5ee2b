package ledger

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestUnsafeSets: sets that no ledger is begun with, or changed to.
func TestUnsafeSets(t *testing.T) {
	p := func(node, address, domain string) Peer { return Peer{node, address, domain} }
	a, b, c := p("a", "192.0.2.1:1", "x"), p("b", "192.0.2.2:1", "y"), p("c", "192.0.2.3:1", "z")
	var nine []Peer
	for _, n := range strings.Split("abcdefghi", "") {
		nine = append(nine, p(n, n, n))
	}
	for _, s := range []struct {
		set  []Peer
		want string // "" for a safe one
	}{
		{[]Peer{a, b, c}, ""},
		{nine[:5], ""},
		{nine[:7], ""},
		{nil, "allowed: 3, 5, 7"},
		{[]Peer{a}, "1 voter survives no loss"},
		{[]Peer{a, b}, "2 voters survive no more losses than 1"},
		{nine[:4], "4 voters survive no more losses than 3"},
		{nine, "9 voters make every permit slower"},
		{[]Peer{a, b, p("d", "192.0.2.4:1", "x")}, "a and d share the failure domain x"},
		{[]Peer{a, b, p("d", "192.0.2.4:1", "")}, "the failure domain of d is not known"},
		{[]Peer{a, b, p("a", "192.0.2.4:1", "z")}, "a stands here twice"},
		{[]Peer{a, b, p("d", "192.0.2.1:1", "z")}, "a and d have the same address"},
	} {
		err := unsafe(s.set)
		if (err == nil) != (s.want == "") || err != nil && !strings.Contains(err.Error(), s.want) {
			t.Errorf("%v: %v, want %q", s.set, err, s.want)
		}
	}
}

// TestInit: a ledger is begun once, by hand, over voters that hold nothing and
// are all there.
func TestInit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, "ams", "fra", "lon")
	table := policy(c.sites...)
	one, two := c.voter("ams-1"), c.voter("fra-1")
	if s := one.State(); !s.Empty {
		t.Fatalf("%+v", s)
	}
	if err := one.Init(t.Context(), decide.Table{}, "ann", "begin"); err == nil {
		t.Error("begun with a table that says nothing")
	}
	c.stop("lon-1")
	if err := one.Init(t.Context(), table, "ann", "begin"); err == nil || !strings.Contains(err.Error(), "lon-1 cannot be asked") {
		t.Errorf("begun without lon-1: %v", err)
	}
	if !one.State().Empty {
		t.Fatal("a refused beginning left something behind")
	}
	c.start("lon-1")
	c.init()
	if err := one.Init(t.Context(), table, "ann", "again"); err == nil || !strings.Contains(err.Error(), "is not begun again") {
		t.Errorf("begun twice: %v", err)
	}
	c.agree()
	if err := two.Init(t.Context(), table, "ann", "again"); err == nil {
		t.Error("begun twice, the second time elsewhere")
	}
	if f := one.View().Fence; f.Epoch != 1 {
		t.Error(f)
	}

	// Beside a voter that holds a ledger nothing is begun.
	other := newCluster(t, nil, "par", "rom", "vie")
	other.ca, other.wires = c.ca, c.wires
	mixed := append(slices.Clone(other.peers[:2]), c.peers[0])
	other.voter("par-1").opts.Peers = mixed
	other.voter("par-1").opts.TLS = c.ca.node("test", "par", "par-1")
	if err := other.voter("par-1").Init(t.Context(), table, "ann", "begin"); err == nil {
		t.Error("begun over a voter that holds a ledger")
	}
}

// grow starts more voters that every node's file names.
func (c *cluster) grow(sites ...string) {
	c.t.Helper()
	more := newCluster(c.t, nil, sites...)
	for _, v := range more.all() {
		more.stop(v.opts.Node)
	}
	c.peers = append(c.peers, more.peers...)
	for _, p := range more.peers {
		c.dirs[p.Node], c.books[p.Node] = more.dirs[p.Node], &logbook{}
	}
	for _, v := range c.all() { // as a restart with the new file would
		c.stop(v.opts.Node)
	}
	for _, p := range c.peers {
		c.start(p.Node)
	}
}

func members(v *Voter) (names []string) {
	for _, m := range v.Members() {
		if m.Voter {
			names = append(names, m.Node)
		}
	}
	slices.Sort(names)
	return names
}

// TestJoinAndLeave: from three voters to five and back to three others, without
// an unsafe set in between being asked for, and permits all along.
func TestJoinAndLeave(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	c.agree()
	c.grow("par", "rom")
	lead := c.leader()
	follower := c.voter("ams-1")
	if follower == lead {
		follower = c.voter("fra-1")
	}
	until(t, "the follower to know who leads", func() bool { p, _ := follower.leaderPeer(); return p.Node == lead.opts.Node })
	for _, bad := range []struct {
		do   func() error
		want string
	}{
		{func() error { return lead.Join(t.Context(), []string{"par-1"}, nil) }, "4 voters survive"},
		{func() error { return lead.Join(t.Context(), []string{"oslo-1"}, nil) }, "oslo-1 is not in ledger.peers"},
		{func() error { return lead.Leave(t.Context(), []string{"ams-1"}) }, "2 voters survive"},
		{func() error { return lead.Leave(t.Context(), []string{"par-1"}) }, "par-1 is no voter"},
		{func() error { return follower.Join(t.Context(), []string{"par-1", "rom-1"}, nil) }, lead.opts.Node + " at"},
	} {
		if err := bad.do(); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %q", err, bad.want)
		}
	}
	if err := lead.Join(t.Context(), []string{"par-1", "rom-1"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := members(lead); len(got) != 5 {
		t.Fatal(got)
	}
	if err := freeze(t.Context(), lead, "five"); err != nil {
		t.Fatal(err)
	}
	c.agree()
	if err := lead.Join(t.Context(), []string{"par-1", "rom-1"}, nil); err != nil {
		t.Errorf("asking again for what is done: %v", err)
	}
	out := []string{lead.opts.Node, follower.opts.Node}
	if err := lead.Leave(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	next := c.leader(out...)
	if got := members(next); len(got) != 3 || slices.Contains(got, out[0]) || slices.Contains(got, out[1]) {
		t.Fatal(got)
	}
	if err := freeze(t.Context(), next, "three"); err != nil {
		t.Fatal(err)
	}
	// Whoever was taken out holds an old ledger, and is not taken in over it.
	if err := next.Join(t.Context(), out, nil); err == nil || !strings.Contains(err.Error(), "holds a ledger already") {
		t.Errorf("%v", err)
	}
}

// TestReplace: a voter that is gone for good is replaced in one change.
func TestReplace(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	c.agree()
	c.grow("par")
	lead := c.leader()
	gone := "ams-1"
	if lead.opts.Node == gone {
		gone = "fra-1"
	}
	c.stop(gone)
	if err := lead.Join(t.Context(), []string{"par-1"}, []string{gone}); err != nil {
		t.Fatal(err)
	}
	if got := members(lead); len(got) != 3 || !slices.Contains(got, "par-1") {
		t.Fatal(got)
	}
	if err := freeze(t.Context(), lead, "after"); err != nil {
		t.Fatal(err)
	}
	c.agree()
}

// TestRecover: with two of three voters lost for good, the third goes on alone,
// frozen and in a new epoch, and takes in two others; and the old ones, back
// after all, do not reach it.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	if _, err := lead.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	at, _ := c.agree()
	try := func(want string) {
		t.Helper()
		_, err := Recover(t.Context(), c.options("ams-1"), "ann", "two burnt")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	try("in use by another process")
	c.stop("ams-1")
	try("3 of 3 voters are there")
	c.stop("lon-1")
	try("2 of 3 voters are there")
	c.stop("fra-1")
	if _, err := Recover(t.Context(), c.options("ams-1"), "ann", ""); err == nil {
		t.Error("recovered without a reason")
	}
	done, err := Recover(t.Context(), c.options("ams-1"), "ann", "two burnt")
	if err != nil {
		t.Fatal(err)
	}
	if done.Was != at || done.Is.Epoch != 2 || done.Is.Compare(at) <= 0 || len(done.Excluded) != 2 {
		t.Errorf("%+v", done)
	}
	one := c.start("ams-1")
	c.leader()
	v := one.View()
	if v.Fence.Epoch != 2 || len(v.Orders) != 1 || len(v.Freezes) != 1 || v.Freezes[0].Scope != (decide.Scope{}) {
		t.Errorf("%s %+v %+v", v.Fence, v.Orders, v.Freezes)
	}

	// The old two come back with what they had: they elect a leader of their own,
	// which would make the recovered one forget.
	c.start("fra-1")
	c.start("lon-1")
	old := c.leader("ams-1")
	if err := freeze(t.Context(), old, "old"); err != nil {
		t.Fatal(err)
	}
	if err := freeze(t.Context(), one, "new"); err != nil {
		t.Fatal(err)
	}
	until(t, "the old leader to be turned away", func() bool { return c.books["ams-1"].count("speaks raft here and is no voter") > 0 })
	if f := one.View().Fence; f.Epoch != 2 || frozen(one) != "new" {
		t.Errorf("%s %q", f, frozen(one))
	}
	if err := one.Join(t.Context(), []string{"fra-1", "lon-1"}, nil); err == nil || !strings.Contains(err.Error(), "holds a ledger already") {
		t.Errorf("%v", err)
	}
	c.stop("fra-1") // both, before one starts empty: the old leader would fill it
	c.stop("lon-1")
	for _, node := range []string{"fra-1", "lon-1"} {
		if err := os.RemoveAll(c.dirs[node]); err != nil {
			t.Fatal(err)
		}
		c.start(node)
	}
	if err := one.Join(t.Context(), []string{"fra-1", "lon-1"}, nil); err != nil {
		t.Fatal(err)
	}
	c.agree()
	c.stop("ams-1") // the new ones go on without it
	next := c.leader()
	if err := freeze(t.Context(), next, "three"); err != nil {
		t.Fatal(err)
	}
	c.start("ams-1")
	if f, _ := c.agree(); f.Epoch != 2 {
		t.Error(f)
	}
}

// TestRecoverTheOneThatKnowsMore: of two that are left, the one with less is refused.
func TestRecoverTheOneThatKnowsMore(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon", "par", "rom")
	lead := c.leader()
	less := c.peers[slices.IndexFunc(c.peers, func(p Peer) bool { return p.Node != lead.opts.Node })].Node
	c.agree()
	c.stop(less)
	if err := freeze(t.Context(), lead, "more"); err != nil {
		t.Fatal(err)
	}
	c.agree()
	more := ""
	for _, p := range c.peers {
		switch {
		case p.Node == less:
		case more == "" && p.Node != lead.opts.Node:
			more = p.Node
		default:
			c.stop(p.Node)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := Recover(ctx, c.options(less), "ann", "three burnt")
	if err == nil || !strings.Contains(err.Error(), "recover that one") {
		t.Errorf("%v", err)
	}
	c.stop(more)
	done, err := Recover(ctx, c.options(more), "ann", "three burnt")
	if err != nil || len(done.Excluded) != 4 {
		t.Errorf("%+v %v", done, err)
	}
	c.start(more)
	if f := frozen(c.leader()); f != "three burnt" {
		t.Errorf("%q", f)
	}
}

// TestRecoverNothing: there is nothing to make a ledger of.
func TestRecoverNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, "ams", "fra", "lon")
	c.stop("ams-1")
	if _, err := Recover(t.Context(), c.options("ams-1"), "ann", "test"); err == nil || !strings.Contains(err.Error(), "nothing to recover") {
		t.Errorf("%v", err)
	}
	var not *NotLeader
	if err := freeze(t.Context(), c.voter("fra-1"), "x"); !errors.As(err, &not) {
		t.Errorf("%v", err)
	}
}

// TestListenerOfAVoterThatCannotStart: a listener handed over is the voter's to close.
func TestListenerOfAVoterThatCannotStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenVoter(VoterOptions{Fleet: "test", Node: "fra-1", Dir: file, Listener: l, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Fatal("a file was taken for a directory")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is still open: %v", err)
	}
}
