package bgp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// handshakeGrace and the hold time are how long a router may take from the
	// connection to its first KEEPALIVE; it includes GoBGP's 1–2 s before it
	// dials. GoBGP by itself would wait 240 s.
	handshakeGrace = 3 * time.Second
	// goodbyeTimeout bounds a NOTIFICATION, and what of the router's is read
	// after it so that the close does not turn into a reset that destroys it.
	goodbyeTimeout = 500 * time.Millisecond
	// batchLimit is how many octets are written to a router at once.
	batchLimit = 32 << 10
)

// session is one TCP connection with a router, from its opening to its end, and
// GoBGP's connection that belongs to it. This is the wire: all that a router
// sends or hears passes here.
//
//	          inbound: framed, checked, written anew
//	router ══════════════════════════════════════════▶ GoBGP
//	       ◀══════════════════════════════════════════
//	          outbound: parsed, checked, recorded, counted until acknowledged
//
// Three goroutines: readRouter owns in, readGoBGP owns out and the router's
// writes, watchAcks looks at what is unacknowledged. They meet in end, which
// happens once.
type session struct {
	n      *neighbor
	router *net.TCPConn
	raw    syscall.RawConn
	in     inbound
	out    outbound

	gobgp      net.Conn      // set before gobgpReady closes
	gobgpReady chan struct{} // closed when GoBGP's side is open
	gobgpWrite sync.Mutex

	fourOctet atomic.Bool  // as the router's OPEN says
	hold      atomic.Int64 // time.Duration; ours until the router's OPEN
	ups       atomic.Int32 // 2: both first KEEPALIVEs have passed
	upAt      time.Time    // set when ups becomes 2
	upOut     bool         // owned by readGoBGP

	routerWrite sync.Mutex
	ahead       map[netip.Prefix]struct{} // withdrawn before GoBGP says so; under routerWrite
	torn        bool                      // a write to the router ended in the middle of a message
	written     atomic.Uint64
	writing     atomic.Bool
	wake        chan struct{} // something was written; capacity 1
	farewell    string        // of a NOTIFICATION by GoBGP; owned by readGoBGP

	once  sync.Once
	ended chan struct{}
	fault *fault // why; set before ended closes
}

// speak runs one connection to its end and says why it ended and for how long
// it was established.
func (n *neighbor) speak(ctx context.Context, router *net.TCPConn) (up time.Duration, why error) {
	s := &session{
		n: n, router: router,
		in:         inbound{asn: n.cfg.ASN, localASN: n.asn, id: n.settings.RouterID, families: n.cfg.Families},
		out:        outbound{overLoopback: n.cfg.Address.IsLoopback()},
		gobgpReady: make(chan struct{}),
		ahead:      map[netip.Prefix]struct{}{},
		wake:       make(chan struct{}, 1),
		ended:      make(chan struct{}),
	}
	raw, err := router.SyscallConn()
	if err != nil {
		router.Close()
		return 0, &fault{Text: err.Error()}
	}
	s.raw = raw
	s.hold.Store(int64(n.cfg.HoldTime))
	n.begin(s)
	stop := context.AfterFunc(ctx, func() { s.end(faultOf(context.Cause(ctx))) })
	defer stop()
	limit := n.cfg.HoldTime + handshakeGrace
	late := time.AfterFunc(limit, func() {
		if s.ups.Load() < 2 {
			s.end(faultf(codeHold, 0, nil, "the router did not complete the handshake within %s", limit))
		}
	})
	defer late.Stop()

	var pumps sync.WaitGroup
	pumps.Go(s.readRouter)
	if err := s.openGoBGP(); err != nil {
		s.end(&fault{Code: codeCease, Sub: 8, Text: err.Error()})
	} else {
		pumps.Go(s.readGoBGP)
		pumps.Go(s.watchAcks)
	}
	<-s.ended
	n.lose(s.ups.Load() == 2)
	pumps.Wait()
	if s.fault.Code == codeSendHold {
		router.SetLinger(0) // what it never took is not to be kept by the kernel
	}
	router.Close()
	n.watch.end(s) // after BGP's own goodbye: a router may withdraw on it
	if s.gobgp != nil {
		s.gobgp.Close()
	}
	n.engine.close()
	if !s.upAt.IsZero() {
		up = time.Since(s.upAt)
	}
	return up, s.fault
}

