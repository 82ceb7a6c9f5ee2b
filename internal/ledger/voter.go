package ledger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Peer is one voter as node.yaml names it.
type Peer struct {
	// Node is its name, the one its certificate carries.
	Node string `json:"node"`
	// Address is where it listens: an IP literal and a port, of no prefix that
	// the fleet announces.
	Address string `json:"address"`
	// Domain is what it shares its fate with: power, uplink, provider. No two
	// voters may share one.
	Domain string `json:"domain"`
}

// VoterOptions say who a voter is and how it is kept.
type VoterOptions struct {
	Fleet, Node string
	// Dir holds the log, its snapshots and nothing else.
	Dir string
	// Listen is the address of this voter; Advertise what others call it by,
	// default Listen.
	Listen, Advertise string
	// Peers are all voters, and those to become one; this node is among them.
	Peers []Peer
	TLS   TLS
	// MaxRTT is the greatest round trip between any two voters, the same on all
	// of them; default 100ms. Who waits ten times that (at least a second) for a
	// leader looks for another.
	MaxRTT time.Duration
	// LeastFree bytes must be free in Dir to start and to go on; default
	// [DefaultLeastFree]. Ballast bytes are set aside there, and given back when it
	// gets tight, for the other processes of this node; default [DefaultBallast].
	LeastFree, Ballast int64
	// Log gets what people must know; default slog.Default().
	Log *slog.Logger
	// Exit ends the process; default os.Exit.
	Exit func(code int)
	// Alive is called by the loop that leads or waits to, at least once a second;
	// default none.
	Alive func()
	// Listener takes the place of Listen, for who must know the port beforehand and
	// keep it; OpenVoter owns it, and closes it also when it fails.
	Listener net.Listener
	// Dial opens the connections to other voters; default plain TCP.
	Dial Dialer

	// Verify opens the signed evidence of requests; nil takes it as it is said.
	Verify Verifier

	// What tests put a bad world in with.
	fault func(call string) error
	stall time.Duration
}

// How much room a voter wants on its disk unless something else is said, in bytes.
const (
	DefaultLeastFree int64 = 256 << 20
	DefaultBallast   int64 = 64 << 20
)

func (o *VoterOptions) settle() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MaxRTT == 0 {
		o.MaxRTT = 100 * time.Millisecond
	}
	if o.LeastFree == 0 {
		o.LeastFree = DefaultLeastFree
	}
	if o.Ballast == 0 {
		o.Ballast = DefaultBallast
	}
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	if o.Alive == nil {
		o.Alive = func() {}
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.stall == 0 {
		o.stall = stallLimit
	}
	if o.Advertise == "" {
		o.Advertise = o.Listen
	}
}

// peer finds a peer by its name.
func (o *VoterOptions) peer(node string) (Peer, bool) {
	i := slices.IndexFunc(o.Peers, func(p Peer) bool { return p.Node == node })
	if i < 0 {
		return Peer{}, false
	}
	return o.Peers[i], true
}

// Voter is one of the 3, 5 or 7 processes that hold the fleet's ledger
// together. It is a [Ledger] while it leads; any other time its calls end with
// a [*NotLeader] that names who does.
//
// run is the goroutine that leads, when this voter does; raft's own goroutine
// applies entries (replica); the HTTP server's read snapshots only.
type Voter struct {
	calls
	opts    VoterOptions
	log     *slog.Logger
	raftLog hclog.Logger
	clock   clock
	replica *replica
	store   *store
	snaps   *raft.FileSnapshotStore
	lock    *os.File
	door    *door
	net     *raft.NetworkTransport
	raft    *raft.Raft
	web     *http.Server
	watch   watchers
	feed    feed
	beats   beatBox
	skew    skewBook
	cross   crossBox
	quit    chan struct{}
	stop    sync.Once
	helpers sync.WaitGroup
	dead    atomic.Bool
	// changing is held while the set of voters is changed.
	changing sync.Mutex
	linksMu  sync.Mutex
	links    map[string]*link // to other voters, by address
	excluded []string         // guarded by linksMu; see Recover
	salt     string           // of the nonces of this process

	// owned by run
	desk
	term   uint64 // of the reign
	stamps int    // entries proposed in it
	over   bool   // it has ended
}

var _ Ledger = (*Voter)(nil)

