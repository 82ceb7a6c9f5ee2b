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
	Close() error
}

// journal appends records to a file. It belongs to the goroutine that owns the ledger.
type journal struct {
	dir   string
	who   heading
	f     file
	size  int64 // up to here every byte is good and on disk
	dirty bool  // a failed append may have left bytes after size
}

// append writes one record and returns when it is on disk. On an error nothing
// was recorded: bytes that a failed write left are cut before the next one.
func (j *journal) append(payload []byte) error {
	if j.dirty {
		if err := j.f.Truncate(j.size); err != nil {
			return fmt.Errorf("%s: cannot cut what a failed write left: %w", j.path(), err)
		}
		j.dirty = false
	}
	rec := frame(payload)
	j.dirty = true
	if _, err := j.f.Write(rec); err != nil {
		return fmt.Errorf("%s: %w", j.path(), err)
	}
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("%s: %w", j.path(), err)
	}
	j.dirty = false
	j.size += int64(len(rec))
	return nil
}

func (j *journal) path() string { return filepath.Join(j.dir, journalName) }

// shorten replaces the file by one that holds only a snapshot, or only the
// heading when there is none yet. On an error the old file goes on.
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
	j.f, j.size, j.dirty = diskFile{f}, int64(len(data)), false
	return syncDir(j.dir)
}

// reopen goes on with an existing file whose first size bytes are good.
func (j *journal) reopen(size int64) error {
	f, err := os.OpenFile(j.path(), os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j.f, j.size, j.dirty = diskFile{f}, size, true
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
