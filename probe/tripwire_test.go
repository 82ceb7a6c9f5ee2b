package probe

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
)

// The far process dies: the next round does not wait for its slot, and the
// verdict is the probe's.
func TestTripwire(t *testing.T) {
	l, err := net.Listen("tcp", loopback.Own(t).String()) // it closes, and is then to refuse
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 64)
	serve(t, l, func(c net.Conn) { conns <- c; silent(c) })
	results := make(chan steadycast.Result, 64)
	s := NewScheduler(Options{OnResult: func(o steadycast.Observation, _ time.Duration) { results <- o.Result }})
	defer s.Stop()
	if err := s.Set([]Service{{Name: "s", Interval: time.Hour, FastInterval: 20 * time.Millisecond,
		Checks: []Check{{Name: "web", Kind: "tcp", Target: l.Addr().String(), Tripwire: true}}}}); err != nil {
		t.Fatal(err)
	}
	s.Hurry("s")
	expect(t, <-results, "up")
	eventually(t, "the tripwire is armed", func() bool { return s.Status()[0].Tripwire == "armed" })
	l.Close()
	began := time.Now()
	eventually(t, "the tripwire is lost", func() bool { // whichever of the connections it is
		select {
		case c := <-conns:
			reset2(c)
		default:
		}
		return s.Stats().Trips > 0
	})
	expect(t, <-results, "down hard: refused")
	expect(t, <-results, "down hard: refused") // and once more, at the fast pace
	if took := time.Since(began); took > time.Minute {
		t.Errorf("two rounds after the loss took %v; the interval is an hour", took)
	}
	eventually(t, "it says why it is not armed", func() bool { return strings.Contains(s.Status()[0].Tripwire, "refused") })
	if n := s.Stats().Trips; n != 1 {
		t.Errorf("%d losses counted; failing to come back is none", n)
	}
}

func reset2(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// A server that hangs up on idle connections, or that talks on them, makes no
// storm of rounds, and no verdict.
func TestTripwireIsBounded(t *testing.T) {
	for name, handle := range map[string]func(net.Conn){
		"hangs up at once": func(net.Conn) {},
		"floods": func(c net.Conn) {
			b := make([]byte, 1<<16)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var conns, lost atomic.Int64
			addr := server(t, func(c net.Conn) { conns.Add(1); handle(c) })
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			w := newTripwire(Check{Kind: "tcp", Target: addr, Timeout: time.Second}, Env{})
			w.hold(ctx, func() { lost.Add(1) })
			// Pauses of 25–50, 50–100, 100–200, … ms: at most six fit into a second.
			if n := conns.Load(); n < 2 || n > 7 || lost.Load() > n {
				t.Errorf("%d connections and %d losses in a second", n, lost.Load())
			}
		})
	}
}
