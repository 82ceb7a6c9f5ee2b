package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

var testHeading = heading{storeFormat, storeSchema, "test", "fra-1"}

// TestStoreIsAMap: the store against a map, over openings.
func TestStoreIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "store")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s, err := openStore(dir, testHeading)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.close() }()
		s.db.NoSync = true
		logs := map[uint64]raft.Log{}
		next := uint64(1)
		steps := rapid.IntRange(1, 30).Draw(rt, "steps")
		for range steps {
			switch rapid.SampledFrom([]string{"append", "append", "suffix", "prefix", "reopen"}).Draw(rt, "step") {
			case "append":
				var batch []*raft.Log
				for range rapid.IntRange(1, 5).Draw(rt, "n") {
					l := raft.Log{
						Index: next, Term: rapid.Uint64().Draw(rt, "term"), Type: raft.LogType(rapid.IntRange(0, 5).Draw(rt, "type")),
						Data: rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(rt, "data"), Extensions: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(rt, "ext"),
					}
					logs[next] = l
					batch = append(batch, &l)
					next++
				}
				if err := s.StoreLogs(batch); err != nil {
					rt.Fatal(err)
				}
			case "suffix", "prefix":
				from, to := rapid.Uint64Range(1, next).Draw(rt, "from"), next
				if rapid.Bool().Draw(rt, "prefix") {
					from, to = 1, from
				} else {
					next = from
				}
				if err := s.DeleteRange(from, to); err != nil {
					rt.Fatal(err)
				}
				for i := from; i <= to; i++ {
					delete(logs, i)
				}
			case "reopen":
				if err := s.close(); err != nil {
					rt.Fatal(err)
				}
				if s, err = openStore(dir, testHeading); err != nil {
					rt.Fatal(err)
				}
				s.db.NoSync = true
			}
			first, last := uint64(0), uint64(0)
			for i := uint64(1); i < next+6; i++ {
				var l raft.Log
				err := s.GetLog(i, &l)
				want, ok := logs[i]
				if !ok {
					if !errors.Is(err, raft.ErrLogNotFound) {
						rt.Fatalf("%d: %v", i, err)
					}
					continue
				}
				if first == 0 {
					first = i
				}
				last = i
				if err != nil || l.Index != i || l.Term != want.Term || l.Type != want.Type || !bytes.Equal(l.Data, want.Data) || !bytes.Equal(l.Extensions, want.Extensions) {
					rt.Fatalf("%d: %+v %v, want %+v", i, l, err, want)
				}
			}
			if f, err := s.FirstIndex(); err != nil || f != first {
				rt.Fatalf("first %d %v, want %d", f, err, first)
			}
			if l, err := s.LastIndex(); err != nil || l != last {
				rt.Fatalf("last %d %v, want %d", l, err, last)
			}
		}
	})
}

// TestStoreKeys: raft knows a missing key by its exact text.
func TestStoreKeys(t *testing.T) {
	s, err := openStore(t.TempDir(), testHeading)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := s.Get([]byte("x")); err == nil || err.Error() != "not found" {
		t.Error(err)
	}
	if _, err := s.GetUint64([]byte("x")); err == nil || err.Error() != "not found" {
		t.Error(err)
	}
	if err := s.SetUint64([]byte("x"), 7); err != nil {
		t.Fatal(err)
	}
	if n, err := s.GetUint64([]byte("x")); err != nil || n != 7 {
		t.Error(n, err)
	}
	if err := s.Set([]byte("x"), []byte("short")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetUint64([]byte("x")); err == nil || !strings.Contains(err.Error(), "where a number has 8") {
		t.Error(err)
	}
	if has, err := raft.HasExistingState(s, s, raft.NewDiscardSnapshotStore()); err != nil || has {
		t.Error(has, err)
	}
}

// TestStoreOfAnother: a store is never taken for this node's when it is not.
func TestStoreOfAnother(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, testHeading)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir, testHeading); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		who  heading
		want string
	}{
		{heading{storeFormat, storeSchema, "test", "ams-1"}, "belongs to node fra-1 of fleet test"},
		{heading{storeFormat, storeSchema, "prod", "fra-1"}, "belongs to node fra-1 of fleet test"},
		{heading{storeFormat, storeSchema - 1, "test", "fra-1"}, "written by a newer version"},
		{heading{"something", storeSchema, "test", "fra-1"}, "is not a voter's store"},
	} {
		if _, err := openStore(dir, w.who); err == nil || !strings.Contains(err.Error(), w.want) {
			t.Errorf("%v: %v", w.who, err)
		}
	}
	path := filepath.Join(dir, storeName)
	if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir, testHeading); err == nil || !strings.Contains(err.Error(), "never repaired by guessing") {
		t.Errorf("damaged: %v", err)
	}
}

