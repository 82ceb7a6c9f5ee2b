package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"regexp"
	"time"

	"github.com/steadycast/steadycast"
)

// tcpProbe connects, and may send and expect.
type tcpProbe struct {
	dialer
	target string
	at     netip.AddrPort // target, if literal
	set    TCP
	expect *regexp.Regexp
}

// maxExpect is how much of an answer is looked at, in bytes.
const maxExpect = 64 << 10

func tcpProblems(c Check) []Problem {
	ps := hostPortProblems(c)
	ps = append(ps, regexpProblems("tcp.expect", c.TCP.Expect)...)
	return append(ps, latencyProblems("tcp.max_latency", c.TCP.MaxLatency, c.Timeout)...)
}

func compileTCP(c Check, env Env) (body, error) {
	at, _ := literal(c.Target)
	return &tcpProbe{newDialer(c, env), c.Target, at, *c.TCP, compileRegexp(c.TCP.Expect)}, nil
}

// glances: to connect is all, and how long it takes does not matter.
func (p *tcpProbe) glances() bool {
	return p.at.IsValid() && p.set.Send == "" && p.expect == nil && p.set.MaxLatency == 0
}

func (p *tcpProbe) glance() glance {
	return &tcpGlance{p.target, connecting{dialer: p.dialer, to: p.at}}
}

// tcpGlance only connects.
type tcpGlance struct {
	target string
	connecting
}

func (g *tcpGlance) more() (r steadycast.Result, over bool) {
	connected, err := g.connecting.more()
	switch {
	case err != nil:
		return failed(err, g.target, "connecting"), true
	case !connected:
		return r, false
	}
	return up("connected"), true
}

func (g *tcpGlance) wait(ctx context.Context) steadycast.Result {
	conn, err := g.connecting.wait(ctx)
	if err != nil {
		return failed(err, g.target, "connecting")
	}
	conn.Close()
	return up("connected")
}

func (p *tcpProbe) probe(ctx context.Context) steadycast.Result {
	if p.glances() {
		return look(ctx, p.glance())
	}
	began := time.Now()
	conn, err := p.dial(ctx, "tcp", p.target)
	if err != nil {
		return failed(err, p.target, "connecting")
	}
	defer conn.Close()
	if p.set.Send != "" || p.expect != nil {
		defer until(ctx, conn)()
		if r := p.talk(conn); r.Outcome != steadycast.Up {
			return r
		}
	}
	if r, slow := tooSlow(time.Since(began), p.set.MaxLatency); slow {
		return r
	}
	return up("connected")
}

func (p *tcpProbe) talk(conn net.Conn) steadycast.Result {
	if p.set.Send != "" {
		if _, err := io.WriteString(conn, p.set.Send); err != nil {
			return failed(err, p.target, "sending")
		}
	}
	if p.expect == nil {
		return up("")
	}
	var buf []byte
	for len(buf) < maxExpect {
		buf = grow(buf)
		n, err := conn.Read(buf[len(buf):min(cap(buf), maxExpect)])
		buf = buf[:len(buf)+n]
		if p.expect.Match(buf) {
			return up("")
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && len(buf) > 0:
			return p.env.word.of(soft("%s answered %q, which does not match %q", p.target, clip(string(buf), 80), p.set.Expect))
		case isTimeout(err) && len(buf) > 0:
			return soft("timeout: %s had answered only %q, which does not match %q", p.target, clip(string(buf), 80), p.set.Expect)
		default:
			return failed(err, p.target, "waiting for an answer")
		}
	}
	return soft("%s: nothing in the first %d bytes matches %q", p.target, maxExpect, p.set.Expect)
}

// grow makes room for more, twice as much each time, so that matching what has
// come so far again and again stays cheap.
func grow(b []byte) []byte {
	if len(b) < cap(b) {
		return b
	}
	bigger := make([]byte, len(b), max(512, 2*cap(b)))
	copy(bigger, b)
	return bigger
}
