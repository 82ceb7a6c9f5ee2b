package decide

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// Covering backup. A client may keep the address of one site for as long as it
// likes: from an answer that it cached, or because somebody wrote it down. So the
// addresses of each site alone ([Place.Own]) are announced by the others, too, as
// backup: while the site is there its own route is better, and when it is gone the
// next packet reaches another within BGP convergence, with no TTL to wait for.
//
//	the site                 its own addresses, at home    those of the others, there
//	announces normally       normal                        backup
//	only less attractively   depreferred                   –
//	announces nothing        –                             –
//
// A site that serves nothing well covers nobody. No ledger is asked and nothing is
// counted: they are no units, no floor knows them, and what any site does about
// them takes nothing from what the units announce.

// cover is one such route.
type cover struct {
	prefix netip.Prefix
	site   string // whose address it is
}

// coversOf are all of a table's, in order of prefix.
func coversOf(t Table) []cover {
	var out []cover
	for _, p := range t.Sites {
		for _, own := range p.Own {
			out = append(out, cover{own, p.Name})
		}
	}
	slices.SortFunc(out, func(a, b cover) int { return comparePrefix(a.prefix, b.prefix) })
	return out
}

// covers are the routes to single sites' addresses as they should be now, in
// order of prefix.
func (s *Site) covers(now Now) []steadycast.Route {
	if len(s.own) == 0 {
		return nil
	}
	shown, well := false, false
	for i := range s.units {
		if u := &s.units[i]; u.announced {
			shown = true
			well = well || u.stance(now) == steadycast.Normal
		}
	}
	var out []steadycast.Route
	for _, c := range s.own {
		r := steadycast.Route{Prefix: c.prefix}
		switch home := c.site == s.name; {
		case home && well:
			r.Reason = "the site's own address"
		case home && shown:
			r.Stance, r.Reason = steadycast.Depreferred, "the site's own address, and all it announces is less attractive"
		case !home && well:
			r.Stance, r.Reason = steadycast.Backup, fmt.Sprintf("backup for what clients know of %s", c.site)
		default:
			continue
		}
		out = append(out, r)
	}
	return out
}

// routes are all that should be announced now, in order of prefix.
func (s *Site) routes(now Now) iter.Seq[steadycast.Route] {
	covers := s.covers(now)
	return func(yield func(steadycast.Route) bool) {
		rest := covers
		for i := range s.units {
			u := &s.units[i]
			for len(rest) > 0 && comparePrefix(rest[0].Prefix, u.id.Prefix) < 0 {
				if !yield(rest[0]) {
					return
				}
				rest = rest[1:]
			}
			if u.announced && !yield(u.asRoute(now)) {
				return
			}
		}
		for _, r := range rest {
			if !yield(r) {
				return
			}
		}
	}
}

// covered reports whether p is among single sites' addresses, and so no stranger
// on the wire.
func (s *Site) covered(p netip.Prefix) bool {
	return slices.ContainsFunc(s.own, func(c cover) bool { return c.prefix == p })
}

// Shared are the prefixes that lead to more than one place, or may: those of the
// services and each site's own. Nothing that must reach one machine lies in them.
func (t Table) Shared() []netip.Prefix {
	out := t.AllPrefixes()
	for _, p := range t.Sites {
		out = append(out, p.Own...)
	}
	return out
}

// owns checks what a site calls its own.
func (c *critic) owns(i int, p Place) {
	for k, own := range p.Own {
		at := fmt.Sprintf("sites[%d].own[%d]", i, k)
		switch {
		case p.Witness:
			c.say(at, "is of a witness, which announces nothing; remove it")
			return
		case !own.IsValid():
			c.say(at, "this is not a prefix; write address/length")
			continue
		case own.Addr().Is4In6():
			c.say(at, "%s is an IPv4-mapped address; write the IPv4 prefix itself", own)
			continue
		case own != own.Masked():
			c.say(at, "%s has bits set beyond its length; did you mean %s?", own, own.Masked())
			continue
		case own.Bits() == 0 || own.Addr().IsLoopback() || own.Addr().IsMulticast() || own.Addr().IsLinkLocalUnicast() || own.Addr().IsUnspecified():
			c.say(at, "%s is nothing that clients could reach one site by", own)
			continue
		}
		for j, s := range c.t.Services {
			for l, q := range s.Prefixes {
				if q.IsValid() && q.Overlaps(own) {
					c.say(at, "%s shares addresses with services[%d].prefixes[%d], %s, which is every site's; an address is the one or the other", own, j, l, q)
				}
			}
		}
		for j, q := range c.t.Sites[:i+1] {
			for l, other := range q.Own {
				if j == i && l >= k {
					break
				}
				if other.IsValid() && other.Bits() > 0 && other.Overlaps(own) {
					c.say(at, "%s shares addresses with sites[%d].own[%d], %s; each is one site's", own, j, l, other)
				}
			}
		}
	}
}
