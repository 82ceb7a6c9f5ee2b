package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// Whole is the share of a site that takes all the clients who would come to it,
// in permille. A site takes less of a service while a person or a plan moves its
// clients, while it returns (ramp.go), and while it has too many (shed.go).
const Whole = 1000

// moves is what is on its way from one site to another. Each part is a sorted
// list that is replaced and never written in place.
type moves struct {
	// Shares are what people and plans gave; who is not here has all.
	Shares []shareState `json:"shares,omitempty"`
	// Ramps are the services that come back; see ramp.go.
	Ramps []rampState `json:"ramps,omitempty"`
	// Sheds are what sites gave away because they carry too much; see shed.go.
	Sheds []shedState `json:"sheds,omitempty"`
	// Diverts are the sites that announce by another path than their first, in order
	// of site; see divert.go.
	Diverts []Divert `json:"diverts,omitempty"`
	// Switches are what is remembered of changes of path, in order of site; see switch.go.
	Switches []switchState `json:"switches,omitempty"`
	// Drains are the units that were told to go, in order; see drain.go.
	Drains []drainState `json:"drains,omitempty"`
}

// shareState is what a person or a plan lets a site take of a service.
type shareState struct {
	Share  ShareOrder       `json:"share"`
	Actor  string           `json:"actor"`
	Reason string           `json:"reason"`
	Since  Time             `json:"since"`
	Fence  steadycast.Fence `json:"fence"`
}

// ShareOrder says how much of its clients a site takes of a service.
type ShareOrder struct {
	Site string `json:"site"`
	// Service, or empty for every service of the site.
	Service string `json:"service,omitempty"`
	// Permille of the clients who would come, 0 to [Whole]; Whole ends the order.
	Permille int `json:"permille"`
}

// ShareView is one site that takes less of a service than all who would come to it.
type ShareView struct {
	Site    string `json:"site"`
	Service string `json:"service"`
	// Permille of the clients who would come that DNS sends here, of all the parts.
	Permille int `json:"permille"`
	// Given by a person or a plan, with who and why; [Whole] where nobody said.
	Given  int    `json:"given"`
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Since is when it last changed.
	Since Time `json:"since"`
	// Shed is what its load leaves it; [Whole] where it does not carry too much. Kept:
	// it does, and nobody may take its clients.
	Shed int  `json:"shed"`
	Kept bool `json:"kept,omitempty"`
	// Ramp is where its return stands, if it returns.
	Ramp RampView `json:"ramp,omitzero"`
}

// compareShare orders by site, then service.
func compareShare(a, b ShareOrder) int {
	return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Service, b.Service))
}

// Share is how much of its clients a site takes of a service, in permille.
func (v *View) Share(site, service string) int {
	if s, ok := v.ShareOf(site, service); ok {
		return s.Permille
	}
	return Whole
}

// ShareOf is the same with where it comes from; ok is false for a site that takes all.
func (v *View) ShareOf(site, service string) (s ShareView, ok bool) {
	i, ok := slices.BinarySearchFunc(v.Shares, ShareOrder{Site: site, Service: service}, func(x ShareView, w ShareOrder) int {
		return compareShare(ShareOrder{Site: x.Site, Service: x.Service}, w)
	})
	if ok {
		s = v.Shares[i]
	}
	return s, ok
}

// shares are all that take less than all or return, in order of site, then service.
func (s *state) shares() []ShareView {
	var keys []ShareOrder
	for _, x := range s.Moves.Shares {
		keys = append(keys, ShareOrder{Site: x.Share.Site, Service: x.Share.Service})
	}
	for _, x := range s.Moves.Ramps {
		keys = append(keys, ShareOrder{Site: x.Site, Service: x.Service})
	}
	for _, x := range s.Moves.Sheds {
		keys = append(keys, ShareOrder{Site: x.Site, Service: x.Service})
	}
	slices.SortFunc(keys, compareShare)
	var out []ShareView
	for _, k := range slices.Compact(keys) {
		v := ShareView{Site: k.Site, Service: k.Service, Given: Whole}
		if i, ok := s.shareAt(k); ok {
			x := &s.Moves.Shares[i]
			v.Given, v.Actor, v.Reason, v.Since = x.Share.Permille, x.Actor, x.Reason, x.Since
		}
		v.Permille, v.Ramp = s.ramped(k.Site, k.Service)
		if i, ok := s.rampAt(k.Site, k.Service); ok {
			v.Since = max(v.Since, s.Moves.Ramps[i].Since)
		}
		// Each part takes of the same clients, from the same end: the least counts.
		v.Shed = Whole
		if i, ok := s.shedAt(k.Site, k.Service); ok {
			x := &s.Moves.Sheds[i]
			v.Shed, v.Kept, v.Since = x.Permille, x.Kept, max(v.Since, x.Since)
		}
		v.Permille = min(v.Permille, v.Given, v.Shed)
		out = append(out, v)
	}
	return out
}

// given is what a person or a plan lets a site take.
func (s *state) given(site, service string) int {
	if i, ok := s.shareAt(ShareOrder{Site: site, Service: service}); ok {
		return s.Moves.Shares[i].Share.Permille
	}
	return Whole
}

