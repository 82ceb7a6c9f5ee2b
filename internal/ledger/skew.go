package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast/decide"
)

const (
	// skewAfter is how long a node may act on another table than the one in force
	// before that is an alarm: the node itself depreferences then.
	skewAfter = 30 * time.Second
	// skewSilent forgets a node that beats no more: it is silent, and not skewed.
	skewSilent = 30 * time.Second
	// skewEvery is how often a voter looks whether there is something to say.
	skewEvery = time.Second
)

// Skewed is a node that acts on another table than the one in force.
type Skewed struct {
	Site string `json:"site"`
	Node string `json:"node,omitempty"`
	// Revision it acts on, Fleet the one in force, and for how many milliseconds it
	// has been another.
	Revision uint64 `json:"revision"`
	Fleet    uint64 `json:"fleet"`
	ForMS    int64  `json:"for_ms"`
}

// String is the alarm.
func (s Skewed) String() string {
	return fmt.Sprintf("table_skew: %s acts on revision %d of the table and the fleet on %d", cmp.Or(s.Node, "the node of "+s.Site), s.Revision, s.Fleet)
}

// skewBook remembers which nodes say in their beats that they act on another
// table. Every voter keeps one, whoever leads, so that a node which cannot raise
// the alarm itself is seen. Any goroutine may use it; the zero value is empty. It
// is bounded by the nodes that have a certificate.
type skewBook struct {
	mu    sync.Mutex
	nodes []skewNode // in order of site, then node
}

type skewNode struct {
	Skewed
	since, at time.Duration
	said      bool
}

func (n skewNode) compare(b decide.Beat) int {
	return cmp.Or(cmp.Compare(n.Site, b.Site), cmp.Compare(n.Node, b.Node))
}

// hear takes a beat while a table is in force.
func (k *skewBook) hear(now time.Duration, b decide.Beat, fleet uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i, known := slices.BinarySearchFunc(k.nodes, b, skewNode.compare)
	switch {
	case b.Revision == 0 || b.Revision == fleet:
		if known {
			k.nodes = slices.Delete(k.nodes, i, i+1)
		}
		return
	case !known:
		k.nodes = slices.Insert(k.nodes, i, skewNode{Skewed: Skewed{Site: b.Site, Node: b.Node}, since: now})
	}
	k.nodes[i].Revision, k.nodes[i].Fleet, k.nodes[i].at = b.Revision, fleet, now
}

// standing are those of which it is an alarm.
func (k *skewBook) standing(now time.Duration) (out []Skewed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes = slices.DeleteFunc(k.nodes, func(n skewNode) bool { return now-n.at > skewSilent })
	for _, n := range k.nodes {
		if now-n.since >= skewAfter {
			n.ForMS = (now - n.since).Milliseconds()
			out = append(out, n.Skewed)
		}
	}
	return out
}

// news are those that standing has and that were not said yet.
func (k *skewBook) news(now time.Duration) (out []Skewed) {
	all := k.standing(now)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range all {
		i := slices.IndexFunc(k.nodes, func(n skewNode) bool { return n.Site == s.Site && n.Node == s.Node })
		if i >= 0 && !k.nodes[i].said {
			k.nodes[i].said = true
			out = append(out, s)
		}
	}
	return out
}

// watchSkew writes each one to the log, once.
func (v *Voter) watchSkew() {
	t := time.NewTicker(skewEvery)
	defer t.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-t.C:
			for _, s := range v.skew.news(v.clock.now()) {
				v.log.Warn(s.String(), "site", s.Site, "node", s.Node)
			}
		}
	}
}
