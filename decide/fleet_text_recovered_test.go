package decide

import (
	"net/netip"
	"slices"
	"strings"
)

// recovering plays what has to do with a ledger that is recovered from an older copy:
//
//	recover                                go on from the state as it is, in a new epoch
//	reconcile SITE[/PREFIX]=WORD …         what sites say first since, of all their units or
//	                                       one: on, wanted, left or unknown
func (s *stage) recovering(verb string, args []string, text string) []string {
	if verb == "recover" {
		e := s.entry(KindEpoch)
		e.Epoch++
		e.Actor, e.Reason = "ann", text
		return s.say(s.apply(e))
	}
	e := s.entry(KindReconcile)
	for _, w := range args {
		who, word, _ := strings.Cut(w, "=")
		site, only, one := strings.Cut(who, "/")
		for _, p := range s.f.View().Table.PrefixesAt(site) {
			if one && netip.MustParsePrefix(only) != p {
				continue
			}
			x := Truth{Announcing: word == "on", Wanted: word == "wanted", Left: word == "left"}
			x.Unit.Site, x.Unit.Prefix = site, p
			e.Truth = append(e.Truth, x)
		}
	}
	slices.SortFunc(e.Truth, func(a, b Truth) int { return a.Unit.Compare(b.Unit) })
	return s.say(s.apply(e))
}
