package decide

import (
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// What two nodes of a site say of both agrees with what they do: through the death of
// one, its return, the site's own leaving, and a sibling that falls silent.
func TestNodesShown(t *testing.T) {
	c := newCamp(t, 2, 1, "")
	a, b := c.at[0], c.at[1]
	c.run(45 * time.Second)
	of := func(n *tent, node string) NodeStatus {
		t.Helper()
		all := n.m.Explain().Units[0].Nodes
		if len(all) != 2 || all[0].Node != a.node || all[1].Node != b.node {
			t.Fatalf("%s lists %+v", n.name(), all)
		}
		for _, x := range all {
			if x.Here != (x.Node == n.node) {
				t.Errorf("%s is here: %v", x.Node, x.Here)
			}
			if x.Node == node {
				return x
			}
		}
		t.Fatalf("no node %s", node)
		return NodeStatus{}
	}
	both := func(what string, announce, alone bool, o steadycast.Outcome) {
		t.Helper()
		for _, n := range []*tent{a, b} {
			x := of(n, b.node)
			if !x.Heard || x.Announcing != announce || x.Alone != alone || x.Outcome != o || alone != (x.LeftAgo > 0) {
				t.Errorf("%s: %s says of %s: %+v", what, n.name(), b.name(), x)
			}
			if b.announces() != announce {
				t.Errorf("%s: it announces %v", what, b.announces())
			}
		}
	}
	both("all is well", true, false, steadycast.Up)

	b.well = false
	c.run(15 * time.Second)
	both("its instance died", false, true, steadycast.Down)
	if x := of(a, a.node); x.Bound <= 0 || x.Bound > promiseFor || !x.Announcing {
		t.Errorf("who promised to stay says %+v", x)
	}
	if x := of(a, b.node); x.Reason == "" {
		t.Error("it is not said why it left")
	}

	b.well = true
	c.run(90 * time.Second)
	both("it is back", true, false, steadycast.Up)

	a.well, b.well = false, false
	c.run(60 * time.Second)
	both("the site left", false, false, steadycast.Down)

	a.well, b.well = true, true
	c.run(120 * time.Second)
	both("the site is back", true, false, steadycast.Up)

	a.cut[b.node], b.cut[a.node] = true, true
	c.run(helloFor + 2*time.Second)
	if x := of(a, b.node); x.Heard || x.Announcing || x.Alone {
		t.Errorf("who is not heard is known: %+v", x)
	}
}
