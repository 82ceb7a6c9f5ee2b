package speaker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/role"
)

// process is a speaker behind its socket, with fake sessions and addresses.
type process struct {
	*testing.T
	w       *world
	cfg     Config
	signals chan os.Signal
	ended   chan error
	cancel  context.CancelFunc
}

func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	w := newWorld()
	p := &process{T: t, w: w, cfg: w.config(filepath.Join(dir, "state")), signals: make(chan os.Signal, 4), ended: make(chan error, 1)}
	p.cfg.Socket = filepath.Join(dir, "speaker.sock")
	p.cfg.StopDrain, p.cfg.AfterWithdraw = 20*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		p.ended <- role.Run(ctx, role.Spec{Name: "speaker", Logger: p.cfg.Logger, Signals: p.signals},
			func(ctx context.Context, r *role.Process) error { return run(ctx, r, p.cfg, w.makers()) })
	}()
	t.Cleanup(p.stop)
	deadline := time.After(10 * time.Second)
	for {
		if conn, err := net.Dial("unix", p.cfg.Socket); err == nil {
			conn.Close()
			return p
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("the speaker opens no socket\n%s", w.logged())
		}
	}
}

// stop ends it at once; further calls do nothing.
func (p *process) stop() {
	p.cancel()
	select {
	case err := <-p.ended:
		if err != nil {
			p.Error(err)
		}
		p.ended <- nil
	case <-time.After(10 * time.Second):
		p.Errorf("the speaker does not end\n%s", p.w.logged())
	}
}

// listener hears what a client is told.
type listener struct {
	mu      sync.Mutex
	actuals []steadycast.Actual
	losses  []error
	news    chan struct{}
}

func (l *listener) options() Options {
	l.news = make(chan struct{}, 1)
	tell := func() {
		select {
		case l.news <- struct{}{}:
		default:
		}
	}
	return Options{
		OnActual: func(a steadycast.Actual) { l.mu.Lock(); l.actuals = append(l.actuals, a); l.mu.Unlock(); tell() },
		OnLost:   func(err error) { l.mu.Lock(); l.losses = append(l.losses, err); l.mu.Unlock(); tell() },
	}
}

func (l *listener) until(t *testing.T, what string, ok func(actuals []steadycast.Actual, losses []error) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		l.mu.Lock()
		done := ok(l.actuals, l.losses)
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-l.news:
		case <-deadline:
			t.Fatalf("never %s: %+v, %v", what, l.actuals, l.losses)
		}
	}
}

func connected(actuals []steadycast.Actual, _ []error) bool { return len(actuals) > 0 }

func dial(t *testing.T, path string, o Options) *Client {
	t.Helper()
	c := Dial(path, o)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClientComesBack(t *testing.T) {
	dir := t.TempDir()
	var l listener
	c := dial(t, filepath.Join(dir, "speaker.sock"), l.options())
	l.until(t, "told that there is no speaker", func(_ []steadycast.Actual, losses []error) bool {
		return len(losses) == 1 && errors.Is(losses[0], ErrLost)
	})
	if _, ok := c.Actual(); ok {
		t.Error("has a snapshot of no speaker")
	}
	if err := c.Apply(context.Background(), set(1, "1")); !errors.Is(err, ErrLost) {
		t.Errorf("apply without a speaker: %v", err)
	}
	p := startProcess(t, dir)
	l.until(t, "connected", connected)
	mustApply(t, c, set(1, "1", "2"))
	l.until(t, "told of the routes", func(as []steadycast.Actual, _ []error) bool {
		a := as[len(as)-1]
		return a.Version == 1 && len(a.Sent) == 2 && a.Alarm == ""
	})
	p.stop()
	l.until(t, "told of the loss, once", func(_ []steadycast.Actual, losses []error) bool { return len(losses) == 2 })
	l.mu.Lock()
	l.actuals = nil
	l.mu.Unlock()
	startProcess(t, dir)
	l.until(t, "connected again", connected)
	if i, err := c.Intent(context.Background()); err != nil || !i.Remembered || i.Set.Version != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	// The refusal's kind comes through the socket.
	if err := c.Apply(context.Background(), set(0)); !errors.Is(err, ErrStale) {
		t.Errorf("got %v", err)
	}
}

func TestAgentsEndMovesNoRoute(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir)
	var l, watch listener
	c := dial(t, p.cfg.Socket, l.options())
	l.until(t, "connected", connected)
	mustApply(t, c, set(1, "1"))
	p.w.read()
	o := watch.options()
	o.Watch = true
	w := dial(t, p.cfg.Socket, o)
	c.Close()
	watch.until(t, "told that the agent is lost", func(as []steadycast.Actual, _ []error) bool {
		return len(as) > 0 && strings.Contains(as[len(as)-1].Alarm, "no agent since")
	})
	if got := p.w.read(); got != "" {
		t.Errorf("the agent's end did something: %s", got)
	}
	if err := w.Apply(context.Background(), set(2)); !errors.Is(err, ErrReplaced) {
		t.Errorf("a watcher applied: %v", err)
	}
	if p, err := w.Plan(context.Background()); err != nil || len(p.Neighbors) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := w.Reload(context.Background()); err != nil {
		t.Error(err)
	}
	if err := w.Clear(context.Background(), "everything"); !errors.Is(err, &Refused{Code: "invalid"}) {
		t.Error(err)
	}
}

