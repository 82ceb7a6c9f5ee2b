package sim

import (
	"io"
	"log"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The times of raft.
const (
	heartbeatEvery = 500 * time.Millisecond
	patienceLeast  = 1 * time.Second // a follower waits that long for its leader …
	patienceMost   = 2 * time.Second // … or up to that
	snapshotEvery  = 32              // entries; whoever is further behind is sent the snapshot
	snapshotTrail  = 4               // entries that are kept behind a snapshot
	snapshotAgain  = 2 * time.Second // until one that went astray is sent again
)

// voter is one replica of the ledger: a raft node, the machine it feeds, and
// what its disk keeps when it dies.
//
// Raft draws its election timeouts from the system's randomness, which no seed
// reaches. So a follower is not ticked at all until this schedule's own patience
// is over, and then as often as makes it campaign whatever it drew: with
// ElectionTick 2 that is two ticks or three, and the state is the same after.
type voter struct {
	w     *world
	i     int
	id    uint64
	place int // whose network it shares
	clock clock
	wall  time.Duration // by how much its wall clock is wrong; only a mutation reads it

	up      bool
	life    int
	stalled time.Duration // its process stands still before
	disk    *raft.MemoryStorage
	snapAt  uint64 // where the snapshot on the disk was taken
	// formatted: the disk is that of a voter, and not lost.
	formatted bool

	node     *raft.RawNode
	fleet    *decide.Fleet
	applied  uint64
	appliedA time.Duration // when, by its own clock
	view     *decide.View
	shown    *decide.View  // what it passes on; older than view until behind is over
	behind   time.Duration // real time
	known    uint64        // the leader it knows; 0 for none
	leads    bool
	patience time.Duration // until when it waits for its leader, in real time
	chain    int           // of ticks: an earlier one ends
	offset   time.Duration // for mutations of ledger time
	issued   []time.Duration
	beats    []spoken          // the newest of each place
	trusted  []steadycast.Unit // for a mutation of a recovery
	desk     *desk             // while it leads and has applied an entry of its own term
}

// spoken is a beat with what makes its age known.
type spoken struct {
	echo nonce
	from time.Duration // since when its age counts, by the voter's clock
	beat decide.Beat
	ok   bool
}

var quiet = &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}

func newVoter(w *world, i, n int, shape *rand.Rand) *voter {
	v := &voter{
		w: w, i: i, id: uint64(i + 1), place: i % len(w.sites()),
		clock: clock{zero: -time.Duration(shape.Int64N(int64(24 * time.Hour))), ppm: shape.Int64N(2*maxDrift+1) - maxDrift},
		wall:  time.Duration(shape.Int64N(int64(10*time.Minute))) - 5*time.Minute,
	}
	v.format(n, 1, 1, nil)
	return v
}

// format makes the disk that of one of n voters, whose log begins after an index
// with a snapshot of the machine; nil for one that has applied nothing.
func (v *voter) format(n int, index, term uint64, snap []byte) {
	var all []uint64
	for k := range n {
		all = append(all, uint64(k+1))
	}
	v.disk = raft.NewMemoryStorage()
	must(v.disk.ApplySnapshot(&pb.Snapshot{Data: snap, Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: all}, Index: &index, Term: &term}}))
	must(v.disk.SetHardState(&pb.HardState{Term: &term, Commit: &index}))
	v.snapAt, v.formatted = index, true
}

// must stops the program: what fails is the simulator.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (v *voter) now() time.Duration { return v.clock.at(v.w.now) }

// start begins a life with what the disk has: the newest snapshot, then the log.
func (v *voter) start() {
	v.life++
	v.up, v.known, v.leads, v.desk, v.stalled = true, 0, false, nil, 0
	snap, err := v.disk.Snapshot()
	must(err)
	v.fleet = decide.NewFleet()
	v.restore(snap)
	v.shown = v.view
	v.issued, v.beats = nil, make([]spoken, len(v.w.places))
	v.offset = -v.now()
	node, err := raft.NewRawNode(&raft.Config{
		ID: v.id, ElectionTick: 2, HeartbeatTick: 1, Storage: v.disk, Applied: v.snapAt,
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 64, CheckQuorum: true, PreVote: true,
		DisableProposalForwarding: true, Logger: quiet,
	})
	must(err)
	v.node = node
	v.w.say("voter %d starts from entry %d", v.id, v.snapAt)
	v.waitForLeader()
	v.drain()
	v.tick()
	v.talk()
}

