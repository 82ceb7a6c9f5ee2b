package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// Who looks at a site of several nodes leaves out those that a person took out, and
// asks of the others as many as must be well, or all where there are fewer.
func TestFromBut(t *testing.T) {
	for _, x := range []struct {
		least     int
		out       string
		up, names string
	}{
		{1, "", "at_least(1, (web_1), (web_2), (web_3))", "web_1 web_2 web_3"},
		{2, "b", "at_least(2, (web_1), (web_3))", "web_1 web_3"},
		{2, "a b", "at_least(1, (web_3))", "web_3"},
		{2, "a b c", "at_least(2, (web_1), (web_2), (web_3))", "web_1 web_2 web_3"},
	} {
		s := Site{Place: decide.Place{Name: "ams", MinNodes: x.least}}
		for i, n := range []string{"a", "b", "c"} {
			s.Nodes = append(s.Nodes, decide.Node{Name: n, Address: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}})
		}
		r := Remote{Checks: []probe.Check{{Name: "web", Kind: "tcp", Target: "{address}:80"}}}
		checks, up := r.from(s, "web", func(node string) bool { return strings.Contains(x.out, node) })
		var names []string
		for _, c := range checks {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); up != x.up || got != x.names {
			t.Errorf("min_nodes %d, out %q: %q %q, want %q %q", x.least, x.out, up, got, x.up, x.names)
		}
	}
}
