package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

// orders: order KIND NODE [force] [for DURATION] | clear NODE
func (c *camp) orders(w []string, out *strings.Builder) {
	var r Reply
	if w[0] == "clear" {
		r = c.clearNode(w[1])
	} else {
		o := steadycast.Order{Site: "ams", Node: w[2], Actor: "ann", Reason: "a line card"}
		switch w[1] {
		case "withdraw":
			o.Kind = steadycast.OrderWithdraw
		case "drain":
			o.Kind = steadycast.OrderDrain
		case "announce":
			o.Kind = steadycast.OrderAnnounce
		}
		if i := slices.Index(w, "for"); i > 0 {
			o.For, _ = time.ParseDuration(w[i+1])
		}
		o.Force = slices.Contains(w, "force")
		r = c.orderNode(o)
	}
	for _, x := range r.Rulings {
		for _, g := range x.Guards {
			if !strings.HasPrefix(g.Text, "binds automation") {
				fmt.Fprintf(out, "    %s\n", g)
			}
		}
	}
	if r.Refused != nil {
		fmt.Fprintf(out, "    refused: %s\n", r.Refused)
	}
	for _, e := range r.Events {
		fmt.Fprintf(out, "    %s: %s\n", steadycast.Order{Site: e.Site, Node: e.Node}.Target(), e.To)
	}
}

func (c *camp) orderNode(o steadycast.Order) Reply {
	r := c.apply(Entry{Kind: KindOrder, Actor: o.Actor, Reason: o.Reason, Order: &o, Decide: &Decide{Seen: c.seen(), Nodes: c.seenNodes()}})
	c.commit()
	return r
}

func (c *camp) clearNode(node string) Reply {
	r := c.apply(Entry{Kind: KindOrderClear, Actor: "ann", Reason: "done", Scope: &Scope{Site: "ams", Node: node}})
	c.commit()
	return r
}

func (c *camp) seenNodes() []SeenNodes {
	x := SeenNodes{Site: "ams", Prefixes: []netip.Prefix{pipePrefix}}
	for _, n := range c.at[:c.nodes] {
		if n.announces() {
			x.Announcing = append(x.Announcing, n.node)
		}
	}
	return []SeenNodes{x}
}

// TestNodeOrdersAnything: whatever dies, heals, restarts, is cut off or ordered, no
// node that a person takes out without force leaves while fewer than min_nodes others
// announce, nor does it announce again while the order stands, but where it never
// left; and when all is well and no order stands, everybody announces.
func TestNodeOrdersAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(t, "nodes")
		least := rapid.IntRange(1, nodes-1).Draw(t, "min")
		c := newCamp(t, nodes, least, "")
		lossy := rapid.Bool().Draw(t, "lossy")
		c.delay = func() Now {
			if !lossy {
				return 5 * time.Millisecond
			}
			return Now(rapid.SampledFrom([]int{0, 5, 5, 5, 5, 5, 50, 500, 3000, -1}).Draw(t, "delay ms")) * time.Millisecond
		}
		was := make([]bool, nodes)
		for i := range was {
			was[i] = c.at[i].announces()
		}
		withSite, forced := -2*promiseFor-1, -2*promiseFor-1
		c.check = func(what string) {
			if c.fleet.s.unit("ams", pipePrefix).Phase != steadycast.In {
				withSite = c.now
			}
			stay := 0
			for _, n := range c.at[:nodes] {
				if n.announces() {
					stay++
				}
			}
			for i, n := range c.at[:nodes] {
				u := &n.m.units[0]
				is := n.announces()
				if u.mine.Force {
					forced = c.now // who promised to stay goes all the same
				}
				switch {
				case was[i] && !is && stay < least && c.now-withSite > 2*promiseFor && c.now-forced > 2*promiseFor:
					t.Fatalf("%s: %s left, %d nodes announce and %d must\n%s", what, n.name(), stay, least, c.why())
				case !was[i] && is && u.sentOut():
					t.Fatalf("%s: %s announces again under %s\n%s", what, n.name(), u.mine.Kind, c.why())
				case was[i] && !is && u.mine.Kind == steadycast.OrderAnnounce && u.view.Phase == steadycast.In:
					t.Fatalf("%s: %s leaves although it is pinned\n%s", what, n.name(), c.why())
				}
				was[i] = is
			}
			c.keepsFloor(what)
		}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			n := c.at[rapid.IntRange(0, nodes-1).Draw(t, "who")]
			switch rapid.SampledFrom([]string{"dead", "well", "restart", "cut", "mend", "order", "order", "clear"}).Draw(t, "what") {
			case "dead":
				n.well = false
			case "well":
				n.well = true
			case "restart":
				c.start(n)
				was[slices.Index(c.at, n)] = n.announces()
			case "cut":
				o := c.at[rapid.IntRange(0, nodes-1).Draw(t, "from")]
				n.cut[o.node], o.cut[n.node] = true, true
			case "mend":
				clear(n.cut)
			case "order":
				c.orderNode(steadycast.Order{
					Kind: rapid.SampledFrom([]steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderDrain, steadycast.OrderAnnounce}).Draw(t, "kind"),
					Site: "ams", Node: n.node, Actor: "ann", Reason: "why not", Force: rapid.IntRange(0, 4).Draw(t, "force") == 0,
					For: rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "for"),
				})
			case "clear":
				c.clearNode(n.node)
			}
			c.run(Now(rapid.SampledFrom([]int{200, 400, 1000, 3000, 9000, 31_000}).Draw(t, "ms")) * time.Millisecond)
		}
		c.delay = func() Now { return 5 * time.Millisecond }
		for _, n := range c.at {
			n.well = true
			clear(n.cut)
			if n.node != "" {
				c.clearNode(n.node)
			}
		}
		c.run(90 * time.Second)
		for _, n := range c.at {
			if !n.announces() {
				t.Fatalf("%s does not announce after a quiet time\n%s", n.name(), c.why())
			}
		}
		if n := len(c.fleet.s.NodeOrders); n > 0 {
			t.Fatalf("%d orders stand although all were cleared", n)
		}
	})
}

