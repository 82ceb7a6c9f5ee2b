package dnsfallback

import "time"

// FleetState is what the fleet holds of its sites at one moment, as far as
// answers need it. It is not changed once it was given to [Policy.Table].
type FleetState struct {
	// At is the time by the wall clock, for windows.
	At time.Time
	// Minimal: answer the plain anycast addresses of names that have some, whatever the rest says.
	Minimal bool
	// Sites by name. One that is absent is unknown, which is not down.
	Sites map[string]SiteState
	// Members that a person switched by themselves, by choice/member, as www.example.com/fra: the
	// exceptions from what holds for their site. condition/drill switches a condition.
	Members map[string]Forced
}

// SiteState is one site's.
type SiteState struct {
	// Forced is the switch for all that is at the site.
	Forced   Forced
	Services map[string]ServiceState
}

// ServiceState is that of one service at one site.
type ServiceState struct {
	// V4 and V6 are the health of each family.
	V4, V6 Health
	// Why, in words.
	Why string
	// Forced is the switch for the service at this site.
	Forced Forced
	// Returning: it is down, and well again for a while already.
	Returning bool
	// Ramp is the percentage of its share that the site takes while it returns; 0 is all of it.
	Ramp uint8
	// Shed is the percentage of its clients that it is to lose, as it has too many.
	Shed uint8
	// Judged: it announces nothing, and only tells something of its site; so what a
	// person does with the site is not about it.
	Judged bool
}

// Forced is what a person said, beside what is real.
type Forced struct {
	To       Health // Unknown: nothing was said
	Who, Why string
}

// Health is what is believed of a member.
type Health uint8

// Unknown is not down: a member of which nothing is known is given out.
const (
	Unknown Health = iota
	Up
	Suspect
	Down
)

func (h Health) String() string { return [...]string{"unknown", "up", "suspect", "down"}[h] }

// standing is how a member stands for one family.
type standing struct {
	out    bool // not to be given
	forced bool
	// soon: this may change before long, so caches should not keep it.
	soon bool
	// share is the percentage of the clients who would come that may.
	share uint8
	why   string
}

// stand looks a member's site and service up. What was said of less goes before
// what was said of more: the member, the service at the site, the site.
func (s *FleetState) stand(key string, m *member, six bool) standing {
	site := s.Sites[m.site]
	service := site.Services[m.service]
	for _, f := range []struct {
		Forced
		of string
	}{{s.Members[key], "the member"}, {service.Forced, m.service + " at " + m.site}, {site.Forced, "the site " + m.site}} {
		if f.To != Unknown {
			why := f.of + " is forced " + f.To.String()
			if f.Who != "" {
				why += " by " + f.Who
			}
			if f.Why != "" {
				why += ": " + f.Why
			}
			return standing{out: f.To == Down, forced: true, share: 100, why: why}
		}
	}
	h := service.V4
	if six {
		h = service.V6
	}
	st := standing{out: h == Down, soon: h == Suspect || h == Down && service.Returning, share: 100, why: h.String()}
	if service.Why != "" {
		st.why += ": " + service.Why
	}
	if service.Ramp > 0 && service.Ramp < 100 {
		st.soon, st.share = true, service.Ramp
		st.why += ", returning"
	}
	if service.Shed > 0 {
		st.share = uint8(max(1, int(st.share)*(100-min(int(service.Shed), 99))/100))
		st.why += ", shedding load"
	}
	return st
}
