package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scenario is a fault, what should follow at the router, and what should not.
type Scenario struct {
	Name  string
	About string
	run   func(*stage) error
}

// Scenarios in the order in which they are best watched.
var Scenarios = []Scenario{
	{"crash", "a service dies: its site leaves, and comes back after the service does", crash},
	{"flap", "a service dies again and again: one withdrawal, one return, not one for each death", flap},
	{"slow", "a service answers too late: its site leaves on soft evidence", slow},
	{"all-fail", "every service dies in one moment: a shared cause, so nothing leaves", allFail},
	{"one-by-one", "services die one after another: the first site leaves, the floor keeps the rest, less attractive", oneByOne},
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("no scenario %q; there are: %s", name, strings.Join(names, ", "))
}

// stage is what a scenario may do and see. What it sees is the router's table.
type stage struct {
	ctx    context.Context
	sites  []string
	router *watch
	tell   func(string, ...any)                                        // one line of the story
	fault  func(site, what string) error                               // break or mend a service
	judged func(site, state string, after time.Time) (time.Time, bool) // when a verdict was reached

	// What the summary says; zero until measured.
	detect, withdraw time.Duration
}

// Bounds of what is waited for. They are long: they only end a run that has failed.
const (
	leaveWithin  = 10 * time.Second
	returnWithin = 30 * time.Second
)

// until waits for a condition of the router's table.
func (s *stage) until(within time.Duration, what string, cond func() bool) error {
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		next := s.router.next()
		if cond() {
			return nil
		}
		select {
		case <-next:
		case <-end.C:
			return fmt.Errorf("expected within %v: %s; the router has %v", within, what, s.router.announcing())
		case <-s.ctx.Done():
			return fmt.Errorf("ended before: %s", what)
		}
	}
}

// hold lets time pass while a condition must stay true.
func (s *stage) hold(d time.Duration, what string, cond func() bool) error {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		next := s.router.next()
		if !cond() {
			return fmt.Errorf("expected for %v: %s; the router has %v", d, what, s.router.announcing())
		}
		select {
		case <-next:
		case <-end.C:
			return nil
		case <-s.ctx.Done():
			return fmt.Errorf("ended while: %s", what)
		}
	}
}

func (s *stage) has(site string) bool { return slices.Contains(s.router.announcing(), site) }

func (s *stage) all() bool { return len(s.router.announcing()) == len(s.sites) }

// allWell: every site is announced, and none less attractively.
func (s *stage) allWell() bool { return s.router.well() == len(s.sites) }

// withdrawals of a site that the router heard since t; all sites if it is empty.
func (s *stage) withdrawals(site string, t time.Time) (n int) {
	for _, u := range s.router.since(t) {
		if !u.Announce && (site == "" || u.Site == site) {
			n++
		}
	}
	return n
}

// leaves breaks a site's service and waits until the router has lost its route.
func (s *stage) leaves(site, how string) error {
	s.tell("%s %s's service", how, site)
	began := time.Now()
	if err := s.fault(site, how); err != nil {
		return err
	}
	if err := s.until(leaveWithin, site+" leaves", func() bool { return !s.has(site) }); err != nil {
		return err
	}
	for _, u := range s.router.since(began) {
		if u.Site == site && !u.Announce {
			s.withdraw = u.At.Sub(began)
		}
	}
	if at, ok := s.judged(site, "unhealthy", began); ok {
		s.detect = at.Sub(began)
	}
	s.tell("%s is gone at the router after %d ms; %s serve", site, s.withdraw.Milliseconds(), strings.Join(s.router.announcing(), ", "))
	return nil
}

// returns mends a site's service and waits until the router prefers it again.
func (s *stage) returns(sites ...string) error {
	s.tell("heal %s", strings.Join(sites, ", "))
	for _, site := range sites {
		if err := s.fault(site, "heal"); err != nil {
			return err
		}
	}
	if err := s.until(returnWithin, "every site is announced, none depreferred", s.allWell); err != nil {
		return err
	}
	s.tell("all %d sites serve again", len(s.sites))
	return nil
}

