package decide

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update-golden", false, "write testdata/golden from the scripts in testdata/fleet")

// TestFleetGolden replays recorded entries and compares the hash of the state
// after each. Replicas of one rules level must agree to the bit, whichever
// version of the program they run: if this test fails, old and new would go
// different ways on the same log. Then either the change is a mistake, or it
// needs a new rules level; only before the first release may it be recorded anew.
func TestFleetGolden(t *testing.T) {
	if *updateGolden {
		record(t)
	}
	files, err := filepath.Glob("testdata/golden/*.log")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".log"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := NewFleet()
			for i, line := range bytes.Split(bytes.TrimSpace(data), []byte{'\n'}) {
				want, entry, _ := bytes.Cut(line, []byte{' '})
				e, err := DecodeEntry(entry)
				if err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				if again, err := e.Encode(); err != nil || !bytes.Equal(again, entry) {
					t.Errorf("line %d is written otherwise now (%v):\n%s\n%s", i+1, err, entry, again)
				}
				if _, err := f.Apply(e); err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				if got := f.Hash()[:16]; got != string(want) {
					t.Fatalf("line %d: after %s the state is %s, was %s", i+1, e.Kind, got, want)
				}
			}
		})
	}
}

// record plays the scripts and writes down what was applied.
func record(t *testing.T) {
	scripts, err := filepath.Glob("testdata/fleet/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata/golden", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		data, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		s := newStage(t)
		var log bytes.Buffer
		s.applied = func(e Entry) {
			b, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&log, "%s %s\n", s.f.Hash()[:16], b)
		}
		for line := range strings.Lines(string(data)) {
			if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(line, " ") && line[0] != '#' {
				s.play(text)
			}
		}
		name := strings.TrimSuffix(filepath.Base(script), ".txt") + ".log"
		if err := os.WriteFile(filepath.Join("testdata/golden", name), log.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzApply gives a running fleet lines that may be entries. Nothing makes it
// panic or lose its own rules, what it answers to a trial it answers for real,
// and a restored machine is the same machine.
func FuzzApply(f *testing.F) {
	files, err := filepath.Glob("testdata/golden/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			_, entry, _ := bytes.Cut(line, []byte{' '})
			f.Add(bytes.TrimSpace(entry))
		}
	}
	running := NewFleet()
	data, err := os.ReadFile("testdata/golden/orders.log")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		_, entry, _ := bytes.Cut(line, []byte{' '})
		e, err := DecodeEntry(bytes.TrimSpace(entry))
		if err != nil {
			f.Fatal(err)
		}
		if _, err := running.Apply(e); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &Fleet{s: running.s.clone()}
		if bytes.HasPrefix(data, []byte(`{"kind":"genesis"`)) {
			m = NewFleet()
		}
		for i, line := range bytes.SplitN(data, []byte{'\n'}, 5) {
			e, err := DecodeEntry(line)
			if err != nil || i == 4 {
				return
			}
			tried, err := m.Try(e)
			if err != nil {
				t.Fatal("what was decoded is not understood: ", err)
			}
			other := NewFleet() // which came here by a snapshot, and goes on from it
			if err := other.Restore(m.Snapshot()); err != nil {
				t.Fatalf("before %s: %v", e.Kind, err)
			}
			r, err := m.Apply(e)
			if err != nil {
				t.Fatal(err)
			}
			if text(r) != text(tried) {
				t.Fatalf("tried %s\nthen %s", text(tried), text(r))
			}
			if again, err := other.Apply(e); err != nil || text(again) != text(r) || !bytes.Equal(other.Snapshot(), m.Snapshot()) {
				t.Fatalf("%s: a machine from a snapshot goes another way (%v):\n%s\nnot\n%s", e.Kind, err, text(again), text(r))
			}
			m.View()
			twin := NewFleet()
			if err := twin.Restore(m.Snapshot()); err != nil {
				t.Fatalf("after %s: %v", e.Kind, err)
			}
			if !bytes.Equal(twin.Snapshot(), m.Snapshot()) {
				t.Fatalf("restored\n%s\nnot\n%s", twin.Snapshot(), m.Snapshot())
			}
		}
	})
}

