package agent

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/mesh"
)

// What the nodes of one site tell each other goes over the mesh, directly, once a
// second and whenever it is news. None of it needs the ledger.

// kinMost is how many rounds, and how many prefixes, are told at once: a word has a
// bound, and a site may have many of both.
const kinMost = 64

// tellKin tells all siblings how this node is.
func (a *Agent) tellKin() {
	if a.link == nil {
		return
	}
	if k, ok := a.site.Kin(a.now()); ok {
		a.tellSibling("", k)
	}
}

// tellSibling tells one sibling, or all, in words that fit.
func (a *Agent) tellSibling(to string, k decide.Kin) {
	if a.link == nil {
		return
	}
	for len(k.Rounds) > 0 || len(k.Units) > 0 {
		rounds, units := min(len(k.Rounds), kinMost), min(len(k.Units), kinMost)
		body, err := json.Marshal(decide.Kin{Rounds: k.Rounds[:rounds], Units: k.Units[:units]})
		if err != nil {
			a.o.Logger.Error("a sibling cannot be told", "error", err)
			return
		}
		a.link.Tell(to, body)
		k.Rounds, k.Units = k.Rounds[rounds:], k.Units[units:]
	}
}

// heardKin is called by the mesh with what a sibling told, as old as the nonce of
// ours that it echoes.
func (a *Agent) heardKin(t mesh.Told) {
	told := decide.Told{Node: t.Node, From: t.Issued.Sub(a.start)}
	if err := json.Unmarshal(t.Body, &told.Kin); err != nil {
		if a.unread.due(t.Node) {
			a.o.Logger.Warn("what a sibling told cannot be read", "node", t.Node, "error", err)
		}
		return
	}
	select {
	case a.kin <- told:
	default:
	}
}

// complaints are when each node was last complained of: a bad one must not fill the
// disk. The zero value is ready; methods may be called from any goroutine.
type complaints struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	complainEvery = time.Minute // for each node
	complainMost  = 256         // nodes that are remembered
)

// due is whether a complaint about node should be made now, and takes it for made.
func (c *complaints) due(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.last[node]; ok && time.Since(at) < complainEvery {
		return false
	}
	if c.last == nil || len(c.last) >= complainMost {
		c.last = map[string]time.Time{}
	}
	c.last[node] = time.Now()
	return true
}