func TestNewerAgentReplacesOlder(t *testing.T) {
	p := startProcess(t, t.TempDir())
	var a, b listener
	older := dial(t, p.cfg.Socket, a.options())
	a.until(t, "connected", connected)
	mustApply(t, older, set(1, "1"))
	newer := dial(t, p.cfg.Socket, b.options())
	b.until(t, "connected", connected)
	a.until(t, "replaced", func(_ []steadycast.Actual, losses []error) bool {
		return len(losses) == 1 && errors.Is(losses[0], ErrReplaced)
	})
	mustApply(t, newer, set(2, "1", "2"))
	b.until(t, "in charge without an alarm", func(as []steadycast.Actual, _ []error) bool {
		return as[len(as)-1].Version == 2 && as[len(as)-1].Alarm == ""
	})
	if err := older.Apply(context.Background(), set(3)); !errors.Is(err, ErrLost) {
		t.Errorf("the older applied: %v", err)
	}
}

func TestStopOverTheSocket(t *testing.T) {
	p := startProcess(t, t.TempDir())
	var l listener
	c := dial(t, p.cfg.Socket, l.options())
	l.until(t, "connected", connected)
	mustApply(t, c, set(1, "1"))
	p.w.read()
	if err := c.Stop(context.Background(), "coffee"); !errors.Is(err, &Refused{Code: "invalid"}) {
		t.Error(err)
	}
	if err := c.Stop(context.Background(), StopDrain); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(10 * time.Second):
		t.Fatal("does not stop")
	}
	got := p.w.read()
	for i, step := range []string{"announce [192.0.2.1(draining)]", "announce []", "release addresses", "close sessions"} {
		if _, after, ok := strings.Cut(got, step); !ok {
			t.Fatalf("step %d, %q, is not where it should be:\n%s", i, step, got)
		} else {
			got = after
		}
	}
}

// TestStrangersAtTheDoor: whatever comes, the agent's connection goes on.
func TestStrangersAtTheDoor(t *testing.T) {
	p := startProcess(t, t.TempDir())
	var l listener
	c := dial(t, p.cfg.Socket, l.options())
	l.until(t, "connected", connected)
	hello := `{"id":1,"do":"hello","protocol":1,"watch":true}` + "\n"
	for name, say := range map[string]string{
		"no JSON":               "GET / HTTP/1.1\r\n\r\n",
		"no hello":              `{"id":1,"do":"apply"}` + "\n",
		"another protocol":      `{"id":1,"do":"hello","protocol":2}` + "\n",
		"no JSON after a hello": hello + "}}}}\n",
		"an unknown question":   hello + `{"id":2,"do":"dance"}` + "\n",
		"apply without a set":   hello + `{"id":2,"do":"apply"}` + "\n",
		"a set that is no set":  hello + `{"id":2,"do":"apply","set":{"routes":[{}]}}` + "\n",
	} {
		conn, err := net.Dial("unix", p.cfg.Socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		r, refused := bufio.NewReader(conn), false
		for !refused {
			var f frame
			if err := readFrame(r, &f); err != nil {
				var timeout net.Error
				if refused = !(errors.As(err, &timeout) && timeout.Timeout()); !refused {
					t.Fatalf("%s: neither refused nor hung up on", name)
				}
			}
			refused = refused || f.Error != nil
		}
		conn.Close()
	}
	mustApply(t, c, set(1, "1"))

	// As many as like to come: the door holds, and is open again when they leave.
	var crowd []net.Conn
	for range 2 * maxClients {
		conn, err := net.Dial("unix", p.cfg.Socket)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, conn)
	}
	mustApply(t, c, set(2, "1", "2"))
	for _, conn := range crowd {
		conn.Close()
	}
}