// OpenVoter starts a voter on what Dir holds. With an empty Dir it waits until
// [Voter.Init] makes a ledger or the leader of one takes it in; by itself it
// never begins one.
func OpenVoter(opts VoterOptions) (*Voter, error) {
	opts.settle()
	v := &Voter{calls: newCalls(), opts: opts, log: opts.Log, clock: newClock(), quit: make(chan struct{}), salt: rand.Text()}
	v.beats.wake = make(chan struct{}, 1)
	v.replica = &replica{clock: v.clock, die: v.die, tell: v.publish, fleet: decide.NewFleet(), at: v.clock.now()}
	first := v.replica.fleet.View()
	v.view.Store(&first)
	if err := v.open(); err != nil {
		return nil, errors.Join(err, v.release())
	}
	v.helpers.Go(func() { v.door.serve(opts.Fleet) })
	v.helpers.Go(v.serveHTTP)
	v.helpers.Go(v.watchRoom)
	v.helpers.Go(v.watchSkew)
	go v.run()
	return v, nil
}

// open takes everything a voter needs.
func (v *Voter) open() (err error) {
	o := &v.opts
	if v.lock, err = lockDir(o.Dir); err != nil {
		return err
	}
	if err := v.takeRoom(); err != nil {
		return err
	}
	if v.store, err = openStore(o.Dir, heading{storeFormat, storeSchema, o.Fleet, o.Node}); err != nil {
		return err
	}
	if v.excluded, err = v.store.excluded(); err != nil {
		return err
	}
	v.raftLog = raftLogger(v.log)
	if v.snaps, err = raft.NewFileSnapshotStoreWithLogger(filepath.Join(o.Dir, "snapshots"), 2, v.raftLog); err != nil {
		return err
	}
	l := o.Listener
	if l == nil {
		if l, err = net.Listen("tcp", o.Listen); err != nil {
			return err
		}
	}
	v.door = newDoor(l, o.TLS, o.Fleet, v.speaksRaft, v.log)
	v.web = v.newServer()
	v.net = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  &streams{room: v.door.raft, fleet: o.Fleet, tls: o.TLS, dial: o.Dial, node: v.nodeAt},
		MaxPool: 3, Timeout: max(3*time.Second, 10*o.MaxRTT), Logger: v.raftLog,
		// One request at a time to each follower: the pipelined path can wedge one
		// after an error, and is not faster at this rate.
		MaxRPCsInFlight: 1,
	})
	disk := &guarded{store: v.store, limit: o.stall, die: v.die, fault: o.fault}
	v.raft, err = raft.NewRaft(v.config(), v.replica, disk, disk, v.snaps, advertised{v.net, raft.ServerAddress(o.Advertise)})
	return err
}

// config is raft's. Two things are left as they are and mean something:
// RestoreCommittedLogs is off, because this store does not keep how far the log
// was committed; so after a restart the machine stands where its last snapshot
// was until a leader commits, and nothing is read from it before (see current).
// Pre-vote is on, so that a voter which could not hear others does not depose
// their leader when it can again.
func (v *Voter) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(v.opts.Node)
	c.HeartbeatTimeout = max(time.Second, 10*v.opts.MaxRTT)
	c.ElectionTimeout = c.HeartbeatTimeout
	// A leader that hears no majority for as long as the others would wait for it steps
	// down. Half of that, raft's own proportion, made leaders of a busy machine change
	// for a pause that no follower had noticed; nothing rests on the lease, since what
	// needs no entry is answered only after a majority has confirmed the leader.
	c.LeaderLeaseTimeout = c.HeartbeatTimeout
	c.CommitTimeout = 100 * time.Millisecond
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = 4096, 4096, 5*time.Minute
	c.NoLegacyTelemetry = true
	c.Logger = v.raftLog
	return c
}

// advertised is the transport under the address that others know it by.
type advertised struct {
	*raft.NetworkTransport
	address raft.ServerAddress
}

func (a advertised) LocalAddr() raft.ServerAddress { return a.address }

// die ends the process. It may be called from any goroutine, with anything
// held, and while the disk hangs; so it waits for nothing.
func (v *Voter) die(code int, why error) {
	if v.dead.Swap(true) {
		return
	}
	v.log.Error("this voter ends; the others go on without it", "why", why, "exit_code", code)
	v.opts.Exit(code)
}

// publish gives readers the newest state; called with the replica's lock held.
func (v *Voter) publish(next decide.View, events []steadycast.Event) {
	v.view.Store(&next)
	v.feed.add(next, events)
	v.watch.tell(events)
}

