package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Scenarios of one node of a site of several, and of a site that is gone whole.

// sworn is how long a node that has just started may be bound by what it promised
// its siblings before, and leaves not alone.
const sworn = 30 * time.Second

// nodeDies has one of two nodes lose its service, and then both.
func nodeDies(s *stage) error {
	site := s.sites[0]
	first, second := s.f.site(site).nodes[0].id, s.f.site(site).nodes[1].id
	s.tell("nothing yet: the second nodes are less attractive for their first minute")
	settled := func() bool { return s.allWell() && time.Since(s.f.backend.Snapshot().Started) > sworn }
	if err := s.until(returnWithin, "every node is as good as any", settled); err != nil {
		return err
	}
	s.tell("kill %s's service", first)
	began := time.Now()
	if err := s.fault(site+"/"+first, "kill"); err != nil {
		return err
	}
	gone := func() bool { return !slices.Contains(s.router.nodes(), first) }
	if err := s.until(leaveWithin, first+" leaves", gone); err != nil {
		return err
	}
	s.tell("%s is gone at the router after %d ms, on the word of %s", first, time.Since(began).Milliseconds(), second)
	rest := len(s.f.speakers) - 1
	alone := func() bool {
		led, err := s.answered(site)
		return s.all() && s.router.well() == rest && s.counted(site) == steadycast.In && led && err == nil
	}
	if err := s.hold(3*time.Second, site+" stays, by its other node and by name", alone); err != nil {
		return err
	}
	if _, ok := s.permitted(site, began, time.Now()); ok {
		return fmt.Errorf("the ledger gave %s leave, and nobody needed it", site)
	}
	s.tell("nothing else moved: %s is in, and names lead to it", site)
	if err := s.returns(site + "/" + first); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 0 {
		return fmt.Errorf("expected that no site leaves, the router lost %d", n)
	}
	if err := s.leaves(site, "kill"); err != nil {
		return err
	}
	away := func() bool { led, err := s.answered(site); return !led && err == nil }
	if err := s.until(leaveWithin, "names lead away from "+site, away); err != nil {
		return err
	}
	if err := s.returns(site); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 1 {
		return fmt.Errorf("expected one withdrawal of a site, the router heard %d", n)
	}
	return nil
}

// counted is the phase that the ledger has a site in.
func (s *stage) counted(site string) steadycast.Phase {
	for _, u := range s.f.ledger().View().Units {
		if u.Unit.Site == site {
			return u.Phase
		}
	}
	return steadycast.Out
}

// siteGone takes the power of a whole site: it says nothing of itself any more, and
// neither withdraws nor asks.
func siteGone(s *stage) error {
	site, began := s.sites[len(s.sites)-1], time.Now()
	s.tell("the power of %s is gone: node, service, voter and router port at once", site)
	s.f.powerOff(site)
	if err := s.until(leaveWithin, "the router has lost "+site, func() bool { return !s.has(site) }); err != nil {
		return err
	}
	switch led, err := s.led(site); {
	case err != nil:
		return err
	case !led && time.Since(began) < decide.GoneAfter(0):
		return fmt.Errorf("names lead away from %s before anybody could know", site)
	}
	s.tell("its route ended with its session. Names lead to it still: nobody withdrew it")
	if err := s.until(leaveWithin, "names lead away from "+site, func() bool { led, err := s.led(site); return !led && err == nil }); err != nil {
		return err
	}
	s.names = time.Since(began)
	v := s.f.ledger().View()
	mark := v.GoneOf(site, serviceName)
	if mark == nil {
		return fmt.Errorf("names lead away from %s, and the ledger does not say that it is gone", site)
	}
	s.tell("names lead away after %.1f s: %v", s.names.Seconds(), mark)
	if err := s.hold(2*time.Second, "the others stay", func() bool { return len(s.router.announcing()) == len(s.sites)-1 }); err != nil {
		return err
	}
	if n := s.withdrawals("", began); n != 0 {
		return fmt.Errorf("expected that nobody withdraws, the router heard %d", n)
	}
	s.tell("the power is back")
	s.mend()
	back := func() bool {
		v := s.f.ledger().View()
		led, err := s.led(site)
		return s.allWell() && led && err == nil && v.GoneOf(site, serviceName) == nil
	}
	if err := s.until(returnWithin, site+" is announced again, and names lead to it", back); err != nil {
		return err
	}
	s.tell("all %d sites serve again, and names lead to each", len(s.sites))
	return nil
}

// powerOff silences everything of a site at once; its sessions end at the router,
// whose port goes down. It is mended as a cut is.
func (f *fleet) powerOff(name string) {
	these := f.site(name).addresses()
	rest := append(but(f.parts(), these...), f.world.addresses()...)
	f.cut(these, append(rest, routerAddress), "has no power", name)
	f.net.sever(these)
}
