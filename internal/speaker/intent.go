package speaker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/steadycast/steadycast"
)

// intentFormat is the version of the file's layout. A file of a higher one is
// not believed: what it means is not known here.
const intentFormat = 1

// mark is the highest position a speaker has taken up; nothing below it is.
type mark struct {
	Fence       steadycast.Fence `json:"fence"`
	Incarnation uint64           `json:"inc"`
	Version     uint64           `json:"version"`
}

// intentFile is the file's layout. Sum is over Body as it stands there, so that
// a cut or altered file is known for one.
type intentFile struct {
	Format int             `json:"format"`
	Node   string          `json:"node"`
	Sum    string          `json:"sha256"`
	Body   json.RawMessage `json:"body"`
}

type intentBody struct {
	Mark mark                `json:"mark"`
	At   time.Time           `json:"at"`
	Set  steadycast.RouteSet `json:"set"`
	// Path by which the routes went, if one was chosen: a process that starts in the
	// middle of a change of paths must not begin with one that does not work.
	Path *string `json:"path,omitempty"`
}

func encodeIntent(node string, b intentBody) ([]byte, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	out, err := json.Marshal(intentFile{intentFormat, node, hex.EncodeToString(sum[:]), body})
	return append(out, '\n'), err
}

// decodeIntent reads a file's content. Whatever it holds, it gives an intent
// that is whole and this node's, or an error that says what is wrong.
func decodeIntent(node string, data []byte) (intentBody, error) {
	var f intentFile
	if err := json.Unmarshal(data, &f); err != nil {
		return intentBody{}, fmt.Errorf("it is damaged: %w", err)
	}
	switch sum := sha256.Sum256(f.Body); {
	case f.Format > intentFormat:
		return intentBody{}, fmt.Errorf("a newer version wrote it (format %d, known is %d)", f.Format, intentFormat)
	case f.Format < 1:
		return intentBody{}, fmt.Errorf("it is no intent (format %d)", f.Format)
	case f.Sum != hex.EncodeToString(sum[:]):
		return intentBody{}, errors.New("it is damaged: its checksum does not fit")
	case f.Node != node:
		return intentBody{}, fmt.Errorf("it is of another node, %q; this one is %q", f.Node, node)
	}
	var b intentBody
	if err := json.Unmarshal(f.Body, &b); err != nil {
		return intentBody{}, fmt.Errorf("it is damaged: %w", err)
	}
	return b, nil
}

// readIntent reads the file at path; none is no error. One that is not believed
// is put aside, for a person to look at.
func readIntent(path, node string, now time.Time) (b intentBody, warning error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return intentBody{}, nil
	}
	if err != nil {
		return intentBody{}, fmt.Errorf("intent not read: %w; no older set can be told from a newer one", err)
	}
	b, err = decodeIntent(node, data)
	if err != nil {
		aside := path + ".bad"
		if moved := os.Rename(path, aside); moved != nil {
			aside = path
		}
		return intentBody{}, fmt.Errorf("intent not believed: %w; kept as %s; no older set can be told from a newer one until the agent gives one", err, aside)
	}
	if ahead := b.At.Sub(now); ahead > time.Minute {
		// The fence does not rest on the clock, so it holds all the same.
		return b, fmt.Errorf("intent is dated %v in the future: a clock was stepped; its fence %v holds", ahead.Round(time.Second), b.Mark.Fence)
	}
	return b, nil
}
