package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Purpose is what a link is for. It decides the protocol's name (ALPN) and how
// strictly time is judged.
type Purpose uint8

const (
	// Mesh links carry observations over HTTP/2. A certificate holds from its
	// first moment to its last.
	Mesh Purpose = iota
	// Ledger links carry the ledger. Without it nothing can be put right, so a
	// certificate is accepted for [Grace] before and after its time, with an alarm.
	Ledger
	// LedgerCalls are what agents and tools ask of a voter, over HTTP/2, with the
	// same grace: a site that may not ask cannot leave.
	LedgerCalls
)

// Grace is how far outside its time a certificate still opens a ledger link.
const Grace = 7 * 24 * time.Hour

func (p Purpose) grace() time.Duration {
	if p == Ledger || p == LedgerCalls {
		return Grace
	}
	return 0
}

// ALPN is the protocol that both ends must name. The ledger's carries the
// fleet, because its protocol itself does not (RFC 7301).
func (p Purpose) ALPN(fleet string) string {
	if p == Ledger {
		return "steadycast-ledger/" + fleet
	}
	return "h2"
}

// examine is the pure part of every decision about a peer: whose chain this is,
// and whether it holds at now. vague says that now is only a lower bound of the
// time, so that the beginning of a certificate proves that it has passed. late
// is set when the chain was accepted outside its time, in words.
func (s *state) examine(chain []*x509.Certificate, usage x509.ExtKeyUsage, grace time.Duration, now time.Time, vague bool) (p Peer, late string, err error) {
	if len(chain) == 0 {
		return Peer{}, "", refuse(NoCertificate, "the peer shows no certificate")
	}
	leaf := chain[0]
	p, err = peerOf(leaf)
	if err != nil {
		return Peer{}, "", refuse(NoIdentity, "%s", err)
	}
	o := x509.VerifyOptions{Roots: s.roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	// Who signed it comes first, at a moment at which the certificate holds, so
	// that nothing that a stranger wrote is taken for a fact below.
	o.CurrentTime = inside(leaf, now)
	if _, err := leaf.Verify(o); err != nil {
		// The authority may have ended since; it held when it signed.
		o.CurrentTime = leaf.NotBefore
		if _, again := leaf.Verify(o); again != nil {
			return Peer{}, "", s.misfit(p, err)
		}
	}
	switch {
	case p.Fleet != s.self.Fleet:
		return Peer{}, "", refuse(WrongFleet, "%s is of fleet %s; this is fleet %s", p, p.Fleet, s.self.Fleet)
	case s.revoked.has(leaf):
		return Peer{}, "", refuse(Revoked, "the certificate %s of %s is revoked", p.Serial, p)
	}
	for _, c := range append(chain[1:len(chain):len(chain)], s.authorities...) {
		if s.revoked.has(c) {
			return Peer{}, "", refuse(Revoked, "an authority of %s is revoked", p)
		}
	}
	switch after, before := now.Sub(leaf.NotAfter), leaf.NotBefore.Sub(now); {
	case after > grace:
		return Peer{}, "", refuse(Expired, "the certificate of %s ended on %s, and by our clock it is %s. Next: steadycast pki renew", p, date(leaf.NotAfter), date(now))
	case before > grace && !vague:
		return Peer{}, "", refuse(NotYetValid, "the certificate of %s begins on %s, and by our clock it is %s: one of the clocks is wrong", p, date(leaf.NotBefore), date(now))
	case after > 0:
		late = fmt.Sprintf("the certificate of %s ended on %s and is accepted until %s. Next: steadycast pki renew", p, date(leaf.NotAfter), date(leaf.NotAfter.Add(grace)))
	case before > 0:
		late = fmt.Sprintf("the certificate of %s begins only on %s: our clock, %s, is behind", p, date(leaf.NotBefore), date(now))
	}
	// And once more for the chain behind it, first as of now, then at the edge
	// that grace allows.
	o.CurrentTime = inside(leaf, now)
	if _, err := leaf.Verify(o); err != nil {
		for _, c := range append(chain[1:len(chain):len(chain)], s.authorities...) {
			if over := now.Sub(c.NotAfter); over > 0 && over <= grace && c.NotAfter.Before(o.CurrentTime) {
				o.CurrentTime = c.NotAfter
			}
		}
		if _, again := leaf.Verify(o); again != nil {
			return Peer{}, "", s.misfit(p, err)
		}
		late = fmt.Sprintf("the authority behind the certificate of %s has ended and is accepted until %s", p, date(o.CurrentTime.Add(grace)))
	}
	return p, late, nil
}

// inside is the moment within c's time that is closest to now.
func inside(c *x509.Certificate, now time.Time) time.Time {
	switch {
	case now.Before(c.NotBefore):
		return c.NotBefore
	case now.After(c.NotAfter):
		return c.NotAfter
	}
	return now
}

// misfit gives the reason for which a chain does not lead to our authority.
func (s *state) misfit(p Peer, err error) error {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return refuse(Expired, "the authority behind the certificate of %s is outside its time: %s", p, err)
	case errors.As(err, &invalid):
		return refuse(Unfit, "the certificate of %s cannot be used: %s", p, err)
	}
	text := fmt.Sprintf("no authority in %s signed the certificate that says it is %s", caCertFile, p)
	if p.Fleet != s.self.Fleet {
		text += "; this is fleet " + s.self.Fleet
	}
	return refuse(UnknownAuthority, "%s", text)
}
