package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// replica is a voter's copy of the machine, which raft feeds. Apply, Snapshot
// and Restore come from raft's one goroutine; a leader reads the machine from
// its own, so mu guards it.
type replica struct {
	clock clock
	die   func(code int, why error)
	// tell hears of each change, from raft's goroutine, with mu held.
	tell func(decide.View, []steadycast.Event)

	mu    sync.Mutex
	fleet *decide.Fleet
	// at is when the last entry was applied here: where ledger time and this
	// process's time meet (rule T1).
	at time.Duration
	// stopped: what came was not understood, and nothing is applied any more.
	stopped error
}

var _ raft.FSM = (*replica)(nil)

// applied is what Apply gives to whoever proposed.
type applied struct {
	reply decide.Reply
	err   error
}

// errOverturned: between judging and writing another leader was elected. The
// entry is in the log and changes nothing on any replica.
var errOverturned = errors.New("another leader was elected meanwhile")

// Apply carries out one entry. What is not understood stops the voter; it is
// never skipped.
func (r *replica) Apply(l *raft.Log) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped != nil {
		return applied{err: r.stopped}
	}
	stamp, err := readStamp(l.Extensions)
	if err != nil {
		return r.stop(fmt.Errorf("entry %d: %w", l.Index, err))
	}
	if stamp.term != l.Term {
		return applied{err: errOverturned}
	}
	if stamp.hashed {
		if own := r.hash(); own != stamp.hash {
			return r.stop(fmt.Errorf("before entry %d this voter's state is %s and the leader's was %s: they have decided differently", l.Index, hex.EncodeToString(own[:6]), hex.EncodeToString(stamp.hash[:6])))
		}
	}
	e, err := decide.DecodeEntry(l.Data)
	if _, beyond := errors.AsType[*decide.StopError](err); beyond {
		return r.stop(fmt.Errorf("entry %d: %w", l.Index, err))
	}
	if err != nil { // bytes that no version writes: a poison that must not kill every voter
		return applied{err: fmt.Errorf("entry %d changes nothing: %w", l.Index, err)}
	}
	reply, err := r.fleet.Apply(e)
	if err != nil {
		return r.stop(fmt.Errorf("entry %d: %w", l.Index, err))
	}
	r.at = r.clock.now()
	r.tell(r.fleet.View(), reply.Events)
	return applied{reply: reply}
}

// stop ends the voter at the position before what it does not understand.
func (r *replica) stop(why error) applied {
	r.stopped = why
	r.die(ExitNotUnderstood, why)
	return applied{err: why}
}

func (r *replica) hash() [sha256.Size]byte { return r.fleet.Digest() }

// Snapshot is the whole state, at most a few megabytes.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped != nil {
		return nil, r.stopped
	}
	return snapshot(r.fleet.Snapshot()), nil
}

// Restore takes the state of a snapshot.
func (r *replica) Restore(from io.ReadCloser) error {
	b, err := io.ReadAll(io.LimitReader(from, maxSnapshot+1))
	if err == nil && len(b) > maxSnapshot {
		err = fmt.Errorf("a snapshot of more than %d bytes", maxSnapshot)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fleet.Restore(bytes.TrimSpace(b)); err != nil {
		if stop, ok := errors.AsType[*decide.StopError](err); ok {
			r.stop(stop)
		}
		return err
	}
	r.at = r.clock.now()
	r.tell(r.fleet.View(), nil)
	return nil
}

// maxSnapshot bounds what is read of a snapshot; one of 300 sites has under a megabyte.
const maxSnapshot = 64 << 20

// snapshot is a state on its way to disk.
type snapshot []byte

func (s snapshot) Persist(to raft.SnapshotSink) error {
	if _, err := to.Write(s); err != nil {
		return errors.Join(err, to.Cancel())
	}
	return to.Close()
}

func (s snapshot) Release() {}

// stamp travels beside each entry: the term in which its proposer judged, so
// that one which was judged under one leadership and written under another is
// void everywhere; and now and then the proposer's state before it, so that a
// replica which went astray finds out.
//
//	1 version · 8 term · 0 or 32 hash
type stamp struct {
	term   uint64
	hashed bool
	hash   [sha256.Size]byte
}

func (s stamp) bytes() []byte {
	b := binary.BigEndian.AppendUint64([]byte{1}, s.term)
	if s.hashed {
		b = append(b, s.hash[:]...)
	}
	return b
}

func readStamp(b []byte) (s stamp, err error) {
	if len(b) != 9 && len(b) != 9+sha256.Size || b[0] != 1 {
		return s, &decide.StopError{What: "its stamp is of a newer version, or damaged"}
	}
	s.term = binary.BigEndian.Uint64(b[1:])
	if len(b) > 9 {
		s.hashed, s.hash = true, [sha256.Size]byte(b[9:])
	}
	return s, nil
}
