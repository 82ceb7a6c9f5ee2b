package speaker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
)

// expect compares the diary with lines of "time what".
func expect(t *testing.T, w *world, lines ...string) {
	t.Helper()
	if got := w.read(); got != strings.Join(lines, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", got, strings.Join(lines, "\n"))
	}
}

func alarm(i *InProcess) string {
	a, _ := i.Actual()
	return a.Alarm
}

// What the sessions say is wrong is said on, beside what this process knows.
func TestAlarmsOfTheSessions(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.alarm = "tor1: BFD is down"
		l := begin(t, w, dir)
		mustApply(t, l, set(1, "1"))
		synctest.Wait()
		if got := alarm(l); got != "tor1: BFD is down" {
			t.Errorf("%q", got)
		}
		breakDisk(t, dir)
		mustApply(t, l, set(2, "1:depreferred"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := alarm(l); !strings.HasPrefix(got, "tor1: BFD is down; ") || !strings.Contains(got, "cannot be written") {
			t.Errorf("%q", got)
		}
	})
}

func TestSetsAreCarriedOutWhole(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, dir)
		synctest.Wait()
		expect(t, w) // nothing before an agent says so

		mustApply(t, l, set(1, "1", "2"))
		expect(t, w, "0s addresses [192.0.2.1/32 192.0.2.2/32]", "0s announce [192.0.2.1 192.0.2.2]")
		mustApply(t, l, set(1, "1", "2")) // again: nothing to do
		expect(t, w)

		// The withdrawal comes first, the address of the new one before its
		// route, the old address goes when its route has been gone for a while.
		mustApply(t, l, set(2, "2", "3"))
		expect(t, w, "0s announce [192.0.2.2]", "0s addresses [192.0.2.1/32 192.0.2.2/32 192.0.2.3/32]", "0s announce [192.0.2.2 192.0.2.3]")
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, w, "500ms addresses [192.0.2.2/32 192.0.2.3/32]")

		mustApply(t, l, set(3, "2:depreferred", "3"))
		expect(t, w, "1s announce [192.0.2.2(depreferred) 192.0.2.3]")
		mustApply(t, l, set(4))
		expect(t, w, "1s announce []")
		synctest.Wait()
		if a, ok := l.Actual(); !ok || a.Incarnation != 1 || a.Version != 4 || a.Started != 1 || a.Alarm != "" {
			t.Errorf("%+v, %v", a, ok)
		}
	})
}

func TestOlderSetsAreRefused(t *testing.T) {
	dir := t.TempDir()
	fence := func(s steadycast.RouteSet, epoch, index uint64) steadycast.RouteSet {
		s.Fence = steadycast.Fence{Epoch: epoch, Index: index}
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, dir)
		mustApply(t, l, set(5, "1"))
		synctest.Wait()
		w.read()
		refusals := func(l *InProcess) {
			t.Helper()
			for _, c := range []struct {
				name string
				s    steadycast.RouteSet
				want error
			}{
				{"an older version", set(4, "2"), ErrStale},
				{"the same version with other content", set(5, "2"), ErrStale},
				{"an older fence", fence(set(6, "2"), 1, 9), ErrFence},
				{"an older epoch", fence(set(6, "2"), 0, 99), ErrFence},
				{"twice the same", set(6, "2", "2"), &Refused{Code: "invalid"}},
				{"out of order", set(6, "2", "1"), &Refused{Code: "invalid"}},
			} {
				if err := l.Apply(context.Background(), c.s); !errors.Is(err, c.want) {
					t.Errorf("%s: got %v", c.name, err)
				}
			}
			expect(t, w)
		}
		refusals(l)

		// And the next process knows it still.
		l.Close()
		w2 := newWorld()
		w = w2
		l = begin(t, w, dir)
		i, err := l.Intent(context.Background())
		if err != nil || !i.Remembered || !equalSets(i.Set, set(5, "1")) || i.At.IsZero() {
			t.Errorf("%+v, %v", i, err)
		}
		refusals(l)
		mustApply(t, l, set(5, "1")) // the same one again is welcome
		synctest.Wait()
		expect(t, w, "0s addresses [192.0.2.1/32]", "0s announce [192.0.2.1]")

		if err := l.Clear(context.Background(), ClearFence); err != nil {
			t.Fatal(err)
		}
		mustApply(t, l, fence(set(1, "1", "3"), 0, 1))
		expect(t, w, "0s addresses [192.0.2.1/32 192.0.2.3/32]", "0s announce [192.0.2.1 192.0.2.3]")
		synctest.Wait()
		if a, _ := l.Actual(); a.Version != 1 {
			t.Errorf("actual version %d", a.Version)
		}
	})
}

