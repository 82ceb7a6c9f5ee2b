package dnsfallback

import (
	"fmt"
	"math/bits"
	"time"
)

// TTL is how long an answer of a steered name is kept; or [Auto].
type TTL time.Duration

// Auto keeps an answer no longer than the state that it rests on can last once
// something begins to fail, or to come back: see [Pace]. The zone's TTL is the most
// and a second the least.
const Auto TTL = -1

// String writes it as the settings do.
func (t TTL) String() string {
	if t == Auto {
		return "auto"
	}
	return time.Duration(t).String()
}

// Pace is how soon what is believed of a service at a site can change.
type Pace struct {
	// Leaves is from the first failing round until a service that is well is down,
	// at the soonest: by a failure that is certain.
	Leaves time.Duration
	// Returns is the least time from down until it is given out again.
	Returns time.Duration
}

// change is when a choice may be another at the soonest, and by what. One of no
// service never comes.
type change struct {
	in            time.Duration
	site, service string
	out, unknown  bool
}

// or is the sooner of two.
func (c change) or(o change) change {
	if c.service == "" || o.service != "" && o.in < c.in {
		return o
	}
	return c
}

func (c change) String() string {
	switch {
	case c.unknown:
		return fmt.Sprintf("how soon %s at %s can change is not known here", c.service, c.site)
	case c.out:
		return fmt.Sprintf("%s at %s can be back %v after its first good round", c.service, c.site, c.in)
	}
	return fmt.Sprintf("%s at %s can be down %v after its first bad round", c.service, c.site, c.in)
}

// soonest is when a service at a site may stand otherwise than it does. What is
// not known may change at any moment.
func (p *Policy) soonest(site, service string, out bool) change {
	if site == "" || service == "" {
		return change{} // nothing of it is looked at
	}
	pace, ok := p.pace[service]
	in := pace.Leaves
	if out {
		in = pace.Returns
	}
	return change{in, site, service, out, !ok}
}

// soonestOf is when what a term looks at may change.
func (p *Policy) soonestOf(t *term, s *FleetState, others []holding) (c change) {
	for _, k := range t.of {
		c = c.or(p.soonestOf(k, s, others))
	}
	service := t.what
	switch t.op {
	case termCondition:
		return others[t.other].change
	case termDimension:
		if t.dimension == maintenance {
			return change{} // a person's word
		}
		service = p.dimensions[t.dimension]
	case termService:
	default:
		return c
	}
	x := s.Sites[t.site].Services[service]
	if s.saidOf(t.site, x) != Unknown {
		return change{}
	}
	return p.soonest(t.site, service, x.V4 == Down && x.V6 == Down)
}

// life is the TTL of a name now, and why if it is not the steady one. It lowers
// until to when that changes by itself.
func (t *steered) life(now time.Time, r *[2]ready, until *time.Time) (uint32, string) {
	next := func(at time.Time) {
		if at.After(now) && (until.IsZero() || at.Before(*until)) {
			*until = at
		}
	}
	ttl, auto := t.ttl, ""
	if t.auto {
		ttl, auto = t.derive(r)
	}
	why, start := "", time.Time{}
	for _, w := range t.windows {
		lead := max(w.lead(), time.Duration(t.ttl)*time.Second) // what was given before has left the caches
		begin := w.From.Add(-lead)
		next(begin)
		next(w.To)
		if !now.Before(begin) && now.Before(w.To) {
			why = fmt.Sprintf("in the window from %s, with %v before it", w.From.Format(time.RFC3339), lead)
			if now.Before(w.From) && (start.IsZero() || w.From.Before(start)) {
				start = w.From
			}
		}
	}
	if why == "" && (r[0].soon || r[1].soon) {
		why = "a member is suspect or returning"
	}
	if why == "" && (r[0].failed && t.pool.has[0] || r[1].failed && t.pool.has[1]) {
		why = "too few members are up"
	}
	switch {
	case why == "":
		return ttl, auto
	case auto != "" && ttl <= t.sensitive:
		why = auto
	default:
		ttl = min(ttl, t.sensitive)
	}
	if t.auto && !start.IsZero() {
		var at time.Time
		if ttl, at = beforehand(ttl, now, start); !at.IsZero() {
			next(at)
		}
	}
	return ttl, why
}

// derive is the TTL of a name by what its choice rests on, and why if that is
// less than the zone's.
func (t *steered) derive(r *[2]ready) (uint32, string) {
	var c change
	for f := range r {
		if t.pool.has[f] || t.pool.alias {
			c = c.or(r[f].change)
		}
	}
	if c.service == "" || c.in >= time.Duration(t.ttl)*time.Second {
		return t.ttl, ""
	}
	return max(1, uint32(c.in/time.Second)), "auto: " + c.String()
}

// beforehand shortens a TTL so that what is given now has left the caches when a
// window starts, and says until when that is so. It halves as the start comes
// near, so that the table is made a few times and not every second.
func beforehand(ttl uint32, now, start time.Time) (uint32, time.Time) {
	left := start.Sub(now)
	if left > time.Duration(ttl)*time.Second {
		return ttl, start.Add(-time.Duration(ttl) * time.Second)
	}
	whole := uint32((left - 1) / time.Second) // whole seconds that are less than what is left
	if whole == 0 {
		return min(ttl, 1), start
	}
	ttl = min(ttl, 1<<(bits.Len32(whole)-1))
	return ttl, start.Add(-time.Duration(ttl) * time.Second)
}

func (w Window) lead() time.Duration {
	if w.Lead == 0 {
		return 30 * time.Minute
	}
	return w.Lead
}
