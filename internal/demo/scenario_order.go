package demo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Scenarios of people.

func forceWithdraw(s *stage) error {
	// What may leave before the floor refuses.
	spare := len(s.sites) - s.floor()
	gone := s.sites[len(s.sites)-spare:]
	for _, site := range gone {
		s.tell("a person withdraws %s", site)
		began := time.Now()
		if err := s.order(steadycast.OrderWithdraw, site, "the demo shows an order", false); err != nil {
			return fmt.Errorf("withdraw %s: %w", site, err)
		}
		if err := s.goes(site, began); err != nil {
			return err
		}
	}
	first, second := gone[0], s.sites[len(s.sites)-spare-1]
	s.tell("and %s", second)
	err := s.order(steadycast.OrderWithdraw, second, "one more", false)
	guard, override := refusal(err)
	if guard != "floor" || !strings.Contains(override, "--force") {
		return fmt.Errorf("expected the floor to refuse %s and to name --force; it answered %v", second, cmp.Or(err, errors.New("with a yes")))
	}
	s.tell("the floor refuses: %v. To do it all the same: %s", err, override)
	if err := s.hold(time.Second, second+" stays", func() bool { return s.has(second) && !s.has(first) }); err != nil {
		return err
	}
	s.tell("the person forces it")
	began := time.Now()
	if err := s.order(steadycast.OrderWithdraw, second, "I know what I do", true); err != nil {
		return fmt.Errorf("withdraw %s --force: %w", second, err)
	}
	if err := s.goes(second, began); err != nil {
		return err
	}
	kept := func() bool {
		return slices.ContainsFunc(s.f.ledger().View().Orders, func(o decide.StandingOrder) bool {
			x := o.Order
			return x.Force && x.Site == second && x.Actor == operatorName && x.Reason == "I know what I do"
		})
	}
	if err := s.until(leaveWithin, "the forced order is kept with who and why", kept); err != nil {
		return err
	}
	s.tell("back to automatic")
	for _, site := range append(slices.Clone(gone), second) {
		if err := s.order(steadycast.OrderAnnounce, site, "the demo ends", false); err != nil {
			return fmt.Errorf("announce %s: %w", site, err)
		}
	}
	return s.until(returnWithin, "every site is announced, none depreferred", s.allWell)
}
