package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// compactFrom is the size from which a store is worth rewriting at the start. A
// bbolt file never shrinks, whatever is deleted in it.
const compactFrom = 4 << 20

// compactStep bounds one transaction of the copy, in bytes.
const compactStep = 1 << 20

// compact rewrites a store of which more than half is unused, before it is
// opened. The copy takes the place of the old one in a rename, so that a crash
// leaves one of the two.
func compact(path string) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by a crash
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < compactFrom {
		return nil
	}
	if err != nil {
		return err
	}
	old, err := openBolt(path)
	if err != nil {
		return err
	}
	defer old.Close()
	stats := old.Stats()
	if unused := int64(stats.FreePageN+stats.PendingPageN) * int64(old.Info().PageSize); unused*2 < info.Size() {
		return nil
	}
	fresh, err := openBolt(next)
	if err != nil {
		return err
	}
	err = bolt.Compact(fresh, old, compactStep)
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s cannot be rewritten without what is unused in it: %w", path, err), os.Remove(next))
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
