package mesh

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/pki"
)

// fleet makes certificates.
type fleet struct {
	*pki.Authority
	t    *testing.T
	root string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	root := t.TempDir()
	a, err := pki.Init(filepath.Join(root, "ca"), "prod", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{a, t, root}
}

func (f *fleet) dir(site, node string) string { return filepath.Join(f.root, site, node) }

func (f *fleet) credentials(site, node string) *pki.Credentials {
	f.t.Helper()
	if _, err := f.Issue(pki.Identity{Site: site, Node: node}, f.dir(site, node), 10*pki.DefaultLife, time.Now()); err != nil {
		f.t.Fatal(err)
	}
	c, err := pki.Open(pki.Settings{Dir: f.dir(site, node)})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// world is a fleet on a network in memory. It lives in a bubble.
type world struct {
	*fleet
	*network
	nodes map[string]*node
	ctx   context.Context
	stop  context.CancelFunc
}

// node is one node of it, SITE-1, at a host of its own.
type node struct {
	*Mesh
	w     *world
	host  string
	stop  func()
	creds *pki.Credentials

	mu    sync.Mutex
	heard []Heard
}

// inWorld runs a test in a bubble, with one node per word; one that ends in ! is
// a voter. Everybody sends to everybody else.
func inWorld(t *testing.T, sites []string, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{fleet: newFleet(t), network: newNetwork(), nodes: map[string]*node{}}
		w.ctx, w.stop = context.WithCancel(t.Context())
		var peers []Peer
		for i, site := range sites {
			voter := site[len(site)-1] == '!'
			if voter {
				site = site[:len(site)-1]
			}
			n := &node{w: w, host: fmt.Sprintf("192.0.2.%d", i+1), creds: w.credentials(site, site+"-1")}
			w.nodes[site] = n
			n.start(Options{Voter: voter, Incarnation: 1})
			peers = append(peers, Peer{Name: site + "-1", Site: site, Node: site + "-1", Addr: netip.MustParseAddrPort(n.host + ":443"), Voter: voter})
		}
		for _, n := range w.nodes {
			if err := n.SetPeers(peers); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		test(t, w)
		w.stop()
		for _, n := range w.nodes {
			n.stop()
		}
	})
}

// start runs a node's mesh. What it hears is kept in heard.
func (n *node) start(o Options) {
	n.w.t.Helper()
	o.Credentials = n.creds
	o.Dial = n.w.dialer(n.host)
	o.OnObservation = func(h Heard) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.heard = append(n.heard, h)
	}
	m, err := New(o)
	if err != nil {
		n.w.t.Fatal(err)
	}
	m.in.clocks = func() (with, without time.Duration) { return 0, 0 } // the kernel's know nothing of bubbles
	n.Mesh = m
	ctx, cancel := context.WithCancel(n.w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx, n.w.listen(n.host)); err != nil {
			n.w.t.Error(err)
		}
	}()
	n.stop = func() { cancel(); <-done }
}

// say publishes what a node saw of a subject.
func (n *node) say(subject string, seq uint64, up steadycast.Outcome, took time.Duration) {
	n.Publish(steadycast.Observation{Vantage: n.self.Site, Subject: subject, Service: "web", Seq: seq, Result: steadycast.Result{Outcome: up, Took: took, Reason: "said"}})
}

// take returns what was heard since the last take.
func (n *node) take() []Heard {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.heard
	n.heard = nil
	return out
}

// seqs are the sequence numbers of what was heard from a node.
func seqs(hs []Heard, node string) []uint64 {
	var out []uint64
	for _, h := range hs {
		if h.Node == node {
			out = append(out, h.Observation.Seq)
		}
	}
	return out
}

func (n *node) link(name string) LinkStatus {
	for _, l := range n.Peers().Links {
		if l.Name == name {
			return l
		}
	}
	n.w.t.Fatalf("%s has no link to %s", n.self.Node, name)
	return LinkStatus{}
}

func equal(t *testing.T, what string, got, want []uint64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}
