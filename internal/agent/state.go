package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/steadycast/steadycast/internal/role"
)

// stateSchema is the version of agent.json that this code writes and reads.
const stateSchema = 1

// remembered is what an agent keeps across its own restarts.
type remembered struct {
	Schema int    `json:"schema"`
	Node   string `json:"node"`
	// Incarnation counts starts; request ids and RouteSets carry it.
	Incarnation uint64 `json:"incarnation"`
	// Alive is the wall time at which the agent last ran. It only tells a short
	// restart from a long absence; a clock that was stepped reads as a long one.
	Alive time.Time `json:"alive"`
}

// recall reads agent.json. A missing file is a first start. A file that cannot
// be used is kept beside as agent.json.bad, and said: the agent then starts
// cold, which is the cautious side, with an incarnation taken from floor so
// that request ids still grow. One from the future is believed but for its time.
func recall(dir, node string, floor uint64) (r remembered, off time.Duration, problem error) {
	path := filepath.Join(dir, "agent.json")
	fresh := remembered{Schema: stateSchema, Node: node, Incarnation: floor + 1}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh, -1, nil
	case err != nil:
		return fresh, -1, fmt.Errorf("%s: %w; starting cold", path, err)
	}
	switch err := json.Unmarshal(b, &r); {
	case err != nil:
		problem = fmt.Errorf("%s is not readable (%w)", path, err)
	case r.Schema > stateSchema:
		problem = fmt.Errorf("%s was written by a newer version (schema %d, this one knows %d)", path, r.Schema, stateSchema)
	case r.Node != node:
		problem = fmt.Errorf("%s belongs to node %q, this is %q", path, r.Node, node)
	}
	if problem != nil {
		if err := os.Rename(path, path+".bad"); err == nil {
			problem = fmt.Errorf("%w; kept as %s.bad, starting cold", problem, path)
		}
		return fresh, -1, problem
	}
	off = time.Since(r.Alive)
	switch {
	case r.Alive.IsZero():
		off = -1
	case off < 0:
		problem = fmt.Errorf("%s is dated %v in the future: a clock was stepped; how long the node was off is not known", path, -off.Round(time.Second))
		off = -1
	}
	r.Schema, r.Incarnation = stateSchema, max(r.Incarnation, floor)+1
	return r, off, problem
}

// remember writes agent.json; the caller treats an error as news, not as a reason to stop.
func remember(dir string, r remembered, now time.Time) error {
	r.Alive = now
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return role.WriteFile(filepath.Join(dir, "agent.json"), append(b, '\n'), 0o640)
}
