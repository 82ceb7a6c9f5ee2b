package config

import (
	"cmp"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
)

// ttl is how long clients keep an answer that leads them to one site of a service:
// the greatest TTL of the names that may give it, 0 where none does. A name goes
// on in pools, so one pool of the service counts for every name. One that is auto is
// kept no longer than its zone's.
func (f Fleet) ttl(service string) (most time.Duration) {
	any := false
	for _, p := range f.Pools {
		any = any || gives(p.Choice, service)
	}
	for _, z := range f.Zones {
		for _, n := range z.Names {
			if any || gives(n.Choice, service) {
				ttl := time.Duration(n.TTL)
				if n.TTL == dnsfallback.Auto {
					ttl = 0
				}
				most = max(most, cmp.Or(ttl, z.TTL, 5*time.Minute))
			}
		}
	}
	return most
}

// gives reports whether a choice looks at the service.
func gives(c dnsfallback.Choice, service string) bool {
	if c.Service == service {
		return true
	}
	for _, m := range c.Members {
		if m.Service == service {
			return true
		}
	}
	return false
}
