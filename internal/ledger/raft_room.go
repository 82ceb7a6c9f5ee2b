package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// ErrNoRoom: the disk has too little room for a voter to start on it.
var ErrNoRoom = errors.New("too little room on the disk")

const (
	ballastName = "ballast"
	roomEvery   = time.Second
	lockTries   = 20
	lockPause   = 10 * time.Millisecond
)

// lockDir takes a directory for this process, until the file is closed.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "ledger.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// A child that this process is just starting holds what it had open until it
	// has become another program; so one refusal is none.
	for try := 0; ; try++ {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil || try == lockTries {
			break
		}
		time.Sleep(lockPause)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another process (%w): stop that one first; two writers would destroy the ledger", dir, err), lock.Close())
	}
	return lock, nil
}

// free is how many bytes this process may still write in dir.
func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// takeRoom refuses to start a voter on a disk that is nearly full, and sets the
// ballast aside.
func (v *Voter) takeRoom() error {
	o := &v.opts
	path := filepath.Join(o.Dir, ballastName)
	has := int64(0)
	if info, err := os.Stat(path); err == nil {
		has = info.Size()
	}
	there, err := free(o.Dir)
	if err != nil {
		return err
	}
	if need := o.LeastFree + max(o.Ballast-has, 0); there < need {
		return fmt.Errorf("%w: %s has %d MB free; a voter needs %d to start. Make room and it starts", ErrNoRoom, o.Dir, there>>20, need>>20)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = diskFile{f}.Reserve(0, o.Ballast)
	if err == nil {
		err = f.Truncate(o.Ballast)
	}
	return errors.Join(err, f.Close())
}

// watchRoom ends the voter before the disk is full, and gives the ballast to the
// other processes of this node. A voter that cannot write is worse than none:
// it may be elected again and again.
func (v *Voter) watchRoom() {
	t := time.NewTicker(roomEvery)
	defer t.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-t.C:
		}
		there, err := free(v.opts.Dir)
		if err != nil || there >= v.opts.LeastFree || v.dead.Load() {
			continue
		}
		v.leaveFull(fmt.Errorf("%w: %s has %d MB free; below %d a voter stops. Make room and it starts again", ErrNoRoom, v.opts.Dir, there>>20, v.opts.LeastFree>>20))
		return
	}
}

// leaveFull hands over what this voter leads, if it can still, and ends.
func (v *Voter) leaveFull(why error) {
	if v.raft.State() == raft.Leader {
		done := make(chan error, 1)
		go func() { done <- v.raft.LeadershipTransfer().Error() }()
		select {
		case <-done:
		case <-time.After(progressLimit):
		}
	}
	if err := os.Remove(filepath.Join(v.opts.Dir, ballastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.log.Warn("the ballast cannot be given back", "error", err)
	}
	v.die(ExitDisk, why)
}
