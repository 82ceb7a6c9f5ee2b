package ledger

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// slowDisk takes what is written, and says so only when it is let.
type slowDisk struct {
	file
	begun chan struct{} // one for each sync that waits
	let   chan error    // what one of them comes to
	ended chan struct{} // none waits any more
	free  func()
}

func (d *slowDisk) Sync() error {
	d.begun <- struct{}{}
	select {
	case err := <-d.let:
		if err != nil {
			return err
		}
	case <-d.ended:
	}
	return d.file.Sync()
}

// slow makes the disk of a ledger slow, until it is freed.
func slow(t testing.TB, l *Local) *slowDisk {
	d := &slowDisk{begun: make(chan struct{}, 100), let: make(chan error), ended: make(chan struct{})}
	d.free = sync.OnceFunc(func() { close(d.ended) })
	t.Cleanup(d.free)
	pause(l, func() { d.file, l.disk.f = l.disk.f, d })
	return d
}

// asked is a request that is on its way.
func (s *site) asked(r steadycast.Request) <-chan decide.Answer {
	c := make(chan decide.Answer, 1)
	go func() {
		if a, err := s.l.Ask(s.t.Context(), r); err == nil {
			c <- a
		}
		close(c)
	}()
	return c
}

// TestSlowDiskDelaysNoLeave: leave to take a route away is given while the disk
// still works at its record; leave to bring one back, and a person's order, not
// before theirs is there.
func TestSlowDiskDelaysNoLeave(t *testing.T) {
	dir := t.TempDir()
	l, book := mustOpen(t, dir, policy("ams", "fra", "lon", "nyc"))
	fra := sites(t, l, "ams", "fra", "lon")[1]
	nyc := &site{t: t, l: l, name: "nyc"}
	nyc.report(steadycast.Healthy)
	disk := slow(t, l)
	if permitted(fra.ask(fra.request(steadycast.Withdraw))) != steadycast.Withdraw {
		t.Fatal("no leave")
	}
	if fra.view().Phase != steadycast.Out {
		t.Errorf("the view is behind the answer: %+v", fra.view())
	}
	<-disk.begun // that of the withdrawal
	back := nyc.asked(nyc.request(steadycast.Return))
	disk.let <- nil
	<-disk.begun // that of the return
	if u := nyc.view(); len(back) > 0 || u.Phase != steadycast.Out {
		t.Fatalf("a return is told before it is on disk: %+v", u)
	}
	if a := <-eased(disk, back); permitted(a) != steadycast.Return {
		t.Fatalf("%+v", a)
	}
	ordered := make(chan error, 1)
	go func() {
		_, err := l.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test", Force: true})
		ordered <- err
	}()
	for len(disk.begun) == 0 { // that of the order
		runtime.Gosched()
	}
	if len(ordered) > 0 || len(l.View().Orders) > 0 {
		t.Fatal("an order is told before it is on disk")
	}
	if err := <-eased(disk, ordered); err != nil {
		t.Fatal(err)
	}
	disk.free()
	l.Close()
	if onDisk(t, dir).Hash() != l.fleet.Hash() {
		t.Error("the state on disk is another")
	}
	if n := book.count("cannot write"); n != 0 {
		t.Errorf("a slow disk was called a broken one: %q", book.lines)
	}
}

// eased lets the disk go on until something comes of it.
func eased[T any](d *slowDisk, c <-chan T) <-chan T {
	out := make(chan T, 1)
	go func() {
		for {
			select {
			case v := <-c:
				out <- v
			case d.let <- nil:
				continue
			}
			return
		}
	}()
	return out
}

