package bgp

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"
)

// gobgpServer is a GoBGP server that can be used again. Serve never returns, so
// a server thrown away is a goroutine and its tables lost for good: servers are
// parked instead, and there are never more than neighbours at one time. (This is
// the one leak that a leak checker has to be told of.)
type gobgpServer struct {
	*server.BgpServer
	log *gobgpLog
}

// world is all GoBGP servers of this process, because StartBgp writes package
// variables of GoBGP that every other server reads: it may run only while they
// stand still. mu orders starts and stops.
var world struct {
	mu     sync.Mutex
	live   map[*gobgpServer]struct{}
	parked []*gobgpServer
	still  atomic.Pointer[standstill] // nil except during a start
}

// standstill is one moment in which every live server waits in its Observe. The
// one that starts, and those parked, are not among them.
type standstill struct {
	live    map[*gobgpServer]struct{} // never changed
	arrived chan struct{}             // one message per server
	over    chan struct{}             // closed when they may go on
}

// standstillLimit bounds the wait for a server that does not come. Starting
// without it is what GoBGP does by itself: the values written are those there.
const standstillLimit = 100 * time.Millisecond

// Observe is called by GoBGP's Serve after each thing it did: the one place
// where code of ours runs on a server's own goroutine.
func (s *gobgpServer) Observe(server.FSMOperation, time.Duration, time.Duration) {
	st := world.still.Load()
	if st == nil {
		return
	}
	if _, ok := st.live[s]; !ok {
		return
	}
	select {
	case st.arrived <- struct{}{}:
		<-st.over
	case <-st.over:
	}
}

// takeServer returns a server that is not started.
func takeServer() *gobgpServer {
	world.mu.Lock()
	defer world.mu.Unlock()
	if n := len(world.parked); n > 0 {
		s := world.parked[n-1]
		world.parked = world.parked[:n-1]
		return s
	}
	s := &gobgpServer{log: &gobgpLog{}}
	s.BgpServer = server.NewBgpServer(server.LoggerOption(s.log), server.TimingHookOption(s))
	go s.Serve() // before any call: every one waits for Serve
	return s
}

// start is StartBgp while all other servers stand still.
func (s *gobgpServer) start(r *api.StartBgpRequest) error {
	world.mu.Lock()
	defer world.mu.Unlock()
	st := &standstill{live: maps.Clone(world.live), arrived: make(chan struct{}), over: make(chan struct{})}
	world.still.Store(st)
	for o := range st.live {
		go o.GetBgp(context.Background(), &api.GetBgpRequest{}) // wakes it
	}
	limit := time.NewTimer(standstillLimit)
	defer limit.Stop()
arrivals:
	for range st.live {
		select {
		case <-st.arrived:
		case <-limit.C:
			break arrivals
		}
	}
	err := s.StartBgp(context.Background(), r)
	world.still.Store(nil)
	close(st.over)
	if world.live == nil {
		world.live = map[*gobgpServer]struct{}{}
	}
	world.live[s] = struct{}{}
	return err
}

// stop is StopBgp; it returns when the server is parked.
func (s *gobgpServer) stop() {
	s.StopBgp(context.Background(), &api.StopBgpRequest{})
	s.log.to.Store(nil)
	world.mu.Lock()
	defer world.mu.Unlock()
	delete(world.live, s)
	world.parked = append(world.parked, s)
}
