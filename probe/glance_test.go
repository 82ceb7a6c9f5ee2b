package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
	"golang.org/x/sys/unix"
)

// fakeGlance answers in one of its turns, or has to be waited for.
type fakeGlance struct {
	turns   []func() (steadycast.Result, bool)
	waiting fake
	drops   int
}

func (g *fakeGlance) more() (steadycast.Result, bool) {
	if len(g.turns) == 0 {
		return steadycast.Result{}, false
	}
	f := g.turns[0]
	g.turns = g.turns[1:]
	return f()
}
func (g *fakeGlance) wait(ctx context.Context) steadycast.Result { return g.waiting(ctx) }
func (g *fakeGlance) drop()                                      { g.drops++ }

func glancing(name string, g *fakeGlance) *Compiled {
	c := faked(name, time.Second, func(ctx context.Context) steadycast.Result { return look(ctx, g) })
	c.glance = func() glance { return g }
	return c
}

func over(r steadycast.Result) func() (steadycast.Result, bool) {
	return func() (steadycast.Result, bool) { return r, true }
}
func notYet() (steadycast.Result, bool) { return steadycast.Result{}, false }

// Those that take turns do not wait for each other: who has answered is told at
// once, and who has not is waited for by itself, with its own deadline. What
// breaks is unknown, and everything is dropped in the end.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cases := []struct {
			glance fakeGlance
			after  time.Duration
			want   string
		}{
			{fakeGlance{turns: []func() (steadycast.Result, bool){over(upR)}}, 0, "up"},
			{fakeGlance{turns: []func() (steadycast.Result, bool){notYet}, waiting: func(ctx context.Context) steadycast.Result { return failed(pause(ctx, time.Hour), "it", "waiting") }},
				time.Second, "down soft: timeout while waiting"},
			{fakeGlance{turns: []func() (steadycast.Result, bool){notYet, over(hard("refused"))}}, 0, "down hard: refused"},
			{fakeGlance{turns: []func() (steadycast.Result, bool){func() (steadycast.Result, bool) { panic("index out of range") }}}, 0, "unknown: the probe failed inside: index out of range"},
			{fakeGlance{turns: []func() (steadycast.Result, bool){notYet, notYet, over(upR)}}, moment, "up"},
			{fakeGlance{turns: []func() (steadycast.Result, bool){notYet, notYet}, waiting: always(upR, 300*time.Millisecond)}, moment + 300*time.Millisecond, "up"},
			{fakeGlance{waiting: func(context.Context) steadycast.Result { panic("no such thing") }}, moment, "unknown: the probe failed inside: no such thing"},
			{fakeGlance{waiting: func(context.Context) steadycast.Result { time.Sleep(time.Minute); return upR }}, time.Second + grace(time.Second), "unknown: the probe did not stop at its deadline"},
		}
		var all []errand
		type told struct {
			r  steadycast.Result
			at time.Duration
		}
		got := make([]told, 3*len(cases)*turns) // more than take turns with each other
		var glances []*fakeGlance
		for i := range got {
			g := cases[i%len(cases)].glance
			glances = append(glances, &g)
			all = append(all, turn(t, glancing(fmt.Sprint(i), &g), func(r steadycast.Result) {
				if got[i].r.Outcome != steadycast.Unknown || got[i].r.Reason != "" {
					t.Errorf("%d is told twice", i)
				}
				got[i] = told{r, time.Since(all[i].began)}
			}))
		}
		runs := make([]*Compiled, len(all))
		for i := range all {
			runs[i] = all[i].run
		}
		together(all, func(f func()) { go f() })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i, g := range got {
			c := cases[i%len(cases)]
			expect(t, g.r, c.want)
			if g.at != c.after {
				t.Errorf("%d was told after %v, not %v", i, g.at, c.after)
			}
			if glances[i].drops == 0 || runs[i].Running() {
				t.Errorf("%d: dropped %d times, running %v", i, glances[i].drops, runs[i].Running())
			}
		}
	})
}

// A host that stands still while attempts take turns knows nothing of those whose
// deadline went by meanwhile.
func TestTogetherStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r steadycast.Result
		slow := &fakeGlance{turns: []func() (steadycast.Result, bool){notYet, over(upR)},
			waiting: func(ctx context.Context) steadycast.Result { return failed(ctx.Err(), "it", "waiting") }}
		stall := &fakeGlance{turns: []func() (steadycast.Result, bool){func() (steadycast.Result, bool) { time.Sleep(3 * time.Second); return upR, true }}}
		together([]errand{turn(t, glancing("slow", slow), func(x steadycast.Result) { r = x }), turn(t, glancing("stall", stall), func(steadycast.Result) {})},
			func(f func()) { f() })
		expect(t, r, "unknown: this host was late: its 1s deadline ran out after 3s")
	})
}

