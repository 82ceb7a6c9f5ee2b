package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	bolt "go.etcd.io/bbolt"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Recovered says what a recovery kept and from whom.
type Recovered struct {
	Was, Is steadycast.Fence
	// Excluded are the voters of before, which count as lost. They may come back
	// by [Voter.Join], empty.
	Excluded []string
	// Orders are those that it holds. They bind nobody until they are seen carried out,
	// or are given anew.
	Orders []decide.StandingOrder
}

// Recover makes a ledger of one voter out of what this one has, when more than
// half of the voters are lost for good. The voter must not be running. It may
// miss what the others had committed last; so the ledger goes on in a new epoch
// and frozen, until a person has compared it with the sites and thaws it; no route
// moves by that, for it believes nothing of the copy before the sites were heard. Then
// two others are taken in by [Voter.Join].
//
// It refuses while any other voter is there that knows more, or enough of them
// to go on: two halves that each went on alone would both give permits.
func Recover(ctx context.Context, opts VoterOptions, actor, reason string) (done Recovered, err error) {
	opts.settle()
	v := &Voter{calls: newCalls(), opts: opts, log: opts.Log, clock: newClock()}
	v.raftLog = raftLogger(v.log)
	r := &recovering{actor: actor, reason: reason, node: opts.Node}
	r.clock, r.die, r.tell, r.fleet = v.clock, func(int, error) {}, func(decide.View, []steadycast.Event) {}, decide.NewFleet()
	if v.lock, err = lockDir(opts.Dir); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, v.release()) }()
	if v.store, err = openStore(opts.Dir, heading{storeFormat, storeSchema, opts.Fleet, opts.Node}); err != nil {
		return done, err
	}
	if v.snaps, err = raft.NewFileSnapshotStoreWithLogger(filepath.Join(opts.Dir, "snapshots"), 2, v.raftLog); err != nil {
		return done, err
	}
	_, wire := raft.NewInmemTransport(raft.ServerAddress(opts.Advertise))
	if has, err := raft.HasExistingState(v.store, v.store, v.snaps); err != nil {
		return done, err
	} else if !has {
		return done, fmt.Errorf("%s holds no ledger: there is nothing to recover. Take this node into one with join, or begin one with init", opts.Dir)
	}
	look := v.config()
	was, err := raft.GetConfiguration(look, &replica{clock: v.clock, die: r.die, tell: r.tell, fleet: decide.NewFleet()}, v.store, v.store, v.snaps, wire)
	if err != nil {
		return done, err
	}
	last, err := v.store.LastIndex()
	if err != nil {
		return done, err
	}
	if err := v.lostForGood(ctx, was.Servers, last); err != nil {
		return done, err
	}
	for _, s := range was.Servers {
		if string(s.ID) != opts.Node {
			done.Excluded = append(done.Excluded, string(s.ID))
		}
	}
	if err := v.store.exclude(done.Excluded); err != nil {
		return done, err
	}
	one := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(opts.Node), Address: raft.ServerAddress(opts.Advertise)}}}
	if err := raft.RecoverCluster(v.config(), r, v.store, v.store, v.snaps, wire, one); err != nil {
		return done, err
	}
	done.Was, done.Is = r.was, r.fleet.Fence()
	view := r.fleet.View()
	done.Orders = slices.Concat(view.Orders, view.NodeOrders)
	return done, nil
}

// lostForGood refuses a recovery while the others could go on, or know more.
func (v *Voter) lostForGood(ctx context.Context, servers []raft.Server, last uint64) error {
	if _, member := serverAt(servers, v.opts.Node); !member {
		return fmt.Errorf("%s was no voter when its log ended: recover one that was", v.opts.Node)
	}
	there, ahead := 1, error(nil)
	for _, s := range servers {
		if string(s.ID) == v.opts.Node {
			continue
		}
		p := Peer{Node: string(s.ID), Address: string(s.Address)}
		link := newLink(v.opts.Fleet, v.opts.TLS, p, v.opts.Dial)
		call, cancel := context.WithTimeout(ctx, changeTimeout/2)
		var other State
		err := link.call(call, pathState, nil, struct{}{}, &other)
		cancel()
		link.close()
		if err != nil || other.Empty {
			continue
		}
		there++
		if other.LastIndex > last {
			ahead = fmt.Errorf("%s is there and has entries up to %d, this voter up to %d: recover that one, nothing is lost there", p.Node, other.LastIndex, last)
		}
	}
	if need := len(servers)/2 + 1; there >= need {
		return fmt.Errorf("%d of %d voters are there, counting this one: that is enough to go on without a recovery. Start this one", there, len(servers))
	}
	return ahead
}

// recovering is a replica whose snapshot begins a new epoch.
type recovering struct {
	replica
	actor, reason, node string
	was                 steadycast.Fence
}

func (r *recovering) Snapshot() (raft.FSMSnapshot, error) {
	if r.stopped != nil {
		return nil, r.stopped
	}
	r.was = r.fleet.Fence()
	if r.was.Epoch == 0 {
		return nil, errors.New("the ledger never began: there is nothing to recover. Move its state away and begin it with init")
	}
	reply, err := r.fleet.Apply(decide.Entry{
		Kind: decide.KindEpoch, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: r.was.Epoch + 1,
		LT: r.fleet.LT(), Proposer: r.node, Actor: r.actor, Reason: r.reason,
	})
	switch {
	case err != nil:
		return nil, err
	case reply.Invalid != "":
		return nil, errors.New(reply.Invalid)
	case reply.Refused != nil:
		return nil, errors.New(reply.Refused.Text)
	}
	return r.replica.Snapshot()
}

var excludedKey = []byte("excluded")

// excluded are the voters that a recovery gave up. If they are not lost after
// all, their old log must not reach this one.
func (s *store) excluded() (nodes []string, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(aboutBucket).Get(excludedKey); b != nil {
			return json.Unmarshal(b, &nodes)
		}
		return nil
	})
	return nodes, err
}

// exclude replaces the list.
func (s *store) exclude(nodes []string) error {
	b, err := json.Marshal(nodes)
	if err != nil {
		return err
	}
	return s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(aboutBucket).Put(excludedKey, b) })
}

// isExcluded reports whether a recovery gave a node up.
func (v *Voter) isExcluded(node string) bool {
	v.linksMu.Lock()
	defer v.linksMu.Unlock()
	return slices.Contains(v.excluded, node)
}

// admit ends the exclusion of a node that comes back empty.
func (v *Voter) admit(node string) error {
	v.linksMu.Lock()
	defer v.linksMu.Unlock()
	if !slices.Contains(v.excluded, node) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(v.excluded), func(n string) bool { return n == node })
	if err := v.store.exclude(left); err != nil {
		return err
	}
	v.excluded = left
	return nil
}
