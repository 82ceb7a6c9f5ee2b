package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
)

// Options are what a Speaker needs besides its settings.
type Options struct {
	// Logger hears one line per transition; default slog.Default().
	Logger *slog.Logger
	// OnChange is called whenever what Actual returns has changed; many changes
	// make one call. It must not block.
	OnChange func()
	// Started counts the speaker's starts; it comes back in Actual.
	Started uint64
	// Path that the routes went when the last process ended, if it is known.
	Path *string
}

// Speaker holds the BGP sessions of one node.
//
// Its methods may be called from any goroutine. mu orders what changes it and
// is held for moments only; nothing waits for a router under it. The goroutine
// publish owns the snapshot that Actual returns.
type Speaker struct {
	logger     *slog.Logger
	onChange   func()
	started    uint64
	remembered *string // the path of the last process, if it is known
	doors      listeners
	bfd        bfd.Host
	dirty      chan struct{} // capacity 1
	quit       chan struct{}
	done       chan struct{}
	actual     atomic.Pointer[steadycast.Actual]

	mu        sync.Mutex
	settings  Settings // with defaults
	allow     allowed
	neighbors []*neighbor // in the order of the settings
	set       steadycast.RouteSet
	applied   bool
	appliedAt time.Time
	held      []string        // paths that are not left yet, see paths.go
	provenAt  time.Time       // when the one that is wanted was, while the old one is still held
	late      map[string]bool // neighbours whose GoBGP did not take a set in time
	stopped   bool
}

// handOnTimeout bounds how long Apply waits for GoBGP to take a set. It takes
// milliseconds; past this something is wrong with one neighbour, and the others
// must not wait for it.
const handOnTimeout = 2 * time.Second

var errStopped = errors.New("bgp: the speaker is stopped")

// New checks the settings, starts one GoBGP server per neighbour and begins to
// dial. Nothing is announced before the first Apply. That a router cannot be
// reached is no error: it is tried again, and Actual says why.
func New(s Settings, o Options) (*Speaker, error) {
	if err := asError(s.Problems()); err != nil {
		return nil, err
	}
	s = s.WithDefaults()
	sp := &Speaker{
		logger: o.Logger, onChange: o.OnChange, started: o.Started, remembered: o.Path,
		dirty: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		settings: s, allow: s.allowed(), late: map[string]bool{},
	}
	if sp.logger == nil {
		sp.logger = slog.Default()
	}
	if sp.onChange == nil {
		sp.onChange = func() {}
	}
	for _, n := range s.Neighbors {
		nb, err := newNeighbor(s, n, sp.logger, &sp.doors, &sp.bfd, sp.changed)
		if err != nil {
			for _, nb := range sp.neighbors {
				nb.engine.stop()
			}
			return nil, err
		}
		sp.neighbors = append(sp.neighbors, nb)
	}
	sp.actual.Store(&steadycast.Actual{Started: o.Started})
	sp.build()
	for _, nb := range sp.neighbors {
		nb.start()
	}
	go sp.publish()
	return sp, nil
}

// asError makes one error of all problems.
func asError(ps []Problem) error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = errors.New(p.String())
	}
	return errors.Join(errs...)
}

// Apply sets everything this node announces; a prefix that is absent is
// withdrawn. It returns once every neighbour's GoBGP has taken the change over,
// which says nothing yet about the routers: see Actual. Applying the same set
// again sends nothing.
//
// A set is refused as a whole, and nothing changes, if it has a prefix outside
// the allow-list, is not in order of prefix or has one twice, or is older than
// what was applied: by (Incarnation, Version), or by Fence.
func (s *Speaker) Apply(set steadycast.RouteSet) error {
	s.mu.Lock()
	if err := s.admit(set); err != nil {
		s.mu.Unlock()
		return err
	}
	set.Routes = cloneRoutes(set.Routes)
	was := s.set.Path
	if !s.applied {
		if was = set.Path; s.remembered != nil {
			was = *s.remembered
		}
	}
	s.set, s.applied, s.appliedAt = set, true, time.Now()
	s.head(was)
	s.changed() // before the pushers are told: whom Go wakes last, it runs first
	now := s.way()
	waits := make([]<-chan struct{}, len(s.neighbors))
	for i, n := range s.neighbors {
		waits[i] = n.pusher.set(now.routesFor(n.current().Path))
	}
	neighbors := s.neighbors
	s.mu.Unlock()
	s.await(neighbors, waits)
	return nil
}

