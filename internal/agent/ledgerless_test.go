package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// failing is a ledger whose disk fails: what must be written is refused and the
// state stands still, while what needs no write is still answered.
type failing struct {
	ledger.Ledger
	on    atomic.Pointer[decide.View] // the state, while it fails
	calls atomic.Uint64
}

func (f *failing) fail() { v := f.Ledger.View(); f.on.Store(&v) }

func (f *failing) View() decide.View {
	if v := f.on.Load(); v != nil {
		return *v
	}
	return f.Ledger.View()
}

var errDisk = errors.New("the ledger cannot write, so nothing was changed: input/output error")

func (f *failing) Ask(ctx context.Context, r steadycast.Request, vs ...steadycast.Verdict) (decide.Answer, error) {
	if f.on.Load() != nil {
		return decide.Answer{}, errDisk
	}
	return f.Ledger.Ask(ctx, r, vs...)
}

func (f *failing) Report(ctx context.Context, vs []steadycast.Verdict) error {
	if f.on.Load() != nil {
		if f.calls.Add(1)%2 == 0 {
			return nil // as for verdicts that are no news
		}
		return errDisk
	}
	return f.Ledger.Report(ctx, vs)
}

// mirror is a speaker that does what it is told, at once, towards one router.
type mirror struct {
	speaker.Interface
	tell func(steadycast.Actual)

	mu     sync.Mutex
	now    steadycast.Actual
	stance string // of the prefix: gone, normal, depreferred
	keep   bool   // the router acknowledges nothing
}

// keeps has the router keep what it has, or take up what it was sent.
func (m *mirror) keeps(keep bool) {
	m.mu.Lock()
	m.keep = keep
	if !keep && len(m.now.Sent) > 0 {
		m.now.Sent = []steadycast.Sent{m.now.Sent[0]}
		m.now.Sent[0].Acked = time.Now()
	}
	m.mu.Unlock()
	m.say()
}

func (m *mirror) Intent(context.Context) (speaker.Intent, error) { return speaker.Intent{}, nil }
func (m *mirror) Close() error                                   { return nil }

func (m *mirror) Apply(_ context.Context, set steadycast.RouteSet) error {
	m.mu.Lock()
	m.now.Incarnation, m.now.Version = set.Incarnation, set.Version
	m.now.Sent = []steadycast.Sent{{Peer: "tor1", Prefix: prefix, At: time.Now(), Acked: time.Now()}}
	if m.keep {
		m.now.Sent[0].Acked = time.Time{}
	}
	m.stance = "gone"
	if r, in := set.Find(prefix); in {
		m.now.Sent[0].Announced, m.stance = true, r.Stance.String()
	}
	m.mu.Unlock()
	m.say()
	return nil
}

// vip puts the service's address on the host, or takes it away.
func (m *mirror) vip(present bool) {
	m.mu.Lock()
	m.now.VIPs = []steadycast.VIP{{Address: prefix, Interface: "lo", Present: present, Usable: present}}
	m.mu.Unlock()
	m.say()
}

func (m *mirror) say() {
	m.mu.Lock()
	x := m.now
	m.mu.Unlock()
	m.tell(x)
}

// wire says how the prefix is sent.
func (m *mirror) wire() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stance
}

// TestLedgerThatCannotWrite: without a ledger nothing is withdrawn, and a certain
// local failure is depreferred after a while, though the ledger still answers
// what needs no write. It is said once, and ends by itself.
func TestLedgerThatCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := decide.Table{
			Sites: []decide.Place{{Name: "fra"}},
			Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{prefix},
				Health: decide.Health{Rise: 3, HoldUp: time.Second}}},
			Guards: decide.Guards{Cooldown: time.Millisecond},
		}
		quiet := slog.New(slog.DiscardHandler)
		local, err := ledger.Open("", table, ledger.Options{Fleet: "test", Node: "fra-1", Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		led := &failing{Ledger: local}
		m := &mirror{now: steadycast.Actual{Started: 1, Peers: []steadycast.Peer{{Name: "tor1", State: steadycast.PeerEstablished, Families: []string{"ipv4"}}}}}
		said := &logFile{}
		a, err := New(Options{
			Site: "fra", Node: "fra-1", Fleet: "test", Solo: true, Ledger: led, Logger: slog.New(slog.NewTextHandler(said, nil)),
			Plan: Plan{
				Table: table,
				Probes: []probe.Service{{Name: "web", Subject: "fra", Vantage: "fra", Interval: time.Second, FastInterval: 200 * time.Millisecond,
					Checks: []probe.Check{{Name: "address", Kind: "vip", Target: prefix.Addr().String()}}}},
			},
			Speak: func(o speaker.Options) (speaker.Interface, error) {
				m.tell = o.OnActual
				m.vip(true)
				return m, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		wire := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after) // the bubble's clock: it takes no time
			synctest.Wait()
			if got := m.wire(); got != want {
				t.Fatalf("the route is %s, want %s; it said\n%s", got, want, said)
			}
		}
		wire(30*time.Second, "normal")

		led.fail()
		m.vip(false)
		wire(10*time.Second, "normal")
		wire(10*time.Second, "depreferred")
		wire(10*time.Minute, "depreferred")
		s := a.snapshot.Load()
		if s.LedgerLost == "" || s.Status().Summary.Mark != "held: no ledger to ask" {
			t.Errorf("ledger lost: %q; %+v", s.LedgerLost, s.Status().Summary)
		}
		if n := said.count("msg=alarm", "the ledger cannot be reached"); n != 1 {
			t.Errorf("said %d times\n%s", n, said)
		}
		if n := strings.Count(said.String(), "\n"); n > 15 {
			t.Errorf("%d lines for one fault:\n%s", n, said)
		}

		m.vip(true)
		wire(10*time.Second, "normal")
		m.vip(false)
		wire(20*time.Second, "depreferred")
		led.on.Store(nil)
		wire(3*time.Minute, "gone") // found out by the ledger's own next entry
		if n := said.count("msg=recovery", "the ledger is within reach again"); n != 1 {
			t.Errorf("its return was said %d times\n%s", n, said)
		}
		row := a.snapshot.Load().Rows()[0]
		if row.State != api.Withdrawn {
			t.Errorf("%+v", row)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
