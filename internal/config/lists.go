package config

import (
	"fmt"
	"slices"
)

// What can be read two ways is said, though a table or node can go by it.

// listsOfTable judges lists of the table that name something twice, and how many
// nodes of a site must stay.
func (j *judge) listsOfTable() {
	for i, s := range j.cfg.Fleet.Sites {
		at := fmt.Sprintf("sites[%d]", i)
		twice(j, j.table, at+".upstreams", s.Upstreams)
		if path := at + ".min_nodes"; j.table.wrote(path) {
			switch n := len(s.Nodes); {
			case s.MinNodes == 0:
				j.say(j.table, path, "0 is under 1: the last node of a site leaves with the site, on a permit; leave it out for 1")
			case n > 1 && s.MinNodes == n:
				j.warn(j.table, path, "%d of %d nodes must stay, so none ever leaves alone", s.MinNodes, n)
			}
		}
	}
	for i, p := range j.cfg.Fleet.Prefixes {
		at := fmt.Sprintf("prefixes[%d]", i)
		twice(j, j.table, at+".communities", p.Communities)
		twice(j, j.table, at+".large_communities", p.LargeCommunities)
	}
}

// twice warns of what stands in a list again; it counts once.
func twice[T comparable](j *judge, r *reader, path string, list []T) {
	for i, x := range list {
		if slices.Contains(list[:i], x) {
			j.warn(r, fmt.Sprintf("%s[%d]", path, i), "%v stands here twice; once is enough", x)
		}
	}
}