func TestAllowListIsTheNodesOwn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, dir)
		mustApply(t, l, set(1, "1", "2"))
		w.read()
		// A route that is not allowed does not keep another's withdrawal back.
		bad := set(2, "1")
		bad.Routes = append(bad.Routes, steadycast.Route{Prefix: prefixes("198.51.100.0/24")[0]})
		err := l.Apply(context.Background(), bad)
		if !errors.Is(err, &Refused{Code: "allow"}) || !strings.Contains(err.Error(), "198.51.100.0/24") {
			t.Errorf("got %v", err)
		}
		expect(t, w, "0s announce [192.0.2.1]")
		synctest.Wait()
		if !strings.Contains(alarm(l), "198.51.100.0/24") {
			t.Errorf("alarm %q", alarm(l))
		}
		// A wider prefix than what is allowed is not inside it.
		wide := set(3)
		wide.Routes = append(wide.Routes, steadycast.Route{Prefix: prefixes("192.0.0.0/16")[0]})
		if err := l.Apply(context.Background(), wide); !errors.Is(err, &Refused{Code: "allow"}) {
			t.Errorf("got %v", err)
		}
		// The list changes: what was asked counts.
		mustApply(t, l, set(4, "1"))
		if err := l.Apply(context.Background(), func() steadycast.RouteSet { bad.Version = 5; return bad }()); err == nil {
			t.Error("not refused")
		}
		w.read()
		w.mu.Lock()
		w.settings.Allow = prefixes("192.0.2.0/24", "198.51.100.0/24")
		w.mu.Unlock()
		if _, err := l.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := w.read(); !strings.Contains(got, "announce [192.0.2.1 198.51.100.0]") || alarm(l) != "" {
			t.Errorf("got %s, alarm %q", got, alarm(l))
		}
	})
}

// TestDiskThatFails: a withdrawal and a change go ahead, a new prefix does not.
func TestDiskThatFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, dir)
		mustApply(t, l, set(1, "1", "2"))
		w.read()
		mend := breakDisk(t, dir)
		if err := l.Apply(context.Background(), set(2, "2:depreferred", "3")); !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "1 new prefixes are held back") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		expect(t, w, "0s announce [192.0.2.2(depreferred)]", "0s addresses [192.0.2.1/32 192.0.2.2/32 192.0.2.3/32]")
		if !strings.Contains(alarm(l), "the intent cannot be written") {
			t.Errorf("alarm %q", alarm(l))
		}
		if err := l.Apply(context.Background(), set(3)); err != nil { // needs nothing of the disk
			t.Errorf("a withdrawal: %v", err)
		}
		expect(t, w, "0s announce []")
		synctest.Wait()
		if n := strings.Count(w.logged(), "level=WARN msg=alarm subject=disk"); n > 3 {
			t.Errorf("said %d times:\n%s", n, w.logged())
		}
		mend()
		mustApply(t, l, set(4, "3"))
		synctest.Wait()
		if a := alarm(l); a != "" || !strings.Contains(w.read(), "announce [192.0.2.3]") {
			t.Errorf("alarm %q", a)
		}
	})
}

// TestFullDisk is the same on a file system that really is full.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	w := newWorld()
	l := begin(t, w, dir)
	mustApply(t, l, set(1, "1", "2"))
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	fill := func() {
		for err = nil; err == nil; {
			_, err = ballast.Write(make([]byte, 4096))
		}
	}
	fill()
	if err := l.Apply(context.Background(), set(2, "2", "3")); !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
	w.mu.Lock()
	got := describe(w.set)
	w.mu.Unlock()
	if got != "[192.0.2.2]" {
		t.Errorf("announced %s", got)
	}
	// With room again it goes on by itself: no agent sends anything.
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	again := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return describe(w.set) == "[192.0.2.2 192.0.2.3]" && alarm(l) == ""
	}
	for late := time.After(5 * rewriteEvery); !again(); {
		select {
		case <-late:
			t.Fatalf("with room again: announced %s, alarm %q", describe(w.set), alarm(l))
		case <-time.After(5 * time.Millisecond):
		}
	}
	fill()
	if err := l.Apply(context.Background(), set(3, "2", "3", "4")); !errors.Is(err, ErrDisk) {
		t.Errorf("got %v", err)
	}
	// Killed now, the next process starts from the last intent that was written,
	// and announces nothing of it by itself.
	l.Close()
	w = newWorld()
	l = begin(t, w, dir)
	if i, err := l.Intent(context.Background()); err != nil || i.Set.Version != 2 || !i.Remembered {
		t.Errorf("%+v, %v", i, err)
	}
	if w.read() != "" {
		t.Error("announced something")
	}
}