// TestAgentThatStopsReading hurts nobody but itself.
func TestAgentThatStopsReading(t *testing.T) {
	p := startProcess(t, t.TempDir())
	conn, err := net.Dial("unix", p.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, `{"id":1,"do":"hello","protocol":1,"watch":true}`); err != nil {
		t.Fatal(err)
	}
	var l listener
	c := dial(t, p.cfg.Socket, l.options())
	l.until(t, "connected", connected)
	words := make([]string, 200)
	for i := range words {
		words[i] = fmt.Sprint(i)
	}
	for v := range uint64(100) { // each push is about 20 kB, the socket holds 200
		s := set(v + 1)
		s.Routes = append(s.Routes, set(1, words...).Routes[:100+v%100]...)
		mustApply(t, c, s)
	}
}

func TestApplyLatency(t *testing.T) {
	p := startProcess(t, t.TempDir())
	var l listener
	c := dial(t, p.cfg.Socket, l.options())
	l.until(t, "connected", connected)
	mustApply(t, c, set(1, "1", "2"))
	var worst, sum time.Duration
	const rounds = 50
	for v := range uint64(rounds) {
		s := set(v+2, "1")
		if v%2 == 1 {
			s = set(v+2, "1:depreferred")
		}
		began := time.Now()
		mustApply(t, c, s)
		took := time.Since(began)
		sum += took
		worst = max(worst, took)
	}
	mean := sum / rounds
	t.Logf("Apply over the socket: mean %v, worst %v", mean, worst)
	if mean > 50*time.Millisecond { // far from it even on a loaded machine
		t.Errorf("Apply takes %v", mean)
	}
}

func TestAnswersAreStable(t *testing.T) {
	b, err := json.Marshal(frame{ID: 3, Error: refuse("fence", "too old")})
	if want := `{"id":3,"error":{"code":"fence","text":"too old"}}`; err != nil || string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

func TestSecondSpeakerIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir)
	var l listener
	dial(t, p.cfg.Socket, l.options())
	l.until(t, "connected", connected)
	cfg := p.cfg
	cfg.Socket = filepath.Join(dir, "other.sock")
	err := role.Run(context.Background(), role.Spec{Name: "speaker"}, func(ctx context.Context, r *role.Process) error {
		return run(ctx, r, cfg, newWorld().makers())
	})
	if err == nil || !strings.Contains(err.Error(), "another speaker runs on") {
		t.Errorf("got %v", err)
	}
}

// A speaker that hangs keeps its socket: the kernel accepts, and nobody answers.
// That is a loss, and told once; when it goes on, it is heard again.
func TestHungSpeakerIsLost(t *testing.T) {
	p := startProcess(t, t.TempDir())
	var l listener
	c := dialPatient(p.cfg.Socket, l.options(), 5*time.Millisecond, 200*time.Millisecond)
	t.Cleanup(func() { c.Close() })
	l.until(t, "connected", connected)
	p.w.mu.Lock() // its sessions take nothing now, and the loop waits for them
	ctx, cancel := context.WithCancel(context.Background())
	asked := make(chan error, 1)
	go func() { asked <- c.Apply(ctx, set(1, "1")) }()
	lost := func(n int) func([]steadycast.Actual, []error) bool {
		return func(_ []steadycast.Actual, losses []error) bool { return len(losses) == n }
	}
	func() {
		defer p.w.mu.Unlock()
		defer cancel()
		l.until(t, "told of the silence", lost(1))
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := l.losses[0]; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "not answered for 200ms") {
			t.Errorf("lost: %v", err)
		}
		l.actuals = nil
	}()
	if err := <-asked; !errors.Is(err, ErrLost) {
		t.Errorf("the set that hung: %v", err)
	}
	l.until(t, "heard again", connected)
	l.until(t, "told of one loss", lost(1))
}
