package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
)

// nameServer is a server of names that leads so many clients a second to fra's web.
type nameServer struct {
	mu    sync.Mutex
	began time.Time
	n     uint64
	milli uint64 // thousandths of an answer
	at    time.Time
	rate  uint64
	lost  error
}

func (s *nameServer) count(now time.Time) {
	s.milli += s.rate * uint64(now.Sub(s.at).Milliseconds())
	s.n, s.milli, s.at = s.n+s.milli/1000, s.milli%1000, now
}

func (s *nameServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(time.Now())
	s.milli = 0
	f()
}

func (s *nameServer) ask(context.Context) (l api.Led, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(time.Now())
	return api.Led{Began: s.began, Led: []api.LedTo{{Site: "fra", Service: "web", Count: s.n}}}, s.lost
}

// viewOnly is a ledger of which only the view is asked.
type viewOnly struct {
	ledger.Ledger
	view decide.View
}

func (v viewOnly) View() decide.View { return v.view }

// TestWhomNamesLead: a beat tells what was counted in the last window: nothing before
// there was a whole one, the newest after, with its age while the server does not
// answer, and never a difference to what another start of it had counted.
func TestWhomNamesLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &nameServer{began: time.Now(), at: time.Now(), n: 12345, rate: 3}
		unit := steadycast.Unit{Site: "fra", Prefix: prefix}
		a := &Agent{o: Options{Led: s.ask, Logger: slog.New(slog.DiscardHandler), Ledger: viewOnly{view: decide.View{
			Table: decide.Table{Sites: []decide.Place{{Name: "fra"}}, Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{prefix}}}},
			Units: []decide.UnitView{{Unit: unit, Phase: steadycast.Out}},
		}}}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.watchLed(ctx) }()
		time.Sleep(time.Millisecond)
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			got := "nothing"
			if l := a.ledTold(); l != nil {
				got = fmt.Sprint(*l)
			}
			if got != want {
				t.Errorf("%v; want %v", got, want)
			}
		}
		expect(9*time.Second, "nothing")
		expect(time.Second, "{0 [{fra web 30}]}")
		s.change(func() { s.rate = 0 })
		expect(4*time.Second, "{0 [{fra web 18}]}")
		expect(6*time.Second, "{0 []}")
		s.change(func() { s.rate = 1 })
		expect(2*time.Second, "{0 [{fra web 1}]}")
		s.change(func() { s.lost = errors.New("connection refused") })
		expect(30*time.Second, "{30 [{fra web 1}]}")
		s.change(func() { s.lost, s.began, s.n, s.rate = nil, time.Now(), 7, 5 })
		expect(9*time.Second, "{39 [{fra web 1}]}")
		expect(2*time.Second, "{0 [{fra web 50}]}")
		cancel()
		<-done
	})
}
