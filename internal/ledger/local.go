package ledger

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// ErrClosed is the error of every call after Close.
var ErrClosed = errors.New("the ledger is closed")

// tryAgain is the pause between two tries to write to a disk that fails.
const tryAgain = time.Second

// shortenEvery is how many entries a journal gathers before it is shortened.
const shortenEvery = 1024

// Options say how a local ledger is kept. The zero value is good for tests.
type Options struct {
	// Fleet and Node say whose ledger it is; a journal of another is refused.
	Fleet, Node string
	// Operators let orders in by signature only, from the first entry on; default
	// none, and then whoever may write to the node's socket gives them.
	Operators []steadycast.Operator
	// Log gets what people must know of the journal; default slog.Default().
	Log *slog.Logger
}

// Local is a ledger without raft: one process, one disk, the same machine and
// the same rules. Several sites of one process may share it.
//
// run is the one goroutine that owns the machine, the proposer and the journal;
// callers reach it through ops, and read view without it.
type Local struct {
	calls
	opts  Options
	log   *slog.Logger
	quit  chan struct{}
	stop  sync.Once
	end   error
	watch watchers
	beats beatBox

	// owned by run
	desk
	fleet   *decide.Fleet
	disk    *journal // nil: memory only
	lock    *os.File
	entries int // in the journal since it was shortened
	failing bool
	clock   clock
}

// Open opens the ledger kept in dir, or begins one with the policy of genesis;
// an existing ledger keeps the policy it has (see SetTable). With an empty dir
// it lives in memory only. A ledger that is in use, damaged, another node's or a
// newer version's is refused, and nothing is changed.
func Open(dir string, genesis decide.Table, opts Options) (*Local, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	l := &Local{
		calls: newCalls(), opts: opts, log: opts.Log, fleet: decide.NewFleet(),
		quit: make(chan struct{}), clock: newClock(),
	}
	l.beats.wake = make(chan struct{}, 1)
	if dir != "" {
		if err := l.openDisk(dir); err != nil {
			return nil, errors.Join(err, l.closeDisk())
		}
	}
	l.desk = desk{lead: newLeader(l.fleet, opts.Node, l.clock.now()), now: l.clock.now, commit: l.commit}
	l.publish()
	if l.fleet.Fence().Epoch == 0 {
		if err := l.begin(genesis); err != nil {
			return nil, errors.Join(err, l.closeDisk())
		}
	} else {
		// A loss of power may have taken the last record along (see leaves), and the
		// speaker may have carried it out. With one entry more no position is below one
		// that was ever answered.
		_, _ = l.commit(l.lead.entry(l.now(), decide.KindTick)) // said by commit
	}
	go l.run()
	return l, nil
}

// openDisk takes the directory for this process and reads what is there.
func (l *Local) openDisk(dir string) error {
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	l.lock = lock
	l.disk = &journal{dir: dir, who: heading{journalFormat, journalSchema, l.opts.Fleet, l.opts.Node}}
	switch was, err := load(l.disk.path(), l.disk.who); {
	case errors.Is(err, os.ErrNotExist):
		return l.disk.shorten(nil)
	case err != nil:
		return err
	default:
		l.fleet, l.entries = was.fleet, was.entries
		if was.torn > 0 {
			l.log.Warn("the last record of the ledger was never finished and is cut; no more than a withdrawal was answered from it",
				"file", l.disk.path(), "bytes", was.torn, "kept", was.good)
		}
		if err := l.disk.reopen(was.good); err != nil {
			return err
		}
		if l.entries > 0 || was.torn > 0 {
			l.shorten()
		}
		return nil
	}
}

// begin writes the first entry.
func (l *Local) begin(genesis decide.Table) error {
	e := l.lead.entry(l.now(), decide.KindGenesis)
	t := genesis.WithDefaults()
	t.Revision = max(t.Revision, 1)
	e.Table, e.Reason = &t, "the first policy of this ledger"
	if len(l.opts.Operators) > 0 {
		e.Charter = &decide.Charter{Fleet: l.opts.Fleet, Operators: l.opts.Operators}
	}
	r, err := l.commit(e)
	if err == nil && r.Invalid != "" {
		err = Invalid(r.Invalid)
	}
	if err != nil {
		return fmt.Errorf("the ledger cannot begin: %w", err)
	}
	return nil
}

// run owns everything until Close.
func (l *Local) run() {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case o := <-l.ops:
			batch := l.waiting(o)
			l.hear() // before a request, so that it is judged by the newest
			l.serve(batch)
			if l.disk != nil && l.disk.ahead {
				runtime.Gosched() // whoever was answered goes first
				_ = l.settle()    // said by works
			}
		case <-l.beats.wake:
		case <-timer.C:
		case <-l.quit:
			l.finish()
			return
		}
		l.hear()
		l.work()
		if l.entries >= shortenEvery && len(l.ops) == 0 {
			l.shorten()
		}
		timer.Reset(l.pause())
	}
}

// pause is how long nothing is due by itself. A disk that fails is tried once a second.
func (l *Local) pause() time.Duration {
	if l.failing {
		return tryAgain
	}
	return max(l.lead.wake()-l.now(), 0)
}