// In a calm round what is due at one time takes turns: one slow service holds up
// no other, all keep to their own grid, and a bound is a bound. Who hurries goes alone.
func TestRoundsTakeTurns(t *testing.T) {
	const n = 3 * turns
	bubble(t, Options{Concurrency: n}, func(b *bench) {
		var together, alone atomic.Int64
		compile := b.s.compile
		b.s.compile = func(c Check, env Env) (*Compiled, error) {
			x, err := compile(c, env)
			if err == nil {
				x.glance = func() glance {
					together.Add(1)
					if c.Name == "slow" {
						return &fakeGlance{waiting: always(upR, 700*time.Millisecond)}
					}
					return &fakeGlance{turns: []func() (steadycast.Result, bool){notYet, over(upR)}}
				}
			}
			return x, err
		}
		look := func(context.Context) steadycast.Result { alone.Add(1); return upR }
		b.bodies["quick"], b.bodies["slow"] = look, look
		var all []Service
		slow := map[string]bool{}
		for i := range n {
			name := "quick"
			if i%turns == 1 {
				name, slow[fmt.Sprint(i)] = "slow", true
			}
			all = append(all, Service{Name: fmt.Sprint(i), Checks: []Check{check(name)}, Interval: time.Second})
		}
		b.set(all...)
		b.pass(10 * time.Second)
		first := map[string]time.Duration{}
		for _, x := range b.take() {
			took := time.Duration(0)
			if slow[x.Service] {
				took = 700 * time.Millisecond
			}
			if _, ok := first[x.Service]; !ok {
				first[x.Service] = x.started
			}
			if (x.started-first[x.Service])%time.Second != 0 || x.at != x.started+took {
				t.Errorf("%s began at %v and was told at %v", x.Service, x.started, x.at)
			}
		}
		if together.Load() < 9*n || alone.Load() != 0 || len(first) != n {
			t.Errorf("%d of %d services; %d attempts took turns, %d went alone", len(first), n, together.Load(), alone.Load())
		}
		b.s.Hurry("0")
		b.pass(0)
		if alone.Load() != 1 {
			t.Errorf("%d went alone after one was hurried", alone.Load())
		}
		if s := b.s.Stats(); s.Saturated != 0 || s.Skipped != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// However an attempt ends, its socket is closed.
func TestNoSocketIsLeft(t *testing.T) {
	open := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			mayLack(t, err.Error())
		}
		for _, f := range fds {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for name, c := range map[string]struct {
		target string
		ctx    context.Context
		env    Env
	}{
		"answered": {server(t, func(c net.Conn) { c.Read(make([]byte, 512)); io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n") }), context.Background(), Env{}},
		"silent":   {server(t, silent), context.Background(), Env{}},
		"reset":    {server(t, reset2), context.Background(), Env{}},
		"refused":  {loopback.Own(t).String(), context.Background(), Env{}},
		"stopped":  {server(t, silent), stopped, Env{}},
		"absent": {"192.0.2.1:80", context.Background(), Env{VIPs: func() []steadycast.VIP {
			return []steadycast.VIP{{Address: netip.MustParsePrefix("192.0.2.1/32")}}
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			var left int
			eventually(t, "connections of other tests are closed", func() bool { n := open(); same := n == left; left = n; return same })
			for _, kind := range []string{"tcp", "http"} {
				target := c.target
				if kind == "http" {
					target = "http://" + target
				}
				for range 20 {
					check := Check{Kind: kind, Target: target, Timeout: 50 * time.Millisecond}
					compiled(t, check, c.env).Run(c.ctx)
					x := compiled(t, check, c.env)
					done := make(chan steadycast.Result, 1)
					e := turn(t, x, func(r steadycast.Result) { done <- r })
					e.ctx = c.ctx
					together([]errand{e}, func(f func()) { go f() })
					<-done
				}
			}
			eventually(t, "no socket is left", func() bool { return open() <= left })
		})
	}
}

// Where nobody listens on a port of the range from which ports are given away, a
// connection can come to be with itself; it is no service's.
func TestConnectedToItself(t *testing.T) {
	inNamespace(t, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0o644); err != nil {
			t.Error(err)
			return
		}
		for _, target := range []string{"127.0.0.1:40000", "127.0.0.1:40001", "[::1]:40000", "[::1]:40001"} {
			for range 20 {
				expect(t, here(t, Check{Kind: "tcp", Target: target, TCP: &TCP{}}, Env{}), "down hard: connection refused")
				expect(t, here(t, Check{Kind: "http", Target: "http://" + target}, Env{}), "down hard: connection refused")
			}
		}
	})
}

// A connection of ours behaves as one of package net.
func TestConnIsAConnection(t *testing.T) {
	addr := server(t, func(c net.Conn) { io.Copy(c, c) })
	dial := func() *conn {
		c, err := dialer{}.dial(context.Background(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return c.(*conn)
	}
	c := dial()
	if c.RemoteAddr().String() != addr || !strings.HasPrefix(c.LocalAddr().String(), "127.0.0.1:") || c.LocalAddr().String() == addr {
		t.Errorf("from %v to %v", c.LocalAddr(), c.RemoteAddr())
	}
	c.raw.Control(func(fd uintptr) {
		if on, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY); on == 0 || err != nil {
			t.Errorf("it delays: %v", err)
		}
	})
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !isTimeout(err) {
		t.Errorf("at the deadline: %v", err)
	}
	c.SetDeadline(time.Time{})
	io.WriteString(c, "hello")
	b := make([]byte, 8)
	if n, err := c.Read(b); string(b[:n]) != "hello" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	ended := make(chan error)
	go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	if err := <-ended; err != net.ErrClosed {
		t.Errorf("closed while it read: %v", err)
	}
	if err := c.Close(); err != net.ErrClosed {
		t.Errorf("closed twice: %v", err)
	}
}
