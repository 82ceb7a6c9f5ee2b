package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/ledger"
)

// invariant is what must be so after any scenario, whatever happened in it.
type invariant struct {
	name string
	// settles: it may come true a moment later, since what was done is recorded
	// afterwards.
	settles bool
	broken  func(*stage) error
}

// settleWithin bounds how long the record may take; it only ends a run that has failed.
const settleWithin = time.Minute

var invariants = []invariant{
	{"all voters hold one state", true, votersAgree},
	{"router and ledger agree", true, routerAgrees},
	{"no withdrawal without a permit or an order", false, allPermitted},
	{"automation keeps the floor", false, floorKept},
}

// check looks at all invariants, and returns those that hold and why one does not.
func (s *stage) check() (held []string, err error) {
	for _, x := range invariants {
		why := x.broken(s)
		if why != nil && x.settles {
			waited := s.until(settleWithin, x.name, func() bool { why = x.broken(s); return why == nil })
			if waited != nil && why == nil {
				why = waited
			}
		}
		if why != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", x.name, why))
			continue
		}
		held = append(held, x.name)
	}
	return held, err
}

// votersAgree: same position, same state, and whoever reads it from them, too.
func votersAgree(s *stage) error {
	at, err := s.f.voters.agree()
	if err != nil {
		return err
	}
	for _, n := range s.f.nodes() {
		if c, ok := n.ledger.(*ledger.Client); ok && c.View().Fence != at {
			return fmt.Errorf("%s reads position %s, the voters are at %s", n.id, c.View().Fence, at)
		}
	}
	return nil
}

// routerAgrees: the router has exactly the routes that the ledger counts as in.
func routerAgrees(s *stage) error {
	var in []string
	for _, u := range s.f.ledger().View().Units {
		if u.Phase == steadycast.In && !u.Lost {
			in = append(in, u.Unit.Site)
		}
	}
	slices.Sort(in)
	if has := s.router.announcing(); !slices.Equal(in, has) {
		return fmt.Errorf("in by the ledger are %v, the router has %v", in, has)
	}
	return nil
}

// allPermitted: before the last route of a site was withdrawn at the router, the
// ledger had recorded a permit for it, a person's order, or a table that leaves the
// site out; each is good for one. While a node of the site still announces, another
// needs no leave of the ledger; and a session that ended was nobody's decision.
func allPermitted(s *stage) error {
	leaves := map[string][]time.Time{}
	for _, e := range s.f.record.all() {
		permit := e.Kind == steadycast.EventPermit && e.To == steadycast.Withdraw.String()
		order := e.Kind == steadycast.EventOrder && (e.To == steadycast.OrderWithdraw.String() || e.To == steadycast.OrderDrain.String())
		if permit || order {
			leaves[e.Site] = append(leaves[e.Site], e.At)
		}
		if e.Kind == steadycast.EventConfig && s.forgets != "" && strings.HasPrefix(e.To, "on trial") {
			leaves[s.forgets] = append(leaves[s.forgets], e.At)
		}
	}
	for _, u := range s.router.since(time.Time{}) {
		if !u.Last || u.Lost {
			continue
		}
		mine := leaves[u.Site]
		if len(mine) == 0 || mine[0].After(u.At) {
			return fmt.Errorf("%s left at %s without one", u.Site, u.At.Format(time.TimeOnly))
		}
		leaves[u.Site] = mine[1:]
	}
	return nil
}

// floorKept: never fewer announced than the floor, but for a person who forced it.
func floorKept(s *stage) error {
	floor := s.floor()
	if fewest := s.router.fewest(); fewest < floor && !s.f.o.Scenario.forces {
		return fmt.Errorf("%d announced at one moment, the floor is %d", fewest, floor)
	}
	return nil
}
