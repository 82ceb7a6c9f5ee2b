package role

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestWriteFileIsWhole: readers meanwhile see one content or the other.
func TestWriteFileIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	a, b := bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<12)
	if err := WriteFile(path, a, 0o640); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
				t.Errorf("read %d octets, %v", len(got), err)
				return
			}
		}
	})
	for range 20 {
		if err := errors.Join(WriteFile(path, b, 0o640), WriteFile(path, a, 0o640)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	reader.Wait()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", st, err)
	}
}

// TestWriteFileOnAFullDisk keeps the old content and leaves nothing lying about.
func TestWriteFileOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, to mount a small file system")
		}
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, 0)
	path := filepath.Join(dir, "f")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, make([]byte, 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(dir, "speaker")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir, "speaker"); err == nil || !strings.Contains(err.Error(), "another speaker runs on "+dir) {
		t.Errorf("locked twice: %v", err)
	}
	if other, err := Lock(dir, "agent"); err != nil {
		t.Error(err)
	} else {
		other()
	}
	unlock()
	if again, err := Lock(dir, "speaker"); err != nil {
		t.Error(err)
	} else {
		again()
	}
}
