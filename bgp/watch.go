package bgp

import (
	"sync"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
)

// watch is the BFD session beside the sessions of one neighbour, if it has one.
// It lives as long as the neighbour and not only while BGP is established, so
// that a new BGP session is watched from its first moment.
//
// Its fields are guarded by mu, which is never held while BFD is called: BFD
// calls back. one orders those who open, change and stop.
type watch struct {
	n    *neighbor
	host *bfd.Host
	back chan struct{} // capacity 1: the router is heard again; do not wait to dial it

	one sync.Mutex

	mu      sync.Mutex
	want    *bfd.Settings
	running bool // between start and stop
	session *bfd.Session
}

func (w *watch) init(n *neighbor, host *bfd.Host) {
	w.n, w.host, w.want, w.back = n, host, n.cfg.BFD, make(chan struct{}, 1)
}

// start opens the session that is wanted.
func (w *watch) start() {
	w.one.Lock()
	defer w.one.Unlock()
	w.mu.Lock()
	w.running = true
	w.mu.Unlock()
	w.follow()
}

// become takes over other timers, or opens the first session.
func (w *watch) become(want *bfd.Settings) {
	w.one.Lock()
	defer w.one.Unlock()
	w.mu.Lock()
	w.want = want
	w.mu.Unlock()
	w.follow()
}

// follow does what is wanted. The caller holds one.
func (w *watch) follow() {
	w.mu.Lock()
	s, want, running := w.session, w.want, w.running
	w.mu.Unlock()
	switch {
	case want == nil || !running:
	case s != nil:
		s.Become(*want)
	default:
		cfg := w.n.cfg
		s = w.host.Open(bfd.Config{
			Local: cfg.LocalAddress, Remote: cfg.Address, Device: cfg.BindDevice, Settings: *want,
			OnChange: w.changed, OnDown: w.down,
		})
		w.mu.Lock()
		w.session = s
		w.mu.Unlock()
		w.changed()
	}
}

// stop ends the session, and waits until the router had time to hear of it.
func (w *watch) stop() {
	w.one.Lock()
	defer w.one.Unlock()
	w.mu.Lock()
	w.running = false
	s := w.session
	w.mu.Unlock()
	if s != nil {
		s.Stop()
		<-s.Done()
	}
}

// changed is called by BFD.
func (w *watch) changed() {
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if s != nil && s.Status().State == bfd.Up {
		select {
		case w.back <- struct{}{}:
		default:
		}
	}
	w.n.changed()
}

// down is called by BFD when the way to the router failed: what BGP has ends at
// once (RFC 5882 §3.1).
func (w *watch) down(why string) {
	select {
	case <-w.back:
	default:
	}
	w.n.mu.Lock()
	s := w.n.session
	w.n.mu.Unlock()
	if s != nil {
		go s.end(faultf(codeCease, subBFDDown, nil, "BFD is down: %s", why)) // it may wait for a write
	}
}

// look is a picture for Actual; nil if the neighbour has no BFD.
func (w *watch) look() *steadycast.BFD {
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if s == nil {
		return nil
	}
	st := s.Status()
	return &steadycast.BFD{
		State: st.State.String(), Remote: st.Remote.String(), Since: st.Since, Why: st.Why,
		Interval: st.Interval, Detection: st.Detection, Downs: st.Downs,
		Sent: st.Sent, Received: st.Received, Dropped: st.Dropped,
	}
}
