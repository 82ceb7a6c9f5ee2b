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
)

func TestOperatorSigns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "maria")
	made, err := NewPen(path, "maria", Operator)
	if err != nil {
		t.Fatal(err)
	}
	pen, err := OpenPen(path)
	if err != nil || pen.String() != made.String() || pen.Role != Operator || pen.Name != "maria" {
		t.Fatalf("%v %v", pen, err)
	}
	other, err := NewPen(filepath.Join(dir, "joe"), "joe", Admin)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(pen.Person)
	if err != nil {
		t.Fatal(err)
	}
	var person Person
	if err := json.Unmarshal(text, &person); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		msg := rapid.SliceOf(rapid.Byte()).Draw(t, "message")
		sig := pen.Sign(ContextOrder, msg)
		if err := person.Verify(ContextOrder, msg, sig); err != nil {
			t.Fatal(err)
		}
		changed := append(bytes.Clone(msg), 0)
		flipped := bytes.Clone(sig)
		flipped[rapid.IntRange(0, len(sig)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		for what, err := range map[string]error{
			"another message":   person.Verify(ContextOrder, changed, sig),
			"another context":   person.Verify(ContextTable, msg, sig),
			"another operator":  other.Verify(ContextOrder, msg, sig),
			"another signature": person.Verify(ContextOrder, msg, flipped),
			"half a signature":  person.Verify(ContextOrder, msg, sig[:32]),
			"no signature":      person.Verify(ContextOrder, msg, nil),
			"no key":            (Person{Name: "maria"}).Verify(ContextOrder, msg, sig),
		} {
			if err == nil {
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
		var p Person
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
		role Role
	}{{"", Viewer}, {"Maria", Viewer}, {"maria", NoRole}, {"maria", Admin + 1}} {
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
