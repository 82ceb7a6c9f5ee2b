package answers

import (
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// share lays over a service's state how much of its clients the site takes. One
// that takes none is given out only where nobody else is left.
func share(s *dnsfallback.ServiceState, v *decide.View, site, service string) {
	x, ok := v.ShareOf(site, service)
	if !ok {
		return
	}
	why := "takes " + decide.Percent(x.Permille) + " of its clients"
	if x.Reason != "" {
		why += ": " + x.Reason
	}
	if x.Permille == 0 {
		s.V4, s.V6 = dnsfallback.Down, dnsfallback.Down
	} else {
		s.Ramp = uint8((x.Permille + 9) / 10) // rounded up, so that no share becomes none
	}
	if s.Why != "" {
		why = s.Why + "; " + why
	}
	s.Why = why
}