// TestLeaves holds which entries need not wait for the disk: those in which sites
// ask to leave, and nothing else is asked.
func TestLeaves(t *testing.T) {
	fra := &site{name: "fra"}
	out, back := fra.request(steadycast.Withdraw), fra.request(steadycast.Return)
	for kind := range strings.FieldsSeq("genesis table verdict give_up order order_clear freeze thaw unlock resume tick proof void lost") {
		if leaves(decide.Entry{Kind: decide.Kind(kind)}) {
			t.Errorf("%s does not wait", kind)
		}
	}
	for _, c := range []struct {
		asked []steadycast.Request
		want  bool
	}{
		{[]steadycast.Request{out}, true},
		{[]steadycast.Request{out, out}, true},
		{[]steadycast.Request{back}, false},
		{[]steadycast.Request{out, back}, false},
		{[]steadycast.Request{out, fra.request(steadycast.Deprefer)}, false},
		{nil, false},
	} {
		if got := leaves(decide.Entry{Kind: decide.KindDecide, Decide: &decide.Decide{Requests: c.asked}}); got != c.want {
			t.Errorf("%v: %t", c.asked, got)
		}
	}
}

// TestFailedSyncIsSaid: when the disk fails a withdrawal that was answered, this is
// said, nothing more is granted, and what the ledger knows comes to disk as a
// whole, in a new file, before it goes on.
func TestFailedSyncIsSaid(t *testing.T) {
	dir := t.TempDir()
	l, book := mustOpen(t, dir, policy("fra"))
	fra := &site{t: t, l: l, name: "fra"}
	fra.up()
	inTheWay := filepath.Join(dir, journalName+".new")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	disk := slow(t, l)
	if permitted(fra.ask(fra.request(steadycast.Withdraw))) != steadycast.Withdraw {
		t.Fatal("no leave")
	}
	<-disk.begun
	disk.let <- &os.PathError{Op: "fdatasync", Path: "journal", Err: syscall.EIO}
	for range 3 {
		if a, err := l.Ask(t.Context(), fra.request(steadycast.Return)); err == nil {
			t.Fatalf("it grants on: %+v", a)
		}
	}
	if n := book.count("cannot write"); n != 1 {
		t.Errorf("said %d times: %q", n, book.lines)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	until(t, "it to write again, though nobody asks it anything", func() bool { return book.count("can write again") == 1 })
	if _, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", "test"); err != nil {
		t.Error(err)
	}
	l.Close()
	if onDisk(t, dir).Hash() != l.fleet.Hash() {
		t.Error("the state on disk is another")
	}
}

// TestFolderNotSynced: a new file whose name may not be on disk counts as none. Until
// one is that does, nothing is granted; then all that was answered is in it.
func TestFolderNotSynced(t *testing.T) {
	for _, after := range []string{"a failed withdrawal", "many entries"} {
		t.Run(after, func(t *testing.T) {
			dir := t.TempDir()
			l, book := mustOpen(t, dir, policy("fra"))
			fra := &site{t: t, l: l, name: "fra"}
			fra.up()
			var broken atomic.Bool
			var tried atomic.Int64
			broken.Store(true)
			pause(l, func() {
				l.disk.syncFolder = func(dir string) error {
					if tried.Add(1); broken.Load() {
						return &os.PathError{Op: "fsync", Path: dir, Err: syscall.EIO}
					}
					return syncDir(dir)
				}
			})
			if after == "many entries" {
				pause(l, func() { l.entries = shortenEvery })
			} else {
				disk := slow(t, l)
				if permitted(fra.ask(fra.request(steadycast.Withdraw))) != steadycast.Withdraw {
					t.Fatal("no leave")
				}
				<-disk.begun
				disk.let <- &os.PathError{Op: "fdatasync", Path: "journal", Err: syscall.EIO}
			}
			until(t, "it to make a new file", func() bool { return tried.Load() > 0 })
			if a, err := l.Ask(t.Context(), fra.request(steadycast.Return)); err == nil {
				t.Fatalf("it grants on: %+v", a)
			}
			if n := book.count("cannot write"); n != 1 {
				t.Errorf("said %d times: %q", n, book.lines)
			}
			broken.Store(false)
			until(t, "it to write again, though nobody asks it anything", func() bool { return book.count("can write again") == 1 })
			if _, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", "test"); err != nil {
				t.Error(err)
			}
			l.Close()
			if onDisk(t, dir).Hash() != l.fleet.Hash() {
				t.Error("the state on disk is another")
			}
		})
	}
}

