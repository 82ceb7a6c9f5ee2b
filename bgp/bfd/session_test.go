package bfd

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// cable joins two sessions in a bubble. A cut one drops packets and says nothing.
type cable struct {
	ends [2]atomic.Pointer[Session]
	cut  atomic.Bool
	last [2]atomic.Pointer[Packet] // that each end has sent
	err  atomic.Pointer[error]     // what Send says
}

type cableEnd struct {
	c *cable
	i int
}

func (e cableEnd) Send(b []byte) error {
	if err := e.c.err.Load(); err != nil {
		return *err
	}
	p, err := Parse(b)
	if err != nil {
		return err
	}
	e.c.last[e.i].Store(&p)
	if other := e.c.ends[1-e.i].Load(); other != nil && !e.c.cut.Load() {
		other.hear(p)
	}
	return nil
}

func (cableEnd) Close() {}

// plug opens end i with settings and returns what it said of its failures.
func (c *cable) plug(i int, set Settings) (downs *atomic.Int64) {
	downs = new(atomic.Int64)
	c.ends[i].Store(newSession(Config{Settings: set, OnDown: func(string) { downs.Add(1) }}, func(*Session) (link, error) { return cableEnd{c, i}, nil }))
	return downs
}

func (c *cable) states() [2]State {
	return [2]State{c.ends[0].Load().Status().State, c.ends[1].Load().Status().State}
}

func (c *cable) stop() {
	for i := range c.ends {
		c.ends[i].Load().Stop()
	}
	for i := range c.ends {
		<-c.ends[i].Load().Done()
	}
}

func TestSessionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cable{}
		downs := [2]*atomic.Int64{c.plug(0, Settings{}), c.plug(1, Settings{Interval: 100 * ms, Multiplier: 5})}
		time.Sleep(5 * time.Second)
		if c.states() != [2]State{Up, Up} {
			t.Fatalf("after 5s: %v", c.states())
		}
		a, b := c.ends[0].Load().Status(), c.ends[1].Load().Status()
		// Each sends as often as both can, and is given up after what it announced.
		if a.Interval != 300*ms || b.Interval != 300*ms || a.Detection != 1500*ms || b.Detection != 900*ms {
			t.Errorf("%+v\n%+v", a, b)
		}

		// A cut is noticed by both, each after its detection time, less at most the
		// pause under way.
		cut := time.Now()
		c.cut.Store(true)
		time.Sleep(3 * time.Second)
		for i, most := range []time.Duration{a.Detection, b.Detection} {
			st := c.ends[i].Load().Status()
			if d := st.Since.Sub(cut); st.State != Down || d > most || d < most-300*ms {
				t.Errorf("end %d: %s %s after the cut, of %s", i, st.State, d, most)
			}
			if st.Why != "nothing was heard within the detection time" || st.Downs != 1 || downs[i].Load() != 1 {
				t.Errorf("end %d: %+v, said %d times", i, st, downs[i].Load())
			}
		}
		c.cut.Store(false)
		time.Sleep(5 * time.Second)
		if c.states() != [2]State{Up, Up} {
			t.Fatalf("5s after the way is back: %v", c.states())
		}

		// Stopping is no failure to the other end, which hears why.
		c.ends[0].Load().Stop()
		<-c.ends[0].Load().Done()
		time.Sleep(ms)
		if st := c.ends[1].Load().Status(); st.State != Down || st.Why != "the router holds its end administratively down" || downs[1].Load() != 1 {
			t.Errorf("after the other end's stop: %+v, said %d times", st, downs[1].Load())
		}
		c.stop()
	})
}

// A one-way cut: who still hears is told by who does not.
func TestOneWayCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cable{}
		c.plug(0, Settings{})
		downs := c.plug(1, Settings{})
		time.Sleep(5 * time.Second)
		deaf := c.ends[0].Load()
		c.ends[0].Store(nil) // nothing arrives there
		time.Sleep(1200 * ms)
		if st := c.ends[1].Load().Status(); st.State == Up || downs.Load() != 1 {
			t.Errorf("%+v, said %d times", st, downs.Load())
		}
		c.ends[0].Store(deaf)
		c.stop()
	})
}

func TestTimersChangeInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cable{}
		c.plug(0, Settings{})
		downs := c.plug(1, Settings{})
		time.Sleep(5 * time.Second)
		for _, set := range []Settings{{50 * ms, 2}, {2 * time.Second, 3}, {10 * ms, 3}, {}} {
			c.ends[0].Load().Become(set)
			time.Sleep(10 * time.Second)
			want := max(set.WithDefaults().Interval, 300*ms)
			if st := c.ends[1].Load().Status(); st.State != Up || st.Interval != want || st.Detection != want*time.Duration(set.WithDefaults().Multiplier) {
				t.Errorf("%v: %+v", set, st)
			}
		}
		if downs.Load() != 0 {
			t.Errorf("the session went down %d times", downs.Load())
		}
		c.stop()
	})
}

// A router that starts again with another discriminator is taken up.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cable{}
		downs := c.plug(0, Settings{})
		c.plug(1, Settings{})
		time.Sleep(5 * time.Second)
		c.cut.Store(true) // it says nothing any more
		c.ends[1].Load().Stop()
		<-c.ends[1].Load().Done()
		c.plug(1, Settings{})
		c.cut.Store(false)
		time.Sleep(5 * time.Second)
		if c.states() != [2]State{Up, Up} || downs.Load() == 0 {
			t.Errorf("%v after %d failures", c.states(), downs.Load())
		}
		c.stop()
	})
}

// What is wrong with the socket is said, and it is opened again when it is well.
func TestLinkTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cable{}
		var opened atomic.Int64
		missing := errors.New("local_address 192.0.2.1 is not on this node")
		var trouble atomic.Pointer[error]
		trouble.Store(&missing)
		c.ends[0].Store(newSession(Config{}, func(*Session) (link, error) {
			opened.Add(1)
			if err := trouble.Load(); err != nil {
				return nil, *err
			}
			return cableEnd{c, 0}, nil
		}))
		c.plug(1, Settings{})
		time.Sleep(3500 * ms)
		if st := c.ends[0].Load().Status(); st.State == Up || st.Why != missing.Error() || opened.Load() < 3 {
			t.Errorf("opened %d times: %+v", opened.Load(), st)
		}
		trouble.Store(nil)
		time.Sleep(5 * time.Second)
		if c.states() != [2]State{Up, Up} {
			t.Fatalf("%v", c.states())
		}
		// While up one lost packet is none of the socket's affair.
		var unreachable error = syscall.ENETUNREACH
		was := opened.Load()
		c.err.Store(&unreachable)
		time.Sleep(500 * ms)
		c.err.Store(nil)
		time.Sleep(2 * time.Second)
		if c.states() != [2]State{Up, Up} || opened.Load() != was {
			t.Errorf("%v, opened again %d times", c.states(), opened.Load()-was)
		}
		c.stop()
	})
}

func TestHostOverLoopback(t *testing.T) {
	for _, addresses := range pairs(t) {
		var h Host
		changed := make(chan struct{}, 1)
		tell := func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		set := Settings{Interval: 100 * ms, Multiplier: 50} // a loaded machine is no failure
		var ends []*Session
		for i, local := range addresses {
			ends = append(ends, h.Open(Config{Local: local, Remote: addresses[1-i], Settings: set, OnChange: tell}))
		}
		await := func(what string, so func() bool) {
			t.Helper()
			deadline := time.After(time.Minute)
			for !so() {
				select {
				case <-changed:
				case <-deadline:
					t.Fatalf("%v: %s: %+v, %+v", addresses, what, ends[0].Status(), ends[1].Status())
				}
			}
		}
		await("up", func() bool { return ends[0].Status().State == Up && ends[1].Status().State == Up })
		far := slices.Clone(addresses)
		spoof(t, far[1], far[0]) // TTL 64: more than one hop away
		deadline := time.Now().Add(time.Minute)
		for ends[0].Status().Dropped == 0 && time.Now().Before(deadline) {
			time.Sleep(ms)
		}
		if st := ends[0].Status(); st.State != Up || st.Dropped == 0 {
			t.Errorf("%v: a packet from far away: %+v", addresses, st)
		}
		ends[0].Stop()
		<-ends[0].Done()
		await("told", func() bool { return ends[1].Status().State == Down })
		ends[1].Stop()
		<-ends[1].Done()
		h.mu.Lock()
		if len(h.doors) != 0 {
			t.Errorf("%v: %d sockets are left", addresses, len(h.doors))
		}
		h.mu.Unlock()
	}
}
