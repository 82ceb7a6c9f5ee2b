package bfd

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Config is one session.
type Config struct {
	// Local is this end; not valid: the kernel chooses. Remote is the router; a
	// link-local one carries its zone. Device binds both ways to an interface.
	Local, Remote netip.Addr
	Device        string
	Settings      Settings
	// OnChange is called when Status has news beyond its counters. OnDown when the
	// session was up and failed; not when the router holds it administratively
	// down, which says nothing of the way to it (RFC 5882 §4.2). Both are called
	// from the session's goroutine and must not block.
	OnChange func()
	OnDown   func(why string)
}

// Status is a picture of a session.
type Status struct {
	// State of this end since Since, Remote of the other as it said last.
	State, Remote State
	Since         time.Time
	// Why it is not up, in words; empty when it is.
	Why string
	// Interval at which this end sends, and Detection, the silence after which
	// the other is gone; 0 before it was heard.
	Interval, Detection time.Duration
	// Downs counts how often an established session ended.
	Downs uint64
	// Sent and Received count packets; Dropped those that were not of this
	// session, malformed, or from more than one hop away.
	Sent, Received, Dropped uint64
}

// link carries packets to one router.
type link interface {
	Send([]byte) error
	Close()
}

// opener opens a link whose packets are given to s by hear.
type opener func(s *Session) (link, error)

// Session is one BFD session. Its goroutine, run, owns machine, link and
// trouble; readers get the newest Status without a lock.
type Session struct {
	cfg    Config
	open   opener
	in     chan Packet // 64; one that finds it full is counted as dropped
	become chan Settings
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once

	machine *machine
	link    link
	trouble string // why the link cannot be had, or carries nothing

	sent, received, dropped atomic.Uint64
	status                  atomic.Pointer[Status]
}

// goodbyeMost bounds how long a stopped session goes on to say so.
const goodbyeMost = time.Second

// newSession begins a session over the link that open gives.
func newSession(c Config, open opener) *Session {
	c.Settings = c.Settings.WithDefaults()
	mine := rand.Uint32()
	if mine == 0 { // RFC 5880 §6.8.1: nonzero, and better not to be guessed
		mine = 1
	}
	s := &Session{
		cfg: c, open: open, in: make(chan Packet, 64), become: make(chan Settings),
		quit: make(chan struct{}), done: make(chan struct{}),
		machine: newMachine(c.Settings, mine, time.Now()),
	}
	s.publish()
	go s.run()
	return s
}

// Status is what is known by now; its counters may be a packet ahead.
func (s *Session) Status() Status {
	st := *s.status.Load()
	st.Sent, st.Received, st.Dropped = s.sent.Load(), s.received.Load(), s.dropped.Load()
	return st
}

// Become takes over other timers without a loss of the session.
func (s *Session) Become(set Settings) {
	select {
	case s.become <- set.WithDefaults():
	case <-s.done:
	}
}

// Stop ends the session: the router is told AdminDown for its detection time, at
// most a second, and Done closes. Stopping twice is once.
func (s *Session) Stop() { s.once.Do(func() { close(s.quit) }) }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// hear takes a packet in, from the goroutine of the link.
func (s *Session) hear(p Packet) {
	select {
	case s.in <- p:
	default:
		s.dropped.Add(1)
	}
}

func (s *Session) run() {
	defer close(s.done)
	defer s.unlink()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var send []Packet
		select {
		case p := <-s.in:
			send = s.take(p)
		case <-timer.C:
			s.drain() // what came counts, however late this goroutine runs
			send = s.machine.wake(time.Now())
		case set := <-s.become:
			if s.machine.become(set) {
				send = []Packet{s.machine.packet()}
			}
		case <-s.quit:
			s.goodbye()
			return
		}
		s.send(send)
		s.tell()
		if next := s.machine.next(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// take gives a packet to the machine.
func (s *Session) take(p Packet) []Packet {
	replies, ok := s.machine.hear(p, time.Now())
	if ok {
		s.received.Add(1)
	} else {
		s.dropped.Add(1)
	}
	return replies
}

// drain takes all that waits.
func (s *Session) drain() {
	for {
		select {
		case p := <-s.in:
			s.send(s.take(p))
		default:
			return
		}
	}
}

// send lets packets leave. A packet that cannot leave is as one that was lost:
// the next one is due as if it had left.
func (s *Session) send(ps []Packet) {
	for _, p := range ps {
		err := s.transmit(p)
		s.machine.sent(time.Now(), rand.Float64())
		if err == nil {
			s.sent.Add(1)
		}
		s.complain(err)
	}
}

func (s *Session) transmit(p Packet) error {
	if s.link == nil {
		l, err := s.open(s)
		if err != nil {
			return err
		}
		s.link = l
	}
	err := s.link.Send(p.Append(nil))
	if err != nil && !errors.Is(err, syscall.ECONNREFUSED) && s.machine.state != Up {
		s.unlink() // its address may be another by now
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil // nobody listens there yet, which the state says better
	}
	return err
}

func (s *Session) unlink() {
	if s.link != nil {
		s.link.Close()
		s.link = nil
	}
}

// complain keeps what is wrong with the link; the same again is no news.
func (s *Session) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.trouble {
		s.trouble = text
		s.publish()
	}
}

// tell says what a step has changed.
func (s *Session) tell() {
	if s.picture() != *s.status.Load() {
		s.publish()
	}
	why := s.machine.fell
	if s.machine.fell = ""; why != "" && s.cfg.OnDown != nil {
		s.cfg.OnDown(why)
	}
}

// picture is the status but for its counters.
func (s *Session) picture() Status {
	m := s.machine
	st := Status{State: m.state, Remote: m.remote.State, Since: m.since, Why: m.why(), Interval: m.transmit(), Downs: m.downs}
	if m.heard {
		st.Detection = m.detection()
	}
	if s.trouble != "" && st.State != Up {
		st.Why = s.trouble
	}
	return st
}

func (s *Session) publish() {
	st := s.picture()
	s.status.Store(&st)
	if s.cfg.OnChange != nil {
		s.cfg.OnChange()
	}
}

// goodbye tells the router AdminDown for as long as it waits for packets
// (RFC 5880 §6.8.16), so that it does not take the silence for a failure.
func (s *Session) goodbye() {
	known := s.machine.heard && s.link != nil
	pause := s.machine.transmit()
	last := time.Now().Add(min(goodbyeMost, time.Duration(s.cfg.Settings.Multiplier)*pause))
	p := s.machine.stop(time.Now())
	s.publish()
	for known {
		if s.link.Send(p.Append(nil)) == nil {
			s.sent.Add(1)
		}
		if time.Now().Add(pause).After(last) {
			return
		}
		time.Sleep(pause)
	}
}
