package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// written makes a journal with a snapshot and some entries, and gives its bytes.
func written(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	l, err := Open(dir, policy("fra"), (&logbook{}).options())
	if err != nil {
		t.Fatal(err)
	}
	(&site{t: t, l: l, name: "fra"}).up()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(dir, policy("fra"), (&logbook{}).options()); err != nil { // now with a snapshot
		t.Fatal(err)
	}
	for _, reason := range []string{"one", "two", "three"} {
		if _, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", reason); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Actor: "ann", Reason: "four"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

var owner = heading{journalFormat, journalSchema, "test", "n1"}

// TestTornAtEveryByte cuts the journal at each byte, and again leaves the rest
// as zero bytes, as a file system may. Whole records before the cut are all
// there; nothing else is.
func TestTornAtEveryByte(t *testing.T) {
	data := written(t)
	whole, _, err := split("", data)
	if err != nil || len(whole) < 6 {
		t.Fatalf("%d records, %v", len(whole), err)
	}
	path := "/state/" + journalName
	snapshotEnds := int(whole[2].at) // a rename put heading and snapshot there in one piece
	for cut := snapshotEnds; cut <= len(data); cut++ {
		records := 0
		for _, p := range whole {
			if int(p.at)+len(frame(p.data)) <= cut {
				records++
			}
		}
		for _, zeros := range []int{0, 2, 700} {
			if cut == len(data) && zeros > 0 {
				break
			}
			torn := append(bytes.Clone(data[:cut]), make([]byte, zeros)...)
			l, err := parse(path, torn, owner)
			if err != nil {
				t.Fatalf("cut at byte %d of %d and %d zeros: %v", cut, len(data), zeros, err)
			}
			if l.entries != records-2 || l.good+l.torn != int64(len(torn)) {
				t.Fatalf("cut at byte %d: %d entries, want %d", cut, l.entries, records-2)
			}
		}
	}
	for cut := range snapshotEnds {
		l, err := parse(path, data[:cut], owner)
		if headed := cut >= int(whole[1].at); !headed && err == nil {
			t.Fatalf("cut at byte %d, inside the heading, and it was read: %+v", cut, l)
		}
	}
}

// TestTornIsCutAndSaidOnce: what follows a torn record is written over it.
func TestTornIsCutAndSaidOnce(t *testing.T) {
	data := written(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalName), data[:len(data)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	l, book := mustOpen(t, dir, policy("fra"))
	if book.count("never finished") != 1 {
		t.Errorf("it said: %q", book.lines)
	}
	if len(l.View().Orders) != 0 || len(l.View().Freezes) != 1 {
		t.Errorf("orders %v, freezes %v", l.View().Orders, l.View().Freezes)
	}
	if _, err := l.Do(t.Context(), decide.KindThaw, decide.Scope{}, "ann", "go on"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, book = mustOpen(t, dir, policy("fra"))
	if book.count("never finished") != 0 || len(l.View().Freezes) != 0 {
		t.Errorf("freezes %v; it said: %q", l.View().Freezes, book.lines)
	}
}

// TestDamageIsRefused changes each byte of the journal in turn, in several ways.
// Not one change may be read as if nothing had happened, and not one may cost a
// record that was answered from.
func TestDamageIsRefused(t *testing.T) {
	data := written(t)
	path := "/state/" + journalName
	for at := range data {
		for _, to := range []byte{data[at] ^ 1, data[at] ^ 0x20, '\n'} {
			if to == data[at] {
				continue
			}
			bad := bytes.Clone(data)
			bad[at] = to
			if l, err := parse(path, bad, owner); err == nil {
				t.Fatalf("byte %d of %d was %q, is %q, and it was read: %d entries, %d torn", at, len(data), data[at], to, l.entries, l.torn)
			} else if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Fatalf("the complaint does not help: %v", err)
			}
		}
	}
}

// TestNotOurs: whatever else may lie there is refused, with its name and the way
// out, and left as it is.
func TestNotOurs(t *testing.T) {
	data := written(t)
	line := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return frame(b)
	}
	ours := line(owner)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":        {nil, "there is no heading"},
		"text":         {[]byte("hello\nworld\n"), "record 1"},
		"other format": {line(heading{"steadycast-intent", 1, "test", "n1"}), "not that of a ledger"},
		"other node":   {line(heading{journalFormat, 1, "test", "n2"}), `belongs to the node "n2", this one is "n1"`},
		"other fleet":  {line(heading{journalFormat, 1, "prod", "n1"}), `belongs to the fleet "prod", this one is "test"`},
		"newer file":   {line(heading{journalFormat, 2, "test", "n1"}), "written by a newer version"},
		"newer entry":  {append(bytes.Clone(data), frame([]byte(`{"kind":"checkpoint","schema":2,"rules":1,"epoch":1,"lt":1}`))...), "newer version"},
		"newer kind":   {append(bytes.Clone(data), frame([]byte(`{"kind":"checkpoint","schema":1,"rules":1,"epoch":1,"lt":1}`))...), "unknown kind"},
		"newer rules":  {append(bytes.Clone(data), frame([]byte(`{"kind":"tick","schema":1,"rules":9,"epoch":1,"lt":1}`))...), "newer version"},
		"newer state":  {append(bytes.Clone(ours), frame([]byte(`{"snapshot":{"schema":7}}`))...), "newer version"},
		"false state":  {append(bytes.Clone(ours), frame([]byte(`{"snapshot":{"schema":1,"rules":1}}`))...), "snapshot"},
		"no entry":     {append(bytes.Clone(data), frame([]byte(`[1,2]`))...), "not an entry"},
		"odd entry":    {append(bytes.Clone(data), frame([]byte(`{"kind":"tick","schema":1,"rules":1,"epoch":1,"lt":1,"when":2}`))...), "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, journalName)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir, policy("fra"), (&logbook{}).options())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, c.data) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, policy("fra"))
	if _, err := Open(dir, policy("fra"), (&logbook{}).options()); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("opened twice: %v", err)
	}
}

// TestShorten: the journal does not grow for ever, and nothing is lost when it shrinks.
func TestShorten(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, policy("fra"))
	for i := range 2*shortenEvery + 10 {
		if _, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", strings.Repeat("x", i%7+1)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, journalName)); err != nil || info.Size() > 300*shortenEvery {
		t.Errorf("%v, %v", info.Size(), err)
	}
	l.Close()
	if onDisk(t, dir).Hash() != l.fleet.Hash() {
		t.Error("the state is another")
	}
}

// onDisk is the state that a journal has on disk.
func onDisk(t testing.TB, dir string) *decide.Fleet {
	t.Helper()
	was, err := load(filepath.Join(dir, journalName), heading{journalFormat, journalSchema, "test", "n1"})
	if err != nil {
		t.Fatal(err)
	}
	return was.fleet
}

// fullDisk fails as a disk does: after some bytes, with part of a record written.
type fullDisk struct {
	file
	room     int
	failSync bool
	noCut    bool
	noRoom   bool
}

func (d *fullDisk) Reserve(offset, n int64) error {
	if d.noRoom {
		return syscall.ENOSPC
	}
	return d.file.Reserve(offset, n)
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) <= d.room {
		d.room -= len(p)
		return d.file.Write(p)
	}
	n, _ := d.file.Write(p[:d.room])
	d.room = 0
	return n, &os.PathError{Op: "write", Path: "journal", Err: syscall.ENOSPC}
}

