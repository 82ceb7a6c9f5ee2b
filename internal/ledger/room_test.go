package ledger

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// small makes a file system of its own, and says how to fill it up to the last block.
func small(t *testing.T, size string) (dir string, fill func()) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "sc-ledger", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("mount: %v: %s", err, out)
		}
		t.Skipf("mounting a small file system needs root: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir, func() {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, "other"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestOthersFillTheDisk: what somebody else writes keeps no withdrawal from being
// recorded, not after a restart either, while what was set aside lasts. When
// that is used up everything is refused alike until there is real room.
func TestOthersFillTheDisk(t *testing.T) {
	dir, fill := small(t, "1m")
	book := &logbook{}
	state := filepath.Join(dir, "state")
	l, err := Open(state, policy("fra"), book.options())
	if err != nil {
		t.Fatal(err)
	}
	fra := &site{t: t, l: l, name: "fra"}
	fra.up()
	fill()
	if permitted(fra.ask(fra.request(steadycast.Withdraw))) != steadycast.Withdraw {
		t.Fatal("a full disk keeps a dead site in")
	}
	l.Close()
	fill() // whatever the end gave back
	if l, err = Open(state, policy("fra"), book.options()); err != nil {
		t.Fatal(err)
	}
	defer func() { l.Close() }()
	if fra.l = l; fra.view().Phase != steadycast.Out {
		t.Fatalf("the withdrawal was not kept: %+v", fra.view())
	}
	freeze := func(reason string) error {
		_, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", reason)
		return err
	}
	long := strings.Repeat("x", 2000)
	n := 0
	for ; err == nil; n++ {
		err = freeze(long)
	}
	if !errors.Is(err, syscall.ENOSPC) || n < 20 {
		t.Fatalf("after %d entries: %v", n, err)
	}
	if strings.Count(err.Error(), "ledger.journal") != 1 {
		t.Errorf("names the file more than once: %v", err)
	}
	for range 20 { // a small one would still fit into the last block
		if err := freeze("x"); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the ledger takes what is small and refuses what is large: %v", err)
		}
	}
	if n := book.count("cannot write"); n != 1 {
		t.Errorf("said %d times", n)
	}
	changed, stop := l.Watch()
	defer stop()
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	select { // nobody asks it anything
	case <-changed:
	case <-time.After(5 * tryAgain):
		t.Fatal("it never finds out that it can write again")
	}
	if err := freeze(long); err != nil || book.count("can write again") != 1 {
		t.Fatalf("with room again: %v; it said %q", err, book.lines)
	}
}

// TestNeverFlickers holds that a disk with some room and not enough is a full one.
func TestNeverFlickers(t *testing.T) {
	l, book := mustOpen(t, t.TempDir(), policy("fra"))
	disk := &fullDisk{room: 0, noRoom: true}
	pause(l, func() { disk.file, l.disk.f = l.disk.f, disk })
	freeze := func() error {
		_, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", "test")
		return err
	}
	if err := freeze(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	pause(l, func() { disk.room = 1 << 20 }) // small writes would do
	for range 5 {
		if err := freeze(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("it believes a disk without room: %v", err)
		}
	}
	pause(l, func() { disk.noRoom = false })
	if err := freeze(); err != nil {
		t.Fatal(err)
	}
	if book.count("cannot write") != 1 || book.count("can write again") != 1 {
		t.Errorf("it said %q", book.lines)
	}
}

// TestInvalidIsNoFault: what has no meaning is told from a ledger that does not work.
func TestInvalidIsNoFault(t *testing.T) {
	l, _ := mustOpen(t, t.TempDir(), policy("fra"))
	err := l.Report(t.Context(), []steadycast.Verdict{{Site: "fra", Service: "gone", State: steadycast.Healthy}})
	if _, invalid := errors.AsType[Invalid](err); !invalid || !strings.Contains(err.Error(), "gone") {
		t.Errorf("%T %v", err, err)
	}
}
