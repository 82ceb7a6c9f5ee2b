package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/steadycast/steadycast"
)

// Scenarios of a network that fails between the sites, or of the ledger. Each
// ends with proof that it was the fault that kept things still, and not that
// nothing works.

// unheard is longer than the ledger counts what a site said of itself (5 s).
const unheard = 6 * time.Second

func partitionMinority(s *stage) error {
	near, away, began := s.sites[0], s.sites[len(s.sites)-1], time.Now()
	s.tell("%s is cut off from the others, with its voter if it has one", away)
	s.cut(away)
	if err := s.hold(unheard, "no site leaves", s.all); err != nil {
		return err
	}
	s.tell("%s keeps announcing; now %s's service dies as well", away, near)
	died := time.Now()
	if err := s.fault(near, "kill"); err != nil {
		return err
	}
	may := 0
	if heard := len(s.sites) - 1; heard-1 >= s.floor() {
		may = 1
		if err := s.goes(near, died); err != nil {
			return err
		}
		s.tell("the others are enough to decide; %s stays as it was", away)
	} else {
		if err := s.until(leaveWithin, near+" is announced less attractively", func() bool { return s.depreferred(near, died) }); err != nil {
			return err
		}
		s.measure(near, died)
		s.tell("%s stays, less attractive: nobody can say that %s still announces, so the floor refuses", near, away)
	}
	if err := s.hold(time.Second, away+" stays", func() bool { return s.has(away) && len(s.router.announcing()) == len(s.sites)-may }); err != nil {
		return err
	}
	if err := s.returns(near); err != nil {
		return err
	}
	s.mend()
	if n := s.withdrawals("", began); n != may {
		return fmt.Errorf("expected %d withdrawals, the router heard %d", may, n)
	}
	return nil
}

func partitionMajority(s *stage) error {
	site, began := s.sites[0], time.Now()
	s.tell("no voter hears another any more")
	seats := s.f.voters.addresses()
	s.f.cut(seats, seats, "the voters are cut off from each other")
	if err := s.until(leaveWithin, "no voter leads", func() bool { _, leads := s.f.voters.leader(); return !leads }); err != nil {
		return err
	}
	s.tell("nobody leads the ledger; %s's service dies", site)
	died := time.Now()
	if err := s.fault(site, "kill"); err != nil {
		return err
	}
	judged := func() bool { _, ok := s.judged(site, "unhealthy", died); return ok }
	if err := s.until(leaveWithin, site+" is judged unhealthy", judged); err != nil {
		return err
	}
	if err := s.hold(5*time.Second, "no site leaves", s.all); err != nil {
		return err
	}
	s.tell("%s is judged unhealthy and stays: there is nobody who could permit it to leave", site)
	if n := s.withdrawals("", began); n != 0 {
		return fmt.Errorf("expected no withdrawal without a majority of voters, the router heard %d", n)
	}
	open := time.Now()
	s.mend()
	if err := s.goes(site, open); err != nil {
		return err
	}
	if at, ok := s.judged(site, "unhealthy", died); ok {
		s.detect = at.Sub(died)
	}
	return s.returns(site)
}

func lyingVantage(s *stage) error {
	site, liar, began := s.sites[0], s.sites[len(s.sites)-1], time.Now()
	s.tell("%s tells everybody that the others are down, and signs it", liar)
	s.lie(liar, true)
	for _, about := range s.sites[:len(s.sites)-1] {
		heard := func() bool { return s.f.site(about).host().tap.newest()[liar] == steadycast.Down }
		if err := s.until(leaveWithin, about+" hears that "+liar+" sees it down", heard); err != nil {
			return err
		}
	}
	if err := s.hold(5*time.Second, "no site leaves", s.allWell); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 0 {
		return fmt.Errorf("expected that one voice moves nothing, the router heard %d withdrawals", n)
	}
	s.tell("it is heard, and nothing moves: one voice of three is no quorum. Now %s's service really dies, and %s says it is well", site, liar)
	if err := s.leaves(site, "kill"); err != nil {
		return err
	}
	s.tell("%s's own check and one other are enough", site)
	s.lie(liar, false)
	return s.returns(site)
}

func blackout(s *stage) error {
	site, began := s.sites[0], time.Now()
	s.tell("every probe of another site, and of the world, is lost; the sites still hear each other")
	for _, x := range s.f.sites {
		s.f.net.cut(x.hosts(), append(s.f.hosts(x), s.f.world.addresses()...))
	}
	s.f.report.line(time.Now(), Line{Kind: "network", Reason: "remote probes are lost"})
	for _, about := range s.sites {
		held := func() bool { _, ok := s.judged(about, "held", began); return ok }
		if err := s.until(leaveWithin, about+" is held", held); err != nil {
			return err
		}
	}
	s.tell("nobody knows anything of anybody: all are held")
	if err := s.hold(5*time.Second, "no site leaves", s.allWell); err != nil {
		return err
	}
	if n := len(s.router.since(began)); n != 0 {
		return fmt.Errorf("expected that nothing is announced anew, the router heard %d updates", n)
	}
	s.mend()
	for _, about := range s.sites {
		if err := s.until(leaveWithin, about+" is judged again", func() bool { return !s.held(about) }); err != nil {
			return err
		}
	}
	s.tell("all is seen again; what dies now, leaves")
	if err := s.leaves(site, "kill"); err != nil {
		return err
	}
	return s.returns(site)
}

func leaderLoss(s *stage) error {
	site, err := s.loseLeader()
	if err != nil {
		return err
	}
	return s.returns(site)
}

// loseLeader stops the voter that leads, in the moment in which a service dies at
// another site, waits until that has left all the same, and lets the voter go on.
func (s *stage) loseLeader() (site string, err error) {
	lead, ok := s.f.voters.leader()
	if !ok {
		return "", errors.New("expected a voter that leads")
	}
	site = s.sites[0]
	if site == lead.site {
		site = s.sites[1]
	}
	s.tell("the voter of %s, which leads, stops in the moment in which %s's service dies", lead.site, site)
	began := time.Now()
	s.f.stopVoter(lead)
	if err := s.fault(site, "kill"); err != nil {
		return "", err
	}
	if err := s.goes(site, began); err != nil {
		return "", err
	}
	next, ok := s.f.voters.leader()
	if !ok || next.node == lead.node {
		return "", fmt.Errorf("expected another voter to lead than that of %s", lead.site)
	}
	s.tell("%s's voter leads, and gave the permit %d ms after the loss of the one before", next.site, s.permit.Milliseconds())
	s.mend()
	return site, nil
}
