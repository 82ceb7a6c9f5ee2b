package pki

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/role"
)

var nodeFiles = []string{caCertFile, certFile, keyFile, observeFile, revokedFile}

func TestFilesAreWhatTheySay(t *testing.T) {
	f := newFleet(t, "prod")
	dir := f.issue("fra", "fra-1", DefaultLife)
	if _, err := NewPen(filepath.Join(f.root, "maria.key"), "maria", steadycast.Admin); err != nil {
		t.Fatal(err)
	}
	private := 0
	err := filepath.WalkDir(f.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte("PRIVATE")) {
			private++
			if st.Mode().Perm() != privateMode {
				t.Errorf("%s has mode %o", path, st.Mode().Perm())
			}
		}
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s was left behind", path)
		}
		return nil
	})
	if err != nil || private != 4 {
		t.Errorf("%d private keys (%v); want the authority's, the node's two and the operator's", private, err)
	}
	if s := f.issue("ams", "ams-1", DefaultLife); s == dir {
		t.Error("two nodes share a directory")
	}
}

// Nothing private is written over, and no key lands in a file that somebody
// prepared with other rights.
func TestNothingIsWrittenOver(t *testing.T) {
	f := newFleet(t, "prod")
	dir := f.issue("fra", "fra-1", DefaultLife)
	before := snapshot(t, f.root)
	for name, err := range map[string]error{
		"init":     second(Init(filepath.Join(f.root, "ca"), "prod", time.Now())),
		"issue":    second(f.Issue(Identity{Site: "fra", Node: "fra-1"}, dir, DefaultLife, time.Now())),
		"operator": second(NewPen(filepath.Join(dir, keyFile), "maria", steadycast.Admin)),
	} {
		if err == nil || !strings.Contains(err.Error(), "exists; it is not written over") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := snapshot(t, f.root); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
	path := filepath.Join(f.root, "pen")
	put(t, path+".tmp", nil)
	if err := os.Chmod(path+".tmp", 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := NewPen(path, "maria", steadycast.Viewer); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != privateMode {
		t.Errorf("%v %v", st.Mode(), err)
	}
}

func second[T any](_ T, err error) error { return err }

func snapshot(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A file cut anywhere, empty, of another kind, or of another node is refused at
// the start, with its name; and where it takes the place of a good one, the
// good one stays in force until it is whole again.
func TestBrokenFiles(t *testing.T) {
	f := newFleet(t, "prod")
	dir := f.issue("fra", "fra-1", DefaultLife)
	other := f.issue("ams", "ams-1", DefaultLife)
	c := open(t, dir)
	self := c.Self().Serial
	for _, name := range nodeFiles {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := map[string][]byte{"empty": nil, "rubbish": []byte("steadycast\n"), "twice in part": append(bytes.Clone(good), good[:len(good)/2]...), "huge": bytes.Repeat([]byte("x"), maxFile+1)}
		for at := 1; at < len(good)-1; at += 41 {
			bad[fmt.Sprintf("cut at %d", at)] = good[:at]
		}
		flipped := bytes.Clone(good)
		flipped[len(good)*2/5] ^= 1 // in what counts of a private key
		bad["one bit changed"] = flipped
		if name != caCertFile && name != revokedFile {
			theirs, err := os.ReadFile(filepath.Join(other, name))
			if err != nil {
				t.Fatal(err)
			}
			bad["another node's"] = theirs
		}
		for what, data := range bad {
			put(t, path, data)
			_, err := Open(Settings{Dir: dir})
			if err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s %s: %v", name, what, err)
			}
			if err := c.Reread(); err == nil {
				t.Errorf("%s %s: read again without complaint", name, what)
			}
			if got := strings.Join(c.Alarms(), "\n"); !strings.Contains(got, "what was read before goes on") || strings.Contains(got, "PRIVATE KEY-----\n") {
				t.Errorf("%s %s: alarms %q", name, what, got)
			}
			if c.Self().Serial != self {
				t.Errorf("%s %s took effect", name, what)
			}
		}
		put(t, path, good)
		if err := c.Reread(); err != nil || len(c.Alarms()) != 0 {
			t.Errorf("%s whole again: %v, %q", name, err, c.Alarms())
		}
	}
}

func TestKeysThatOthersMayReadAreRefused(t *testing.T) {
	f := newFleet(t, "prod")
	dir := f.issue("fra", "fra-1", DefaultLife)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o440: true, 0o644: false, 0o660: false, 0o604: false, 0o606: false} {
		path := filepath.Join(dir, keyFile)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Settings{Dir: dir})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "Next: chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// A node opens only what is its own.
func TestOpenAsAnother(t *testing.T) {
	f := newFleet(t, "prod")
	dir := f.issue("fra", "fra-1", DefaultLife)
	for _, set := range []Settings{{Fleet: "test"}, {Site: "ams"}, {Node: "fra-2"}} {
		set.Dir = dir
		if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "is the certificate of steadycast://prod/fra/fra-1; this node is ") {
			t.Errorf("%+v: %v", set, err)
		}
	}
	if _, err := Open(Settings{Dir: dir, Fleet: "prod", Site: "fra", Node: "fra-1"}); err != nil {
		t.Error(err)
	}
	if _, err := Open(Settings{Dir: filepath.Join(f.root, "nowhere")}); err == nil {
		t.Error("nothing was opened")
	}
}

func TestRenewTakesEffectWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "prod")
		dir := f.issue("fra", "fra-1", 48*time.Hour)
		a, b := open(t, dir), open(t, f.issue("ams", "ams-1", DefaultLife))
		server, client := a.ServerConfig(Mesh), b.ClientConfig(Mesh, Identity{}) // made once, long before
		was := a.Self()
		time.Sleep(72 * time.Hour)
		if _, _, err := shake(t, server, client); reasonOf(err) != Expired {
			t.Errorf("before: %v", err)
		}
		// Only the certificate travels to where it is renewed.
		copied := t.TempDir()
		moved, err := os.ReadFile(filepath.Join(dir, certFile))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(copied, certFile), moved)
		now, err := f.Renew(copied, DefaultLife, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if now.Identity != was.Identity || !now.Observe.Equal(was.Observe) || now.Serial == was.Serial {
			t.Errorf("renewed %+v as %+v", was, now)
		}
		renewed, err := os.ReadFile(filepath.Join(copied, certFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := role.WriteFile(filepath.Join(dir, certFile), renewed, publicMode); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reread)
		if _, serverErr, clientErr := shake(t, server, client); serverErr != nil || clientErr != nil {
			t.Errorf("after: %v, %v", serverErr, clientErr)
		}
		if got := a.Self().Serial; got != now.Serial {
			t.Errorf("in force is %s; want %s", got, now.Serial)
		}
	})
}
