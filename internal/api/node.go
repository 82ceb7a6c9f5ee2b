package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// nodesOut counts the nodes of a site that do not announce, or are not heard.
func nodesOut(nodes []decide.NodeStatus) (n int) {
	for i := range nodes {
		if !nodes[i].Announcing {
			n++
		}
	}
	return n
}

// nodesAmiss counts those of them that nobody ordered out.
func nodesAmiss(nodes []decide.NodeStatus) (n int) {
	for i := range nodes {
		if !nodes[i].Announcing && !orderedOut(&nodes[i]) {
			n++
		}
	}
	return n
}

func orderedOut(n *decide.NodeStatus) bool {
	return n.Order == steadycast.OrderWithdraw || n.Order == steadycast.OrderDrain
}

// leftAlone: the node that answers took its own route away, by itself or by order, and
// its site did not.
func leftAlone(nodes []decide.NodeStatus) bool {
	return slices.ContainsFunc(nodes, func(n decide.NodeStatus) bool { return n.Here && (n.Alone || orderedOut(&n)) && !n.Announcing })
}

// NodesText says how many nodes announce, and of each other one why it does not:
// "1 of 2 nodes announce; fra-2 left alone 12s ago: web: connection refused".
func NodesText(nodes []decide.NodeStatus) string {
	parts := []string{fmt.Sprintf("%d of %d nodes announce", len(nodes)-nodesOut(nodes), len(nodes))}
	for i := range nodes {
		if x := &nodes[i]; !x.Announcing {
			parts = append(parts, x.Node+" "+NodeText(x))
		}
	}
	return strings.Join(parts, "; ")
}

// NodeText says how one node stands: "announces; promised to stay, 23s left".
func NodeText(n *decide.NodeStatus) string {
	if !n.Heard {
		return "is not heard"
	}
	text := "does not announce"
	switch {
	case n.Announcing:
		text = "announces"
	case n.Order == steadycast.OrderDrain:
		text = "is drained by order"
	case n.Order == steadycast.OrderWithdraw:
		text = "is withdrawn by order"
	case n.Alone:
		text = "left alone " + Span(n.LeftAgo) + " ago"
	}
	switch {
	case n.Outcome == steadycast.Down:
		text += ": " + n.Reason
	case n.Outcome == steadycast.Up && n.Alone:
		text += ", well again"
	}
	if n.Announcing && n.Order != steadycast.OrderNone {
		text += " under an order to " + n.Order.String()
	}
	if n.Asks {
		text += "; asks the others to stay, so that it may leave"
	}
	if n.Bound > 0 {
		text += "; promised to stay, " + Span(n.Bound) + " left"
	}
	return text
}
