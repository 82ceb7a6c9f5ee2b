package answers

import (
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

var v4, v6 = netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/48")

// view has one service at fra and ams, and a witness; all is well.
func view(change func(*decide.View)) *decide.View {
	v := &decide.View{Table: decide.Table{
		Sites:    []decide.Place{{Name: "fra"}, {Name: "ams"}, {Name: "home", Witness: true}},
		Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{v4, v6}}, {Name: "mail", Prefixes: []netip.Prefix{v4}, Sites: []string{"ams"}}},
	}}
	for _, site := range []string{"fra", "ams"} {
		v.Verdicts = append(v.Verdicts, steadycast.Verdict{Site: site, Service: "web", State: steadycast.Healthy})
		for _, p := range []netip.Prefix{v4, v6} {
			v.Units = append(v.Units, decide.UnitView{Unit: steadycast.Unit{Site: site, Prefix: p}, Phase: steadycast.In})
		}
	}
	change(v)
	return v
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*decide.View)
		want   dnsfallback.ServiceState // of web at fra
	}{
		{"well", func(*decide.View) {}, dnsfallback.ServiceState{V4: dnsfallback.Up, V6: dnsfallback.Up, Why: "healthy"}},
		{"suspect", func(v *decide.View) { v.Verdicts[0].State = steadycast.Suspect }, dnsfallback.ServiceState{V4: dnsfallback.Suspect, V6: dnsfallback.Suspect, Why: "suspect"}},
		{"bad", func(v *decide.View) { v.Verdicts[0].State, v.Verdicts[0].Reason = steadycast.Unhealthy, "refused" }, dnsfallback.ServiceState{V4: dnsfallback.Down, V6: dnsfallback.Down, Why: "unhealthy: refused"}},
		{"not yet well again", func(v *decide.View) { v.Verdicts[0].State = steadycast.Recovering }, dnsfallback.ServiceState{V4: dnsfallback.Down, V6: dnsfallback.Down, Returning: true, Why: "recovering"}},
		{"unknown is not down", func(v *decide.View) { v.Verdicts = nil }, dnsfallback.ServiceState{}},
		{"a route of one family is out", func(v *decide.View) { v.Units[1].Phase = steadycast.Out }, dnsfallback.ServiceState{V4: dnsfallback.Up, V6: dnsfallback.Down, Why: "healthy; the route 2001:db8::/48 is out"}},
		{"a route returns", func(v *decide.View) { v.Units[0].Phase = steadycast.Returning }, dnsfallback.ServiceState{V4: dnsfallback.Down, V6: dnsfallback.Up, Why: "healthy; the route 192.0.2.0/24 is returning"}},
		{"only depreferred", func(v *decide.View) { v.Units[0].Depreferred = true }, dnsfallback.ServiceState{V4: dnsfallback.Down, V6: dnsfallback.Up, Why: "healthy; the route 192.0.2.0/24 is depreferred"}},
		{"drained", func(v *decide.View) {
			v.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Actor: "ann", Reason: "works"}}}
		}, dnsfallback.ServiceState{V4: dnsfallback.Up, V6: dnsfallback.Up, Why: "healthy", Forced: dnsfallback.Forced{To: dnsfallback.Down, Who: "ann", Why: "works"}}},
		{"announced whatever the checks say", func(v *decide.View) {
			v.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderAnnounce, Site: "fra", Actor: "ann", Reason: "sure"}}}
			v.Verdicts[0].State = steadycast.Unhealthy
		}, dnsfallback.ServiceState{V4: dnsfallback.Down, V6: dnsfallback.Down, Why: "unhealthy", Forced: dnsfallback.Forced{To: dnsfallback.Up, Who: "ann", Why: "sure"}}},
		{"an order at another site", func(v *decide.View) {
			v.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "ams"}}}
		}, dnsfallback.ServiceState{V4: dnsfallback.Up, V6: dnsfallback.Up, Why: "healthy"}},
		{"an order for another prefix", func(v *decide.View) {
			v.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Prefixes: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}}}
		}, dnsfallback.ServiceState{V4: dnsfallback.Up, V6: dnsfallback.Up, Why: "healthy"}},
	} {
		now := time.Unix(1_800_000_000, 0)
		s := State(view(c.change), now)
		if got := s.Sites["fra"].Services["web"]; got != c.want {
			t.Errorf("%s: got %+v; want %+v", c.name, got, c.want)
		}
		if _, ok := s.Sites["home"]; ok || !s.At.Equal(now) {
			t.Errorf("%s: a witness has clients, or the time is lost", c.name)
		}
		if _, ok := s.Sites["fra"].Services["mail"]; ok {
			t.Errorf("%s: fra has a service that it does not serve", c.name)
		}
	}
}
