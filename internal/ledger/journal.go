package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The journal is one file of lines, each a record in its own frame:
//
//	CRC32C, 8 hex digits · SPACE · length in bytes · SPACE · JSON · NEWLINE
//
// The first record says whose it is, the second may be a snapshot of the whole
// state, all others are entries. It is only ever appended to; to shorten it a
// new file with a fresh snapshot replaces it in one rename. So a crash leaves
// the old file, the new file, or a file whose last record is torn.

const (
	journalName   = "ledger.journal"
	journalFormat = "steadycast-ledger"
	journalSchema = 1
	// journalMost bounds what is read at the start. Shortening keeps it far below.
	journalMost = 1 << 30
	// setAside bytes are taken from the disk behind the journal's end, so that a
	// disk which others fill does not keep a withdrawal from being recorded: some
	// hundred entries go into it.
	setAside = 256 << 10
	// enough is the room that must be there before a disk that was full counts as
	// usable again. A ledger that takes small entries and refuses large ones would
	// be worse than one that refuses all.
	enough = 32 << 10
)

// heading is the first record.
type heading struct {
	Format string `json:"format"`
	Schema int    `json:"schema"`
	Fleet  string `json:"fleet"`
	Node   string `json:"node"`
}

// snapshotRecord is the second record of a shortened journal.
type snapshotRecord struct {
	Snapshot json.RawMessage `json:"snapshot"`
}

// file is what the journal needs of an open file; tests put a failing disk in its place.
type file interface {
	io.Writer
	Sync() error // data and what is needed to read it back: fdatasync(2)
	Truncate(size int64) error
	// Reserve takes n bytes at offset from the disk without making the file longer.
	Reserve(offset, n int64) error
	Close() error
}

// journal appends records to a file. It belongs to the goroutine that owns the ledger.
type journal struct {
	dir   string
	who   heading
	f     file
	size  int64 // up to here every byte is good and on disk
	room  int64 // up to here the disk has room for certain
	dirty bool  // a failed append may have left bytes after size
	full  bool  // the last append failed
	ahead bool  // the last record is written, and not yet on disk for certain
	lost  bool  // such a record may never come to disk: only a new file can be trusted

	syncFolder func(dir string) error // syncDir, but for tests
}

// append writes one record and returns when it is on disk. On an error nothing
// was recorded: bytes that a failed write left are cut before the next one.
func (j *journal) append(payload []byte) error {
	before := j.size
	if err := j.write(payload); err != nil {
		return err
	}
	j.ahead = false
	if err := j.f.Sync(); err != nil {
		j.size, j.dirty, j.full = before, true, true
		return fmt.Errorf("%s: %w", j.path(), plain(err))
	}
	return nil
}

// settle waits until a record that was written ahead is on disk. When the disk
// fails, what it has of the file is unknown (fsync(2) says so only once), and the
// caller, who has the state, must make a new file with shorten.
func (j *journal) settle() error {
	if j.ahead {
		if err := j.f.Sync(); err != nil {
			j.lost = true
			return fmt.Errorf("%s: %w", j.path(), plain(err))
		}
		j.ahead = false
	}
	return nil
}

// write puts one record behind the others and does not wait for the disk: it
// outlives the process from here on, and the machine once settle has said so. All
// others must be on disk before: a loss of power can then tear none but the last.
func (j *journal) write(payload []byte) error {
	if j.dirty {
		if err := j.f.Truncate(j.size); err != nil {
			return fmt.Errorf("%s: cannot cut what a failed write left: %w", j.path(), err)
		}
		j.dirty, j.room = false, j.size // what was set aside is cut, too
	}
	rec := frame(payload)
	if j.full {
		if err := j.f.Reserve(j.size, max(enough, int64(len(rec)))); err != nil {
			return fmt.Errorf("%s: %w", j.path(), plain(err))
		}
	}
	if j.size+int64(len(rec)) > j.room-setAside/2 {
		j.takeRoom()
	}
	j.dirty, j.full = true, true
	if _, err := j.f.Write(rec); err != nil {
		return fmt.Errorf("%s: %w", j.path(), plain(err))
	}
	j.dirty, j.full, j.ahead = false, false, true
	j.size += int64(len(rec))
	return nil
}

