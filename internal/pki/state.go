package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// state is what a node's directory said when it was last read whole. It is
// never changed after that; readers share it.
type state struct {
	self        Peer
	cert        tls.Certificate
	leaf        *x509.Certificate
	observe     ed25519.PrivateKey
	authorities []*x509.Certificate
	roots       *x509.CertPool
	revoked     revocations
	// since is the latest moment that the files prove to have passed.
	since time.Time
}

// load reads a node's directory. before is what it said the last time, or nil.
func load(dir string, before *state) (*state, error) {
	s := &state{roots: x509.NewCertPool()}
	var err error
	path := func(f string) string { return filepath.Join(dir, f) }
	if s.authorities, err = readCerts(path(caCertFile)); err != nil {
		return nil, err
	}
	for _, c := range s.authorities {
		if !c.IsCA {
			return nil, fmt.Errorf("%s holds a certificate that is not an authority's", path(caCertFile))
		}
		s.roots.AddCert(c)
	}
	chain, err := readCerts(path(certFile))
	if err != nil {
		return nil, err
	}
	s.leaf = chain[0]
	if s.self, err = peerOf(s.leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", path(certFile), err)
	}
	key, err := readECDSA(path(keyFile))
	if err != nil {
		return nil, err
	}
	if public, ok := s.leaf.PublicKey.(*ecdsa.PublicKey); !ok || !key.PublicKey.Equal(public) {
		return nil, fmt.Errorf("%s and %s do not belong together", path(keyFile), path(certFile))
	}
	if s.observe, _, err = readEd25519(path(observeFile)); err != nil {
		return nil, err
	}
	if !s.self.Observe.Equal(s.observe.Public()) {
		return nil, fmt.Errorf("%s is not the key that %s binds to %s", path(observeFile), path(certFile), s.self)
	}
	data, err := readFile(path(revokedFile), false)
	switch {
	case err == nil:
		s.revoked, err = parseRevoked(path(revokedFile), data, s.authorities)
	case errors.Is(err, fs.ErrNotExist) && (before == nil || len(before.revoked.lists) == 0):
		err = nil // nothing was ever revoked
	}
	if err != nil {
		return nil, err
	}
	if before != nil && s.revoked.older(before.revoked) {
		return nil, fmt.Errorf("%s is an older list than the one in force", path(revokedFile))
	}

	s.cert = tls.Certificate{PrivateKey: key, Leaf: s.leaf}
	for _, c := range chain {
		s.cert.Certificate = append(s.cert.Certificate, c.Raw)
	}
	s.since = s.proven()
	// That our own authority signed it is judged now; whether it still holds is
	// the peers' judgement, and an alarm.
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, _, err := s.examine(chain, usage, 0, s.leaf.NotBefore, true); err != nil {
			var r *Refusal
			if errors.As(err, &r) && r.Reason == Revoked {
				continue
			}
			return nil, fmt.Errorf("%s: %w", path(certFile), err)
		}
	}
	return s, nil
}

// proven is the latest moment that must have passed, because our authority
// signed something at it.
func (s *state) proven() time.Time {
	t := s.leaf.NotBefore
	for _, c := range s.authorities {
		if c.NotBefore.After(t) {
			t = c.NotBefore
		}
	}
	for _, l := range s.revoked.lists {
		if l.ThisUpdate.After(t) {
			t = l.ThisUpdate
		}
	}
	return t
}