// openGoBGP opens GoBGP's side, after its table was brought up to date with the
// next hops of this very connection.
func (s *session) openGoBGP() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-s.ended:
			cancel(s.fault)
		case <-ctx.Done():
		}
	}()
	if err := s.n.ready(ctx, s.local()); err != nil {
		return err
	}
	c, err := s.n.engine.open(ctx, s.n.cfg)
	if err != nil {
		return err
	}
	s.gobgp = c
	close(s.gobgpReady)
	return nil
}

// readRouter reads what the router sends until the connection ends.
func (s *session) readRouter() {
	f := newFramer(s.router)
	for {
		m, err := f.next()
		if err != nil {
			s.end(faultOf(err))
			break
		}
		s.n.messagesIn.Add(1)
		was := s.in.established
		pass, wait, fault := s.in.check(m, time.Now())
		s.n.dropped(&s.in)
		if fault != nil {
			s.end(fault)
			break
		}
		if pass == nil {
			continue
		}
		select {
		case <-s.gobgpReady:
		case <-s.ended:
		}
		if m[18] == msgOpen {
			hold := min(s.in.peer.hold, s.n.cfg.HoldTime)
			s.hold.Store(int64(hold))
			s.fourOctet.Store(s.in.peer.fourOctet)
			s.n.negotiated(s, s.in.negotiated(), hold)
		}
		if wait > 0 {
			time.AfterFunc(wait, func() { s.toGoBGP(pass) })
		} else {
			s.toGoBGP(pass)
		}
		if !was && s.in.established {
			s.halfUp()
		}
	}
	io.Copy(io.Discard, s.router) // the rest, until goodbye's deadline
}

// toGoBGP writes one message to GoBGP, which always reads.
func (s *session) toGoBGP(m []byte) {
	select {
	case <-s.ended:
		return
	default:
	}
	s.gobgpWrite.Lock()
	defer s.gobgpWrite.Unlock()
	s.gobgp.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if _, err := s.gobgp.Write(m); err != nil {
		s.end(&fault{Code: codeCease, Sub: 8, Text: "GoBGP does not read: " + err.Error()})
	}
}

// readGoBGP passes on what GoBGP says, as much as there is in one write.
func (s *session) readGoBGP() {
	f := newFramer(s.gobgp)
	var b batch
	for {
		m, err := f.next()
		if err != nil {
			s.endOfGoBGP(err)
			return
		}
		b.octets, b.updates = b.octets[:0], b.updates[:0]
		for {
			s.take(&b, m)
			if len(b.octets) >= batchLimit || !f.more() {
				break
			}
			if m, err = f.next(); err != nil {
				break // it comes back with the next call
			}
		}
		was := s.upOut
		if err := s.write(&b); err != nil {
			s.end(faultOf(err))
			return
		}
		if !was && s.out.established {
			s.upOut = true
			s.halfUp()
		}
	}
}

// batch is what is written to a router at once, and the routes in it, each with
// where its message ends.
type batch struct {
	octets  []byte
	updates []sentUpdate
}

type sentUpdate struct {
	*update
	size, end int // its octets, and where they end in the batch
}

// take adds m to b if it may leave.
func (s *session) take(b *batch, m []byte) {
	s.out.fourOctet, s.out.allow = s.fourOctet.Load(), s.n.allow.Load()
	u, err := s.out.check(m)
	if err != nil {
		s.n.refused(err)
		return
	}
	b.octets = append(b.octets, m...)
	s.n.messagesOut.Add(1)
	if m[18] == msgNotification && len(m) >= headerLen+2 {
		s.farewell = codeName(m[headerLen], m[headerLen+1])
	}
	if u != nil {
		b.updates = append(b.updates, sentUpdate{u, len(m), len(b.octets)})
	}
}

// write sends b to the router.
func (s *session) write(b *batch) error {
	s.routerWrite.Lock()
	defer s.routerWrite.Unlock()
	select {
	case <-s.ended:
		return net.ErrClosed
	default:
	}
	s.leaveOut(b)
	if len(b.octets) == 0 {
		return nil
	}
	return s.send(b)
}

// send writes b and records what was in it. The caller holds routerWrite.
func (s *session) send(b *batch) error {
	s.writing.Store(true)
	s.look()
	n, err := s.router.Write(b.octets)
	base := s.written.Load()
	at := time.Now()
	if err == nil && len(b.updates) > 0 {
		s.n.recordSent(s, b.updates, base, at)
	}
	s.written.Add(uint64(n))
	s.writing.Store(false)
	s.look()
	if err != nil {
		s.torn = true
	}
	return err
}

