package decide

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMangledEntries takes real entries where they stand in their logs, puts odd
// values in each of their places in turn, and applies what can still be read:
// never a panic, always the same on two machines, and the machine stays sound.
func TestMangledEntries(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.log")
	if err != nil {
		t.Fatal(err)
	}
	odd := []any{nil, -1, 0, 1 << 62, 1.5, "", "zz", "192.0.2.0/24", "::/0", []any{}, map[string]any{}, true}
	tried, read := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := NewFleet()
		var done []Kind
		for line := range bytes.Lines(data) {
			_, raw, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
			e, err := DecodeEntry(raw)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(slices.DeleteFunc(slices.Clone(done), func(k Kind) bool { return k != e.Kind })); n < 2 {
				done = append(done, e.Kind)
				mangle(raw, odd, func(bad []byte) {
					tried++
					if try(t, m, bad) {
						read++
					}
				})
			}
			if _, err := m.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if read < 1000 {
		t.Errorf("of %d mangled entries only %d could be read: this tests nothing", tried, read)
	}
}

// try applies one mangled entry to copies of m; false if it cannot be read.
func try(t *testing.T, m *Fleet, bad []byte) bool {
	t.Helper()
	e, err := DecodeEntry(bad)
	if err != nil {
		return false
	}
	one, two := Fleet{s: m.s.clone()}, Fleet{s: m.s.clone()}
	r, err := one.Apply(e)
	if err != nil {
		t.Fatalf("%s: %v", bad, err)
	}
	again, err := two.Apply(e)
	if err != nil || text(r) != text(again) || !bytes.Equal(one.Snapshot(), two.Snapshot()) {
		t.Fatalf("%s: two machines differ (%v)", bad, err)
	}
	if err := one.s.sound(); err != nil {
		t.Fatalf("%s: %v", bad, err)
	}
	one.View()
	return true
}

// mangle calls f with raw once for each value in it and each odd value in its place.
func mangle(raw []byte, odd []any, f func([]byte)) {
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return
	}
	var walk func(v any, put func(any))
	emit := func() {
		if b, err := json.Marshal(root); err == nil {
			f(b)
		}
	}
	walk = func(v any, put func(any)) {
		for _, o := range odd {
			put(o)
			emit()
		}
		put(v)
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(x, func(n any) { v[k] = n })
			}
		case []any:
			for i, x := range v {
				walk(x, func(n any) { v[i] = n })
			}
			if len(v) > 0 { // and one of them twice
				put(append(slices.Clone(v), v[0]))
				emit()
				put(v)
			}
		}
	}
	walk(root, func(n any) { root = n })
}