// await waits until each neighbour's GoBGP has taken its wishes over, or notes
// that it did not.
func (s *Speaker) await(neighbors []*neighbor, waits []<-chan struct{}) {
	timeout := time.NewTimer(handOnTimeout)
	defer timeout.Stop()
	expired := false
	for i, w := range waits {
		late := false
		if expired {
			select {
			case <-w:
			default:
				late = true
			}
		} else {
			select {
			case <-w:
			case <-timeout.C:
				expired, late = true, true
			}
		}
		name := neighbors[i].cfg.Name
		s.mu.Lock()
		news := s.late[name] != late
		s.late[name] = late
		s.mu.Unlock()
		if news {
			s.changed()
		}
		if news && late {
			s.logger.Error("GoBGP did not take the routes over in time", "peer", name, "limit", handOnTimeout)
			go func() {
				<-w
				s.mu.Lock()
				s.late[name] = false
				s.mu.Unlock()
				s.changed()
			}()
		}
	}
}

// admit says why set may not be applied.
func (s *Speaker) admit(set steadycast.RouteSet) error {
	switch {
	case s.stopped:
		return errStopped
	case set.Incarnation < s.set.Incarnation || set.Incarnation == s.set.Incarnation && set.Version < s.set.Version:
		return fmt.Errorf("route set %d.%d is older than %d.%d, which is applied; nothing is changed", set.Incarnation, set.Version, s.set.Incarnation, s.set.Version)
	case set.Fence.Compare(s.set.Fence) < 0:
		return fmt.Errorf("route set %d.%d rests on fence %s; %s has been seen; nothing is changed", set.Incarnation, set.Version, set.Fence, s.set.Fence)
	}
	for i, r := range set.Routes {
		switch {
		case !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() || r.Prefix.Addr().Is4In6():
			return fmt.Errorf("route set: routes[%d]: %s is not a prefix that can be announced; nothing is changed", i, r.Prefix)
		case i > 0 && comparePrefix(set.Routes[i-1].Prefix, r.Prefix) >= 0:
			return fmt.Errorf("route set: routes[%d]: %s comes after %s; each prefix once, in order; nothing is changed", i, r.Prefix, set.Routes[i-1].Prefix)
		case !s.allow.may(r):
			return fmt.Errorf("route set: routes[%d]: %s (%s) is not in the allow-list of node.yaml (bgp.allow; bgp.allow_backup for backup); nothing is changed", i, r.Prefix, r.Stance)
		}
	}
	return nil
}

// cloneRoutes copies what a caller could change later.
func cloneRoutes(rs []steadycast.Route) []steadycast.Route {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Communities = slices.Clone(rs[i].Communities)
		rs[i].LargeCommunities = slices.Clone(rs[i].LargeCommunities)
		if rs[i].MED != nil {
			rs[i].MED = new(*rs[i].MED)
		}
	}
	return rs
}

// Actual returns what really left on the wire: an immutable snapshot, at most
// milliseconds old, had without a lock. Sent rows say what this session of a
// peer has heard; the rows of a session that ended are gone.
func (s *Speaker) Actual() steadycast.Actual { return *s.actual.Load() }

// Stop closes every session with Cease, Administrative Shutdown and reason in
// words (RFC 9003; at most 255 octets). It returns when all are closed or ctx
// ends; a router that does not read cannot hold it. The routes go with the
// sessions: to take them away first, Apply an empty set and wait for it.
func (s *Speaker) Stop(ctx context.Context, reason string) error {
	s.mu.Lock()
	already := s.stopped
	s.stopped = true
	neighbors := s.neighbors
	s.mu.Unlock()
	if !already {
		for _, n := range neighbors {
			n.stop(shutdown(reason))
		}
	}
	var err error
	for _, n := range neighbors {
		select {
		case <-n.done:
		case <-ctx.Done():
			err = fmt.Errorf("bgp: stopping %s: %w", n.cfg.Name, context.Cause(ctx))
		}
	}
	if !already {
		close(s.quit)
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return err
}

func shutdown(reason string) *fault {
	return &fault{Code: codeCease, Sub: subShutdown, Data: shutdownText(reason), Text: "stopped: " + reason}
}

// changed tells publish that there is something new.
func (s *Speaker) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}
