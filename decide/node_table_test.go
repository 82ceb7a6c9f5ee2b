package decide

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

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
				c.withdrawn("ams", x.ordered)
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

// A table comes into force by the word of every node that announces, and a site of
// several is not spoken for by one of them.
func TestTableWaitsForEveryNode(t *testing.T) {
	for name, x := range map[string]struct {
		acks    string // who says yes, or no with a !
		waive   string
		ordered string // out before
		want    string // of the refusal; empty where it passes
	}{
		"all":                        {"ams-1 ams-2 ams-3", "", "", ""},
		"one":                        {"ams-1", "", "", "2 that announce have not said yes to revision 2: ams/ams-2 (nothing heard), ams/ams-3 (nothing heard)"},
		"all but one":                {"ams-1 ams-3", "", "", "1 that announce have not said yes to revision 2: ams/ams-2 (nothing heard)"},
		"all but one, waived":        {"ams-1 ams-3", "ams/ams-2", "", ""},
		"all but two, one waived":    {"ams-1", "ams/ams-2", "", "1 that announce have not said yes to revision 2: ams/ams-3 (nothing heard)"},
		"none, the site waived":      {"", "ams", "", ""},
		"another site's node waived": {"ams-1 ams-3", "fra/ams-2", "", "1 that announce have not said yes to revision 2: ams/ams-2 (nothing heard)"},
		"one says no":                {"ams-1 ams-2! ams-3", "", "", "1 that announce have not said yes to revision 2: ams/ams-2 (ams-2 refuses: no such program)"},
		"one says no, waived":        {"ams-1 ams-2! ams-3", "ams/ams-2", "", ""},
		"one is out by order":        {"ams-1 ams-3", "", "ams-2", ""},
		"who is out by order says no": {"ams-1 ams-2! ams-3", "", "ams-2",
			"1 that announce have not said yes to revision 2: ams/ams-2 (ams-2 refuses: no such program)"},
		"one more says no": {"ams-1 ams-2 ams-3 ams-9!", "", "", "1 that announce have not said yes to revision 2: ams/ams-9 (ams-9 refuses: no such program)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCamp(t, 3, 1, "")
			if x.ordered != "" {
				c.withdrawn("ams", x.ordered)
			}
			next := c.table.WithDefaults()
			next.Revision = 2
			c.apply(Entry{Kind: KindStage, Actor: "ann", Reason: "why not", Table: &next, Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
			acks := []Ack{{Revision: 2, Site: "fra", Node: "fra-1"}, {Revision: 2, Site: "nyc", Node: "nyc-1"}}
			for _, w := range strings.Fields(x.acks) {
				k := Ack{Revision: 2, Site: "ams"}
				var no bool
				if k.Node, no = strings.CutSuffix(w, "!"); no {
					k.Refusal = "no such program"
				}
				acks = append(acks, k)
			}
			c.apply(Entry{Kind: KindAck, Acks: acks})
			waive := strings.Fields(x.waive)
			if len(waive) == 0 && (len(c.fleet.View().Unready) > 0) != (x.want != "") {
				t.Errorf("unready: %q", c.fleet.View().Unready)
			}
			r := c.apply(Entry{Kind: KindActivate, Actor: "ann", Reason: "why not", Revision: 2, Waive: waive, Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
			if x.want == "" {
				if r.Refused != nil || c.fleet.s.Table.Revision != 2 {
					t.Fatalf("refused: %v; revision %d", r.Refused, c.fleet.s.Table.Revision)
				}
				return
			}
			if r.Refused == nil || r.Refused.Guard != acksGuard || r.Refused.Text != x.want || c.fleet.s.Table.Revision != 1 {
				t.Fatalf("%+v, want %q", r.Refused, x.want)
			}
		})
	}
}

// The order over a node that a table removes ends with it: the history says so, and
// where that node was the last of its site, the site owes nothing for having left.
func TestTableEndsOrdersOfNodes(t *testing.T) {
	c := newCamp(t, 2, 1, "")
	for _, n := range []string{"ams-2", "ams-1"} {
		if r := c.orderNode(steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: n, Actor: "ann", Reason: "why not"}); r.Refused != nil {
			t.Fatal(r.Refused)
		}
		c.run(2 * time.Second)
	}
	if u := c.fleet.s.unit("ams", pipePrefix); u.Phase != steadycast.Out || u.Pardon != noPardon {
		t.Fatalf("%+v", u)
	}
	next := c.table.WithDefaults()
	next.Revision = 2
	next.Sites = slices.Clone(next.Sites)
	next.Sites[0].Nodes = next.Sites[0].Nodes[1:] // ams-1, the last that left, is no more
	c.apply(Entry{Kind: KindStage, Actor: "ann", Reason: "why not", Table: &next, Force: true, Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
	r := c.apply(Entry{Kind: KindActivate, Actor: "ann", Reason: "why not", Revision: 2, Waive: []string{"ams", "fra", "nyc"}, Force: true, Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
	if r.Refused != nil || len(c.fleet.s.NodeOrders) != 0 {
		t.Fatalf("%+v; orders over nodes: %+v", r.Refused, c.fleet.s.NodeOrders)
	}
	if u := c.fleet.s.unit("ams", pipePrefix); u.Phase != steadycast.Out || u.Pardon != sparesDamping {
		t.Errorf("the site that left with it owes what automation would owe: %+v", u)
	}
	var ended []string
	for _, e := range r.Events {
		if e.Kind == steadycast.EventOrder {
			ended = append(ended, e.Node+" "+e.From+"→"+e.To)
		}
	}
	if want := []string{"ams-2 withdraw→automatic", "ams-1 withdraw→automatic"}; !slices.Equal(ended, want) {
		t.Errorf("the history says %q, want %q", ended, want)
	}
}

// What is ordered of a site leaves the orders over its nodes alone, and where nothing
// stands over the site, the answer says what stands over them.
func TestUndrainOfASiteNamesItsNodes(t *testing.T) {
	c := newCamp(t, 2, 1, "")
	c.orderNode(steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: "ams-2", Actor: "ann", Reason: "why not"})
	r := c.apply(Entry{Kind: KindOrderClear, Actor: "ann", Reason: "done", Scope: &Scope{Site: "ams"}})
	if r.Refused == nil || r.Refused.Override != "steadycast undrain ams/ams-2" {
		t.Errorf("%+v", r.Refused)
	}
	r = c.apply(Entry{Kind: KindOrderClear, Actor: "ann", Reason: "done", Scope: &Scope{Site: "fra"}})
	if r.Refused == nil || r.Refused.Override != "" {
		t.Errorf("%+v", r.Refused)
	}
	c.orderNode(steadycast.Order{Kind: steadycast.OrderAnnounce, Site: "ams", Actor: "ann", Reason: "why not"})
	if len(c.fleet.s.NodeOrders) != 1 {
		t.Errorf("an order of the site ended that of its node: %+v", c.fleet.s.NodeOrders)
	}
}

// withdrawn orders a node out, which nothing refuses.
func (c *camp) withdrawn(site, node string) {
	c.t.Helper()
	if r := c.orderNode(steadycast.Order{Kind: steadycast.OrderWithdraw, Site: site, Node: node, Actor: "ann", Reason: "why not"}); r.Refused != nil {
		c.t.Fatalf("%v", r.Refused)
	}
}
