package pki

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// No bytes that a stranger sends as a certificate panic, and none but the true
// ones are let in.
func FuzzRelayed(f *testing.F) {
	root := f.TempDir()
	a, err := Init(filepath.Join(root, "ca"), "prod", time.Now())
	if err != nil {
		f.Fatal(err)
	}
	dir := filepath.Join(root, "fra-1")
	if _, err := a.Issue(Identity{Site: "fra", Node: "fra-1"}, dir, DefaultLife, time.Now()); err != nil {
		f.Fatal(err)
	}
	c, err := Open(Settings{Dir: dir})
	if err != nil {
		f.Fatal(err)
	}
	good := c.Leaf()
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(a.cert.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		p, err := c.Relayed(der)
		if let := err == nil; let != bytes.Equal(der, good) {
			t.Fatalf("%v, %v", p, err)
		}
	})
}

// A line that is read as an operator's is written as the same operator's.
func FuzzOperator(f *testing.F) {
	f.Add("steadycast-operator maria admin AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("steadycast-operator maria")
	f.Fuzz(func(t *testing.T, line string) {
		var p, q steadycast.Operator
		if p.UnmarshalText([]byte(line)) != nil {
			return
		}
		if err := q.UnmarshalText([]byte(p.String())); err != nil || q.String() != p.String() {
			t.Fatalf("%q: %v, again %v (%v)", line, p, q, err)
		}
	})
}