// hear takes the beats that came.
func (l *Local) hear() {
	for _, b := range l.beats.take() {
		l.lead.hear(b.at, b.beat)
	}
}

// work does the duties. Whether a disk that failed works again is found out by
// itself, not by the next request.
func (l *Local) work() {
	if l.failing {
		if _, err := l.commit(l.lead.entry(l.now(), decide.KindTick)); err != nil {
			return
		}
	}
	_ = l.duties() // said by commit
}

// commit writes an entry, then applies it: what is answered from it is on disk,
// or on its way there if it only takes routes away.
func (l *Local) commit(e decide.Entry) (decide.Reply, error) {
	if l.disk != nil {
		b, err := e.Encode()
		if err != nil {
			return decide.Reply{}, err
		}
		if err := l.record(b, leaves(e)); err != nil {
			return decide.Reply{}, fmt.Errorf("the ledger cannot write, so nothing was changed: %w", err)
		}
		l.entries++
	}
	r, err := l.fleet.Apply(e)
	if err != nil {
		return r, err // it stops: its own entry, so this cannot be
	}
	if r.Invalid != "" {
		l.log.Error("the ledger proposed an entry without meaning, which changed nothing", "kind", e.Kind, "why", r.Invalid)
	}
	l.lead.applied(l.now())
	l.publish()
	l.watch.tell(r.Events)
	return r, nil
}

// leaves: the entry only lets routes be taken away. Its answer need not wait for
// the disk: the record outlives the process, and what can lose it, a loss of
// power, takes the route as well. ARCHITECTURE.md has the whole argument.
func leaves(e decide.Entry) bool {
	return e.Kind == decide.KindDecide && len(e.Decide.Requests) > 0 && !slices.ContainsFunc(e.Decide.Requests, func(r steadycast.Request) bool {
		return r.Action != steadycast.Withdraw
	})
}

// record brings one record to disk, or ahead only into the file; settle must follow.
func (l *Local) record(b []byte, ahead bool) error {
	if err := l.settle(); err != nil {
		return err
	}
	err := error(nil)
	if ahead {
		err = l.disk.write(b)
	} else {
		err = l.disk.append(b)
	}
	l.works(err)
	return err
}

// settle waits until everything that was answered is on disk. If it may never
// come there, a new file with the whole state takes the place of the old one, and
// nothing is written before that is done.
func (l *Local) settle() error {
	if l.disk == nil || !l.disk.ahead {
		return nil
	}
	if !l.disk.lost {
		err := l.disk.settle()
		if err == nil {
			return nil
		}
		l.works(err)
	}
	if err := l.disk.shorten(l.fleet.Snapshot()); err != nil {
		l.works(err)
		return err
	}
	l.entries = 0
	l.works(nil)
	return nil
}

// works notes whether the disk does, and says when that changes.
func (l *Local) works(err error) {
	switch {
	case err != nil && !l.failing:
		l.log.Error("the ledger cannot write: what would change it is refused until it can; routes stay as they are", "error", err)
	case err == nil && l.failing:
		l.log.Info("the ledger can write again", "file", l.disk.path())
	}
	l.failing = err != nil
}

// publish gives readers the newest state.
func (l *Local) publish() {
	v := l.lead.view
	l.view.Store(&v)
}

// shorten replaces the journal by a snapshot. If that fails the long one goes
// on, and it is tried again after as many entries.
func (l *Local) shorten() {
	if l.disk == nil || l.settle() != nil {
		return
	}
	l.entries = 0
	if err := l.disk.shorten(l.fleet.Snapshot()); err != nil {
		l.log.Warn("the journal of the ledger could not be shortened; it goes on growing", "file", l.disk.path(), "error", err)
	}
}

// finish writes down how much time passed, so that orders do not last longer
// for a planned restart, answers whoever waits, and lets go of the disk.
func (l *Local) finish() {
	if l.fleet.Timed() && l.lead.lt(l.now()) > l.fleet.LT() {
		_, _ = l.commit(l.lead.entry(l.now(), decide.KindTick))
	}
	l.end = errors.Join(l.settle(), l.closeDisk())
	for {
		select {
		case o := <-l.ops:
			refuse(l.waiting(o), ErrClosed)
		default:
			return
		}
	}
}

func (l *Local) closeDisk() error {
	var errs []error
	if l.disk != nil && l.disk.f != nil {
		errs = append(errs, l.disk.close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close()) // and with it the flock
	}
	return errors.Join(errs...)
}

// Close ends the ledger after what it is doing now. Calls that wait get ErrClosed.
func (l *Local) Close() error {
	l.stop.Do(func() { close(l.quit) })
	<-l.done
	return l.end
}

// Watch signals that View has changed.
func (l *Local) Watch() (<-chan struct{}, func()) { return l.watch.add() }

// OnEvents calls f with the events of each entry.
func (l *Local) OnEvents(f func([]steadycast.Event)) func() { return l.watch.on(f) }

// Beat keeps the newest beat of its site until run takes it.
func (l *Local) Beat(b decide.Beat) { l.beats.put(heard{beat: b, at: l.clock.now()}) }

var _ Ledger = (*Local)(nil)
