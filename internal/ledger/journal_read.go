package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/steadycast/steadycast/decide"
)

// A CorruptError says that a journal cannot be trusted. Nothing was changed.
type CorruptError struct {
	Path   string
	Record int   // 1 is the heading
	Offset int64 // in bytes
	What   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: record %d at byte %d is damaged: %s; nothing was changed. "+
		"Restore the file from a copy, or move it away to start with an empty ledger: every unit then counts as never announced, "+
		"and orders, locks and budgets are forgotten", e.Path, e.Record, e.Offset, e.What)
}

// loaded is what a journal held.
type loaded struct {
	fleet   *decide.Fleet
	entries int
	good    int64 // bytes up to the last whole record
	torn    int64 // bytes after that, left by a write that never finished
}

// load reads the journal of who and applies all of it. A missing file is an
// *os.PathError with os.ErrNotExist.
func load(path string, who heading) (loaded, error) {
	info, err := os.Stat(path)
	if err != nil {
		return loaded{}, err
	}
	if info.Size() > journalMost {
		return loaded{}, fmt.Errorf("%s has %d bytes; no ledger grows above %d, so this is not one", path, info.Size(), journalMost)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return loaded{}, err
	}
	return parse(path, data, who)
}

// parse is load for bytes that were read; path is for the complaints.
func parse(path string, data []byte, who heading) (loaded, error) {
	l := loaded{fleet: decide.NewFleet()}
	payloads, good, err := split(path, data)
	if err != nil {
		return loaded{}, err
	}
	l.good, l.torn = good, int64(len(data))-good
	if len(payloads) == 0 {
		return loaded{}, &CorruptError{path, 1, 0, "there is no heading"}
	}
	if err := who.check(path, payloads[0].data); err != nil {
		return loaded{}, err
	}
	for i, p := range payloads[1:] {
		if err := l.apply(i == 0, p.data); err != nil {
			var stop *decide.StopError
			if errors.As(err, &stop) {
				return loaded{}, fmt.Errorf("%s: record %d: %w", path, i+2, err)
			}
			return loaded{}, &CorruptError{path, i + 2, p.at, err.Error()}
		}
	}
	return l, nil
}

// apply applies one record; the first after the heading may be a snapshot.
func (l *loaded) apply(first bool, data []byte) error {
	if first && bytes.HasPrefix(data, []byte(`{"snapshot":`)) {
		var r snapshotRecord
		if err := json.Unmarshal(data, &r); err != nil {
			return err
		}
		return l.fleet.Restore(r.Snapshot)
	}
	e, err := decide.DecodeEntry(data)
	if err != nil {
		return err
	}
	if _, err := l.fleet.Apply(e); err != nil {
		return err
	}
	l.entries++
	return nil
}

// check refuses a journal that is not the one of want.
func (want heading) check(path string, data []byte) error {
	var h heading
	if err := json.Unmarshal(data, &h); err != nil || h.Format != journalFormat {
		return &CorruptError{path, 1, 0, "the heading is not that of a ledger"}
	}
	switch {
	case h.Schema > journalSchema:
		return fmt.Errorf("%s was written by a newer version (format %d, this one knows %d); nothing was changed: run that version, or a later one", path, h.Schema, journalSchema)
	case h.Fleet != want.Fleet:
		return fmt.Errorf("%s belongs to the fleet %q, this one is %q; nothing was changed: point at the right directory, or move the file away to start with an empty ledger", path, h.Fleet, want.Fleet)
	case h.Node != want.Node:
		return fmt.Errorf("%s belongs to the node %q, this one is %q; nothing was changed: point at the right directory, or move the file away to start with an empty ledger", path, h.Node, want.Node)
	}
	return nil
}

// payload is one record and where its line begins.
type payload struct {
	at   int64
	data []byte
}

// split takes the file apart. A last record that a crash left unfinished is not
// an error: good is where it begins. Anything else that does not check is.
func split(path string, data []byte) (all []payload, good int64, err error) {
	at := 0
	for at < len(data) {
		line, ended := data[at:], false
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, ended = line[:i], true
		}
		p, whole, err := unframe(line)
		if err == nil && ended {
			all = append(all, payload{int64(at), p})
			at += len(line) + 1
			continue
		}
		if torn(data[at:], err != nil && whole, ended) {
			break
		}
		return nil, 0, &CorruptError{path, len(all) + 1, int64(at), err.Error()}
	}
	return all, int64(at), nil
}

// torn tells a write that never finished from damage. Each record was on disk
// before the next was begun, so an unfinished one is the last and ends early; or
// the file was lengthened before its blocks were written, and has runs of zero
// bytes, which no record has. Everything else happened to a finished record.
func torn(tail []byte, overfull, ended bool) bool {
	if i := bytes.IndexByte(tail, '\n'); i >= 0 {
		for rest := range bytes.SplitSeq(tail[i+1:], []byte{'\n'}) {
			if _, _, err := unframe(rest); err == nil {
				return false // a whole record follows: this is the middle
			}
		}
	}
	if bytes.Contains(tail, []byte{0, 0}) {
		return true
	}
	return !ended && !overfull
}
