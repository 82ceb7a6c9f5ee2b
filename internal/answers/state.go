// Package answers says what the fleet's committed state means for its names: one
// pure step between the ledger, which decides, and dnsfallback, which answers.
// So a route and the answers that name its site change by the same entry of the log.
package answers

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// State is what v, at the given time by the wall clock, lets clients be sent to.
//
// A service at a site is out while it is believed to be bad or not yet well
// again, and while the site is gone; in a family, also while the ledger does not count one of its prefixes
// as announcing there, or has only depreferred it. What a person ordered goes
// before both. A site of which nothing is known is not out.
func State(v *decide.View, at time.Time) dnsfallback.FleetState {
	mode, _ := Committed(v)
	return StateIn(v, at, mode)
}

// StateIn is State on another rung of the ladder than the one that was committed.
func StateIn(v *decide.View, at time.Time, mode Mode) dnsfallback.FleetState {
	v = held(v)
	s := dnsfallback.FleetState{At: at, Minimal: mode == Minimal, Members: members(v), Sites: map[string]dnsfallback.SiteState{}}
	for _, place := range v.Table.Sites {
		if place.Witness {
			continue
		}
		services := map[string]dnsfallback.ServiceState{}
		for _, service := range v.Table.Services {
			if len(service.Sites) == 0 || slices.Contains(service.Sites, place.Name) {
				services[service.Name] = serviceAt(v, place.Name, service)
			}
		}
		s.Sites[place.Name] = dnsfallback.SiteState{Services: services}
	}
	return s
}

// serviceAt is the state of one service at one site.
func serviceAt(v *decide.View, site string, service decide.Service) dnsfallback.ServiceState {
	s := dnsfallback.ServiceState{Judged: len(service.Prefixes) == 0}
	if i := slices.IndexFunc(v.Verdicts, func(x steadycast.Verdict) bool { return x.Site == site && x.Service == service.Name }); i >= 0 {
		x := v.Verdicts[i]
		h := health(x.State)
		s.V4, s.V6 = h, h
		s.Returning = x.State == steadycast.Recovering
		s.Why = x.State.String()
		if x.Reason != "" {
			s.Why += ": " + x.Reason
		}
	}
	if g := v.GoneOf(site, service.Name); g != nil {
		s.V4, s.V6, s.Why = dnsfallback.Down, dnsfallback.Down, "gone: "+g.String()
	}
	for _, u := range v.Units {
		if u.Unit.Site != site || !slices.Contains(service.Prefixes, u.Unit.Prefix) {
			continue
		}
		why := ""
		switch {
		case u.Phase != steadycast.In:
			why = fmt.Sprintf("the route %v is %v", u.Unit.Prefix, u.Phase)
		case u.Depreferred:
			why = fmt.Sprintf("the route %v is depreferred", u.Unit.Prefix)
		default:
			continue
		}
		if u.Unit.Prefix.Addr().Is4() {
			s.V4 = dnsfallback.Down
		} else {
			s.V6 = dnsfallback.Down
		}
		if s.Why != "" {
			why = s.Why + "; " + why
		}
		s.Why = why
	}
	share(&s, v, site, service.Name)
	for _, o := range v.Orders {
		if o.Order.Site == site && !o.Recovered && slices.ContainsFunc(service.Prefixes, func(p netip.Prefix) bool { return o.Order.Covers(p) }) {
			if to := forced(o.Order.Kind); to != dnsfallback.Unknown {
				s.Forced = dnsfallback.Forced{To: to, Who: o.Order.Actor, Why: o.Order.Reason}
			}
		}
	}
	return s
}

// health is what a verdict means for answers. A service that is recovering is
// not given out yet: it has been bad, and has not been well for long enough.
func health(s steadycast.State) dnsfallback.Health {
	switch s {
	case steadycast.Healthy:
		return dnsfallback.Up
	case steadycast.Suspect:
		return dnsfallback.Suspect
	case steadycast.Unhealthy, steadycast.Recovering:
		return dnsfallback.Down
	}
	return dnsfallback.Unknown
}

// forced is what an order means for answers. Nobody is sent to a site whose
// routes leave; one that is announced whatever its checks say is given out likewise.
func forced(k steadycast.OrderKind) dnsfallback.Health {
	switch k {
	case steadycast.OrderWithdraw, steadycast.OrderDrain:
		return dnsfallback.Down
	case steadycast.OrderAnnounce:
		return dnsfallback.Up
	}
	return dnsfallback.Unknown
}
