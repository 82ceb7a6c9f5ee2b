package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzLoad judges any bytes as node.yaml, and as the table it names. Nothing
// panics; what is refused has a place for every reason, and what is taken can
// be shown, compared and named.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(good))
	files, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range a.Files {
			if strings.HasSuffix(x.Name, ".yaml") {
				f.Add(x.Data)
			}
		}
	}
	for _, glob := range []string{"*.yaml", "examples/*.yaml", "examples/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(configs, glob))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range found {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		l := loading{env: []string{}, open: func(string) ([]byte, Problems) { return src, nil }}
		c, ps := l.node("node.yaml", src)
		placed(t, src, ps)
		if (c == nil) != (ps.Fatal() > 0) {
			t.Fatalf("a configuration is %v beside %v", c, ps)
		}
		if c != nil {
			if d := Diff(c, c); len(d) > 0 {
				t.Fatalf("differs from itself: %v", d)
			}
			again, _ := l.node("node.yaml", src)
			if again == nil || again.Hash() != c.Hash() || len(Diff(c, again)) > 0 {
				t.Fatal("read twice, it differs")
			}
			for _, x := range c.VIPs() {
				if !x.IsSingleIP() {
					t.Fatalf("%v is no address of a host", x)
				}
			}
			_ = c.Effective()
			_ = c.Looks(c.Node.Site)
		}
		_, ps = alone("fleet.yaml", src)
		placed(t, src, ps)
	})
}

func placed(t *testing.T, src []byte, ps Problems) {
	t.Helper()
	lines := strings.Count(string(src), "\n") + 1
	for _, p := range ps {
		// YAML also ends lines with CR, NEL, LS and PS, so there may be more of its lines than of ours.
		if p.Place.Line < 1 || p.Place.Col < 1 || p.Place.Line > lines+len(src) || p.Text == "" {
			t.Fatalf("no place or no words: %#v", p)
		}
		if strings.ContainsAny(p.String(), "\n\r\x1b") {
			t.Fatalf("spoils the terminal: %q", p.String())
		}
	}
}
