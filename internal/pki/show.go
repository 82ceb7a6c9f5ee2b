package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Shown is one certificate as people and monitors look at it.
type Shown struct {
	File string `json:"file"`
	// Kind is authority or node.
	Kind string `json:"kind"`
	// Name is the node's identity, or the authority's common name.
	Name    string    `json:"name"`
	Fleet   string    `json:"fleet,omitempty"`
	Site    string    `json:"site,omitempty"`
	Node    string    `json:"node,omitempty"`
	Serial  string    `json:"serial"`
	Expires time.Time `json:"expires"`
	// Level is how near the end is: ok, soon, urgent, expired.
	Level   Level  `json:"level"`
	Text    string `json:"text"`
	Revoked bool   `json:"revoked,omitempty"`
	// Problem is why a node's directory cannot be used; empty if it can.
	Problem string `json:"problem,omitempty"`
}

// Bad reports whether somebody must act.
func (s Shown) Bad() bool { return s.Level >= Urgent || s.Revoked || s.Problem != "" }

// Show describes the certificates at path: a file, a node's directory, or an
// authority's, with all that it has issued.
func Show(path string, now time.Time) ([]Shown, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.IsDir():
		return showFile(path, revocations{}, now)
	case absent(filepath.Join(path, caKeyFile)) != nil:
		return showAuthority(path, now)
	}
	return showNode(path, now)
}

func showNode(dir string, now time.Time) ([]Shown, error) {
	out, err := showFile(filepath.Join(dir, certFile), revocations{}, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is neither a node's directory nor an authority's: it has no %s and no %s", dir, certFile, caKeyFile)
	} else if err != nil {
		return nil, err
	}
	if s, err := load(dir, nil); err != nil {
		out[0].Problem = err.Error()
	} else {
		out[0].Revoked = s.revoked.has(s.leaf)
	}
	authorities, err := showFile(filepath.Join(dir, caCertFile), revocations{}, now)
	if err != nil {
		return out, nil // said as the problem of the first
	}
	return append(out, authorities...), nil
}

func showAuthority(dir string, now time.Time) ([]Shown, error) {
	a, err := OpenAuthority(dir)
	if err != nil {
		return nil, err
	}
	gone, err := a.revoked()
	if err != nil {
		return nil, err
	}
	issued, err := a.Issued()
	if err != nil {
		return nil, err
	}
	out := []Shown{shown(filepath.Join(dir, caCertFile), a.cert, gone, now)}
	for _, c := range issued {
		out = append(out, shown(filepath.Join(dir, issuedDir, serial(c)+".crt"), c, gone, now))
	}
	return out, nil
}

func showFile(path string, gone revocations, now time.Time) ([]Shown, error) {
	certs, err := readCerts(path)
	if err != nil {
		return nil, err
	}
	var out []Shown
	for _, c := range certs {
		out = append(out, shown(path, c, gone, now))
	}
	return out, nil
}

func shown(path string, c *x509.Certificate, gone revocations, now time.Time) Shown {
	e := expiry(c, now)
	s := Shown{File: path, Kind: "authority", Name: c.Subject.CommonName, Serial: serial(c), Expires: c.NotAfter.UTC(), Level: e.Level, Text: e.Text, Revoked: gone.has(c)}
	if !c.IsCA {
		s.Kind = "node"
		p, err := peerOf(c)
		if err != nil {
			s.Problem = err.Error()
			return s
		}
		s.Name, s.Fleet, s.Site, s.Node = p.String(), p.Fleet, p.Site, p.Node
	}
	return s
}
