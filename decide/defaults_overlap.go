package decide

import (
	"cmp"
	"net/netip"
	"slices"
)

// listing are all prefixes of a table's services in order of prefix, so that
// tens of thousands can be compared with each other in a moment.
type listing struct {
	all  []listed
	used [2][129]bool // by family and length: such prefixes there are
}

// listed is where a prefix stands.
type listed struct {
	net            netip.Prefix // prefix, masked
	prefix         netip.Prefix
	service, index int
}

func listPrefixes(services []Service) *listing {
	ps := &listing{}
	for i, s := range services {
		for j, p := range s.Prefixes {
			if p.IsValid() {
				ps.all = append(ps.all, listed{p.Masked(), p, i, j})
				ps.used[familyIndex(p)][p.Bits()] = true
			}
		}
	}
	slices.SortFunc(ps.all, func(x, y listed) int { return cmp.Or(x.net.Compare(y.net), x.order(y)) })
	return ps
}

func familyIndex(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

// order is which stands first in the table.
func (x listed) order(y listed) int {
	return cmp.Or(cmp.Compare(x.service, y.service), cmp.Compare(x.index, y.index))
}

// from are the places of net and of all that come after it.
func (ps *listing) from(net netip.Prefix) []listed {
	i, _ := slices.BinarySearchFunc(ps.all, net, func(x listed, net netip.Prefix) int { return x.net.Compare(net) })
	return ps.all[i:]
}

// twice reports whether p stands in the service before index, too.
func (ps *listing) twice(p netip.Prefix, service, index int) bool {
	for _, q := range ps.from(p.Masked()) {
		if q.net != p.Masked() {
			break
		}
		if q.prefix == p && q.service == service && q.index < index {
			return true
		}
	}
	return false
}

// overlap is the first listed in the table, before that of p, whose prefix shares
// addresses with p without being the same.
func (ps *listing) overlap(p netip.Prefix, service, index int) (first listed, found bool) {
	first = listed{service: service, index: index}
	look := func(q listed) {
		if q.prefix != p && q.order(first) < 0 {
			first, found = q, true
		}
	}
	for bits := range p.Bits() { // what contains it
		if !ps.used[familyIndex(p)][bits] {
			continue
		}
		net := netip.PrefixFrom(p.Addr(), bits).Masked()
		for _, q := range ps.from(net) {
			if q.net != net {
				break
			}
			look(q)
		}
	}
	for _, q := range ps.from(p.Masked()) { // what it contains: in order, all of it follows
		if !p.Overlaps(q.net) {
			break
		}
		look(q)
	}
	return first, found
}
