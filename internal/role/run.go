package role

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Spec is what Run needs to know of a role.
type Spec struct {
	// Name is the role's: speaker, agent.
	Name   string
	Logger *slog.Logger
	// Signals replaces the process's own; for roles that share a process, and tests.
	Signals <-chan os.Signal
}

// Process is what a role's body sees of the process it lives in. Its methods
// never block and may be called from any goroutine.
type Process struct {
	name string
	log  *slog.Logger

	notify   *notifier
	watchdog time.Duration // WATCHDOG_USEC, 0 if nobody watches
	began    time.Time
	alive    atomic.Int64 // time since began of the last Alive, in ns
	ready    atomic.Bool
	stopping chan struct{}
	stopOnce sync.Once
	reload   chan struct{} // one is enough: the newest file is what counts
	onReload atomic.Pointer[func(context.Context) error]
	onDump   atomic.Pointer[func()]
	reloads  sync.Mutex // one reload at a time
}

// ErrNoReload is returned by a role that has nothing to reload.
var ErrNoReload = errors.New("there is nothing to reload")

// Run runs body as a role: it hears the process's signals and speaks to the
// service manager.
//
//	SIGTERM, SIGINT  the first closes Process.Stopping: end in order;
//	                 the second cancels ctx: end at once; the third ends the process
//	SIGHUP           Process.OnReload's function; the old settings stay if it fails
//	SIGUSR1          Process.OnDump's function
//
// The end of ctx is like the second SIGTERM.
func Run(ctx context.Context, s Spec, body func(context.Context, *Process) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &Process{
		name: s.Name, log: s.Logger, notify: newNotifier(), began: time.Now(),
		stopping: make(chan struct{}), reload: make(chan struct{}, 1),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		p.log.Warn("the service manager's watchdog is not fed", "err", err)
	}
	signals := s.Signals
	if signals == nil {
		own := make(chan os.Signal, 8)
		signal.Notify(own, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
		defer signal.Stop(own)
		signals = own
	}
	var helpers sync.WaitGroup
	ended := make(chan struct{})
	helpers.Go(func() { p.hear(ended, cancel, func() { os.Exit(1) }, signals) })
	helpers.Go(func() { p.reloadWhenAsked(ctx) })
	helpers.Go(func() { p.watch(ctx) })
	err = body(ctx, p)
	p.stop()
	cancel()
	close(ended)
	helpers.Wait()
	p.notify.close()
	return err
}

// Ready says that the role does its work. It does not wait for routers.
func (p *Process) Ready(text string) {
	p.ready.Store(true)
	p.notify.send(daemon.SdNotifyReady, status(text))
}

// Status is one line of truth for `systemctl status`.
func (p *Process) Status(format string, args ...any) {
	p.notify.send(status(fmt.Sprintf(format, args...)))
}

// Alive says that the loop which decides, or owns the routes, goes round. Only
// this feeds the watchdog; call it at least every Beat.
func (p *Process) Alive() { p.alive.Store(int64(time.Since(p.began))) }

// Beat is how often Alive must be called at least.
func (p *Process) Beat() time.Duration {
	if p.watchdog == 0 {
		return 5 * time.Second
	}
	return p.watchdog / 4
}

// Stopping is closed when the role should end in order.
func (p *Process) Stopping() <-chan struct{} { return p.stopping }

// Extend asks the service manager for d more from now on, while stopping or starting takes long.
func (p *Process) Extend(d time.Duration) { p.notify.send(extend(d)) }

// OnReload says what SIGHUP does. On an error everything must be as before.
func (p *Process) OnReload(f func(context.Context) error) { p.onReload.Store(&f) }

// OnDump says what SIGUSR1 does: it writes the state to the log.
func (p *Process) OnDump(f func()) { p.onDump.Store(&f) }

// Reload does what SIGHUP does and returns its error.
func (p *Process) Reload(ctx context.Context) error {
	p.reloads.Lock()
	defer p.reloads.Unlock()
	f := p.onReload.Load()
	if f == nil {
		return ErrNoReload
	}
	p.notify.send(reloading()...)
	err := (*f)(ctx)
	text := "reloaded"
	if err != nil {
		text = fmt.Sprintf("reload refused, the old settings stay: %v", err)
		p.log.Error("reload refused; the old settings stay", "err", err)
	} else {
		p.log.Info("reloaded")
	}
	// A reload ends with READY whatever came of it (sd_notify(3)).
	p.notify.send(daemon.SdNotifyReady, status(text))
	return err
}

func (p *Process) stop() {
	p.stopOnce.Do(func() {
		close(p.stopping)
		p.notify.send(daemon.SdNotifyStopping, status("stopping"))
	})
}

func (p *Process) hear(ended <-chan struct{}, atOnce, leave func(), signals <-chan os.Signal) {
	for stops := 0; ; {
		select {
		case <-ended:
			return
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP:
				select {
				case p.reload <- struct{}{}:
				default:
				}
			case syscall.SIGUSR1:
				if f := p.onDump.Load(); f != nil {
					go (*f)()
				}
			case syscall.SIGTERM, os.Interrupt:
				switch stops++; stops {
				case 1:
					p.log.Info("asked to stop; ask again to stop at once", "signal", sig)
					p.stop()
				case 2:
					p.log.Warn("asked again to stop: at once", "signal", sig)
					atOnce()
				default:
					p.log.Error("asked a third time to stop: leaving everything as it is", "signal", sig)
					leave()
				}
			}
		}
	}
}

func (p *Process) reloadWhenAsked(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.reload:
			_ = p.Reload(ctx) // said already
		}
	}
}

// watch forwards signs of life to the service manager. With a period of T it
// looks every T/4 and forwards only a sign that is at most T/2 old: a loop that
// hangs gets its last WATCHDOG at most 3/4 T after its last turn.
func (p *Process) watch(ctx context.Context) {
	if p.watchdog == 0 {
		return
	}
	t := time.NewTicker(p.watchdog / 4)
	defer t.Stop()
	for hung := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		age := time.Since(p.began) - time.Duration(p.alive.Load())
		switch {
		case age <= p.watchdog/2:
			p.notify.send(daemon.SdNotifyWatchdog)
			hung = false
		case !hung && p.ready.Load():
			hung = true
			p.log.Error("the loop that feeds the watchdog hangs", "role", p.name, "for", age.Round(time.Millisecond))
		}
	}
}