// takeRoom sets room aside. Without it the journal goes on as long as it can.
func (j *journal) takeRoom() {
	if j.f.Reserve(j.size, setAside) == nil {
		j.room = j.size + setAside
	}
}

// plain leaves out the name of the file, which was another when it was opened.
func plain(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

func (j *journal) path() string { return filepath.Join(j.dir, journalName) }

// shorten replaces the file by one that holds only a snapshot, or only the
// heading when there is none yet. On an error the old file goes on; or the new one,
// where only its name may not outlive the machine: then it must be made anew before
// anything in it counts, for what the disk has of the folder is unknown.
func (j *journal) shorten(snapshot []byte) error {
	data, err := json.Marshal(j.who)
	if err != nil {
		return err
	}
	data = frame(data)
	if snapshot != nil {
		rec, err := json.Marshal(snapshotRecord{snapshot})
		if err != nil {
			return err
		}
		data = append(data, frame(rec)...)
	}
	next := j.path() + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	keep := func() error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return os.Rename(next, j.path())
	}
	if err := keep(); err != nil {
		return errors.Join(err, f.Close(), os.Remove(next))
	}
	if j.f != nil {
		_ = j.f.Close() // it has no name any more
	}
	j.f, j.size, j.room = diskFile{f}, int64(len(data)), 0
	j.dirty, j.full, j.ahead, j.lost = false, false, true, true
	j.takeRoom()
	folder := syncDir
	if j.syncFolder != nil {
		folder = j.syncFolder
	}
	if err := folder(j.dir); err != nil {
		return fmt.Errorf("%s: %w", j.dir, plain(err))
	}
	j.ahead, j.lost = false, false
	return nil
}

// reopen goes on with an existing file whose first size bytes are good.
func (j *journal) reopen(size int64) error {
	f, err := os.OpenFile(j.path(), os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.f, j.size, j.dirty = diskFile{f}, size, info.Size() > size
	j.takeRoom()
	return nil
}

func (j *journal) close() error { return j.f.Close() }

// diskFile is a real file.
type diskFile struct{ *os.File }

// Sync waits for the data, not for times of access: one journal commit less.
func (f diskFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Reserve is fallocate(2). A file system that cannot do it has nothing set aside.
func (f diskFile) Reserve(offset, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, n)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame puts one payload, which has no line end in it, into its line.
func frame(payload []byte) []byte {
	rec := fmt.Appendf(make([]byte, 0, len(payload)+24), "%08x %d ", crc32.Checksum(payload, castagnoli), len(payload))
	rec = append(rec, payload...)
	return append(rec, '\n')
}

// unframe reads one line without its end. whole is false when the frame says
// that more bytes should follow.
func unframe(line []byte) (payload []byte, whole bool, err error) {
	if len(line) < 10 || line[8] != ' ' {
		return nil, len(line) >= 10, errors.New("no frame")
	}
	digits := 9
	for digits < len(line) && line[digits] >= '0' && line[digits] <= '9' {
		digits++
	}
	if digits == len(line) {
		return nil, false, errors.New("no length")
	}
	n, err := strconv.ParseUint(string(line[9:digits]), 10, 31)
	if err != nil || line[digits] != ' ' {
		return nil, true, errors.New("no length")
	}
	payload = line[digits+1:]
	switch {
	case uint64(len(payload)) < n:
		return nil, false, fmt.Errorf("%d of %d bytes", len(payload), n)
	case uint64(len(payload)) > n:
		return nil, true, fmt.Errorf("%d bytes where %d were written", len(payload), n)
	case fmt.Sprintf("%08x", crc32.Checksum(payload, castagnoli)) != string(line[:8]):
		return nil, true, errors.New("wrong checksum")
	}
	return payload, true, nil
}
