package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// A drain asks its clients to go before it takes the route from under them:
//
//	names ──▶ residual ──▶ GSHUT ──▶ withdrawn ──▶ proven
//
// With the entry of the order no name leads to the site any more, and its units
// count as out. The site keeps the route as it is until the TTL of the names is
// over (names), and while it measures that clients still come (residual); then it
// marks it with GSHUT (RFC 8326 §4.1) for drain_wait, withdraws, and every router
// acknowledges. Where no name leads to a service, it begins with GSHUT.
//
// The ledger keeps since when the order stands, so an agent that starts anew in the
// middle goes on where it was, at most the time between two entries later.

// Drain says how long a drain waits for clients who come although no name leads here.
type Drain struct {
	// Residual is the load under which a site counts as left, in the unit of its
	// capacity; default 0, nobody at all. A site that does not measure its load
	// waits for the TTL alone.
	Residual int64 `yaml:"residual" json:"residual,omitempty"`
	// Patience is how long it waits for that, after the TTL; default 5m. Who still
	// comes then is cut off, and it says so.
	Patience time.Duration `yaml:"patience" json:"patience_ns"`
}

func (d *Drain) withDefaults() *Drain {
	if d == nil {
		return nil
	}
	full := *d
	setDefault(&full.Patience, 5*time.Minute)
	return &full
}

func (c *critic) drain() {
	d := c.d.Drain
	if d == nil {
		return
	}
	if d.Residual < 0 {
		c.say("drain.residual", "%d is negative; 0 waits until nobody comes", d.Residual)
	}
	c.span("drain.patience", d.Patience, 24*time.Hour)
}

// drainState is one unit that waits for its names.
type drainState struct {
	Unit  steadycast.Unit  `json:"unit"`
	Fence steadycast.Fence `json:"fence"`
	// Until is when the TTL of the newest answer that led here is over.
	Until Time `json:"until"`
}

// ttl is how long clients may keep an answer that leads to the unit.
func (s *state) ttl(u steadycast.Unit) (most time.Duration) {
	for _, i := range s.services(u) {
		most = max(most, s.Table.Services[i].TTL)
	}
	return most
}

func (s *state) drainAt(u steadycast.Unit) (int, bool) {
	return slices.BinarySearchFunc(s.Moves.Drains, u, func(x drainState, w steadycast.Unit) int { return x.Unit.Compare(w) })
}

// beginDrain notes since when no name leads to a unit that was announced.
func (a *applying) beginDrain(u *unitState, was steadycast.Phase) {
	i, ok := a.drainAt(u.Unit)
	if ttl := a.ttl(u.Unit); was != steadycast.Out && !ok && ttl > 0 {
		a.Moves.Drains = slices.Insert(slices.Clone(a.Moves.Drains), i, drainState{Unit: u.Unit, Fence: a.Fence, Until: a.LT + lt(ttl)})
	}
}

// endDrains forgets those whose unit is no longer out.
func (a *applying) endDrains() {
	if len(a.Moves.Drains) > 0 {
		a.Moves.Drains = keep(a.Moves.Drains, func(d drainState) bool {
			u := a.unit(d.Unit.Site, d.Unit.Prefix)
			return u != nil && u.Phase == steadycast.Out && d.Until+lt(drainKept) > a.LT
		})
	}
}

// drainKept is how long a drain is remembered after its names: whoever starts anew
// later than that has withdrawn already.
const drainKept = 48 * time.Hour

// namesLeft is how long caches may still lead clients to a draining unit.
func (s *state) namesLeft(u steadycast.Unit) Time {
	if i, ok := s.drainAt(u); ok {
		return max(s.Moves.Drains[i].Until-s.LT, 0)
	}
	return 0
}

// soundDrains checks of a snapshot what this code relies on.
func (s *state) soundDrains() error {
	for i, d := range s.Moves.Drains {
		if u := s.unit(d.Unit.Site, d.Unit.Prefix); u == nil || u.Phase != steadycast.Out || i > 0 && s.Moves.Drains[i-1].Unit.Compare(d.Unit) >= 0 {
			return fmt.Errorf("the drain of %s cannot be", d.Unit)
		}
	}
	return nil
}