// What a person orders of a node is refused with its reason where it cannot be.
func TestNodeOrderRefused(t *testing.T) {
	c := newCamp(t, 2, 1, "")
	other := netip.MustParsePrefix("198.51.100.0/24")
	for _, x := range []struct {
		order steadycast.Order
		scope *Scope
		kind  Kind
		want  string
	}{
		{order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: "ams-9"}, want: "ams has no node ams-9; nodes: ams-1, ams-2"},
		{order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Node: "fra"}, want: "fra has one node: what is ordered of it is ordered of the site"},
		{order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "nowhere", Node: "x"}, want: "no site named nowhere announces anything; sites: ams, fra, nyc"},
		{order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Node: "ams-1", Prefixes: []netip.Prefix{other}}, want: "ams does not announce 198.51.100.0/24; its prefixes: 192.0.2.0/24"},
		{scope: &Scope{Site: "ams", Node: "ams-1"}, kind: KindOrderClear, want: "no order stands over ams/ams-1"},
		{scope: &Scope{Site: "ams", Node: "ams-9"}, kind: KindOrderClear, want: "ams has no node ams-9; nodes: ams-1, ams-2"},
		{scope: &Scope{Site: "ams", Node: "ams-1"}, kind: KindFreeze, want: "ams/ams-1 is one node; only withdraw, drain, announce and undrain are about one"},
		{scope: &Scope{Node: "ams-1"}, kind: KindOrderClear, want: "/ams-1 is one node; only withdraw, drain, announce and undrain are about one"},
	} {
		e := Entry{Kind: KindOrder, Actor: "ann", Reason: "why not", Order: &x.order}
		if x.scope != nil {
			e = Entry{Kind: x.kind, Actor: "ann", Reason: "why not", Scope: x.scope}
		} else {
			x.order.Actor, x.order.Reason = "ann", "why not"
			e.Decide = &Decide{Seen: c.seen(), Nodes: c.seenNodes()}
		}
		before := c.fleet.Hash()
		r := c.apply(e)
		if r.Refused == nil || r.Refused.Text != x.want {
			t.Errorf("%+v %+v: %+v, want %q", x.order, x.scope, r.Refused, x.want)
		}
		if len(c.fleet.s.NodeOrders)+len(c.fleet.s.Orders)+len(c.fleet.s.Freezes) > 0 {
			t.Fatalf("%+v: something stands although it was refused (%s)", x.order, before)
		}
	}
}
