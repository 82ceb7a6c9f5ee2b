package dns

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/role"
)

const (
	memoryFormat = "steadycast-dns-view"
	memorySchema = 1
	// memoryEvery is the least time between two writes; memoryBeat the most while the
	// ledger is heard, so that the file tells when that was.
	memoryEvery = time.Second
	memoryBeat  = 30 * time.Second
)

// memory is what a server knew last, for its next start. The text of the table is
// in it, so only its owner may read it. The keeper's goroutine alone uses it.
type memory struct {
	path, fleet string
	log         *slog.Logger

	written time.Time  // monotonic
	writing chan error // of the write under way; nil when there is none
	owed    bool       // the newest write failed
}

// sealed is the file: what is known, and the CRC-32 (IEEE) of its octets.
type sealed struct {
	Format string          `json:"format"`
	Schema int             `json:"schema"`
	Sum    uint32          `json:"sum"`
	Known  json.RawMessage `json:"known"`
}

// known is the state that answers are made of, and when it was true.
type known struct {
	Fleet string `json:"fleet"`
	// Heard is when the ledger was heard last, by the wall clock.
	Heard time.Time `json:"heard"`
	// Version of the newest table that was made of it.
	Version uint64      `json:"version"`
	View    decide.View `json:"view"`
	// Used is the table that is answered by, where that of View is refused.
	Used *decide.Table `json:"used,omitempty"`
}

// inUse is the table that is answered by.
func (k *known) inUse() *decide.Table {
	if k.Used != nil {
		return k.Used
	}
	return &k.View.Table
}

// recall reads what is remembered; nothing where it cannot be used, which is said.
func (m *memory) recall() (k known, ok bool) {
	b, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, false
	}
	var s sealed
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	switch {
	case err != nil:
	case s.Format != memoryFormat || s.Schema > memorySchema:
		err = fmt.Errorf("it is %s of schema %d", s.Format, s.Schema)
	case crc32.ChecksumIEEE(s.Known) != s.Sum:
		err = errors.New("it is damaged")
	default:
		err = json.Unmarshal(s.Known, &k)
	}
	if err == nil && k.Fleet != m.fleet {
		err = fmt.Errorf("it is of fleet %s", k.Fleet)
	}
	if err != nil {
		m.log.Warn("what the server remembers cannot be used; it answers once the fleet's state is heard", "file", m.path, "err", err)
		return known{}, false
	}
	return k, true
}

// keep begins to write what is known, where that is news or the file's time is
// old, and reports whether it did. Nobody waits for the disk: while a write is
// under way none begins. One that fails is said once, and tried again.
func (m *memory) keep(k known, news bool) (begun bool) {
	if m.writing != nil {
		select {
		case err := <-m.writing:
			m.ended(err)
		default:
			return false
		}
	}
	now := time.Now()
	if age := now.Sub(m.written); !m.written.IsZero() && (age < memoryEvery || !news && !m.owed && age < memoryBeat) {
		return false
	}
	m.written, m.writing = now, make(chan error, 1)
	done := m.writing
	go func() { done <- m.write(k) }()
	return true
}

func (m *memory) ended(err error) {
	if err != nil && !m.owed {
		m.log.Warn("the fleet's state cannot be kept on disk; a restart without a ledger would not answer", "file", m.path, "err", err)
	}
	m.writing, m.owed = nil, err != nil
}

// finish waits for the write under way, and writes what is left.
func (m *memory) finish(k known, news bool) {
	if m.writing != nil {
		m.ended(<-m.writing)
	}
	if news || m.owed {
		m.ended(m.write(k))
	}
}

func (m *memory) write(k known) error {
	k.Fleet = m.fleet
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	b, err := json.Marshal(sealed{memoryFormat, memorySchema, crc32.ChecksumIEEE(body), body})
	if err != nil {
		return err
	}
	return role.WriteFile(m.path, b, 0o600)
}
