package speaker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/role"
)

// Run is the speaker's process, until it is told to stop and has stopped in order.
func Run(ctx context.Context, p *role.Process, cfg Config) error { return run(ctx, p, cfg, realMakers) }

func run(ctx context.Context, p *role.Process, cfg Config, m makers) error {
	cfg = cfg.WithDefaults()
	if cfg.StateDir == "" || cfg.Socket == "" {
		return fmt.Errorf("a speaker of its own needs a state_dir and a socket")
	}
	if err := os.MkdirAll(cfg.StateDir, 0o750); err != nil {
		return fmt.Errorf("state_dir: %w", err)
	}
	unlock, err := role.Lock(cfg.StateDir, "speaker")
	if err != nil {
		return err
	}
	defer unlock()
	ln, err := role.Listen(cfg.Socket, 0o660, cfg.Group)
	if err != nil {
		return err
	}
	e, err := newEngine(cfg, m)
	if err != nil {
		ln.Close()
		return err
	}
	e.alive, e.beat, e.status, e.extend = p.Alive, p.Beat(), p.Status, p.Extend
	p.OnReload(func(ctx context.Context) error { _, err := e.reload(ctx); return err })
	p.OnDump(func() { e.dump() })

	s := &server{e: e, log: cfg.Logger, conns: map[*serverConn]bool{}}
	var door sync.WaitGroup
	door.Go(func() { s.serve(ln) })
	p.Alive()
	p.Ready("waiting for an agent; nothing is announced")
	err = e.run(ctx, p.Stopping())
	ln.Close()
	door.Wait()
	return err
}

func (e *engine) intent() Intent {
	return Intent{Set: e.asked, At: e.askedAt, Fence: e.high.Fence, Remembered: e.remembered}
}

func (e *engine) clearAndWait(ctx context.Context, what Clearance) error {
	var refused error
	if err := e.do(ctx, func() { refused = e.clear(what) }); err != nil {
		return err
	}
	return refused
}

func (e *engine) stopAndWait(ctx context.Context, reason StopReason) error {
	if reason != StopDrain && reason != StopNow {
		return refuse("invalid", "%q is not a reason to stop; allowed: %s, %s", reason, StopDrain, StopNow)
	}
	return e.do(ctx, func() { e.beginStop(reason) })
}

// dump writes the state to the log, one line per thing.
func (e *engine) dump() {
	a := e.actual.Load()
	e.log.Info("dump", "started", a.Started, "inc", a.Incarnation, "version", a.Version, "alarm", a.Alarm)
	for _, p := range a.Peers {
		e.log.Info("dump: peer", "name", p.Name, "state", p.State, "since", p.Since, "announced", p.Announced, "flaps", p.Flaps, "last_error", p.LastError)
	}
	for _, r := range a.Sent {
		e.log.Info("dump: sent", "peer", r.Peer, "prefix", r.Prefix, "announced", r.Announced, "at", r.At, "acked", r.Acked)
	}
	for _, v := range a.VIPs {
		e.log.Info("dump: vip", "address", v.Address, "present", v.Present, "ours", v.Ours, "usable", v.Usable, "error", v.Error)
	}
}

// InProcess is a speaker in this process, without a socket.
type InProcess struct {
	e      *engine
	cancel context.CancelFunc
	stop   chan struct{}
	done   sync.WaitGroup
	err    error
}

var _ Interface = (*InProcess)(nil)

// Local starts a speaker in this process: the same engine without a socket,
// with its caller as the connected agent. With an empty StateDir it remembers nothing.
// Close ends it at once, and its routes with it.
func Local(cfg Config, o Options) (*InProcess, error) { return local(cfg, o, realMakers) }

func local(cfg Config, o Options, m makers) (*InProcess, error) {
	e, err := newEngine(cfg, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &InProcess{e: e, cancel: cancel, stop: make(chan struct{})}
	e.agentJoined("this process")
	e.publish()
	l.done.Go(func() { l.err = e.run(ctx, l.stop) })
	l.done.Go(func() { l.tell(o) })
	return l, nil
}

func (l *InProcess) tell(o Options) {
	changed := l.e.subs.add()
	defer l.e.subs.remove(changed)
	for {
		select {
		case <-l.e.ended:
			if o.OnLost != nil {
				o.OnLost(ErrLost)
			}
			return
		case <-changed:
			if o.OnActual != nil {
				o.OnActual(*l.e.actual.Load())
			}
		}
		select {
		case <-l.e.ended:
		case <-time.After(pushPause):
		}
	}
}

func (l *InProcess) Actual() (steadycast.Actual, bool) {
	select {
	case <-l.e.ended:
		return steadycast.Actual{}, false
	default:
		return *l.e.actual.Load(), true
	}
}

func (l *InProcess) Apply(ctx context.Context, set steadycast.RouteSet) error {
	return l.e.applyAndWait(ctx, set)
}

func (l *InProcess) Intent(ctx context.Context) (i Intent, err error) {
	err = l.e.do(ctx, func() { i = l.e.intent() })
	return i, err
}

func (l *InProcess) Plan(ctx context.Context) (Plan, error)   { return l.e.plan(ctx) }
func (l *InProcess) Reload(ctx context.Context) (Plan, error) { return l.e.reload(ctx) }

func (l *InProcess) Clear(ctx context.Context, what Clearance) error {
	return l.e.clearAndWait(ctx, what)
}

func (l *InProcess) Stop(ctx context.Context, reason StopReason) error {
	return l.e.stopAndWait(ctx, reason)
}

// Close stops the speaker at once and waits for it.
func (l *InProcess) Close() error {
	l.cancel()
	l.done.Wait()
	return l.err
}