func (s *state) shareAt(o ShareOrder) (int, bool) {
	return slices.BinarySearchFunc(s.Moves.Shares, o, func(x shareState, w ShareOrder) int { return compareShare(x.Share, w) })
}

// share carries out a person's wish, whole or not at all.
func (a *applying) share(o ShareOrder, force bool) string {
	if o.Permille < 0 || o.Permille > Whole {
		return fmt.Sprintf("a share of %d‰; allowed: 0 to %d", o.Permille, Whole)
	}
	if o.Site == "" {
		a.refuse(wellFormed, "a share names its site", "")
		return ""
	}
	if !a.known(o.Site) || !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	services := a.servicesAt(o.Site)
	if o.Service != "" {
		if !slices.Contains(services, o.Service) {
			a.refuse(wellFormed, fmt.Sprintf("%s does not serve %s; its services: %s", o.Site, o.Service, list(services)), "")
			return ""
		}
		services = []string{o.Service}
	}
	for _, name := range services {
		if o.Permille == 0 && !force && len(a.takers(name, o.Site)) == 0 {
			a.refuse(floorGuard, fmt.Sprintf("no other site takes clients of %s", name),
				"--force: where nothing else can be given, DNS gives it all the same")
			return ""
		}
	}
	for _, name := range services {
		o.Service = name
		a.setShare(o, a.e.Actor, a.e.Reason)
	}
	return ""
}

// setShare makes a share the one that is given, and says so if it changes.
func (a *applying) setShare(o ShareOrder, actor, reason string) {
	was := a.given(o.Site, o.Service)
	i, ok := a.shareAt(o)
	list := slices.Clone(a.Moves.Shares)
	switch {
	case o.Permille == Whole && ok:
		list = slices.Delete(list, i, i+1)
	case o.Permille == Whole:
		return
	case ok:
		if list[i].Share.Permille != o.Permille {
			list[i].Since = a.LT
		}
		list[i].Share, list[i].Actor, list[i].Reason, list[i].Fence = o, actor, reason, a.Fence
	default:
		list = slices.Insert(list, i, shareState{o, actor, reason, a.LT, a.Fence})
	}
	if len(list) == 0 {
		list = nil // as it is read back from a snapshot
	}
	a.Moves.Shares = list
	if was != o.Permille {
		a.event(steadycast.Event{
			Kind: steadycast.EventShare, Site: o.Site, Service: o.Service, Actor: actor,
			From: Percent(was), To: Percent(o.Permille), Reason: reason,
		})
	}
}

// takers are the sites other than one that take clients of a service: what they
// were given is not nothing, nobody ordered them out, and they are not in trouble.
func (s *state) takers(service, except string) []string {
	var sites []string
	sv, _ := s.Table.Service(service)
	for _, site := range sv.Sites {
		if site == except || s.given(site, service) == 0 {
			continue
		}
		if i, ok := s.verdict(site, service); ok && s.Verdicts[i].Verdict.State.Troubled() {
			continue
		}
		if slices.ContainsFunc(s.Orders, func(o StandingOrder) bool {
			return o.Order.Site == site && !o.Recovered && outBy(o.Order.Kind) && slices.ContainsFunc(sv.Prefixes, o.Order.Covers)
		}) {
			continue
		}
		sites = append(sites, site)
	}
	return sites
}

// servicesAt are the names of what a site serves, in the order of the table.
func (s *state) servicesAt(site string) []string {
	var names []string
	for _, sv := range s.Table.Services {
		if slices.Contains(sv.Sites, site) {
			names = append(names, sv.Name)
		}
	}
	return names
}

// settleMoves forgets what a new table does not have any more.
func (a *applying) settleMoves() {
	a.Moves.Shares = keep(a.Moves.Shares, func(x shareState) bool { return a.serves(x.Share.Site, x.Share.Service) })
	a.settleDiverts()
	a.settleSwitches()
	a.endRamps()
	a.endDrains()
	a.settleSheds()
}

// serves reports whether the table has the service at the site.
func (s *state) serves(site, service string) bool {
	sv, ok := s.Table.Service(service)
	return ok && slices.Contains(sv.Sites, site)
}

// soundMoves checks of a snapshot what this code relies on.
func (s *state) soundMoves() error {
	for i, x := range s.Moves.Shares {
		if !s.serves(x.Share.Site, x.Share.Service) || x.Share.Permille < 0 || x.Share.Permille >= Whole ||
			i > 0 && compareShare(s.Moves.Shares[i-1].Share, x.Share) >= 0 {
			return fmt.Errorf("the share of %s at %s cannot be", x.Share.Service, x.Share.Site)
		}
	}
	return cmp.Or(s.soundDiverts(), s.soundSwitches(), s.soundRamps(), s.soundDrains(), s.soundSheds())
}

// Percent writes a share for people: 5%, 12.5%, 100%.
func Percent(permille int) string {
	if permille%10 == 0 {
		return fmt.Sprintf("%d%%", permille/10)
	}
	return fmt.Sprintf("%d.%d%%", permille/10, permille%10)
}