// restore sets the machine to a snapshot: its own at the start of a life, or one
// that the leader sent because the log no longer reaches back.
func (v *voter) restore(snap *pb.Snapshot) {
	v.applied, v.appliedA = snap.GetMetadata().GetIndex(), v.now()
	v.snapAt = v.applied
	if snap.GetData() != nil {
		must(v.fleet.Restore(v.bendSnapshot(snap.GetData())))
		v.w.judge.restored(v)
	}
	view := v.fleet.View()
	v.view = &view
}

// snapshot makes the log shorter.
func (v *voter) snapshot() {
	snap, err := v.disk.CreateSnapshot(v.applied, nil, v.fleet.Snapshot())
	must(err)
	v.snapAt = snap.GetMetadata().GetIndex()
	first, err := v.disk.FirstIndex()
	must(err)
	if keep := v.snapAt - snapshotTrail; keep > first {
		must(v.disk.Compact(keep))
	}
	v.w.judge.kept(v)
}

// crash ends the life. What raft was promised is on the disk.
func (v *voter) crash() {
	v.up, v.leads, v.desk = false, false, nil
	v.w.judge.happen("voter dies")
}

// on runs f in the voter's process: not when it is dead, and when it stands
// still only afterwards, for the kernel keeps what arrived.
func (v *voter) on(f func()) {
	switch {
	case !v.up:
	case v.w.now < v.stalled:
		life := v.life
		v.w.at(v.stalled, func() {
			if v.up && v.life == life {
				v.on(f)
			}
		})
	default:
		f()
		v.drain()
	}
}

func (v *voter) waitForLeader() { v.patience = v.w.now + v.w.between(patienceLeast, patienceMost) }

// tick is the one chain of events that drives raft's time.
func (v *voter) tick() {
	v.chain++
	life, chain := v.life, v.chain
	at := max(v.patience, v.stalled, v.w.now+10*time.Millisecond)
	if v.leads {
		at = v.w.now + heartbeatEvery
	}
	v.w.at(at, func() {
		if !v.up || v.life != life || v.chain != chain {
			return
		}
		v.on(func() {
			switch {
			case v.leads:
				v.node.Tick()
			case v.w.now >= v.patience:
				v.campaign()
			}
		})
		if v.up && v.chain == chain {
			v.tick()
		}
	})
}

func (v *voter) campaign() {
	v.waitForLeader()
	for range 3 {
		if v.node.Tick(); v.node.HasReady() {
			return
		}
	}
}

// receive is a message of raft.
func (v *voter) receive(m *pb.Message) {
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		if m.GetTerm() >= v.node.BasicStatus().GetTerm() {
			v.waitForLeader()
		}
	}
	_ = v.node.Step(m) // an error only says that the message is of no use now
}

// drain does what raft wants done, and proposes what there is to propose, until
// nothing is left.
func (v *voter) drain() {
	for {
		for v.node.HasReady() {
			v.ready(v.node.Ready())
		}
		if v.desk != nil {
			v.desk.pump()
		}
		if !v.node.HasReady() {
			return
		}
	}
}

// ready is one round of it: write, send, apply.
func (v *voter) ready(rd raft.Ready) {
	if rd.HardState != nil {
		must(v.disk.SetHardState(rd.HardState))
	}
	if raft.IsEmptySnap(rd.Snapshot) {
		must(v.disk.Append(rd.Entries))
	} else {
		must(v.disk.ApplySnapshot(rd.Snapshot))
		must(v.disk.Append(rd.Entries))
		v.restore(rd.Snapshot)
		v.w.judge.happen("snapshot installed")
		v.w.say("voter %d is set to the leader's snapshot of entry %d", v.id, v.applied)
		if v.w.now >= v.behind {
			v.shown = v.view
		}
		v.tellFollowers()
	}
	for _, m := range rd.Messages {
		if m.GetType() == pb.MsgSnap {
			v.sentSnapshot(m.GetTo())
		}
		m.Entries = slices.Clip(m.Entries) // a receiver may append to it
		to := v.w.voters[m.GetTo()-1]
		if m.GetType() == pb.MsgVoteResp && !m.GetReject() {
			v.waitForLeader()
		}
		v.w.send(v.place, to.place, func() { to.on(func() { to.receive(m) }) })
	}
	if rd.SoftState != nil {
		v.known = rd.Lead
		if leads := rd.RaftState == raft.StateLeader; leads != v.leads {
			v.leads, v.desk = leads, nil
			v.w.say("voter %d leads: %v", v.id, leads)
			v.waitForLeader()
			v.tick()
		}
	}
	for _, e := range rd.CommittedEntries {
		v.apply(e)
	}
	v.node.Advance(rd)
}

