package pki

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

func TestOperatorSigns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "maria")
	made, err := NewPen(path, "maria", steadycast.Mover)
	if err != nil {
		t.Fatal(err)
	}
	pen, err := OpenPen(path)
	if err != nil || pen.String() != made.String() || pen.Role != steadycast.Mover || pen.Name != "maria" {
		t.Fatalf("%v %v", pen, err)
	}
	other, err := NewPen(filepath.Join(dir, "joe"), "joe", steadycast.Admin)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(pen.Operator)
	if err != nil {
		t.Fatal(err)
	}
	var person steadycast.Operator
	if err := json.Unmarshal(text, &person); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		msg := rapid.SliceOf(rapid.Byte()).Draw(t, "message")
		sig := pen.Sign(steadycast.ContextOrder, msg)
		if !person.Signed(steadycast.ContextOrder, msg, sig) {
			t.Fatal("the signature does not fit")
		}
		changed := append(bytes.Clone(msg), 0)
		flipped := bytes.Clone(sig)
		flipped[rapid.IntRange(0, len(sig)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		for what, fits := range map[string]bool{
			"another message":   person.Signed(steadycast.ContextOrder, changed, sig),
			"another context":   person.Signed(steadycast.ContextTable, msg, sig),
			"another operator":  other.Signed(steadycast.ContextOrder, msg, sig),
			"another signature": person.Signed(steadycast.ContextOrder, msg, flipped),
			"half a signature":  person.Signed(steadycast.ContextOrder, msg, sig[:32]),
			"no signature":      person.Signed(steadycast.ContextOrder, msg, nil),
			"no key":            (steadycast.Operator{Name: "maria"}).Signed(steadycast.ContextOrder, msg, sig),
		} {
			if fits {
				t.Fatalf("%s fits", what)
			}
		}
	})

	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := pen.key.Seed()
	shown := fmt.Sprintf("%v %+v %#v %s", pen, pen, pen, *made)
	if strings.Contains(shown, base64.RawStdEncoding.EncodeToString(seed)) || strings.Contains(shown, fmt.Sprintf("0x%x, 0x%x", seed[0], seed[1])) || strings.Contains(shown, fmt.Sprintf("%d %d %d", seed[0], seed[1], seed[2])) {
		t.Errorf("the private key is shown: %s", shown)
	}
	for at := range secret[:len(secret)-1] {
		put(t, filepath.Join(dir, "cut.key"), secret[:at])
		if _, err := OpenPen(filepath.Join(dir, "cut.key")); err == nil {
			t.Fatalf("a key cut at %d was read", at)
		}
	}
}

func TestOperatorLines(t *testing.T) {
	key := base64.RawStdEncoding.EncodeToString(make([]byte, 32))
	for line, want := range map[string]string{
		"steadycast-operator maria admin " + key:              "",
		"  steadycast-operator  maria  viewer\t" + key + "\n": "",
		"maria admin " + key:                                  "allowed: steadycast-operator NAME ROLE KEY",
		"":                                                    "allowed: steadycast-operator NAME ROLE KEY",
		"steadycast-operator Maria admin " + key:              `operator "Maria" is not a name`,
		"steadycast-operator maria root " + key:               `"root" is not a role; allowed: viewer, operator, admin`,
		"steadycast-operator maria none " + key:               `"none" is not a role`,
		"steadycast-operator maria admin " + key[:40]:         "is not 32 octets in base64",
		"steadycast-operator maria admin " + key + " x":       "allowed: steadycast-operator NAME ROLE KEY",
	} {
		var p steadycast.Operator
		err := p.UnmarshalText([]byte(line))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", line, err, want)
		}
		if err != nil && p.Name != "" {
			t.Errorf("%q left %v behind", line, p)
		}
	}
}

func TestPensAreNotMade(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		role steadycast.Role
	}{{"", steadycast.Viewer}, {"Maria", steadycast.Viewer}, {"maria", steadycast.NoRole}, {"maria", steadycast.Admin + 1}} {
		if _, err := NewPen(filepath.Join(dir, "k"), c.name, c.role); err == nil {
			t.Errorf("%+v was made", c)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
	f := newFleet(t, "prod")
	node := f.issue("fra", "fra-1", DefaultLife)
	for _, file := range []string{keyFile, observeFile, certFile} {
		if _, err := OpenPen(filepath.Join(node, file)); err == nil {
			t.Errorf("%s was taken for an operator's", file)
		}
	}
}
