package demo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
)

// Scenarios of planned moves: the router, the names and a counting client must
// agree, and the client must not lose a single request.

// gently has a ramp and names with a short TTL, so that a move is worth watching.
func gently(t *decide.Table) {
	t.Services[0].TTL = 2 * time.Second
	t.DrainWait = 2 * time.Second
	t.Ramp = &decide.Ramp{Prove: time.Second, Dwell: time.Second, Rounds: 2}
}

func drained(s *stage) error {
	site := s.sites[0]
	began := time.Now()
	s.tell("a person drains %s, to work on it", site)
	if err := s.order(steadycast.OrderDrain, site, "the demo shows a drain", false); err != nil {
		return fmt.Errorf("drain %s: %w", site, err)
	}
	if err := s.until(leaveWithin, "no name leads to "+site, func() bool { return s.named(site) == 0 }); err != nil {
		return err
	}
	s.tell("no name leads to %s any more; what caches keep is still served", site)
	if err := s.until(leaveWithin, site+" leaves", func() bool { return !s.has(site) }); err != nil {
		return err
	}
	marked, left := time.Time{}, time.Time{}
	for _, u := range s.router.since(began) {
		switch {
		case u.Site != site:
		case u.Depreferred() && marked.IsZero():
			marked = u.At
		case u.Last:
			left = u.At
		}
	}
	table := s.f.table()
	ttl := table.Services[0].TTL
	if waited := marked.Sub(began); marked.IsZero() || waited < ttl*9/10 {
		return fmt.Errorf("%s was marked with GSHUT after %v; the names' TTL is %v", site, waited, ttl)
	}
	if left.Sub(marked) < table.DrainWait*9/10 {
		return fmt.Errorf("%s left %v after its mark; drain_wait is %v", site, left.Sub(marked), table.DrainWait)
	}
	s.tell("%s was marked with GSHUT %.1fs after the order, and left %.1fs later", site, marked.Sub(began).Seconds(), left.Sub(marked).Seconds())
	if err := s.until(leaveWithin, "the client has nothing open at "+site, func() bool { return s.f.client.open(site) == 0 }); err != nil {
		return err
	}
	s.tell("the work begins: %s's service is stopped, and started again", site)
	if err := s.fault(site, "kill"); err != nil {
		return err
	}
	if err := s.hold(time.Second, site+" stays away", func() bool { return !s.has(site) }); err != nil {
		return err
	}
	if err := s.fault(site, "heal"); err != nil {
		return err
	}
	if err := s.until(leaveWithin, site+" is well again", func() bool { return s.believed(site, steadycast.Healthy) }); err != nil {
		return err
	}
	s.tell("undrain")
	began = time.Now()
	if _, err := s.wish(decide.KindOrderClear, "done", func(w *decide.Wish) { w.Scope = &decide.Scope{Site: site} }); err != nil {
		return fmt.Errorf("undrain %s: %w", site, err)
	}
	if err := s.climbs(site, began); err != nil {
		return err
	}
	return s.nothingLost()
}

func ramped(s *stage) error {
	site := s.sites[0]
	if err := s.leaves(site, "kill"); err != nil {
		return err
	}
	lost := s.f.client.failed.Load()
	s.tell("heal %s", site)
	began := time.Now()
	if err := s.fault(site, "heal"); err != nil {
		return err
	}
	if err := s.climbs(site, began); err != nil {
		return err
	}
	if now := s.f.client.failed.Load(); now != lost {
		return fmt.Errorf("the return lost %d requests", now-lost)
	}
	return nil
}

// climbs follows a site through its ramp by what the ledger recorded: as backup at
// the router first, then with each share in turn. A gate that fails sends it back one
// step, and it goes on from there.
func (s *stage) climbs(site string, began time.Time) error {
	steps := []string{"out", "backup", "5%", "20%", "50%", "100%"}
	stood, told := 0, 0
	for {
		var moves []steadycast.Event
		for _, e := range s.f.record.all() {
			if e.Kind == steadycast.EventShare && e.Site == site {
				moves = append(moves, e)
			}
		}
		for _, e := range moves[told:] {
			s.tell("%s takes %s: %s", site, e.To, e.Reason)
			to := slices.Index(steps, e.To)
			switch {
			case e.To == "all" && stood == len(steps)-1:
				return s.climbed(site, began)
			case to < 0 || to > stood+1 || to == stood:
				return fmt.Errorf("%s went from %s to %s", site, steps[stood], e.To)
			}
			stood, told = to, told+1
		}
		err := s.until(returnWithin, fmt.Sprintf("%s goes on from %s", site, steps[stood]), func() bool {
			n := 0
			for _, e := range s.f.record.all() {
				if e.Kind == steadycast.EventShare && e.Site == site {
					n++
				}
			}
			return n > told
		})
		if err != nil {
			return err
		}
	}
}

// climbed: the router heard of it as backup before it heard of it as good as any.
func (s *stage) climbed(site string, began time.Time) error {
	for _, u := range s.router.since(began) {
		if u.Site == site && u.Announce {
			if !u.Depreferred() {
				return fmt.Errorf("%s was announced as good as any before it was proven as backup", site)
			}
			break
		}
	}
	return s.until(returnWithin, "every site is announced, none depreferred", s.allWell)
}

// named is how many of a thousand client networks the names send to a site, by the
// state that the ledger has committed.
func (s *stage) named(site string) (n int) {
	v := s.f.ledger().View()
	www := dnsfallback.Steered{Name: demoName}
	www.Service, www.Methods = serviceName, []string{"hash"}
	for _, x := range s.f.announcers() {
		www.Members = append(www.Members, dnsfallback.Member{Site: x.name, Addresses: []netip.Addr{x.named()}})
	}
	policy, _ := dnsfallback.NewPolicy(1, dnsfallback.Placement{Zones: []dnsfallback.Zone{{Name: demoZone, NS: []string{"ns.example.net."}, Names: []dnsfallback.Steered{www}}}}, dnsfallback.Known{})
	table := policy.Table(1, nil, answers.State(&v, time.Now()))
	want := s.f.site(site).named().String()
	for i := range 1000 {
		e, err := table.Explain(demoName+"."+demoZone, "A", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
		if err == nil && len(e.Records) == 1 && strings.HasSuffix(e.Records[0], " "+want) {
			n++
		}
	}
	return n
}

// believed reports what the ledger holds of a site's service.
func (s *stage) believed(site string, state steadycast.State) bool {
	for _, v := range s.f.ledger().View().Verdicts {
		if v.Site == site && v.State == state {
			return true
		}
	}
	return false
}

func (s *stage) nothingLost() error {
	if n := s.f.client.failed.Load(); n > 0 {
		return fmt.Errorf("%d of %d requests were lost", n, s.f.client.sent.Load())
	}
	return nil
}
