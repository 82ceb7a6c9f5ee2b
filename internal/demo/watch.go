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
	Site, Node string
	Announce   bool
	Attributes steadycast.Attributes
	// Last: no node of the site announces after this withdrawal, so the site has left.
	Last bool
	// Lost: the session ended, and nobody withdrew anything.
	Lost bool
}

// Depreferred reports whether the route was announced as less attractive.
func (u Update) Depreferred() bool {
	return u.Announce && slices.Contains(u.Attributes.Communities, steadycast.GracefulShutdown)
}

// watch is what the router's table says of one prefix, over time. Its mutex
// guards everything; the router's events come from one goroutine.
type watch struct {
	prefix   netip.Prefix
	speakers map[netip.Addr]*node

	mu      sync.Mutex
	table   map[netip.Addr]steadycast.Attributes
	updates []Update
	least   int // fewest sites that announced since counting began
	counts  bool
	changed chan struct{} // closed and replaced with each update
}

func newWatch(prefix netip.Prefix, speakers map[netip.Addr]*node) *watch {
	return &watch{prefix: prefix, speakers: speakers, table: map[netip.Addr]steadycast.Attributes{}, changed: make(chan struct{})}
}

// heard takes one event of the router; false if it is about something else.
func (w *watch) heard(e sink.Event) (Update, bool) {
	n := w.speakers[e.Peer]
	if e.Prefix != w.prefix || n == nil {
		return Update{}, false
	}
	u := Update{At: e.At, Site: n.name, Node: n.id, Announce: e.Announce, Attributes: e.Attributes, Lost: e.Lost}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Announce {
		w.table[e.Peer] = e.Attributes
	} else {
		delete(w.table, e.Peer)
	}
	now := w.sites(every)
	u.Last = !e.Announce && !slices.Contains(now, n.name)
	w.updates = append(w.updates, u)
	if w.counts {
		w.least = min(w.least, len(now))
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return u, true
}

// sites with such a route in the table, in order of name; mu is held.
func (w *watch) sites(such func(steadycast.Attributes) bool) (names []string) {
	for a, attrs := range w.table {
		if such(attrs) {
			names = append(names, w.speakers[a].name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// every route.
func every(steadycast.Attributes) bool { return true }

// count begins to watch for the fewest announcing sites.
func (w *watch) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.least = true, len(w.sites(every))
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
	return w.sites(every)
}

// nodes are those in the router's table now, in order of name.
func (w *watch) nodes() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.table {
		names = append(names, w.speakers[a].id)
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

// well is how many nodes announce without being depreferred.
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

// wellSites are those with a node that announces without being depreferred.
func (w *watch) wellSites() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sites(func(a steadycast.Attributes) bool {
		return !slices.Contains(a.Communities, steadycast.GracefulShutdown)
	})
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
