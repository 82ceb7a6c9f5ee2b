package demo

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast/bgp/sink"
)

// A site is in while one of its nodes is: only the last of them takes it out, and a
// session that ends is no withdrawal.
func TestWatchCountsSites(t *testing.T) {
	speakers := map[netip.Addr]*node{}
	var sites []*site
	for i, name := range names[:2] {
		s := newSite(name, i, 2)
		sites = append(sites, s)
		for _, n := range s.nodes {
			speakers[n.hostAddress()] = n
		}
	}
	w := newWatch(anycast, speakers)
	say := func(site, node int, on, lost bool) Update {
		u, about := w.heard(sink.Event{At: time.Now(), Peer: sites[site].nodes[node].hostAddress(), Prefix: anycast, Announce: on, Lost: lost})
		if !about {
			t.Fatal("not heard")
		}
		return u
	}
	for s := range 2 {
		for n := range 2 {
			say(s, n, true, false)
		}
	}
	w.count()
	for _, c := range []struct {
		site, node int
		on, lost   bool
		last       bool
		sites      string
		nodes      int
	}{
		{0, 0, false, false, false, "[ams fra]", 3},
		{0, 1, false, false, true, "[ams]", 2},
		{0, 1, true, false, false, "[ams fra]", 3},
		{1, 1, false, true, false, "[ams fra]", 2},
		{1, 0, false, true, true, "[fra]", 1},
	} {
		u := say(c.site, c.node, c.on, c.lost)
		if got := fmt.Sprint(w.announcing()); u.Last != c.last || u.Lost != c.lost || got != c.sites || len(w.nodes()) != c.nodes {
			t.Errorf("%+v: %+v; the router has %s, %v", c, u, got, w.nodes())
		}
	}
	if w.fewest() != 1 {
		t.Errorf("%d at least", w.fewest())
	}
	if _, about := w.heard(sink.Event{Peer: sites[0].nodes[0].hostAddress(), Prefix: netip.MustParsePrefix("198.51.100.11/32")}); about {
		t.Error("another prefix counts")
	}
	if _, about := w.heard(sink.Event{Peer: netip.MustParseAddr("127.0.0.99"), Prefix: anycast}); about {
		t.Error("a stranger counts")
	}
	if !slices.Equal(w.wellSites(), []string{"fra"}) {
		t.Errorf("well are %v", w.wellSites())
	}
}