// TestDiskThatHangs: the intent's file is a pipe that nobody reads. Everything
// but new prefixes goes on, and Apply answers.
func TestDiskThatHangs(t *testing.T) {
	dir := t.TempDir()
	w := newWorld()
	l := begin(t, w, dir)
	mustApply(t, l, set(1, "1", "2"))
	fifo := filepath.Join(dir, "intent.json.tmp")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	unblock := func() {
		if f, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			defer f.Close()
		}
		os.Remove(fifo)
	}
	defer unblock()
	err := l.Apply(context.Background(), set(2, "1", "2", "3"))
	if !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "1 new prefixes wait") {
		t.Errorf("got %v", err)
	}
	mustApply(t, l, set(3, "2")) // while the disk hangs
	w.mu.Lock()
	got := describe(w.set)
	w.mu.Unlock()
	if got != "[192.0.2.2]" {
		t.Errorf("announced %s", got)
	}
}

func TestStopInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		stop func(*InProcess)
		want []string
	}{
		{"drain", func(l *InProcess) { l.Stop(context.Background(), StopDrain) }, []string{
			"10s announce [192.0.2.1(draining) 192.0.2.2(draining)]",
			"13s announce []",
			"13.5s release addresses",
			"13.5s close sessions",
		}},
		{"SIGTERM", func(l *InProcess) { close(l.stop) }, []string{
			"10s announce [192.0.2.1(draining) 192.0.2.2(draining)]",
			"13s announce []",
			"13.5s release addresses",
			"13.5s close sessions",
		}},
		{"at once", func(l *InProcess) { l.Stop(context.Background(), StopNow) }, []string{
			"10s announce []", "10s release addresses", "10s close sessions",
		}},
		{"a second SIGTERM while it drains", func(l *InProcess) {
			close(l.stop)
			time.Sleep(time.Second)
			l.cancel()
		}, []string{
			"10s announce [192.0.2.1(draining) 192.0.2.2(draining)]",
			"11s announce []", "11s release addresses", "11s close sessions",
		}},
		{"a second one after the withdrawal", func(l *InProcess) {
			close(l.stop)
			time.Sleep(3200 * time.Millisecond)
			l.cancel()
		}, []string{
			"10s announce [192.0.2.1(draining) 192.0.2.2(draining)]",
			"13s announce []", "13.2s release addresses", "13.2s close sessions",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				l := begin(t, w, filepath.Join(dir, ""), func(c *Config) { c.StateDir = "" })
				mustApply(t, l, set(1, "1", "2"))
				time.Sleep(10 * time.Second)
				w.read()
				c.stop(l)
				synctest.Wait()
				if err := l.Apply(context.Background(), set(9, "1", "2", "3")); err == nil {
					t.Error("a set was taken up on the way out")
				}
				l.done.Wait()
				expect(t, w, c.want...)
			})
		})
	}
}

func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, "", func(c *Config) { c.StopDrain, c.StopTimeout = time.Hour, 15*time.Second })
		mustApply(t, l, set(1, "1"))
		l.Stop(context.Background(), StopDrain)
		l.done.Wait()
		if took := time.Since(w.began); took > 16*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestAgentLost(t *testing.T) {
	for _, c := range []struct {
		how  string
		want []string
	}{
		{"keep", nil},
		{"deprefer", []string{"1m0s announce [192.0.2.1(depreferred) 192.0.2.2(draining)]"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				l := begin(t, w, dir, func(cfg *Config) { cfg.AgentLost = c.how })
				mustApply(t, l, set(1, "1", "2:draining"))
				w.read()
				l.e.do(context.Background(), func() { l.e.agentLeft("agent[1]") })
				synctest.Wait()
				if !strings.Contains(alarm(l), "no agent since") {
					t.Errorf("alarm %q", alarm(l))
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				expect(t, w, c.want...)
				// It comes back and says the same as before.
				l.e.do(context.Background(), func() { l.e.agentJoined("agent[2]") })
				mustApply(t, l, set(1, "1", "2:draining"))
				synctest.Wait()
				if c.how == "deprefer" {
					expect(t, w, "1h0m0s announce [192.0.2.1 192.0.2.2(draining)]")
				} else {
					expect(t, w)
				}
				if a := alarm(l); a != "" {
					t.Errorf("alarm %q", a)
				}
			})
		})
	}
	t.Run("one that is back in time moves nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			l := begin(t, w, "", func(cfg *Config) { cfg.AgentLost = "deprefer" })
			mustApply(t, l, set(1, "1"))
			w.read()
			l.e.do(context.Background(), func() { l.e.agentLeft("agent[1]") })
			time.Sleep(59 * time.Second)
			l.e.do(context.Background(), func() { l.e.agentJoined("agent[2]") })
			time.Sleep(time.Hour)
			synctest.Wait()
			expect(t, w)
		})
	})
}