func crash(s *stage) error {
	began := time.Now()
	if err := s.leaves(s.sites[0], "kill"); err != nil {
		return err
	}
	if err := s.hold(time.Second, "the others stay", func() bool { return len(s.router.announcing()) == len(s.sites)-1 }); err != nil {
		return err
	}
	if err := s.returns(s.sites[0]); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 1 {
		return fmt.Errorf("expected one withdrawal, the router heard %d", n)
	}
	return nil
}

func slow(s *stage) error {
	began := time.Now()
	if err := s.leaves(s.sites[0], "slow"); err != nil {
		return err
	}
	if err := s.returns(s.sites[0]); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 1 {
		return fmt.Errorf("expected one withdrawal, the router heard %d", n)
	}
	return nil
}

// flaps of the flap scenario, each a death and a life of flapEvery.
const (
	flaps     = 8
	flapEvery = 1500 * time.Millisecond
)

func flap(s *stage) error {
	site, began := s.sites[0], time.Now()
	if err := s.leaves(site, "kill"); err != nil {
		return err
	}
	for i := range flaps {
		s.tell("%s's service comes and goes, %d of %d", site, i+1, flaps)
		for _, what := range []string{"heal", "kill"} {
			if err := s.fault(site, what); err != nil {
				return err
			}
			if err := s.hold(flapEvery, site+" stays out", func() bool { return !s.has(site) }); err != nil {
				return err
			}
		}
	}
	if err := s.returns(site); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 1 {
		return fmt.Errorf("expected one withdrawal for %d deaths, the router heard %d", flaps+1, n)
	}
	return nil
}

func allFail(s *stage) error {
	began := time.Now()
	s.tell("kill every service in one moment")
	for _, site := range s.sites {
		if err := s.fault(site, "kill"); err != nil {
			return err
		}
	}
	if err := s.hold(8*time.Second, "no site leaves", s.all); err != nil {
		return err
	}
	for _, site := range s.sites {
		at, ok := s.judged(site, "unhealthy", began)
		if !ok {
			return fmt.Errorf("expected %s to be judged unhealthy: that nothing left would prove nothing", site)
		}
		s.detect = max(s.detect, at.Sub(began))
	}
	s.tell("all %d are judged unhealthy, and all are still announced", len(s.sites))
	if err := s.returns(s.sites...); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 0 {
		return fmt.Errorf("expected no withdrawal, the router heard %d", n)
	}
	return nil
}

func oneByOne(s *stage) error {
	began := time.Now()
	if err := s.leaves(s.sites[0], "kill"); err != nil {
		return err
	}
	out := 1
	for _, site := range s.sites[1:] {
		// Far enough apart that the breaker sees single failures, not a shared cause.
		if err := s.hold(apart, "nothing else moves", func() bool { return len(s.router.announcing()) == len(s.sites)-out }); err != nil {
			return err
		}
		s.tell("kill %s's service", site)
		if err := s.fault(site, "kill"); err != nil {
			return err
		}
		// The last sites cannot be preferred to each other: less attractive than nothing is still all there is.
		depreferred := func() bool {
			for _, u := range s.router.since(began) {
				if u.Site == site && u.Depreferred() {
					return true
				}
			}
			return false
		}
		if err := s.until(leaveWithin, site+" is announced less attractively", depreferred); err != nil {
			return err
		}
		s.tell("%s stays announced, less attractive: a guard refused the withdrawal", site)
	}
	if err := s.hold(2*time.Second, "the last sites stay", func() bool { return len(s.router.announcing()) == len(s.sites)-out }); err != nil {
		return err
	}
	if err := s.returns(s.sites...); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != out {
		return fmt.Errorf("expected %d withdrawal, the router heard %d", out, n)
	}
	return nil
}
