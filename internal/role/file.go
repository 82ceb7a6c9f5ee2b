package role

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile puts data at path so that a reader, also one after a crash or a
// loss of power, finds either the old content or the new, whole. On an error
// the old content stays. One writer per path.
func WriteFile(path string, data []byte, mode os.FileMode) (err error) {
	// The name is fixed, so that a crash leaves at most one file, which the next
	// write takes over.
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e, named := errors.AsType[*os.PathError](err); named {
		err = e.Err // the name is said below
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	// The rename itself is on disk only once the directory is.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Lock takes a directory for this process alone, until it ends in whatever
// way. Two processes of one role on one state would undo each other's work.
func Lock(dir, role string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, role+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another %s runs on %s (its lock is %s): stop it, or give this one another state_dir", role, dir, path)
	}
	return func() { f.Close() }, nil
}
