package speaker

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// inOrder gives rows in the order that steadycast.Actual promises: by peer, as
// the settings list them, then by prefix. Rows of a peer that the settings no
// longer list come last.
func inOrder(rows map[sentKey]steadycast.Sent, peers []steadycast.Peer) []steadycast.Sent {
	place := make(map[string]int, len(peers))
	for i, p := range peers {
		place[p.Name] = i
	}
	at := func(name string) int {
		if i, ok := place[name]; ok {
			return i
		}
		return len(peers)
	}
	all := make([]steadycast.Sent, 0, len(rows))
	for _, r := range rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b steadycast.Sent) int {
		return cmp.Or(cmp.Compare(at(a.Peer), at(b.Peer)), cmp.Compare(a.Peer, b.Peer),
			comparePrefix(a.Prefix, b.Prefix))
	})
	return all
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
