package pki

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is issued reads back as the same identity, for all names there are, and
// nothing else is issued.
func TestIdentityRoundTrip(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(root, strings.Repeat("d", n%7+1), "x"+strings.Repeat("y", n/7%20), string(rune('a'+n/140)))
		name := rapid.OneOf(rapid.StringMatching(`[a-z][a-z0-9_-]{0,62}`), rapid.StringMatching(`[a-z][a-z0-9_-]{60,70}`), rapid.String())
		fleet, site, node := rapid.StringMatching(`[a-z][a-z0-9_-]{0,62}`).Draw(t, "fleet"), name.Draw(t, "site"), name.Draw(t, "node")
		a, err := Init(filepath.Join(dir, "ca"), fleet, time.Now())
		if err != nil {
			t.Fatalf("fleet %q: %v", fleet, err)
		}
		defer os.RemoveAll(dir)
		id := Identity{fleet, site, node}
		p, err := a.Issue(id, filepath.Join(dir, "node"), DefaultLife, time.Now())
		if good := nameShape.MatchString(site) && nameShape.MatchString(node); good != (err == nil) {
			t.Fatalf("%q: %v", id, err)
		} else if !good {
			return
		}
		c, err := Open(Settings{Dir: filepath.Join(dir, "node"), Fleet: fleet, Site: site, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Self(); got.Identity != id || got.Serial != p.Serial || !got.Observe.Equal(p.Observe) {
			t.Fatalf("issued %v, opened %v", p, got)
		}
	})
}

func TestAuthorityRefuses(t *testing.T) {
	f := newFleet(t, "prod")
	node := f.issue("fra", "fra-1", DefaultLife)
	alien := newFleet(t, "prod").issue("ams", "ams-1", DefaultLife)
	now := time.Now()
	out := filepath.Join(f.root, "out")
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a fleet that is no name", second(Init(out, "Prod", now)), `fleet "Prod" is not a name`},
		{"another fleet", second(f.Issue(Identity{"test", "fra", "fra-1"}, out, DefaultLife, now)), "is of fleet prod and cannot speak for test"},
		{"no time", second(f.Issue(Identity{Site: "fra", Node: "fra-1"}, out, 0, now)), "allowed: 1h0m0s and more"},
		{"after its end", second(f.Issue(Identity{Site: "fra", Node: "fra-1"}, out, DefaultLife, now.Add(2*AuthorityLife))), "ended on"},
		{"to renew another's", second(f.Renew(alien, DefaultLife, now)), "was not issued by the authority"},
		{"to renew nothing", second(f.Renew(out, DefaultLife, now)), "no such file"},
		{"to revoke a stranger", second(f.Revoke("gru-1", now)), `issued nothing to "gru-1"`},
		{"no authority", second(OpenAuthority(node)), "ca.key: no such file"},
		{"an empty directory", second(OpenAuthority(out)), "Next: steadycast pki init"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v; want …%s…", c.name, c.err, c.want)
		}
	}
	if _, err := f.Revoke("gru-1", now); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v is not ErrUnknown", err)
	}
}

func TestLifeEndsWithTheAuthority(t *testing.T) {
	f := newFleet(t, "prod")
	p, err := f.Issue(Identity{Site: "fra", Node: "fra-1"}, filepath.Join(f.root, "n"), 2*AuthorityLife, time.Now())
	if err != nil || !p.Expires.Equal(f.cert.NotAfter) {
		t.Errorf("%v %v; want the authority's end, %v", p.Expires, err, f.cert.NotAfter)
	}
}

func TestRevoke(t *testing.T) {
	f := newFleet(t, "prod")
	fra, ams := f.issue("fra", "fra-1", DefaultLife), f.issue("ams", "ams-1", DefaultLife)
	gru := f.issue("gru", "gru-1", DefaultLife)
	if _, err := f.Renew(ams, DefaultLife, time.Now()); err != nil {
		t.Fatal(err)
	}
	a := open(t, fra)
	old, err := os.ReadFile(filepath.Join(fra, revokedFile))
	if err != nil {
		t.Fatal(err)
	}
	ended, err := f.Revoke("ams-1", time.Now())
	if err != nil || len(ended) != 2 {
		t.Fatalf("%v %v; want both certificates of ams-1", ended, err)
	}
	serial := open(t, gru).Self().Serial
	if ended, err := f.Revoke(serial, time.Now()); err != nil || len(ended) != 1 || ended[0].Node != "gru-1" {
		t.Fatalf("%v %v", ended, err)
	}
	if again, err := f.Revoke("ams-1", time.Now()); err != nil || len(again) != 0 {
		t.Errorf("a second time: %v %v", again, err)
	}
	try := func(dir string) Reason {
		_, err, _ := shake(t, a.ServerConfig(Mesh), stranger(t, dir, Mesh, "prod"))
		return reasonOf(err)
	}
	if got := try(ams); got != "" {
		t.Errorf("before the list is copied: %q", got)
	}
	if _, err := a.Relayed(chain(t, ams).Certificate[0]); err != nil {
		t.Error(err)
	}
	if err := f.CopyTo(fra); err != nil {
		t.Fatal(err)
	}
	if err := a.Reread(); err != nil {
		t.Fatal(err)
	}
	if got := [...]Reason{try(ams), try(gru), try(fra)}; got != [...]Reason{Revoked, Revoked, ""} {
		t.Errorf("after: %q", got)
	}
	if _, err := a.Relayed(chain(t, ams).Certificate[0]); reasonOf(err) != Revoked {
		t.Errorf("relayed: %v", err)
	}
	if _, err := f.Renew(ams, DefaultLife, time.Now()); err == nil || !strings.Contains(err.Error(), "is revoked and is not renewed") {
		t.Errorf("renewed: %v", err)
	}

	// A list of another authority, an older one, or none any more: the one in force stays.
	stolen, err := os.ReadFile(filepath.Join(newFleet(t, "prod").dir, revokedFile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(fra, revokedFile)
	for what, put := range map[string]func() error{
		"older":              func() error { return os.WriteFile(path, old, 0o644) },
		"by another":         func() error { return os.WriteFile(path, stolen, 0o644) },
		"gone from the disk": func() error { return os.Remove(path) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := a.Reread(); err == nil {
			t.Errorf("a list %s was taken", what)
		}
		if got := try(ams); got != Revoked {
			t.Errorf("a list %s: %q", what, got)
		}
	}

	// One that is revoked itself starts, and says so.
	if err := f.CopyTo(ams); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(open(t, ams).Alarms(), "\n"); !strings.Contains(got, "our own certificate") || !strings.Contains(got, "is revoked") {
		t.Errorf("alarms of the revoked: %q", got)
	}
	// A new one in its place is another certificate.
	if err := os.RemoveAll(ams); err != nil {
		t.Fatal(err)
	}
	if err := f.CopyTo(fra); err != nil {
		t.Fatal(err)
	}
	if got := try(f.issue("ams", "ams-1", DefaultLife)); got != "" {
		t.Errorf("issued anew: %q", got)
	}
}
