package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/voter"
)

// voters are the ledger of the fleet: one real voter at each of three sites,
// whose disks are folders of the demo, with an end of the mesh of its own.
//
// Its mutex guards running; a voter that ends by itself, because its disk was
// too slow, is started again as a service manager would.
type voters struct {
	fleet string
	dir   string
	peers []ledger.Peer
	seats []seat
	net   *network
	log   *slog.Logger
	// record is told what each voter carries out.
	record *record
	// said is told which voter leads, and which ended.
	said func(node, what string)

	mu      sync.Mutex
	running map[string]*ledger.Voter
	tasks   sync.WaitGroup
	quit    context.Context
	stop    context.CancelFunc
}

// seat is where one voter sits.
type seat struct {
	site, node string
	port       *port // of the ledger
	ear        *port // of the mesh
	creds      *pki.Credentials
	mesh       *mesh.Mesh
}

// A voter of the demo keeps little aside: it decides a few dozen times.
const (
	voterLeastFree = 16 << 20
	voterBallast   = 1 << 20
)

// again is the pause before a voter that ended starts anew.
const again = time.Second

// openVoters starts a voter at each seat. They hold nothing.
func openVoters(v *voters) error {
	v.running = map[string]*ledger.Voter{}
	v.quit, v.stop = context.WithCancel(context.Background())
	for _, s := range v.seats {
		v.peers = append(v.peers, ledger.Peer{Node: s.node, Address: s.port.addr.String(), Domain: s.site})
	}
	for i := range v.seats {
		s := &v.seats[i]
		err := v.listen(s)
		if err == nil {
			err = v.start(*s)
		}
		if err != nil {
			v.close()
			return fmt.Errorf("the voter of %s: %w", s.site, err)
		}
	}
	return nil
}

