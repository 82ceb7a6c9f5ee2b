package role

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Child is one role that Supervise runs as a process of its own.
type Child struct {
	// Name is the role's, for the log.
	Name string
	// Args follow the name of the program.
	Args []string
	// Patience is how long it may take to stop before it is killed; default 20s.
	Patience time.Duration
	// Orphaned is the signal the kernel sends it when its parent is gone;
	// default SIGTERM, so that it ends in order.
	Orphaned syscall.Signal
	// Keeps: its open files can be kept over a restart ([Process.Keep]).
	Keeps bool
}

// Supervision is what Supervise needs to know.
type Supervision struct {
	// Exe is the program of all children; default this one.
	Exe string
	// Children in the order they start. They stop in the reverse order, each
	// after the one before is gone: the agent before the speaker, so that nobody
	// asks for routes while they are drained.
	Children []Child
	// Env is added to this process's environment.
	Env    []string
	Logger *slog.Logger
}

// A child that ends is started again after a pause that doubles from firstPause
// to lastPause, and is firstPause again once it has run for steady. ExitConfig
// is the exit code of bad settings: at a child's first start no further one can
// help; later the file was changed under a running node, which a person can mend.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 30 * time.Second
	steady     = time.Minute
	ExitConfig = 2
)

// ExitError carries the exit code this process should end with.
type ExitError struct {
	Code int
	Text string
}

func (e *ExitError) Error() string { return e.Text }

// Supervise runs the children until p is asked to stop, or one of them finds
// its settings wrong at its first start. SIGHUP and SIGUSR1 reach every child; so does a second
// SIGTERM. A child that crashes is started again and disturbs no other. When it
// returns no child is left, and the kernel sees to that if this process is killed.
func Supervise(ctx context.Context, p *Process, s Supervision) error {
	if s.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		s.Exe = exe
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	wards := make([]*ward, len(s.Children))
	hopeless := make(chan *ExitError, len(wards))
	var all sync.WaitGroup
	for i, c := range s.Children {
		if c.Patience == 0 {
			c.Patience = 20 * time.Second
		}
		if c.Orphaned == 0 {
			c.Orphaned = syscall.SIGTERM
		}
		w := &ward{Child: c, s: s, ended: make(chan struct{}), stopping: make(chan struct{})}
		wards[i] = w
		all.Go(func() { w.run(hopeless) })
	}
	p.OnReload(func(context.Context) error { return signalAll(wards, syscall.SIGHUP) })
	p.OnDump(func() { _ = signalAll(wards, syscall.SIGUSR1) })
	p.Ready(fmt.Sprintf("%d roles started", len(wards)))

	beat := time.NewTicker(p.Beat())
	defer beat.Stop()
	var verdict error
	for watching := true; watching; {
		p.Alive()
		select {
		case <-beat.C:
		case <-p.Stopping():
			watching = false
		case <-ctx.Done():
			watching = false
		case e := <-hopeless:
			s.Logger.Error("stopping everything: no further start can help", "err", e)
			verdict, watching = e, false
		}
	}
	// One after the other, while the watchdog is still fed.
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for _, w := range slices.Backward(wards) {
			w.stop(ctx)
		}
		all.Wait()
	}()
	for {
		p.Alive()
		select {
		case <-stopped:
			return verdict
		case <-beat.C:
			p.Extend(2*p.Beat() + time.Second)
		}
	}
}

func signalAll(wards []*ward, sig os.Signal) (err error) {
	for _, w := range wards {
		err = errors.Join(err, w.signal(sig))
	}
	return err
}

// ward is one child, started again as long as it is wanted.
type ward struct {
	Child
	s        Supervision
	stopOnce sync.Once
	stopping chan struct{}
	ended    chan struct{} // closed when run is over
	shelf    *shelf        // nil for none; run's own

	mu   sync.Mutex
	proc *os.Process // nil while none runs
}

// run keeps to one thread: the kernel ties Pdeathsig to the thread that started
// the child, and would send it when that thread ends (prctl(2)).
func (w *ward) run(hopeless chan<- *ExitError) {
	defer close(w.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	log := w.s.Logger.With("child", w.Name)
	if w.Keeps {
		s, err := newShelf()
		if err != nil {
			log.Warn("nothing can be kept for this child over a restart", "err", err)
		} else {
			w.shelf = s
			defer s.close()
		}
	}
	first := true
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := w.once(log)
		select {
		case <-w.stopping:
			log.Info("child ended", "how", ending(err))
			return
		default:
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == ExitConfig && first {
			hopeless <- &ExitError{ExitConfig, fmt.Sprintf("%s refused its settings (exit code %d); see its log", w.Name, ExitConfig)}
			<-w.stopping
			return
		}
		first = false
		if time.Since(began) >= steady {
			pause = firstPause
		}
		wait := pause/2 + rand.N(pause/2)
		log.Error("child ended without being asked; starting it again", "how", ending(err), "ran", time.Since(began).Round(time.Millisecond), "in", wait.Round(time.Millisecond))
		select {
		case <-w.stopping:
			return
		case <-time.After(wait):
		}
	}
}

func (w *ward) once(log *slog.Logger) error {
	cmd := exec.Command(w.s.Exe, w.Args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The service manager watches this process alone; a child's word to it would be dropped.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return hasKey(kv, "NOTIFY_SOCKET") || hasKey(kv, "WATCHDOG_USEC") || hasKey(kv, "WATCHDOG_PID") ||
			hasKey(kv, "LISTEN_FDS") || hasKey(kv, "LISTEN_PID") || hasKey(kv, "LISTEN_FDNAMES") || hasKey(kv, storeFD)
	}), w.s.Env...)
	if w.shelf != nil {
		var env []string
		cmd.ExtraFiles, env = w.shelf.give()
		cmd.Env = append(cmd.Env, env...)
	}
	// A group of its own: ctrl-C on a terminal reaches this process only, which
	// then stops the children in their order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: w.Orphaned}
	w.mu.Lock()
	select {
	case <-w.stopping: // asked to stop before it could be started
		w.mu.Unlock()
		return nil
	default:
	}
	err := cmd.Start()
	if err == nil {
		w.proc = cmd.Process
		log.Info("child started", "pid", cmd.Process.Pid)
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	err = cmd.Wait()
	w.mu.Lock()
	w.proc = nil
	w.mu.Unlock()
	return err
}

func hasKey(kv, key string) bool {
	return len(kv) > len(key) && kv[:len(key)] == key && kv[len(key)] == '='
}

func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func (w *ward) signal(sig os.Signal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proc == nil {
		return nil
	}
	if err := w.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	return nil
}

// stop asks the child to end, asks again when ctx ends, and kills it when its
// patience is over.
func (w *ward) stop(ctx context.Context) {
	w.stopOnce.Do(func() { close(w.stopping) })
	_ = w.signal(syscall.SIGTERM)
	atOnce, kill := ctx.Done(), time.After(w.Patience)
	for {
		select {
		case <-w.ended:
			return
		case <-atOnce:
			atOnce = nil
			_ = w.signal(syscall.SIGTERM)
		case <-kill:
			w.s.Logger.Error("child does not end; killing it", "child", w.Name, "after", w.Patience)
			_ = w.signal(syscall.SIGKILL)
			<-w.ended
			return
		}
	}
}
