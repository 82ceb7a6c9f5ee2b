package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast/decide"
)

const (
	// progressEvery is how often a leader proves to itself that entries go
	// through, and progressLimit how long one may take. Heartbeats prove nothing:
	// they touch no disk.
	progressEvery = 10 * time.Second
	progressLimit = 5 * time.Second
	// lookEvery is how often a voter that leads and does not serve looks again.
	lookEvery = 100 * time.Millisecond
	// hashEvery is how many entries lie between two that carry the state's hash.
	hashEvery = 256
)

// errUnsure: the entry may be in the log, or not.
var errUnsure = errors.New("leadership was lost while it was written: it may be recorded, or not; asking again is safe")

// run leads when this voter is elected, and refuses calls when it is not.
func (v *Voter) run() {
	defer close(v.done)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case o := <-v.ops:
			refuse(v.waiting(o), v.notLeader())
		case <-v.raft.LeaderCh():
		case <-look.C: // a reign that could not begin is tried again
		case <-v.quit:
			for {
				select {
				case o := <-v.ops:
					refuse(v.waiting(o), ErrClosed)
				default:
					return
				}
			}
		}
		v.opts.Alive()
		if v.raft.State() == raft.Leader {
			v.reign()
		}
	}
}

func (v *Voter) notLeader() error {
	leader, _ := v.leaderPeer()
	if leader.Node == v.opts.Node {
		leader = Peer{} // elected, and not serving yet
	}
	return &NotLeader{v.opts.Node, leader}
}

// reign is one leadership: barrier, ledger time, serve, until it is over.
//
// The barrier waits until everything that leaders before had committed is
// applied here: only then may this one judge. Ledger time goes on from where
// the last of those entries met this process's clock (rule T1); from then on
// only that clock counts, until the reign is over.
func (v *Voter) reign() {
	v.term, v.over, v.stamps = v.raft.CurrentTerm(), false, 0
	if err := v.await(v.raft.Barrier(progressLimit)); err != nil || !v.leads() {
		return
	}
	r := v.replica
	r.mu.Lock()
	defer r.mu.Unlock()
	v.desk = desk{lead: newLeader(r.fleet, v.opts.Node, r.at), now: v.clock.now, commit: v.commit, sure: v.verify}
	v.lead.cross, v.lead.verify = &v.cross, v.opts.Verify
	// What was heard before counts by its own age, so that the first request of the
	// reign is not judged as if nobody announced anything.
	for _, b := range v.beats.take() {
		v.lead.hear(b.at, b.beat)
	}
	v.log.Info("this voter leads the ledger", "term", v.term, "position", r.fleet.Fence().String())
	defer func() { v.log.Info("this voter leads the ledger no more", "term", v.term) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	probe := time.NewTicker(progressEvery)
	defer probe.Stop()
	for v.leads() {
		v.opts.Alive()
		r.mu.Unlock()
		var batch []op
		proof := false
		select {
		case o := <-v.ops:
			batch = v.waiting(o)
		case <-v.beats.wake:
		case <-timer.C:
		case <-v.raft.LeaderCh():
		case <-probe.C:
			proof = true
		case <-v.quit:
			v.over = true
		}
		if proof {
			v.over = v.over || v.await(v.raft.Barrier(progressLimit)) != nil
		}
		r.mu.Lock()
		if !v.leads() {
			refuse(batch, v.notLeader())
			return
		}
		for _, b := range v.beats.take() {
			v.lead.hear(b.at, b.beat)
		}
		v.serve(batch)
		wait := time.Second
		if r.fleet.Fence().Epoch > 0 { // an unborn ledger waits for its genesis
			_ = v.duties() // said by commit
			wait = min(wait, max(v.lead.wake()-v.now(), 0))
		}
		timer.Reset(wait)
	}
}

// leads: it is still the same leadership.
func (v *Voter) leads() bool {
	return !v.over && v.raft.State() == raft.Leader && v.raft.CurrentTerm() == v.term
}

// await waits for raft. One that does not answer while this voter leads does
// not move: another must lead, and this process is in the way.
func (v *Voter) await(f raft.Future) error {
	done := make(chan error, 2)
	go func() { done <- f.Error() }()
	defer lasting(progressLimit+time.Second, func() { done <- raft.ErrEnqueueTimeout })()
	err := <-done
	if errors.Is(err, raft.ErrEnqueueTimeout) && v.raft.State() == raft.Leader {
		v.die(ExitStalled, fmt.Errorf("the ledger does not move: an entry was not applied in %s", progressLimit))
	}
	return err
}

// verify asks a majority whether this voter still leads.
func (v *Voter) verify() error {
	v.replica.mu.Unlock()
	err := v.await(v.raft.VerifyLeader())
	v.replica.mu.Lock()
	if err != nil || !v.leads() {
		v.over = true
		return v.notLeader()
	}
	return nil
}

// commit writes an entry to a majority's disks and applies it. It belongs to
// run, which holds the replica's lock but for the wait.
func (v *Voter) commit(e decide.Entry) (decide.Reply, error) {
	b, err := e.Encode()
	if err == nil {
		_, err = decide.DecodeEntry(b) // what others could not read is not proposed
	}
	if err != nil {
		return decide.Reply{}, Invalid(err.Error())
	}
	if !v.leads() {
		return decide.Reply{}, v.notLeader()
	}
	s := stamp{term: v.term}
	if v.stamps%hashEvery == 0 {
		s.hashed, s.hash = true, v.replica.hash()
	}
	v.stamps++
	v.replica.mu.Unlock()
	f := v.raft.ApplyLog(raft.Log{Data: b, Extensions: s.bytes()}, progressLimit)
	err = v.await(f)
	v.replica.mu.Lock()
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		v.over = true
		return decide.Reply{}, v.notLeader()
	case err != nil:
		v.over = true
		return decide.Reply{}, fmt.Errorf("%w (%w)", errUnsure, err)
	}
	done := f.Response().(applied)
	if errors.Is(done.err, errOverturned) {
		v.over = true
		return decide.Reply{}, v.notLeader()
	}
	if done.err != nil {
		v.over = true
		return decide.Reply{}, done.err
	}
	if done.reply.Invalid != "" {
		v.log.Error("the ledger proposed an entry without meaning, which changed nothing", "kind", e.Kind, "why", done.reply.Invalid)
	}
	v.lead.applied(v.now())
	return done.reply, nil
}