// listen opens a seat's end of the mesh: what nodes see comes to whoever leads
// first hand, and goes on to who has no direct way.
func (v *voters) listen(s *seat) error {
	l, err := s.ear.listen()
	if err != nil {
		return err
	}
	d := v.net.dialer(s.port.addr.Addr())
	s.mesh, err = mesh.New(mesh.Options{
		Credentials: s.creds, Name: s.node + "/ledger", Voter: true, Dial: d.DialContext, Log: v.log.With("voter", s.node),
		OnObservation: func(h mesh.Heard) {
			if one := v.voter(s.node); one != nil {
				one.Observe(h.Observation, time.Since(h.Issued))
			}
		},
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	v.tasks.Go(func() {
		if err := s.mesh.Run(v.quit, v.net.behind(l)); err != nil {
			v.said(s.node, "hears the mesh no more: "+err.Error())
		}
	})
	return nil
}

// readers are the voters' ends of the mesh, for those who tell them what they see.
func (v *voters) readers() (out []mesh.Peer) {
	for _, s := range v.seats {
		out = append(out, mesh.Peer{Name: s.node + "/ledger", Site: s.site, Node: s.node, Addr: s.ear.addr, Voter: true})
	}
	return out
}

func (v *voters) start(s seat) error {
	l, err := s.port.listen()
	if err != nil {
		return err
	}
	one, err := ledger.OpenVoter(ledger.VoterOptions{
		Fleet: v.fleet, Node: s.node, Dir: filepath.Join(v.dir, s.node, "ledger"), Listen: s.port.addr.String(),
		Peers: v.peers, TLS: voter.TLS(s.creds), LeastFree: voterLeastFree, Ballast: voterBallast,
		Log: v.log.With("voter", s.node), Listener: v.net.behind(l), Dial: v.net.dial(s.port.addr.Addr()),
		Verify: s.mesh.Verify,
		Exit:   func(code int) { go v.restart(s, code) },
	})
	if err != nil {
		return err
	}
	one.OnEvents(v.record.teller())
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running[s.node] = one
	return nil
}

// restart does what a service manager does with a process that ended.
func (v *voters) restart(s seat, code int) {
	v.mu.Lock()
	ended := v.quit.Err() != nil
	if !ended {
		v.tasks.Add(1)
	}
	v.mu.Unlock()
	if ended {
		return
	}
	defer v.tasks.Done()
	v.said(s.node, fmt.Sprintf("ended by itself (exit code %d) and is started again", code))
	v.mu.Lock()
	old := v.running[s.node]
	delete(v.running, s.node)
	v.mu.Unlock()
	if old != nil {
		_ = old.Close() // it is as good as dead
	}
	for {
		select {
		case <-v.quit.Done():
			return
		case <-time.After(again):
		}
		err := v.start(s)
		if err == nil {
			return
		}
		v.said(s.node, "does not start: "+err.Error())
	}
}

// all are those that run, in the order of their seats.
func (v *voters) all() []*ledger.Voter {
	v.mu.Lock()
	defer v.mu.Unlock()
	var vs []*ledger.Voter
	for _, s := range v.seats {
		if one := v.running[s.node]; one != nil {
			vs = append(vs, one)
		}
	}
	return vs
}

// init begins the ledger, as `steadycast ledger init` does on one voter's host.
func (v *voters) init(ctx context.Context, t decide.Table, who steadycast.Operator) error {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	begin := func(one *ledger.Voter) error { return one.Init(ctx, t, who.Name, "the demo begins", who) }
	first := v.voter(v.seats[0].node)
	if first == nil {
		return errors.New("the first voter has ended")
	}
	err := begin(first)
	// When another was elected in between, the first policy is given to that one.
	if other := v.voter(first.State().Leader.Node); err != nil && other != nil && other != first {
		err = begin(other)
	}
	return err
}

// voter is the running one of a node, nil if it does not run.
func (v *voters) voter(node string) *ledger.Voter {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.running[node]
}

// leader is the seat of the voter that leads and can be heard by another.
func (v *voters) leader() (seat, bool) {
	var found seat
	var term uint64
	for _, one := range v.all() {
		if s := one.State(); s.Role == "leader" && s.Term > term {
			term = s.Term
			found = v.seats[slices.IndexFunc(v.seats, func(x seat) bool { return x.node == s.Node })]
		}
	}
	return found, term > 0
}

// follow says who leads, whenever that changes, until ctx ends.
func (v *voters) follow(ctx context.Context) {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for last := ""; ; {
		if s, ok := v.leader(); ok && s.node != last {
			last = s.node
			v.said(s.node, "leads the ledger")
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// agree reports whether all voters run and hold the same state at one position.
func (v *voters) agree() (steadycast.Fence, error) {
	all := v.all()
	if len(all) < len(v.seats) {
		return steadycast.Fence{}, fmt.Errorf("%d of %d voters run", len(all), len(v.seats))
	}
	at, hash := all[0].Hash()
	for _, one := range all[1:] {
		switch f, h := one.Hash(); {
		case f != at:
			return at, fmt.Errorf("one voter is at %s and another at %s", at, f)
		case h != hash:
			return at, errors.New("at " + at.String() + " two voters hold different states")
		}
	}
	return at, nil
}

// addresses are where the voters are in the network.
func (v *voters) addresses() (out []netip.Addr) {
	for _, s := range v.seats {
		out = append(out, s.port.addr.Addr())
	}
	return out
}

// close ends the ledger.
func (v *voters) close() {
	v.mu.Lock()
	v.stop()
	v.mu.Unlock()
	v.tasks.Wait()
	all := v.all()
	if s, ok := v.leader(); ok { // first, while there is somebody to hand over to
		lead := v.voter(s.node)
		slices.SortStableFunc(all, func(a, b *ledger.Voter) int { return before(a == lead) - before(b == lead) })
	}
	for _, one := range all {
		_ = one.Close()
	}
	for _, s := range v.seats {
		s.port.close()
		s.ear.close()
	}
}

func before(yes bool) int {
	if yes {
		return 0
	}
	return 1
}
