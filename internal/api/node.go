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

// leftAlone: the node that answers took its own route away, and its site did not.
func leftAlone(nodes []decide.NodeStatus) bool {
	return slices.ContainsFunc(nodes, func(n decide.NodeStatus) bool { return n.Here && n.Alone })
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
	case n.Alone:
		text = "left alone " + Span(n.LeftAgo) + " ago"
	}
	switch {
	case n.Outcome == steadycast.Down:
		text += ": " + n.Reason
	case n.Outcome == steadycast.Up && n.Alone:
		text += ", well again"
	}
	if n.Asks {
		text += "; asks the others to stay, so that it may leave"
	}
	if n.Bound > 0 {
		text += "; promised to stay, " + Span(n.Bound) + " left"
	}
	return text
}