// TestCloseSettles: a ledger that ends waits for what it has answered, and says so
// when that fails.
func TestCloseSettles(t *testing.T) {
	for _, fails := range []error{nil, syscall.EIO} {
		l, _ := mustOpen(t, t.TempDir(), policy("fra"))
		fra := &site{t: t, l: l, name: "fra"}
		fra.up()
		if fails != nil {
			if err := os.Mkdir(l.disk.path()+".new", 0o700); err != nil {
				t.Fatal(err)
			}
		}
		disk := slow(t, l)
		fra.ask(fra.request(steadycast.Withdraw))
		<-disk.begun
		ended := make(chan error, 1)
		go func() { ended <- l.Close() }()
		disk.let <- fails
		disk.free()
		if err := <-ended; (err != nil) != (fails != nil) {
			t.Errorf("%v: %v", fails, err)
		}
	}
}

// TestKillBeforeSync kills the process that has answered a withdrawal while the
// disk still works at it: nothing is lost.
func TestKillBeforeSync(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STEADYCAST_TEST_LEAVES="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || line != "withdraw\n" {
		t.Fatalf("it said %q (%v)", line, err)
	}
	l, book := mustOpen(t, dir, policy("fra"))
	fra := &site{t: t, l: l, name: "fra"}
	if u := fra.view(); u.Phase != steadycast.Out || u.BudgetUsed != 1 || book.count("never finished") != 0 {
		t.Errorf("%+v; it said %q", u, book.lines)
	}
}

// beLeft is the process that TestKillBeforeSync kills: its disk never ends.
func beLeft(dir string) {
	l, err := Open(dir, policy("fra"), (&logbook{}).options())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	t := &hushed{ctx: context.Background()}
	fra := &site{t: t, l: l, name: "fra"}
	fra.up()
	disk := slow(t, l)
	a := fra.ask(fra.request(steadycast.Withdraw))
	<-disk.begun
	fmt.Println(permitted(a))
	select {}
}

// hushed lets a site speak in a process that is no test.
type hushed struct {
	testing.TB
	ctx context.Context
}

func (h *hushed) Helper()                  {}
func (h *hushed) Cleanup(func())           {}
func (h *hushed) Context() context.Context { return h.ctx }
func (h *hushed) Fatal(args ...any)        { fmt.Println(args...); os.Exit(1) }
func (h *hushed) Fatalf(f string, args ...any) {
	h.Fatal(fmt.Sprintf(f, args...))
}

// TestPowerLossAfterLeave takes the last record away, as a loss of power may: the
// unit is where it was before, as after any other loss of power; and no position is
// below one that was answered, so that what the speaker carried out is not newer
// than what the ledger says.
func TestPowerLossAfterLeave(t *testing.T) {
	for _, keep := range []float64{0, 0.5} { // of the record
		dir := t.TempDir()
		l, _ := mustOpen(t, dir, policy("fra"))
		fra := &site{t: t, l: l, name: "fra"}
		fra.up()
		var before int64
		pause(l, func() { before = l.disk.size })
		answer := fra.ask(fra.request(steadycast.Withdraw))
		var after int64
		pause(l, func() { after = l.disk.size })
		left := t.TempDir()
		copyFile(t, filepath.Join(dir, journalName), filepath.Join(left, journalName))
		if err := os.Truncate(filepath.Join(left, journalName), before+int64(keep*float64(after-before))); err != nil {
			t.Fatal(err)
		}
		again, _ := mustOpen(t, left, policy("fra"))
		fra.l = again
		if u := fra.view(); u.Phase != steadycast.In || u.BudgetUsed != 0 {
			t.Errorf("%+v", u)
		}
		if at := answer.Rulings[0].Permit.Fence; again.View().Fence.Compare(at) < 0 {
			t.Errorf("the ledger stands at %s, and answered from %s", again.View().Fence, at)
		}
		if permitted(fra.ask(fra.request(steadycast.Withdraw))) != steadycast.Withdraw {
			t.Error("it may not leave any more")
		}
	}
}
