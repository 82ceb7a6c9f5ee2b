package demo

import (
	"fmt"
	"time"
)

// Scenarios of services that fail, each for itself or all at once.

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
	flaps     = 4
	flapEvery = time.Second
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
		if err := s.until(leaveWithin, site+" is announced less attractively", func() bool { return s.depreferred(site, began) }); err != nil {
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
