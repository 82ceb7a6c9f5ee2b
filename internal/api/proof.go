package api

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/steadycast/steadycast"
)

// Prove compares what is wanted of one prefix with what the speaker read back.
// It is proven when every peer that can hold routes has acknowledged it; what
// is missing is said in words. A peer that is stuck still holds what it was
// sent, so it must acknowledge too; one whose session is gone holds nothing.
func Prove(set steadycast.RouteSet, p netip.Prefix, a *steadycast.Actual) (bool, string) {
	if a.Incarnation != set.Incarnation || a.Version < set.Version {
		return false, fmt.Sprintf("the speaker has set %d.%d, not yet %d.%d", a.Incarnation, a.Version, set.Incarnation, set.Version)
	}
	_, wanted := set.Find(p)
	up := 0
	var missing []string
	for _, peer := range a.Peers {
		switch {
		case peer.Up():
			up++
			if m := unacknowledged(a, peer.Name, p, wanted); m != "" {
				missing = append(missing, peer.Name+" "+m)
			}
		case peer.State == "stuck":
			if m := unacknowledged(a, peer.Name, p, wanted); m != "" {
				missing = append(missing, peer.Name+" is stuck and "+m)
			}
		}
	}
	if wanted && up == 0 {
		missing = append(missing, "no BGP session is up")
	}
	return len(missing) == 0, strings.Join(missing, ", ")
}

func unacknowledged(a *steadycast.Actual, peer string, p netip.Prefix, wanted bool) string {
	for _, s := range a.Sent {
		if s.Peer != peer || s.Prefix != p {
			continue
		}
		switch {
		case s.Announced != wanted && wanted:
			return "was not sent the route"
		case s.Announced != wanted:
			return "was not sent the withdrawal"
		case s.Acked.IsZero() && wanted:
			return "has not acknowledged the route"
		case s.Acked.IsZero():
			return "has not acknowledged the withdrawal"
		}
		return ""
	}
	if wanted {
		return "was not sent the route"
	}
	return ""
}