// look makes watchAcks look.
func (s *session) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// endOfGoBGP ends the session because GoBGP closed its side.
func (s *session) endOfGoBGP(err error) {
	text := "GoBGP closed the session: " + err.Error()
	if s.farewell != "" {
		text = "this side closed the session: " + s.farewell
	} else if errors.Is(err, io.EOF) {
		text = "GoBGP closed the session"
	}
	f := &fault{Text: text, told: s.farewell != ""}
	if !f.told {
		f.Code, f.Sub = codeCease, 8
	}
	s.end(f)
}

// watchAcks learns what the router's TCP has acknowledged. It looks at once
// after a write, then every 1 to 10 ms while something is outstanding, and not
// at all when nothing is. Nothing acknowledged for a third of the hold time is
// a stuck router; for the whole hold time, the send hold timer (RFC 9687) ends
// the session.
func (s *session) watchAcks() {
	for {
		select {
		case <-s.wake:
		case <-s.ended:
			return
		}
		if !s.drainAcks() {
			return
		}
	}
}

// drainAcks looks until nothing is outstanding; false if the session ended.
func (s *session) drainAcks() bool {
	const least, most = time.Millisecond, 10 * time.Millisecond
	var seen uint64
	var stuck bool
	progress := time.Now()
	for pause := least; ; pause = min(2*pause, most) {
		writing, written := s.writing.Load(), s.written.Load()
		out, err := unacknowledged(s.raw)
		if err != nil {
			return false
		}
		now := time.Now()
		// Octets of a write under way are in out and not yet in written, so
		// acked is never too high.
		if acked := written - min(written, uint64(out)); acked > seen {
			seen, progress, pause = acked, now, least
			s.n.acknowledge(s, acked, now)
			if stuck {
				stuck = false
				s.n.enter(stateEstablished, s)
			}
		}
		if out == 0 && !writing && s.written.Load() == written {
			return true
		}
		hold := time.Duration(s.hold.Load())
		switch idle := now.Sub(progress); {
		case idle >= hold:
			s.end(faultf(codeSendHold, 0, nil, "the router has taken nothing for %s (send hold timer, RFC 9687)", hold))
			return false
		case idle >= hold/3 && !stuck && s.ups.Load() == 2:
			stuck = true
			s.n.enter(stateStuck, s)
		}
		select {
		case <-time.After(pause):
		case <-s.ended:
			return false
		}
	}
}

// halfUp is called once per direction when its first KEEPALIVE has passed.
func (s *session) halfUp() {
	if s.ups.Add(1) == 2 {
		s.upAt = time.Now()
		s.n.enter(stateEstablished, s)
		s.n.watch.begin(s)
	}
}

// local is our own address of the connection.
func (s *session) local() netip.Addr {
	return s.router.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// end ends the session, once: f says why. The router is told if f has a code
// and it has not been told; in no case does this take longer than the router
// lets it.
func (s *session) end(f *fault) {
	s.once.Do(func() {
		s.fault = f
		close(s.ended)
		select {
		case <-s.gobgpReady:
			s.gobgp.Close()
		default:
		}
		if f.Code != 0 && s.tell(notification(f.Code, f.Sub, f.Data)) || f.told && s.tell(nil) {
			// Closing with unread octets sends a reset, which would overtake
			// the NOTIFICATION: readRouter reads on until the router closes.
			s.router.SetReadDeadline(time.Now().Add(goodbyeTimeout))
			return
		}
		s.router.Close()
	})
}

// tell writes a last message and closes our half; false if that was not possible.
func (s *session) tell(m []byte) bool {
	const patience = goodbyeTimeout / 2
	s.router.SetWriteDeadline(time.Now().Add(patience)) // also for a write under way
	s.routerWrite.Lock()
	defer s.routerWrite.Unlock()
	if s.torn {
		return false
	}
	s.router.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.router.Write(m); err != nil {
		return false
	}
	s.n.messagesOut.Add(1)
	return s.router.CloseWrite() == nil
}

// faultOf makes the reason of a session's end from what a read or write said.
func faultOf(err error) *fault {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &fault{Text: "the router closed the connection"}
	case errors.Is(err, syscall.ECONNRESET):
		return &fault{Text: "the router reset the connection"}
	case errors.Is(err, syscall.ETIMEDOUT):
		return &fault{Text: "the router's TCP does not answer"}
	default:
		return &fault{Text: err.Error()}
	}
}