// sentSnapshot has raft look later whether it arrived.
func (v *voter) sentSnapshot(to uint64) {
	life := v.life
	v.w.in(snapshotAgain, func() {
		if v.up && v.life == life {
			v.on(func() { v.node.ReportSnapshot(to, raft.SnapshotFinish) })
		}
	})
}

// apply feeds one committed entry to the machine.
func (v *voter) apply(e *pb.Entry) {
	if e.GetIndex() <= v.applied {
		return
	}
	v.applied = e.GetIndex()
	if e.GetType() == pb.EntryNormal && len(e.Data) > 0 {
		p := v.w.unpack(e.Data)
		v.bendApply(&p)
		reply, err := v.fleet.Apply(p.entry)
		must(err) // only a later version's entry stops a replica, and nobody makes one
		v.afterApply(p.entry, reply)
		view := v.fleet.View()
		v.view, v.appliedA = &view, v.now()
		if v.w.now >= v.behind {
			v.shown = v.view
		}
		v.w.judge.applied(v, p, reply)
		if v.desk != nil {
			v.desk.applied(p, reply)
		}
		v.tellFollowers()
		if v.applied-v.snapAt >= snapshotEvery {
			v.snapshot()
		}
	}
	if own := e.GetTerm() == v.node.BasicStatus().GetTerm(); v.leads && own && v.desk == nil {
		v.desk = newDesk(v) // every entry of those who led before is applied
		v.w.judge.happen("leader begins")
	}
}

// talk says once a second that it lives, and gives everybody a nonce to echo.
func (v *voter) talk() {
	life := v.life
	v.on(func() {
		v.issued = append(v.issued, v.now())
		for _, p := range v.w.places {
			if !p.witness {
				v.tell(p)
			}
		}
	})
	v.w.in(v.w.between(950*time.Millisecond, 1050*time.Millisecond), func() {
		if v.up && v.life == life {
			v.talk()
		}
	})
}

func (v *voter) tell(p *place) {
	m := word{voter: v, live: v.known != 0, view: v.shown, nonce: nonce{uint64(v.life), len(v.issued) - 1}}
	if p.agent == nil || v.shown.Fence.Epoch == 0 {
		m.live = false // nothing is committed yet
	}
	v.w.send(v.place, p.i, func() {
		if p.agent != nil {
			p.agent.client.hear(m)
		}
	})
}

// tellFollowers passes on what was committed, at once.
func (v *voter) tellFollowers() {
	for _, p := range v.w.places {
		if p.agent != nil && p.agent.site != nil && p.agent.client.follow == v.i && len(v.issued) > 0 {
			v.tell(p)
		}
	}
}

// hear keeps the newest beat of each place, leader or not: who leads next is then warm.
func (v *voter) hear(place int, m spoken) {
	old := &v.beats[place]
	switch {
	case m.echo.life != uint64(v.life) || m.echo.n >= len(v.issued):
		return // it echoes nothing of this life
	case old.ok && (m.beat.Late(old.beat, v.issued[m.echo.n]-old.from) || v.w.is(setBackUnheard) && m.beat.Late(old.beat, 0)):
		return
	}
	m.ok, m.from = true, max(v.issued[m.echo.n], old.from)
	*old = m
	if v.desk != nil {
		v.desk.hear(m.from, m.beat)
	}
}

// take hands a call to the desk, if this voter leads.
func (v *voter) take(c call) {
	if v.desk != nil {
		v.desk.take(c)
	}
}

// phaseOf is where a replica counts a unit.
func phaseOf(v *decide.View, u steadycast.Unit) *decide.UnitView {
	i, ok := slices.BinarySearchFunc(v.Units, u, func(x decide.UnitView, u steadycast.Unit) int { return x.Unit.Compare(u) })
	if !ok {
		return nil
	}
	return &v.Units[i]
}
