package demo

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

// Update is one announcement or withdrawal as the router heard it.
type Update struct {
	At         time.Time
	Site       string
	Announce   bool
	Attributes steadycast.Attributes
}

// Depreferred reports whether the route was announced as less attractive.
func (u Update) Depreferred() bool {
	return u.Announce && slices.Contains(u.Attributes.Communities, steadycast.GracefulShutdown)
}

// watch is what the router's table says of one prefix, over time. Its mutex
// guards everything; the router's events come from one goroutine.
type watch struct {
	prefix netip.Prefix
	site   map[netip.Addr]string

	mu      sync.Mutex
	table   map[netip.Addr]steadycast.Attributes
	updates []Update
	least   int // fewest sites that announced since counting began
	counts  bool
	changed chan struct{} // closed and replaced with each update
}

func newWatch(prefix netip.Prefix, site map[netip.Addr]string) *watch {
	return &watch{prefix: prefix, site: site, table: map[netip.Addr]steadycast.Attributes{}, changed: make(chan struct{})}
}

// heard takes one event of the router; false if it is about something else.
func (w *watch) heard(e sink.Event) (Update, bool) {
	if e.Prefix != w.prefix {
		return Update{}, false
	}
	u := Update{At: e.At, Site: w.site[e.Peer], Announce: e.Announce, Attributes: e.Attributes}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Announce {
		w.table[e.Peer] = e.Attributes
	} else {
		delete(w.table, e.Peer)
	}
	w.updates = append(w.updates, u)
	if w.counts {
		w.least = min(w.least, len(w.table))
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return u, true
}

// count begins to watch for the fewest announcing sites.
func (w *watch) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.least = true, len(w.table)
}

func (w *watch) fewest() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.least
}

// announcing are the sites in the router's table now, in order of name.
func (w *watch) announcing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for a := range w.table {
		names = append(names, w.site[a])
	}
	slices.Sort(names)
	return names
}

// preferred are the speakers that the router would use now.
func (w *watch) preferred() []netip.Addr {
	w.mu.Lock()
	routes := maps.Clone(w.table)
	w.mu.Unlock()
	return Preferred(routes)
}

// well is how many sites announce without being depreferred.
func (w *watch) well() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.table {
		if !slices.Contains(a.Communities, steadycast.GracefulShutdown) {
			n++
		}
	}
	return n
}

// since are the updates after a moment.
func (w *watch) since(t time.Time) []Update {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Update
	for _, u := range w.updates {
		if u.At.After(t) {
			out = append(out, u)
		}
	}
	return out
}

// next is closed at the next update.
func (w *watch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}
