package bgp

import (
	"slices"

	"github.com/steadycast/steadycast"
)

// markStale returns rows with every announcement marked that left with other
// attributes than its route is wanted with. Without it a changed community would
// seem proven by the acknowledgement of the old one. Both rows and routes are in
// order of prefix; rows are shared with readers and copied before they are marked.
func markStale(rows []steadycast.Sent, routes []steadycast.Route, r *resolver) []steadycast.Sent {
	marked := false
	for i, at := 0, 0; i < len(rows); i++ {
		for at < len(routes) && comparePrefix(routes[at].Prefix, rows[i].Prefix) < 0 {
			at++
		}
		stale := false
		if rows[i].Announced && at < len(routes) && routes[at].Prefix == rows[i].Prefix {
			want := r.resolve(routes[at])
			stale = want == nil || !r.left(want, &rows[i].Attributes)
		}
		if stale == rows[i].Stale {
			continue
		}
		if !marked {
			rows, marked = slices.Clone(rows), true
		}
		rows[i].Stale = stale
	}
	return rows
}

// left reports whether got is what want looks like on the wire.
func (r *resolver) left(want *pathAttributes, got *steadycast.Attributes) bool {
	path := 0
	if !r.internal {
		path = 1 + want.prepend // RFC 4271 §5.1.2: an external peer sees our own AS first
	}
	return got.NextHop.Unmap().WithZone("") == want.nextHop.Unmap() && len(got.ASPath) == path &&
		same(got.MED, want.med) && (want.localPref == nil || same(got.LocalPref, want.localPref)) &&
		sameSet(got.Communities, want.communities, func(a, b steadycast.Community) int { return int(int64(a) - int64(b)) }) &&
		sameSet(got.LargeCommunities, want.largeCommunities, compareLarge)
}

// sameSet compares what left, in any order, with what is wanted, in order.
func sameSet[T comparable](got, want []T, order func(a, b T) int) bool {
	if len(got) != len(want) {
		return false
	}
	if slices.Equal(got, want) {
		return true
	}
	got = slices.Clone(got)
	slices.SortFunc(got, order)
	return slices.Equal(got, want)
}
