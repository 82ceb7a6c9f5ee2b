package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"time"

	"github.com/steadycast/steadycast/internal/role"
)

// revocations are the certificates that no longer hold, by issuer and serial.
type revocations struct {
	lists []*x509.RevocationList
	gone  map[string]time.Time
}

func issuedBy(issuer []byte, n *big.Int) string { return string(issuer) + "\x00" + n.String() }

func (r revocations) has(c *x509.Certificate) bool {
	_, ok := r.gone[issuedBy(c.RawIssuer, c.SerialNumber)]
	return ok
}

// parseRevoked reads revocation lists, each of which one of the authorities
// must have signed. A list's next update is not looked at: an old list is
// better than none, and a fleet must start without fetching a new one.
func parseRevoked(path string, data []byte, authorities []*x509.Certificate) (revocations, error) {
	bs, err := blocks(path, data, pemRevoked)
	if err != nil {
		return revocations{}, err
	}
	r := revocations{gone: map[string]time.Time{}}
	for _, b := range bs {
		l, err := x509.ParseRevocationList(b.Bytes)
		if err != nil {
			return revocations{}, fmt.Errorf("%s: %w", path, err)
		}
		signed := false
		for _, ca := range authorities {
			signed = signed || l.CheckSignatureFrom(ca) == nil
		}
		if !signed {
			return revocations{}, fmt.Errorf("%s is not signed by an authority in %s", path, caCertFile)
		}
		r.lists = append(r.lists, l)
		for _, e := range l.RevokedCertificateEntries {
			r.gone[issuedBy(l.RawIssuer, e.SerialNumber)] = e.RevocationTime
		}
	}
	return r, nil
}

// older reports whether r is an earlier edition than s of any list (RFC 5280 §5.2.3).
func (r revocations) older(s revocations) bool {
	for _, old := range s.lists {
		for _, l := range r.lists {
			if string(l.RawIssuer) == string(old.RawIssuer) && l.Number != nil && old.Number != nil && l.Number.Cmp(old.Number) < 0 {
				return true
			}
		}
	}
	return false
}

func (a *Authority) revoked() (revocations, error) {
	path := filepath.Join(a.dir, revokedFile)
	data, err := readFile(path, false)
	if err != nil {
		return revocations{}, err
	}
	return parseRevoked(path, data, []*x509.Certificate{a.cert})
}

// Revoke ends every certificate ever issued to a node, or the one with this
// serial, and writes the new list. It returns what is revoked by it; the list
// must then be copied to the nodes (see [Authority.CopyTo]).
func (a *Authority) Revoke(nodeOrSerial string, now time.Time) ([]Peer, error) {
	gone, err := a.revoked()
	if err != nil {
		return nil, err
	}
	issued, err := a.Issued()
	if err != nil {
		return nil, err
	}
	var ended []Peer
	var entries []x509.RevocationListEntry
	known := false
	for _, c := range issued {
		p, err := peerOf(c)
		if err != nil {
			return nil, err
		}
		if p.Node != nodeOrSerial && p.Serial != nodeOrSerial {
			continue
		}
		known = true
		if !gone.has(c) {
			ended = append(ended, p)
			entries = append(entries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: now})
		}
	}
	switch {
	case !known:
		return nil, fmt.Errorf("the authority in %s issued nothing to %q: %w", a.dir, clip(nodeOrSerial), ErrUnknown)
	case len(ended) == 0:
		return nil, nil // all of it was revoked before
	}
	return ended, a.writeRevoked(entries, now)
}

// writeRevoked writes the next edition of the list, with what it held and more.
func (a *Authority) writeRevoked(more []x509.RevocationListEntry, now time.Time) error {
	number := big.NewInt(1)
	path := filepath.Join(a.dir, revokedFile)
	if absent(path) != nil {
		old, err := a.revoked()
		if err != nil {
			return err
		}
		number.Add(old.lists[0].Number, number)
		more = append(old.lists[0].RevokedCertificateEntries, more...)
	}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: number, ThisUpdate: now, NextUpdate: a.cert.NotAfter, RevokedCertificateEntries: more,
	}, a.cert, a.key)
	if err != nil {
		return err
	}
	return role.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: pemRevoked, Bytes: der}), publicMode)
}
