package ledger

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// store keeps raft's log and its few stable values in one bbolt file, each call
// in one transaction that is on disk when it returns. It may be called from any
// goroutine; bbolt has one writer at a time.
//
// raft-boltdb, the usual choice, does not build with raft v1.8.0, and what raft
// needs of a store is not much.
type store struct {
	db   *bolt.DB
	path string
}

const (
	storeName   = "raft.db"
	storeFormat = "steadycast-voter"
	storeSchema = 1
)

var (
	logsBucket  = []byte("logs")
	stateBucket = []byte("state")
	aboutBucket = []byte("about")
	headingKey  = []byte("heading")
)

// errMissing must read exactly so: raft compares the text.
var errMissing = errors.New("not found")

var (
	_ raft.LogStore    = (*store)(nil)
	_ raft.StableStore = (*store)(nil)
)

// openStore opens or makes the store of a voter in dir. One of another fleet or
// node, or of a newer version, is refused, and so is one that is in use.
func openStore(dir string, who heading) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, storeName)
	if err := compact(path); err != nil {
		return nil, err
	}
	db, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	s := &store{db: db, path: path}
	if err := s.claim(who); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func openBolt(path string) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%s is in use by another process: stop that one first; two voters with one log would destroy the ledger", path)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be opened: %w; if it is damaged, move %s away and let this node join again: it is never repaired by guessing", path, err, filepath.Dir(path))
	}
	return db, nil
}

// claim writes down whose store it is, or checks it.
func (s *store) claim(who heading) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{logsBucket, stateBucket, aboutBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		about := tx.Bucket(aboutBucket)
		b := about.Get(headingKey)
		if b == nil {
			b, err := json.Marshal(who)
			if err != nil {
				return err
			}
			return about.Put(headingKey, b)
		}
		var was heading
		if err := json.Unmarshal(b, &was); err != nil || was.Format != who.Format {
			return fmt.Errorf("%s is not a voter's store", s.path)
		}
		switch {
		case was.Schema > who.Schema:
			return fmt.Errorf("%s was written by a newer version (schema %d; this one knows up to %d): run that one", s.path, was.Schema, who.Schema)
		case was.Fleet != who.Fleet || was.Node != who.Node:
			return fmt.Errorf("%s belongs to node %s of fleet %s, not to %s of %s: a voter's store is never copied; move it away and let this node join", s.path, was.Node, was.Fleet, who.Node, who.Fleet)
		}
		return nil
	})
}

func (s *store) close() error { return s.db.Close() }

// edge is the first or last index of the log, 0 when it is empty.
func (s *store) edge(end func(*bolt.Cursor) ([]byte, []byte)) (index uint64, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if k, _ := end(tx.Bucket(logsBucket).Cursor()); k != nil {
			index = binary.BigEndian.Uint64(k)
		}
		return nil
	})
	return index, err
}

// FirstIndex is the first index in the log, 0 when it is empty.
func (s *store) FirstIndex() (uint64, error) { return s.edge((*bolt.Cursor).First) }

// LastIndex is the last index in the log, 0 when it is empty.
func (s *store) LastIndex() (uint64, error) { return s.edge((*bolt.Cursor).Last) }

// GetLog reads one entry.
func (s *store) GetLog(index uint64, l *raft.Log) error {
	return s.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(logsBucket).Get(number(index))
		if b == nil {
			return raft.ErrLogNotFound
		}
		if err := decodeLog(b, l); err != nil {
			return fmt.Errorf("%s: entry %d: %w", s.path, index, err)
		}
		return nil
	})
}

// StoreLog writes one entry.
func (s *store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs writes entries, all or none.
func (s *store) StoreLogs(logs []*raft.Log) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(logsBucket)
		b.FillPercent = 0.9 // the keys only grow
		for _, l := range logs {
			if err := b.Put(number(l.Index), encodeLog(l)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteRange removes entries, both ends included.
func (s *store) DeleteRange(first, last uint64) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket(logsBucket).Cursor()
		for k, _ := c.Seek(number(first)); k != nil && binary.BigEndian.Uint64(k) <= last; k, _ = c.Seek(number(first)) {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Set keeps a stable value.
func (s *store) Set(key, value []byte) error {
	return s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(stateBucket).Put(key, value) })
}

// Get reads a stable value.
func (s *store) Get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(stateBucket).Get(key)
		if b == nil {
			return errMissing
		}
		value = append([]byte{}, b...) // bbolt's own memory is gone with the transaction
		return nil
	})
	return value, err
}

// SetUint64 keeps a stable number.
func (s *store) SetUint64(key []byte, value uint64) error { return s.Set(key, number(value)) }

// GetUint64 reads a stable number.
func (s *store) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%s: %s holds %d bytes where a number has 8", s.path, key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// An entry on disk:
//
//	1 version · 8 index · 8 term · 1 type · 4 length of data · data · extensions
//
// When it was appended is raft's to show and nobody's to rely on; it is left out.
const logHead = 22

func encodeLog(l *raft.Log) []byte {
	b := make([]byte, 0, logHead+len(l.Data)+len(l.Extensions))
	b = append(b, 1)
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
	b = append(b, l.Data...)
	return append(b, l.Extensions...)
}

func decodeLog(b []byte, l *raft.Log) error {
	if len(b) < logHead || b[0] != 1 {
		return errors.New("is damaged, or of a newer version")
	}
	n := uint64(binary.BigEndian.Uint32(b[18:]))
	if uint64(len(b)-logHead) < n {
		return errors.New("is damaged: it is shorter than it says")
	}
	*l = raft.Log{
		Index: binary.BigEndian.Uint64(b[1:]), Term: binary.BigEndian.Uint64(b[9:]), Type: raft.LogType(b[17]),
		Data: append([]byte{}, b[logHead:logHead+n]...),
	}
	if ext := b[logHead+n:]; len(ext) > 0 {
		l.Extensions = append([]byte{}, ext...)
	}
	return nil
}
