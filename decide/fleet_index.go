package decide

import (
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// index is what follows from the table and is asked for all the time. It is made
// whole whenever the table changes and never written after that, so clones share
// it; it is no part of the snapshot.
type index struct {
	units    []unitIndex   // beside state.Units
	prefixes []prefixIndex // beside state.Prefixes
}

type unitIndex struct {
	services []int // positions in Table.Services
	group    string
	capacity int64
}

type prefixIndex struct {
	members             []int // positions in Units, in order of site
	floor, healthyFloor int
	needs               string
}

// reindex makes the index anew from table, units and prefixes.
func (s *state) reindex() {
	x := &index{units: make([]unitIndex, len(s.Units)), prefixes: make([]prefixIndex, len(s.Prefixes))}
	for i, p := range s.Prefixes {
		x.prefixes[i] = prefixIndex{
			floor: s.Table.Floor(p.Prefix), healthyFloor: s.Table.HealthyFloor(p.Prefix), needs: s.Table.PrefixPolicy(p.Prefix).Needs,
		}
	}
	for i, u := range s.Units {
		place, _ := s.Table.Place(u.Unit.Site)
		x.units[i] = unitIndex{group: place.Group, capacity: place.Capacity}
		for j, sv := range s.Table.Services {
			if slices.Contains(sv.Prefixes, u.Unit.Prefix) && slices.Contains(sv.Sites, u.Unit.Site) {
				x.units[i].services = append(x.units[i].services, j)
			}
		}
		if j, ok := s.prefixAt(u.Unit.Prefix); ok {
			x.prefixes[j].members = append(x.prefixes[j].members, i)
		}
	}
	s.index = x
}

// services are the positions in the table of those that the unit carries.
func (s *state) services(u steadycast.Unit) []int {
	if i, ok := s.unitAt(u); ok {
		return s.index.units[i].services
	}
	return nil
}

// of is what the index has of a prefix; nothing for one that is not there.
func (s *state) of(p netip.Prefix) prefixIndex {
	if i, ok := s.prefixAt(p); ok {
		return s.index.prefixes[i]
	}
	return prefixIndex{}
}
