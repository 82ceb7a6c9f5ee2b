package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// cachedLoss bounds what a client of a cached address may lose, in percent of the
// time that the anycast prefix takes in the same run.
const cachedLoss = 120

// backup has a client that goes on asking the address of one site, whatever happens
// there.
func backup(s *stage) error {
	site := s.sites[0]
	home := s.f.site(site)
	own := s.f.owns[0]
	only := func(want bool) func() bool {
		return func() bool {
			best := own.preferred()
			at := slices.ContainsFunc(best, func(a netip.Addr) bool { return s.f.speakers[a].site == home })
			return len(best) > 0 && at == want && len(own.announcing()) >= len(s.sites)-1
		}
	}
	if err := s.until(leaveWithin, fmt.Sprintf("%v leads to %s, and the others cover it", own.prefix, site), only(true)); err != nil {
		return err
	}
	s.tell("%v leads to %s; %s announce it as backup", own.prefix, site, strings.Join(s.sites[1:], ", "))

	ctx, stop := context.WithCancel(s.ctx)
	c := s.f.newClient(own)
	done := make(chan struct{})
	go func() { c.run(ctx); close(done) }()
	defer func() { stop(); <-done }()

	s.tell("a client keeps that address, and will ask no name again")
	began := time.Now()
	if err := s.leaves(site, "kill"); err != nil {
		return err
	}
	if err := s.until(leaveWithin, fmt.Sprintf("%v leads to another site", own.prefix), only(false)); err != nil {
		return err
	}
	var moved time.Duration
	for _, u := range own.since(began) {
		if u.Site == site && u.Last {
			moved = u.At.Sub(began)
		}
	}
	lost := c.failed.Load()
	s.tell("its address leads elsewhere after %d ms, the anycast address did after %d ms; it lost %d requests", moved.Milliseconds(), s.withdraw.Milliseconds(), lost)
	if lost == 0 {
		return fmt.Errorf("the client lost nothing when %s died: it cannot have asked there", site)
	}
	if moved*100 > s.withdraw*cachedLoss {
		return fmt.Errorf("the cached address led to a dead site for %v; the anycast address for %v in the same run, of which %d%% are allowed", moved, s.withdraw, cachedLoss)
	}
	// What was on its way is lost a moment later.
	if err := s.hold(2*clientTimeout, site+" stays out", func() bool { return !s.has(site) }); err != nil {
		return err
	}
	lost, sent := c.failed.Load(), c.sent.Load()
	if err := s.hold(2*time.Second, "the client of the cached address loses nothing more", func() bool { return c.failed.Load() == lost }); err != nil {
		return err
	}
	if c.sent.Load() == sent {
		return fmt.Errorf("the client of the cached address asks no more")
	}
	s.tell("%s is dead, and its address is served by the others", site)
	if err := s.returns(site); err != nil {
		return err
	}
	return s.until(returnWithin, fmt.Sprintf("%v leads to %s again", own.prefix, site), only(true))
}
