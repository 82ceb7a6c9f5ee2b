package decide

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
)

// A table may not leave a site with fewer nodes that announce now than must: who is
// only in the table answers nobody. It is asked when the table is staged, and again
// when it comes into force.
func TestTableKeepsNodes(t *testing.T) {
	node := func(name string) Node {
		return Node{Name: name, Mesh: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, name[len(name)-1]}), 7482)}
	}
	for name, x := range map[string]struct {
		nodes   []string
		least   int
		ordered string // out before
		force   bool
		want    string // of the refusal; empty where it passes
	}{
		"the same":                    {[]string{"ams-1", "ams-2", "ams-3"}, 2, "", false, ""},
		"one more":                    {[]string{"ams-1", "ams-2", "ams-3", "ams-4"}, 2, "", false, ""},
		"one less":                    {[]string{"ams-1", "ams-3"}, 2, "", false, ""},
		"two less":                    {[]string{"ams-1"}, 1, "", false, ""},
		"two others":                  {[]string{"ams-1", "ams-8", "ams-9"}, 2, "", false, "1 of the 3 nodes of ams that announce 192.0.2.0/24 now would after revision 2; min_nodes 2"},
		"all others":                  {[]string{"ams-7", "ams-8", "ams-9"}, 1, "", false, "0 of the 3 nodes of ams that announce 192.0.2.0/24 now would after revision 2; min_nodes 1"},
		"all others, forced":          {[]string{"ams-7", "ams-8", "ams-9"}, 1, "", true, ""},
		"more must":                   {[]string{"ams-1", "ams-2", "ams-3", "ams-4", "ams-5"}, 4, "", false, "3 of the 3 nodes of ams that announce 192.0.2.0/24 now would after revision 2; min_nodes 4"},
		"one is out":                  {[]string{"ams-1", "ams-2", "ams-3"}, 2, "ams-1", false, ""},
		"one is out and one less":     {[]string{"ams-1", "ams-2"}, 2, "ams-1", false, "1 of the 2 nodes of ams that announce 192.0.2.0/24 now would after revision 2; min_nodes 2"},
		"the one that is out is less": {[]string{"ams-2", "ams-3"}, 2, "ams-1", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCamp(t, 3, 2, "")
			if x.ordered != "" {
				if r := c.orderNode(steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: x.ordered, Actor: "ann", Reason: "why not"}); r.Refused != nil {
					t.Fatal(r.Refused)
				}
			}
			next := c.table.WithDefaults()
			next.Revision = 2
			next.Sites = slices.Clone(next.Sites)
			next.Sites[0].Nodes, next.Sites[0].MinNodes = nil, x.least
			for _, n := range x.nodes {
				next.Sites[0].Nodes = append(next.Sites[0].Nodes, node(n))
			}
			stage := func(force bool) Reply {
				return c.apply(Entry{Kind: KindStage, Actor: "ann", Reason: "why not", Table: &next, Force: force, Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
			}
			r := stage(x.force)
			if x.want == "" {
				if r.Refused != nil || r.Invalid != "" {
					t.Fatalf("refused: %v %s", r.Refused, r.Invalid)
				}
			} else {
				if r.Refused == nil || r.Refused.Guard != minNodesGuard || r.Refused.Text != x.want || !strings.Contains(r.Refused.Override, "--force") {
					t.Fatalf("%+v, want %q", r.Refused, x.want)
				}
				stage(true)
			}
			activate := func(force bool) Reply {
				return c.apply(Entry{Kind: KindActivate, Actor: "ann", Reason: "why not", Revision: 2, Waive: []string{"ams", "fra", "nyc"}, Force: force,
					Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
			}
			if r := activate(x.force); (r.Refused != nil) != (x.want != "") {
				t.Fatalf("when it comes into force: %+v", r.Refused)
			}
			activate(true)
			if c.fleet.s.Table.Revision != 2 {
				t.Fatal("it is not in force")
			}
			for _, o := range c.fleet.s.NodeOrders {
				if !slices.Contains(x.nodes, o.Order.Node) {
					t.Errorf("an order stands over %s, which is gone", o.Order.Node)
				}
			}
			if len(c.fleet.s.NodeOrders) == 0 && slices.Contains(x.nodes, x.ordered) {
				t.Errorf("the order over %s has ended", x.ordered)
			}
		})
	}
}
