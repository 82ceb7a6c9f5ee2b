package ledger

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// The codes with which a voter ends its process (sysexits.h).
const (
	// ExitNotUnderstood: an entry or snapshot is beyond this version, or this
	// replica's state differs from the leader's. Restarting does not help.
	ExitNotUnderstood = 65
	// ExitStalled: the disk, or the whole ledger, does not move.
	ExitStalled = 70
	// ExitDisk: the disk refused a write, or has too little room.
	ExitDisk = 74
)

// stallLimit is how long one call of the store may take. A leader whose disk
// hangs goes on sending heartbeats, so that nobody else is elected, and never
// answers; only its end helps.
const stallLimit = 2 * time.Second

// guarded is a store whose disk is watched: a call that hangs, or a write that
// fails, ends the process. Raft itself keeps a leader with a hung disk, and
// panics on a full one when it has to write down its vote. A dead voter can
// do neither, and cannot be elected.
type guarded struct {
	*store
	limit time.Duration
	die   func(code int, why error)
	// fault, when set, comes before every call; tests hang and fail the disk with it.
	fault func(call string) error
}

func (g *guarded) read(call string, f func() error) error {
	defer lasting(g.limit, func() {
		g.die(ExitStalled, fmt.Errorf("the disk hangs: %s of %s has taken more than %s", call, g.path, g.limit))
	})()
	if g.fault != nil {
		if err := g.fault(call); err != nil {
			return err
		}
	}
	return f()
}

func (g *guarded) write(call string, f func() error) error {
	err := g.read(call, f)
	if err != nil {
		g.die(ExitDisk, fmt.Errorf("the disk refuses: %s of %s: %w", call, g.path, err))
	}
	return err
}

func (g *guarded) GetLog(index uint64, l *raft.Log) error {
	return g.read("GetLog", func() error { return g.store.GetLog(index, l) })
}

func (g *guarded) FirstIndex() (index uint64, err error) {
	err = g.read("FirstIndex", func() error { index, err = g.store.FirstIndex(); return err })
	return index, err
}

func (g *guarded) LastIndex() (index uint64, err error) {
	err = g.read("LastIndex", func() error { index, err = g.store.LastIndex(); return err })
	return index, err
}

func (g *guarded) Get(key []byte) (value []byte, err error) {
	err = g.read("Get", func() error { value, err = g.store.Get(key); return err })
	return value, err
}

func (g *guarded) GetUint64(key []byte) (n uint64, err error) {
	err = g.read("GetUint64", func() error { n, err = g.store.GetUint64(key); return err })
	return n, err
}

func (g *guarded) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

func (g *guarded) StoreLogs(logs []*raft.Log) error {
	return g.write("StoreLogs", func() error { return g.store.StoreLogs(logs) })
}

func (g *guarded) DeleteRange(first, last uint64) error {
	return g.write("DeleteRange", func() error { return g.store.DeleteRange(first, last) })
}

func (g *guarded) Set(key, value []byte) error {
	return g.write("Set", func() error { return g.store.Set(key, value) })
}

func (g *guarded) SetUint64(key []byte, n uint64) error {
	return g.write("SetUint64", func() error { return g.store.SetUint64(key, n) })
}