func (d *fullDisk) Sync() error {
	if d.failSync {
		return &os.PathError{Op: "fdatasync", Path: "journal", Err: syscall.EIO}
	}
	return d.file.Sync()
}

func (d *fullDisk) Truncate(n int64) error {
	if d.noCut {
		return &os.PathError{Op: "truncate", Path: "journal", Err: syscall.EIO}
	}
	return d.file.Truncate(n)
}

// TestFullDisk: whatever the disk refuses is refused to the caller, the state
// stays, reading and re-answering go on, and it recovers by itself, with every
// answered record there after a restart.
func TestFullDisk(t *testing.T) {
	for name, broken := range map[string]fullDisk{
		"no room":                 {room: 0},
		"half a record":           {room: 40},
		"no sync":                 {room: 1 << 20, failSync: true},
		"no sync and no cut then": {room: 1 << 20, failSync: true, noCut: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, book := mustOpen(t, dir, policy("fra"))
			fra := &site{t: t, l: l, name: "fra"}
			fra.up()
			granted := fra.request(steadycast.Withdraw)
			answer := fra.ask(granted)
			disk := broken
			pause(l, func() { disk.file, l.disk.f = l.disk.f, &disk })

			before := l.View()
			order := steadycast.Order{Kind: steadycast.OrderDrain, Site: "fra", Actor: "ann", Reason: "test"}
			for range 3 {
				if _, err := l.Order(t.Context(), order); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
					t.Fatalf("it took an order: %v", err)
				}
			}
			if after := l.View(); after.Fence != before.Fence || len(after.Orders) != 0 {
				t.Errorf("the state moved: %+v", after.Fence)
			}
			if again := fra.ask(granted); *again.Rulings[0].Permit != *answer.Rulings[0].Permit {
				t.Errorf("what was answered is not answered again: %+v", again)
			}
			if r, err := l.Try(t.Context(), order); err != nil || r.Refused != nil {
				t.Errorf("it cannot even try: %v", err)
			}
			if n := book.count("cannot write"); n != 1 {
				t.Errorf("said %d times", n)
			}

			pause(l, func() { disk = fullDisk{file: disk.file, room: 1 << 20} })
			if _, err := l.Order(t.Context(), order); err != nil {
				t.Fatalf("with room again: %v", err)
			}
			if book.count("can write again") != 1 {
				t.Error("nobody was told that it works again")
			}
			l.Close()
			if onDisk(t, dir).Hash() != l.fleet.Hash() {
				t.Error("the state on disk is another")
			}
			again, book := mustOpen(t, dir, policy("fra"))
			if len(again.View().Orders) != 1 || book.count("never finished") != 0 {
				t.Errorf("after a restart: %+v; it said %q", again.View().Orders, book.lines)
			}
		})
	}
}

