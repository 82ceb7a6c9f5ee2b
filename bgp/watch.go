package bgp

import (
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
)

// watch is the BFD session beside the BGP session of one neighbour, if it has
// one. It begins when BGP is established and ends after it (RFC 5882 §10.2 lets
// BGP say where the router is). Not earlier: FRR begins its own anew at that
// moment, and the end of the one before would be taken for a failure.
//
// Its fields are guarded by mu, which is never held while BFD is called: BFD
// calls back. one orders those who open and change.
type watch struct {
	n    *neighbor
	host *bfd.Host

	one sync.Mutex

	mu      sync.Mutex
	want    *bfd.Settings
	of      *session     // of BGP, established; nil between
	session *bfd.Session // nil when there is none
	former  *bfd.Session // that may still be saying goodbye
	since   time.Time    // since when there is none
	past    steadycast.BFD
}

func (w *watch) init(n *neighbor, host *bfd.Host) {
	w.n, w.host, w.want, w.since = n, host, n.cfg.BFD, time.Now()
}

// begin watches the router of s, which is established.
func (w *watch) begin(s *session) {
	w.mu.Lock()
	w.of = s
	w.mu.Unlock()
	go w.follow() // a former session may still be saying goodbye
}

// end is told that s is over. What the router is told by BGP has been told.
func (w *watch) end(s *session) {
	w.mu.Lock()
	if w.of != s {
		w.mu.Unlock()
		return
	}
	b := w.session
	w.of, w.session = nil, nil
	if b != nil {
		w.former, w.since = b, time.Now()
	}
	w.mu.Unlock()
	if b != nil {
		b.Stop()
	}
}

// become takes over other timers, or begins to watch an established session.
func (w *watch) become(want *bfd.Settings) {
	w.mu.Lock()
	w.want = want
	w.mu.Unlock()
	w.follow()
}

// follow does what is wanted.
func (w *watch) follow() {
	w.one.Lock()
	defer w.one.Unlock()
	w.rest()
	w.mu.Lock()
	b, of, want := w.session, w.of, w.want
	w.mu.Unlock()
	switch {
	case want == nil || of == nil:
		return
	case b != nil:
		b.Become(*want)
		return
	}
	cfg := w.n.cfg
	b = w.host.Open(bfd.Config{
		Local: of.local(), Remote: cfg.Address, Device: cfg.BindDevice, Settings: *want, OnChange: w.n.changed,
		OnDown: func(why string) {
			go of.end(faultf(codeCease, subBFDDown, nil, "BFD is down: %s", why)) // it may wait for a write
		},
	})
	w.mu.Lock()
	late := w.of != of
	if late { // it ended meanwhile
		w.former = b
	} else {
		w.session = b
	}
	w.mu.Unlock()
	if late {
		b.Stop()
	}
	w.n.changed()
}

// rest waits until the router had time to hear the goodbye of a former session,
// and keeps its counters.
func (w *watch) rest() {
	w.mu.Lock()
	b := w.former
	w.mu.Unlock()
	if b == nil {
		return
	}
	<-b.Done()
	st := b.Status()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.former == b {
		w.former = nil
		w.past.Downs += st.Downs
		w.past.Sent += st.Sent
		w.past.Received += st.Received
		w.past.Dropped += st.Dropped
	}
}

// look is a picture for Actual; nil if the neighbour has no BFD.
func (w *watch) look() *steadycast.BFD {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.want == nil {
		return nil
	}
	out := w.past
	for _, b := range []*bfd.Session{w.former, w.session} {
		if b == nil {
			continue
		}
		st := b.Status()
		out.Downs += st.Downs
		out.Sent += st.Sent
		out.Received += st.Received
		out.Dropped += st.Dropped
		out.State, out.Remote, out.Since, out.Why = st.State.String(), st.Remote.String(), st.Since, st.Why
		out.Interval, out.Detection = st.Interval, st.Detection
	}
	if w.session == nil {
		out.State, out.Remote, out.Since, out.Why = bfd.Down.String(), bfd.Down.String(), w.since, "it begins when BGP is established"
		out.Interval, out.Detection = 0, 0
	}
	return &out
}