// TestDecodeEntry: what is not an entry of this version is refused with a reason.
func TestDecodeEntry(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, "not an entry"},
		{`{}`, "kind, schema and rules must be given"},
		{`{"kind":"tick","schema":1,"rules":1,"epoch":1,"lt":-1.5}`, "cannot unmarshal"},
		{`{"kind":"tick","schema":1,"rules":1,"epoch":1,"lt":1,"colour":"red"}`, `unknown field "colour"`},
		{`{"kind":"tick","schema":1,"rules":1,"epoch":1,"lt":1} {}`, "after top-level value"},
		{`{"kind":"order","schema":1,"rules":1,"epoch":1,"lt":1,"order":{"kind":"nuke"}}`, "allowed: none, withdraw, drain, announce"},
		{`{"kind":"in","schema":1,"rules":1,"epoch":1,"lt":1,"return":{"unit":{"site":"a","prefix":"192.0.2.0/240"}}}`, "192.0.2.0/240"},
		{`{"kind":"dance","schema":1,"rules":1,"epoch":1,"lt":1}`, `unknown kind "dance"; this ledger stops here`},
		{`{"kind":"tick","schema":2,"rules":1,"epoch":1,"lt":1,"colour":"red"}`, "comes from a newer version"},
		{`{"kind":"tick","schema":1,"rules":2,"epoch":1,"lt":1}`, "comes from a newer version"},
	} {
		if _, err := DecodeEntry([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.in, err, c.want)
		}
	}
	if _, err := DecodeEntry(make([]byte, MaxEntry+1)); err == nil {
		t.Error("an entry above the bound was read")
	}
}

// TestUnknownEntryStops: a replica never skips what it does not know, and stays
// where it was.
func TestUnknownEntryStops(t *testing.T) {
	s := newStage(t)
	s.play("table sites=fra prefixes=192.0.2.0/24")
	before := s.f.Hash()
	e := s.entry("dance")
	if _, err := s.f.Apply(e); err == nil {
		t.Fatal("it danced")
	} else if _, ok := err.(*StopError); !ok {
		t.Fatalf("%T is not a *StopError", err)
	}
	if _, err := s.f.Try(e); err == nil {
		t.Fatal("it would dance")
	}
	if s.f.Hash() != before {
		t.Error("the machine moved")
	}
}

// TestRestoreRefuses: a snapshot that this machine could not have written is not
// taken, and leaves the machine as it was.
func TestRestoreRefuses(t *testing.T) {
	s := newStage(t)
	s.play("table sites=ams,fra,lon prefixes=192.0.2.0/24")
	s.play("boot")
	good := string(s.f.Snapshot())
	for _, c := range []struct{ from, to, want string }{
		{`{`, `[`, "not a snapshot"},
		{`"schema":1`, `"schema":2`, "newer version"},
		{`"rules":1`, `"rules":2`, "newer version"},
		{`"schema":1`, `"schema":0`, "schema 0"},
		{`"site":"ams","prefix":"192.0.2.0/24"`, `"site":"zzz","prefix":"192.0.2.0/24"`, "units are not those of its table"},
		{`"prefixes":[{"prefix":"192.0.2.0/24"`, `"prefixes":[{"prefix":"192.0.9.0/24"`, "prefixes are not those"},
		{`"phase":"in"`, `"phase":"out","lost":true`, "which cannot be"},
		{`"lt":0`, `"lt":-7`, "ledger time"},
		{`"slots":[{"site":"ams"`, `"slots":[{"site":"zzz"`, "slots are out of order"},
		{`"revision":1`, `"revision":1,"mood":"bad"`, "unknown field"},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Fatalf("the snapshot has no %s:\n%s", c.from, good)
		}
		if err := s.f.Restore([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s → %s: got %v, want %q", c.from, c.to, err, c.want)
		}
		if string(s.f.Snapshot()) != good {
			t.Fatal("a refused snapshot changed the machine")
		}
	}
}
