package probe

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// tripwire holds one idle TCP connection to a check's target. When the far
// process dies, its kernel ends the connection at once; that is no verdict, it
// only makes the probes look now instead of at their next slot.
//
// hold's goroutine owns the connection; others read state.
type tripwire struct {
	dialer
	target  string
	timeout time.Duration
	now     atomic.Pointer[string]
}

// A server may close idle connections as it likes. One that lived for less
// than shortLife says nothing, and makes the next come later.
const (
	shortLife   = time.Second
	firstPause  = 50 * time.Millisecond
	longestWait = 30 * time.Second
)

var errTalks = errors.New("the server sends without being asked; a tripwire must be idle")

func newTripwire(c Check, env Env) *tripwire {
	host, port := endpoint(c)
	w := &tripwire{dialer: newDialer(c, env), target: net.JoinHostPort(host, port), timeout: c.Timeout}
	w.say("not armed yet")
	return w
}

func (w *tripwire) say(s string)  { w.now.Store(&s) }
func (w *tripwire) state() string { return *w.now.Load() }

// hold keeps a connection until ctx ends and calls lost when one is lost.
func (w *tripwire) hold(ctx context.Context, lost func()) {
	pause := firstPause
	for {
		lived, err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if lived > 0 { // it was armed
			lost()
		}
		if lived >= shortLife {
			pause = firstPause
		}
		w.say("not armed: " + clip(err.Error(), 120))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, longestWait)
	}
}

// once connects and waits for the end of the connection; lived is 0 when there
// was none.
func (w *tripwire) once(ctx context.Context) (lived time.Duration, err error) {
	dctx, cancel := context.WithTimeout(ctx, w.timeout)
	conn, err := w.dial(dctx, "tcp", w.target)
	cancel()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(past) })()
	began := time.Now()
	w.say("armed")
	// What the server says unasked, a greeting say, is read away, up to a bound.
	n, err := io.Copy(io.Discard, io.LimitReader(conn, maxExpect))
	if err == nil {
		err = io.EOF
		if n == maxExpect {
			err = errTalks
		}
	}
	return max(1, time.Since(began)), err
}
