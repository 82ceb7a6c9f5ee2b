package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/internal/role"
)

// announcer is what the engine needs of the BGP sessions; bgp.Speaker is one.
type announcer interface {
	Apply(steadycast.RouteSet) error
	Actual() steadycast.Actual
	Plan(bgp.Settings) []bgp.Change
	Reconfigure(bgp.Settings) error
	Stop(ctx context.Context, reason string) error
}

// addresses is what the engine needs of the host; bgp.VIPs is one.
type addresses interface {
	Set([]netip.Prefix) error
	Repair() error
	Actual() []steadycast.VIP
	Release(context.Context) error
	Close()
}

// makers make both; tests put their own in place.
type makers struct {
	speaker func(bgp.Settings, bgp.Options) (announcer, error)
	vips    func(bgp.VIPSettings, bgp.VIPOptions) (addresses, error)
}

var realMakers = makers{
	speaker: func(s bgp.Settings, o bgp.Options) (announcer, error) { return bgp.New(s, o) },
	vips:    func(s bgp.VIPSettings, o bgp.VIPOptions) (addresses, error) { return bgp.NewVIPs(s, o) },
}

// engine carries out what an agent wants. The goroutine of run owns every field
// above the line; others reach them by do only.
type engine struct {
	cfg     Config
	log     *slog.Logger
	make    makers
	out     announcer
	vips    addresses
	vipConf bgp.VIPSettings
	starts  role.Starts

	high       mark                // nothing below it is taken up
	asked      steadycast.RouteSet // the set taken up last, as the agent gave it
	newest     steadycast.RouteSet // what of it the allow-list lets through
	askedAt    time.Time
	remembered bool                // asked is from before the start: nothing of it is announced
	given      steadycast.RouteSet // what the sessions were told: may be less than newest, or less attractive
	path       *string             // by which the routes went last, to be remembered
	told       uint64              // how often they were told; their own version number
	numbers    map[uint64]mark     // the agent's numbers of what they were told, until they say they did it
	allow      []netip.Prefix      // the settings' allow-list
	asBackup   []netip.Prefix      // what it allows besides, as backup
	vipsWanted []netip.Prefix      // a superset of newest.VIPs while addresses outlive their routes
	vipsGiven  []netip.Prefix

	busy     bool             // the keeper has a task
	unsaved  bool             // asked is not in the keeper's hands yet
	waiting  []chan error     // callers of apply whose new prefixes wait for the keeper
	patience <-chan time.Time // when they hear that it still takes
	trimVIPs <-chan time.Time // when unwanted addresses may go
	rewrite  <-chan time.Time // when the disk, which failed, is tried again

	agents    int              // agents connected
	agentGone <-chan time.Time // when routes are depreferred for want of an agent
	lost      bool             // they are
	loopOver  <-chan time.Time // when a crash loop is over; nil when there is none
	stop      *stopping        // set while the speaker is on its way out
	alarms    map[string]string
	said      statusLine

	// ── shared ──

	calls   chan func() // 64; a full one makes callers wait, none is lost
	changed chan struct{}
	kept    keeper
	actual  atomic.Pointer[steadycast.Actual]
	subs    subscribers
	ended   chan struct{}

	// Set before run and then left alone: the process around the engine.
	alive  func()
	beat   time.Duration
	status func(format string, args ...any)
	extend func(time.Duration)
}

// newEngine reads the settings and what the last process knew. Nothing is
// announced and no address is touched before an agent gives a set.
func newEngine(cfg Config, m makers) (*engine, error) {
	cfg = cfg.WithDefaults()
	if cfg.AgentLost != "keep" && cfg.AgentLost != "deprefer" {
		return nil, fmt.Errorf("agent_lost: %q is not a reaction; allowed: keep, deprefer", cfg.AgentLost)
	}
	settings, vipConf, err := cfg.Load()
	if err != nil {
		return nil, err
	}
	e := &engine{
		cfg: cfg, log: cfg.Logger, make: m, vipConf: vipConf, allow: settings.Allow, asBackup: settings.AllowBackup,
		alarms: map[string]string{}, numbers: map[uint64]mark{},
		calls: make(chan func(), 64), changed: make(chan struct{}, 1), ended: make(chan struct{}),
		alive: func() {}, beat: 5 * time.Second, status: func(string, ...any) {}, extend: func(time.Duration) {},
	}
	e.kept = keeper{path: e.file("intent.json"), node: cfg.Node, tasks: make(chan task, 1), done: make(chan result, 1)}
	e.remember()
	if e.vips, err = m.vips(vipConf, e.vipOptions()); err != nil {
		return nil, fmt.Errorf("service addresses: %w", err)
	}
	if e.out, err = m.speaker(settings, bgp.Options{Logger: cfg.Logger, OnChange: e.wake, Started: e.starts.Total, Path: e.path}); err != nil {
		e.vips.Close()
		return nil, fmt.Errorf("bgp: %w", err)
	}
	e.notice("agent", "no agent yet; nothing is announced until one gives a set")
	e.publish()
	return e, nil
}

