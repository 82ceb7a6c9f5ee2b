package bench

import (
	"net/netip"
	"testing"
	"time"
)

// side is one controller with its service and its router.
type side struct {
	b      testing.TB
	target *target
	router *bird
	pace   pace

	total, detect, overhead sample
}

// newSide puts a controller, its service and its router on a cable of their own.
// It is up and announcing when the caller has seen its route come.
func newSide(b *testing.B, p pace, control func(c cable, t *target)) *side {
	b.Helper()
	c := lay(b, "bird", exabgpProgram, "curl")
	s := &side{b: b, pace: p, router: newBird(b, c, false), target: newTarget(b, c.edge, "127.0.0.1:8080")}
	control(c, s.target)
	return s
}

// ourSide is the product, with its state under a directory.
func ourSide(b *testing.B, p pace, state string) *side {
	return newSide(b, p, func(c cable, t *target) {
		newNode(b, c.edge, state, netip.AddrPortFrom(netip.MustParseAddr(routerAddress), 179), netip.MustParseAddr(edgeAddress),
			p.service("web", "http", "http://"+t.address+"/", serviceAddresses(1)))
	})
}

// sides are the product and ExaBGP, both up and announcing.
func sides(b *testing.B, p pace) (ours, theirs *side) {
	b.Helper()
	ours = ourSide(b, p, "")
	theirs = newSide(b, p, func(c cable, t *target) { newExaBGP(b, c, t, p, serviceAddresses(1)[0].String()) })
	theirs.pace.tripwire = false // it has none
	ours.router.added(1)
	theirs.router.added(1)
	return ours, theirs
}

// errs makes the service answer 500 so long after a probe, measures until the
// route is gone, and heals it.
func (s *side) errs(wait time.Duration) {
	s.b.Helper()
	s.target.afterLook(wait)
	began := s.target.fail()
	decisive := s.target.when("failed", s.pace.fall)
	gone := s.router.removed(1)
	s.total = append(s.total, gone.Sub(began))
	s.detect = append(s.detect, decisive.Sub(began))
	s.overhead = append(s.overhead, gone.Sub(decisive))
	s.target.heal()
	s.router.added(1)
}

// dies kills the service's process so long after a probe, measures until the
// route is gone, and starts it again.
func (s *side) dies(wait time.Duration) {
	s.b.Helper()
	if s.pace.tripwire {
		s.target.held(1200 * time.Millisecond)
	}
	s.target.afterLook(wait)
	began := time.Now()
	s.target.kill()
	gone := s.router.removed(1)
	s.total = append(s.total, gone.Sub(began))
	s.target.open()
	s.router.added(1)
}

// turns makes n trials on each side, taking turns. The faults are spread evenly
// over the interval.
func turns(n int, p pace, trial func(s *side, wait time.Duration), all ...*side) {
	for i := range n {
		wait := (time.Duration(i)*2 + 1) * p.interval / time.Duration(2*n)
		for _, s := range all {
			trial(s, wait)
		}
	}
}

// BenchmarkFailover is the time from a service's failure until the route has
// left BIRD, beside ExaBGP's healthcheck with the same interval, fast interval
// and fall. "error" is a service that answers 500, "refused" one whose process
// is gone; neither has a tripwire here, since ExaBGP has none. "in-memory" is
// the product with its state on a tmpfs: what the overhead is without the disk,
// which ExaBGP does not use.
func BenchmarkFailover(b *testing.B) {
	p := pace{interval: 500 * time.Millisecond, fast: 100 * time.Millisecond, fall: 2}
	b.Run("error", func(b *testing.B) {
		ours, theirs := sides(b, p)
		inMemory := ourSide(b, p, "/dev/shm")
		inMemory.router.added(1)
		for b.Loop() {
			turns(10, p, (*side).errs, ours, theirs, inMemory)
		}
		ours.total.report(b, "total")
		theirs.total.report(b, "exabgp-total")
		ours.overhead.report(b, "overhead")
		theirs.overhead.report(b, "exabgp-overhead")
		inMemory.overhead.report(b, "in-memory-overhead")
		ratio(b, ours.total, theirs.total, "total")
		ratio(b, ours.overhead, theirs.overhead, "overhead")
		ratio(b, inMemory.overhead, theirs.overhead, "in-memory-overhead")
		done(b)
	})
	b.Run("refused", func(b *testing.B) {
		ours, theirs := sides(b, p)
		for b.Loop() {
			turns(10, p, (*side).dies, ours, theirs)
		}
		ours.total.report(b, "total")
		theirs.total.report(b, "exabgp-total")
		ratio(b, ours.total, theirs.total, "total")
		done(b)
	})
}

// BenchmarkTripwire is the time from the death of the service's process until
// the route has left BIRD, where the product holds a tripwire, down_for is 0
// and both look again after 10 ms; ExaBGP, which has no tripwire, finds out at
// its next look.
func BenchmarkTripwire(b *testing.B) {
	p := pace{interval: time.Second, fast: 10 * time.Millisecond, fall: 2, tripwire: true}
	ours, theirs := sides(b, p)
	for b.Loop() {
		turns(8, p, (*side).dies, ours, theirs)
	}
	ours.total.report(b, "total")
	theirs.total.report(b, "exabgp-total")
	ratio(b, ours.total, theirs.total, "total")
	done(b)
}