func TestCrashLoopStaysOut(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		w := newWorld()
		l := begin(t, w, dir)
		mustApply(t, l, set(1, "1"))
		l.Close()
	}
	w := newWorld()
	l := begin(t, w, dir)
	if a, _ := l.Actual(); a.Started != 3 || !strings.Contains(a.Alarm, "3 starts within 10m") {
		t.Errorf("%+v", a)
	}
	if err := l.Apply(context.Background(), set(2, "1", "2")); !errors.Is(err, ErrCrashLoop) || !strings.Contains(err.Error(), "--clear-crash-loop") {
		t.Errorf("got %v", err)
	}
	if got := w.read(); strings.Contains(got, "announce") {
		t.Errorf("announced in a crash loop: %s", got)
	}
	if err := l.Clear(context.Background(), ClearCrashLoop); err != nil {
		t.Fatal(err)
	}
	// The connected agent's set counts now, without being asked again.
	deadline := time.After(5 * time.Second)
	for !strings.Contains(w.read(), "announce [192.0.2.1 192.0.2.2]") {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("nothing is announced\n%s", w.logged())
		}
	}
	if err := l.Clear(context.Background(), ClearCrashLoop); err == nil {
		t.Error("cleared twice")
	}
	l.Close()
	if l := begin(t, newWorld(), dir); strings.Contains(alarm(l), "starts within") {
		t.Error("not forgiven on disk")
	}
}

func TestCrashLoopEndsByItself(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		begin(t, newWorld(), dir).Close()
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, dir)
		if err := l.Apply(context.Background(), set(1, "1")); !errors.Is(err, ErrCrashLoop) {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if got := w.read(); !strings.Contains(got, "announce [192.0.2.1]") || alarm(l) != "" {
			t.Errorf("%q, alarm %q", got, alarm(l))
		}
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := begin(t, w, "")
		ctx := context.Background()
		w.mu.Lock()
		w.settings.ASN = 64513
		w.mu.Unlock()
		p, err := l.Plan(ctx)
		if err != nil || !slices.Equal(p.Resets(), []string{"tor1"}) || len(p.Neighbors) != 1 {
			t.Errorf("%+v, %v", p, err)
		}
		expect(t, w)
		if p, err = l.Reload(ctx); err != nil || len(p.Neighbors) != 1 {
			t.Errorf("%+v, %v", p, err)
		}
		expect(t, w, "0s reconfigure 64513")
		if !strings.Contains(w.logged(), `reload: will change" neighbor=tor1 change=reset why="asn becomes 64513"`) {
			t.Errorf("not said beforehand:\n%s", w.logged())
		}
		for name, spoil := range map[string]func(){
			"a bad file":               func() { w.loadErr = errors.New("node.yaml:2:3: asn: twelve is no number") },
			"what the sessions refuse": func() { w.loadErr, w.settings.ASN = nil, 0 },
		} {
			w.mu.Lock()
			spoil()
			w.mu.Unlock()
			if _, err := l.Reload(ctx); !errors.Is(err, &Refused{Code: "settings"}) {
				t.Errorf("%s: %v", name, err)
			}
			expect(t, w)
		}
	})
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
}

// What may be announced as backup may be announced as nothing else, and a speaker
// that stops does not make it less of one.
func TestBackupHasItsOwnAllowList(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Allow, w.settings.AllowBackup = prefixes("192.0.2.1/32"), prefixes("192.0.2.2/32")
		l := begin(t, w, dir)
		synctest.Wait()
		expect(t, w)
		if err := l.Apply(t.Context(), set(1, "1", "2", "3:backup")); err == nil || !strings.Contains(err.Error(), "192.0.2.2/32 (2 such prefixes)") {
			t.Errorf("%v", err)
		}
		mustApply(t, l, set(2, "1", "2:backup"))
		synctest.Wait()
		w.read()
		if err := l.Stop(t.Context(), StopDrain); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := w.read(); !strings.Contains(got, "announce [192.0.2.1(draining) 192.0.2.2(backup)]") {
			t.Errorf("%s", got)
		}
	})
}
