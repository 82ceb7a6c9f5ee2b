package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fleet is an authority and a directory for its nodes.
type fleet struct {
	*Authority
	t    *testing.T
	root string
}

func newFleet(t *testing.T, name string) *fleet {
	t.Helper()
	root := t.TempDir()
	a, err := Init(filepath.Join(root, "ca"), name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{a, t, root}
}

// issue makes a node's directory and returns it.
func (f *fleet) issue(site, node string, life time.Duration) string {
	f.t.Helper()
	dir := filepath.Join(f.root, node)
	if _, err := f.Issue(Identity{Site: site, Node: node}, dir, life, time.Now()); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string) *Credentials {
	t.Helper()
	c, err := Open(Settings{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shake lets two ends meet, sends a byte to the caller, and says how it went for
// each. The byte matters: in TLS 1.3 the caller learns only after its handshake
// that it was turned away (RFC 8446 §4.4.2).
func shake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	a, b := wires()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := tls.Server(a, server)
		if serverErr = s.Handshake(); serverErr == nil {
			seen = s.ConnectionState()
			_, serverErr = s.Write([]byte{1})
		}
		a.Close()
	}()
	c := tls.Client(b, client)
	_, clientErr = io.ReadFull(c, make([]byte, 1))
	b.Close()
	<-done
	return seen, serverErr, clientErr
}

// reasonOf is the reason of a refusal, or "" of none.
func reasonOf(err error) Reason {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}

// foreign is an authority made with other tools: with no constraint in it, and
// with certificates of any shape.
type foreign struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newForeign(t *testing.T, life time.Duration) *foreign {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := &x509.Certificate{SerialNumber: newSerial(), Subject: pkix.Name{CommonName: "any authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, o, o, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &foreign{t, key, cert}
}

// issue makes a node's directory by a certificate that alter has changed.
func (f *foreign) issue(id Identity, alter func(*x509.Certificate)) string {
	f.t.Helper()
	dir := f.t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	public, observe, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	o := &x509.Certificate{SerialNumber: newSerial(), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: id.uris(public), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if alter != nil {
		alter(o)
	}
	der, err := x509.CreateCertificate(rand.Reader, o, f.cert, key.Public(), f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	write := func(name string, data []byte, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), data, mode); err != nil {
			f.t.Fatal(err)
		}
	}
	write(certFile, encodeCert(der), 0o644)
	write(caCertFile, encodeCert(f.cert.Raw), 0o644)
	for name, k := range map[string]any{keyFile: key, observeFile: observe} {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			f.t.Fatal(err)
		}
		write(name, pemBlock(pemKey, der), 0o600)
	}
	return dir
}

// chain is what a directory would show, without any of the checks of Open: a
// stranger has no reason to make them.
func chain(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// stranger calls with a directory's certificate and accepts whoever answers.
func stranger(t *testing.T, dir string, p Purpose, fleet string) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{chain(t, dir)}, InsecureSkipVerify: true, NextProtos: []string{p.ALPN(fleet)}}
}

func uri(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