// servers is the set of voters as this voter last heard of it.
func (v *Voter) servers() []raft.Server {
	f := v.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// speaksRaft: a node that is a voter, or that node.yaml expects to be one.
func (v *Voter) speaksRaft(node string) bool {
	if v.isExcluded(node) {
		return false
	}
	if _, ok := v.opts.peer(node); ok {
		return true
	}
	return v.raft != nil && slices.ContainsFunc(v.servers(), func(s raft.Server) bool { return string(s.ID) == node })
}

// nodeAt is who is to be found at an address.
func (v *Voter) nodeAt(address string) string {
	for _, p := range v.opts.Peers {
		if p.Address == address {
			return p.Node
		}
	}
	return ""
}

// leaderPeer is who leads, as far as this voter knows.
func (v *Voter) leaderPeer() (Peer, bool) {
	address, id := v.raft.LeaderWithID()
	return Peer{Node: string(id), Address: string(address)}, id != ""
}

// current reports whether the state here is the ledger's own, and not one that
// this voter read from its disk and nobody has confirmed: a leader is known and
// everything it had committed when it was last heard was applied.
func (v *Voter) current() bool {
	if _, ok := v.leaderPeer(); !ok || v.view.Load().Fence.Epoch == 0 {
		return false
	}
	return v.raft.CommitIndex() > 0 && v.raft.AppliedIndex() >= v.raft.CommitIndex()
}

// Close ends the voter. A leader hands over first, so that the others need not
// wait until they miss it.
func (v *Voter) Close() error {
	v.stop.Do(func() {
		if !v.dead.Load() && v.raft.State() == raft.Leader {
			if err := v.raft.LeadershipTransfer().Error(); err != nil {
				v.log.Info("the leader could not hand over before it ended", "error", err)
			}
		}
		close(v.quit)
	})
	<-v.done
	return v.release()
}

// release lets go of everything; what was never opened is nil.
func (v *Voter) release() error {
	var errs []error
	if v.web != nil {
		v.feed.close()
		errs = append(errs, v.web.Close())
	}
	if v.raft != nil {
		errs = append(errs, v.raft.Shutdown().Error())
	}
	if v.net != nil {
		errs = append(errs, v.net.Close())
	}
	if v.door != nil {
		if err := v.door.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	} else if v.opts.Listener != nil {
		errs = append(errs, v.opts.Listener.Close())
	}
	v.helpers.Wait()
	for _, l := range v.links {
		l.close()
	}
	if v.store != nil {
		errs = append(errs, v.store.close())
	}
	if v.lock != nil {
		errs = append(errs, v.lock.Close())
	}
	return errors.Join(errs...)
}

// Watch signals that View has changed.
func (v *Voter) Watch() (<-chan struct{}, func()) { return v.watch.add() }

// OnEvents calls f with the events of each entry.
func (v *Voter) OnEvents(f func([]steadycast.Event)) func() { return v.watch.on(f) }

// Beat keeps the newest beat of its site until the leader's loop takes it.
func (v *Voter) Beat(b decide.Beat) { v.Heard(b, 0) }

// Heard is Beat for one that was known to be true age ago.
func (v *Voter) Heard(b decide.Beat, age time.Duration) {
	v.beats.put(heard{beat: b, at: v.clock.now() - max(age, 0)})
	v.skew.hear(v.clock.now(), b, v.view.Load().Table.Revision)
}

// Observe takes what a vantage observed of anybody, age ago. Every voter keeps
// the newest, so that whoever leads can hold it against the evidence of a
// request. It never blocks for long and never fails.
func (v *Voter) Observe(o steadycast.Observation, age time.Duration) {
	v.cross.hear(v.clock.now()-max(age, 0), o)
}

// Hash is the state of this replica, and the position at which it is that.
func (v *Voter) Hash() (steadycast.Fence, string) {
	v.replica.mu.Lock()
	defer v.replica.mu.Unlock()
	return v.replica.fleet.Fence(), v.replica.fleet.Hash()
}

// NotLeader says that this voter does not lead, and who does. The call was not
// carried out.
type NotLeader struct {
	Node string
	// Leader is empty while none is known.
	Leader Peer
}

func (e *NotLeader) Error() string {
	if e.Leader.Node == "" {
		return fmt.Sprintf("%s does not lead the ledger and knows nobody who does: too few voters hear each other, or one is being elected", e.Node)
	}
	return fmt.Sprintf("%s does not lead the ledger; %s at %s does", e.Node, e.Leader.Node, e.Leader.Address)
}