// pause runs f in the ledger's goroutine, which owns the disk.
func pause(l *Local, f func()) {
	l.call(context.Background(), op{try: true, entry: func(lead *leader, now time.Duration) decide.Entry {
		f()
		return lead.entry(now, decide.KindTick)
	}})
}

// TestRealFullDisk fills a small file system of its own.
func TestRealFullDisk(t *testing.T) {
	dir, _ := small(t, "64k")
	book := &logbook{}
	l, err := Open(filepath.Join(dir, "state"), policy("fra"), book.options())
	if err != nil {
		t.Fatal(err)
	}
	fra := &site{t: t, l: l, name: "fra"}
	fra.up()
	full := false
	for i := 0; i < 2000 && !full; i++ {
		_, err := l.Do(t.Context(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", strings.Repeat("x", 500))
		full = errors.Is(err, syscall.ENOSPC)
		if err != nil && !full {
			t.Fatal(err)
		}
	}
	if !full {
		t.Fatal("64 kB never filled")
	}
	if len(l.View().Freezes) != 1 || fra.view().Phase != steadycast.In {
		t.Errorf("%+v", l.View())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if onDisk(t, filepath.Join(dir, "state")).Hash() != l.fleet.Hash() {
		t.Error("the state is another")
	}
	l, err = Open(filepath.Join(dir, "state"), policy("fra"), book.options())
	if err != nil {
		t.Fatalf("a full disk keeps it from starting: %v", err)
	}
	l.Close()
}

func BenchmarkAsk(b *testing.B) {
	for _, disk := range []bool{false, true} {
		name, dir := "memory", ""
		if disk {
			name, dir = "disk", b.TempDir()
		}
		b.Run(name, func(b *testing.B) {
			l, err := Open(dir, policy("fra"), Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			fra := &site{t: b, l: l, name: "fra"}
			fra.up()
			b.ResetTimer()
			for b.Loop() {
				// A return asked for again moves the unit: each call is one entry on disk.
				if a := fra.ask(fra.request(steadycast.Return)); permitted(a) != steadycast.Return {
					b.Fatalf("%+v", a)
				}
			}
		})
	}
}