// TestDamagedEntries: an entry that is not whole is refused, wherever it is cut.
func TestDamagedEntries(t *testing.T) {
	whole := encodeLog(&raft.Log{Index: 3, Term: 2, Data: []byte("data")})
	for i := range len(whole) {
		var l raft.Log
		if err := decodeLog(whole[:i], &l); err == nil {
			t.Errorf("cut at %d of %d it is read as %+v", i, len(whole), l)
		}
	}
	whole[0] = 2
	if err := decodeLog(whole, &raft.Log{}); err == nil {
		t.Error("a newer version is read")
	}
}

// TestCompact: a store that shrank becomes small at the next start, with all
// that is in it; one that is full stays; and what a crash left is cleared away.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, storeName)
	s, err := openStore(dir, testHeading)
	if err != nil {
		t.Fatal(err)
	}
	s.db.NoSync = true
	const n = 3000
	for i := uint64(1); i <= n; i += 100 {
		var batch []*raft.Log
		for j := i; j < i+100; j++ {
			batch = append(batch, &raft.Log{Index: j, Term: 1, Data: bytes.Repeat([]byte{byte(j)}, 3000)})
		}
		if err := s.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 9); err != nil {
		t.Fatal(err)
	}
	reopen := func() int64 {
		t.Helper()
		if err := errors.Join(s.db.Sync(), s.close()); err != nil {
			t.Fatal(err)
		}
		if s, err = openStore(dir, testHeading); err != nil {
			t.Fatal(err)
		}
		s.db.NoSync = true
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	full := reopen()
	if full < 8<<20 {
		t.Fatalf("%d bytes", full)
	}
	if err := s.DeleteRange(1, n-10); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if size := reopen(); size > 1<<20 {
		t.Errorf("it has %d of %d bytes", size, full)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the half copy is there")
	}
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	term, err := s.GetUint64([]byte("CurrentTerm"))
	if first != n-9 || last != n || term != 9 || err != nil {
		t.Errorf("%d…%d, term %d %v", first, last, term, err)
	}
	var l raft.Log
	if err := s.GetLog(n, &l); err != nil || len(l.Data) != 3000 || l.Data[0] != byte(n%256) {
		t.Errorf("%v", err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// TestGuardedStore: a call that hangs and a write that fails end the voter, a
// read that finds nothing does not.
func TestGuardedStore(t *testing.T) {
	s, err := openStore(t.TempDir(), testHeading)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	died := make(chan int, 8)
	bad := errors.New("input/output error")
	var fault error
	release := make(chan struct{})
	hang := false
	g := &guarded{store: s, limit: 200 * time.Millisecond, die: func(code int, why error) { died <- code }, fault: func(string) error {
		if hang {
			<-release
		}
		return fault
	}}
	if _, err := g.Get([]byte("x")); err == nil || err.Error() != "not found" {
		t.Error(err)
	}
	if err := g.GetLog(5, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Error(err)
	}
	if err := g.StoreLog(&raft.Log{Index: 1}); err != nil {
		t.Error(err)
	}
	if len(died) > 0 {
		t.Fatal("it ended for nothing")
	}
	fault = bad
	for call, f := range map[string]func() error{
		"StoreLogs":   func() error { return g.StoreLogs([]*raft.Log{{Index: 2}}) },
		"StoreLog":    func() error { return g.StoreLog(&raft.Log{Index: 2}) },
		"DeleteRange": func() error { return g.DeleteRange(1, 1) },
		"Set":         func() error { return g.Set([]byte("x"), nil) },
		"SetUint64":   func() error { return g.SetUint64([]byte("x"), 1) },
	} {
		if err := f(); !errors.Is(err, bad) {
			t.Errorf("%s: %v", call, err)
		}
		if len(died) != 1 || <-died != ExitDisk {
			t.Errorf("%s failed and the voter goes on", call)
		}
	}
	fault, hang = nil, true
	for call, f := range map[string]func(){
		"GetLog":     func() { _ = g.GetLog(1, &raft.Log{}) },
		"FirstIndex": func() { _, _ = g.FirstIndex() },
		"LastIndex":  func() { _, _ = g.LastIndex() },
		"Get":        func() { _, _ = g.Get([]byte("x")) },
		"GetUint64":  func() { _, _ = g.GetUint64([]byte("x")) },
		"StoreLogs":  func() { _ = g.StoreLogs([]*raft.Log{{Index: 2}}) },
	} {
		done := make(chan struct{})
		go func() { f(); close(done) }()
		select {
		case code := <-died:
			if code != ExitStalled {
				t.Errorf("%s: %d", call, code)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s hangs and the voter goes on", call)
		}
		release <- struct{}{}
		<-done
	}
}

// TestLasting: time in which the process did not run is not held against what it
// waits for.
func TestLasting(t *testing.T) {
	fired := make(chan struct{}, 1)
	stop := lasting(80*time.Millisecond, func() { fired <- struct{}{} })
	select {
	case <-fired:
	case <-time.After(5 * time.Second):
		t.Fatal("it never fires")
	}
	stop()
	lasting(time.Hour, func() { t.Error("stopped, and it fires") })()
}