func (e *engine) file(name string) string { return filepath.Join(e.cfg.StateDir, name) }

func (e *engine) vipOptions() bgp.VIPOptions {
	return bgp.VIPOptions{Logger: e.cfg.Logger, OnChange: e.wake}
}

// remember counts this start and reads what the last process was told.
func (e *engine) remember() {
	if e.cfg.StateDir == "" { // remembers nothing: a demo
		e.starts = role.Starts{Total: 1}
		return
	}
	now := role.Now()
	var err error
	if e.starts, err = role.CountStart(e.file("speaker-starts.json"), now); err != nil {
		e.log.Error("the count of starts is not sound, so a crash loop may go unnoticed", "err", err)
	}
	if left, loop := e.starts.Loop(now); loop {
		e.alarm("crash_loop", fmt.Sprintf("%d starts within %v: announcing nothing for %v, or until `steadycast reload --clear-crash-loop`",
			role.CrashLoopStarts, role.CrashLoopWindow, left.Round(time.Second)))
		e.loopOver = time.After(left)
	}
	b, err := readIntent(e.kept.path, e.cfg.Node, now.Wall)
	if err != nil {
		e.log.Error("speaker state", "err", err)
	}
	e.path = b.Path
	if b.Mark != (mark{}) {
		e.high, e.asked, e.askedAt, e.remembered = b.Mark, b.Set, b.At, true
		e.log.Info("an earlier intent is remembered; nothing is announced until an agent gives a set",
			"routes", len(b.Set.Routes), "fence", b.Mark.Fence, "inc", b.Mark.Incarnation, "version", b.Mark.Version)
	}
}

// wake says that sessions or addresses changed. Called from their goroutines.
func (e *engine) wake() {
	select {
	case e.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// do runs f in the owner's loop and waits for it.
func (e *engine) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case e.calls <- func() { f(); close(done) }:
	case <-e.ended:
		return ErrLost
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-e.ended:
		return ErrLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run owns the engine until it has stopped: in order when stop is closed, at
// once when ctx ends.
func (e *engine) run(ctx context.Context, stop <-chan struct{}) error {
	kept := make(chan struct{})
	go func() { defer close(kept); e.kept.run() }()
	beat := time.NewTicker(e.beat)
	defer beat.Stop()
	defer e.end(kept)
	atOnce := ctx.Done()
	for {
		e.alive()
		select {
		case <-beat.C:
		case f := <-e.calls:
			f()
		case <-e.changed:
			e.publish()
		case r := <-e.kept.done:
			e.keptTask(r)
		case <-e.patience:
			e.stillWaiting()
		case <-e.trimVIPs:
			e.trimVIPs, e.vipsWanted = nil, e.newest.VIPs
			e.keep()
		case <-e.rewrite:
			e.rewrite = nil
			e.keep()
		case <-e.agentGone:
			e.withoutAgent()
		case <-e.loopOver:
			e.endLoop("it has run long enough since the last start")
		case <-stop:
			stop = nil
			e.beginStop(StopDrain)
		case <-atOnce:
			atOnce = nil
			e.beginStop(StopNow)
		case <-e.stop.next():
			e.stepStop()
		case err := <-e.stop.over():
			return err
		}
	}
}

// end lets go of everyone who waits. What the keeper has in hand gets a second
// to come to disk before the state belongs to the next process.
func (e *engine) end(kept <-chan struct{}) {
	close(e.ended)
	e.answer(ErrStopping)
	close(e.kept.tasks)
	select {
	case <-kept:
	case <-time.After(time.Second):
		e.log.Error("the disk hangs; the last intent may not be on it")
	}
	e.vips.Close()
}
