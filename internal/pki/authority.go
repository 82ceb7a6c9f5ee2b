package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast/internal/role"
)

// How long certificates hold unless something else is asked for. A node's is
// renewed once a year by default; the authority's outlives the machines.
const (
	DefaultLife   = 365 * 24 * time.Hour
	AuthorityLife = 20 * 365 * 24 * time.Hour
	// shortestLife is the shortest certificate that is issued.
	shortestLife = time.Hour
	// backdate is how far behind a reader's clock may be.
	backdate = 5 * time.Minute
)

// Authority is the private certificate authority of one fleet: a directory that
// belongs on an operator's machine, not on a node. One process uses it at a time.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// Fleet is the only fleet that the authority can speak for.
	Fleet string
}

// Init makes the authority of a fleet in dir, which must not hold one.
func Init(dir, fleet string, now time.Time) (*Authority, error) {
	if err := checkName("fleet", fleet); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, issuedDir), 0o700); err != nil {
		return nil, err
	}
	for _, f := range []string{caCertFile, caKeyFile} {
		if err := absent(filepath.Join(dir, f)); err != nil {
			return nil, fmt.Errorf("an authority is there already: %w", err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "steadycast authority of " + fleet, Organization: []string{fleet}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(AuthorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		// Not even its own signature makes it speak for another fleet (RFC 5280 §4.2.1.10).
		PermittedDNSDomainsCritical: true,
		PermittedURIDomains:         []string{fleet},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(dir, caKeyFile), key, nil); err != nil {
		return nil, err
	}
	if err := role.WriteFile(filepath.Join(dir, caCertFile), encodeCert(der), publicMode); err != nil {
		return nil, err
	}
	a, err := OpenAuthority(dir)
	if err != nil {
		return nil, err
	}
	return a, a.writeRevoked(nil, now)
}

// OpenAuthority reads an authority's directory.
func OpenAuthority(dir string) (*Authority, error) {
	certs, err := readCerts(filepath.Join(dir, caCertFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no authority: %w. Next: steadycast pki init --dir %s --fleet NAME", dir, err, dir)
	} else if err != nil {
		return nil, err
	}
	key, err := readECDSA(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	cert := certs[0]
	switch {
	case !key.PublicKey.Equal(cert.PublicKey):
		return nil, fmt.Errorf("%s and %s in %s do not belong together", caKeyFile, caCertFile, dir)
	case !cert.IsCA || len(cert.Subject.Organization) != 1:
		return nil, fmt.Errorf("%s is not an authority that steadycast made", filepath.Join(dir, caCertFile))
	}
	return &Authority{dir: dir, cert: cert, key: key, Fleet: cert.Subject.Organization[0]}, nil
}

// Issue makes the directory of a node: its certificate, both private keys, the
// authority's certificate and the revocation list. Nothing may be there yet.
// life is from now; it ends no later than the authority.
func (a *Authority) Issue(id Identity, out string, life time.Duration, now time.Time) (Peer, error) {
	if id.Fleet == "" {
		id.Fleet = a.Fleet
	}
	if err := id.Check(); err != nil {
		return Peer{}, err
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return Peer{}, err
	}
	for _, f := range []string{certFile, keyFile, observeFile, caCertFile, revokedFile} {
		if err := absent(filepath.Join(out, f)); err != nil {
			return Peer{}, fmt.Errorf("%w; to prolong a certificate: steadycast pki renew %s", err, out)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Peer{}, err
	}
	public, observe, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Peer{}, err
	}
	der, peer, err := a.sign(id, key.Public(), public, life, now)
	if err != nil {
		return Peer{}, err
	}
	if err := writeKey(filepath.Join(out, keyFile), key, nil); err != nil {
		return Peer{}, err
	}
	if err := writeKey(filepath.Join(out, observeFile), observe, nil); err != nil {
		return Peer{}, err
	}
	if err := a.CopyTo(out); err != nil {
		return Peer{}, err
	}
	return peer, role.WriteFile(filepath.Join(out, certFile), encodeCert(der), publicMode)
}

// Renew prolongs the certificate in a node's directory, or a copy of that
// directory with nothing private in it: the keys stay, so the new node.crt is
// all that travels. An expired certificate may be renewed, a revoked one not.
func (a *Authority) Renew(dir string, life time.Duration, now time.Time) (Peer, error) {
	path := filepath.Join(dir, certFile)
	certs, err := readCerts(path)
	if err != nil {
		return Peer{}, err
	}
	old := certs[0]
	if err := old.CheckSignatureFrom(a.cert); err != nil {
		return Peer{}, fmt.Errorf("%s was not issued by the authority in %s: %w", path, a.dir, err)
	}
	was, err := peerOf(old)
	if err != nil {
		return Peer{}, fmt.Errorf("%s: %w", path, err)
	}
	gone, err := a.revoked()
	if err != nil {
		return Peer{}, err
	}
	if gone.has(old) {
		return Peer{}, fmt.Errorf("%s is revoked and is not renewed. Next: steadycast pki issue makes new keys", path)
	}
	der, peer, err := a.sign(was.Identity, old.PublicKey, was.Observe, life, now)
	if err != nil {
		return Peer{}, err
	}
	if err := a.CopyTo(dir); err != nil {
		return Peer{}, err
	}
	return peer, role.WriteFile(path, encodeCert(der), publicMode)
}

// sign makes a certificate and keeps a copy of it before anybody else has one.
func (a *Authority) sign(id Identity, key any, observe ed25519.PublicKey, life time.Duration, now time.Time) ([]byte, Peer, error) {
	end := now.Add(life)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	switch {
	case id.Fleet != a.Fleet:
		return nil, Peer{}, fmt.Errorf("the authority in %s is of fleet %s and cannot speak for %s", a.dir, a.Fleet, id.Fleet)
	case life < shortestLife:
		return nil, Peer{}, fmt.Errorf("a certificate for %s is too short; allowed: %s and more", life, shortestLife)
	case now.After(a.cert.NotAfter):
		return nil, Peer{}, fmt.Errorf("the authority in %s ended on %s", a.dir, date(a.cert.NotAfter))
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: id.Node, Organization: []string{id.Fleet}}, // for people; nothing reads it
		NotBefore:    now.Add(-backdate),
		NotAfter:     end,
		URIs:         id.uris(observe),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
	if err != nil {
		return nil, Peer{}, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, Peer{}, err
	}
	peer, err := peerOf(cert)
	if err != nil {
		return nil, Peer{}, err
	}
	if err := os.MkdirAll(filepath.Join(a.dir, issuedDir), 0o700); err != nil {
		return nil, Peer{}, err
	}
	return der, peer, role.WriteFile(filepath.Join(a.dir, issuedDir, peer.Serial+".crt"), encodeCert(der), publicMode)
}

// Issued are all certificates that the authority has made, by node, newest first.
func (a *Authority) Issued() ([]*x509.Certificate, error) {
	files, err := filepath.Glob(filepath.Join(a.dir, issuedDir, "*.crt"))
	if err != nil {
		return nil, err
	}
	var all []*x509.Certificate
	for _, f := range files {
		certs, err := readCerts(f)
		if err != nil {
			return nil, err
		}
		all = append(all, certs[0])
	}
	slices.SortFunc(all, func(x, y *x509.Certificate) int {
		if x.Subject.CommonName != y.Subject.CommonName {
			return strings.Compare(x.Subject.CommonName, y.Subject.CommonName)
		}
		return y.NotAfter.Compare(x.NotAfter)
	})
	return all, nil
}

// CopyTo puts what every node must have of the authority into a node's
// directory: its certificate and the list of revoked ones.
func (a *Authority) CopyTo(dir string) error {
	for _, f := range []string{caCertFile, revokedFile} {
		data, err := readFile(filepath.Join(a.dir, f), false)
		if err != nil {
			return err
		}
		if err := role.WriteFile(filepath.Join(dir, f), data, publicMode); err != nil {
			return err
		}
	}
	return nil
}

// newSerial is 127 random bits, which RFC 5280 §4.1.2.2 allows as a positive
// number of at most 20 octets.
func newSerial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n.Add(n, big.NewInt(1))
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
