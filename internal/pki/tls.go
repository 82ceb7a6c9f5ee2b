package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// ServerConfig is for the end that is called. It speaks TLS 1.3 only, demands a
// certificate, and judges it as the whole of this package says; the caller
// reads who it is with [Credentials.PeerOf]. Each handshake uses the files as
// they are then. Sessions are not resumed: a ticket would outlive a revocation.
func (c *Credentials) ServerConfig(p Purpose) *tls.Config {
	base := c.config(p)
	base.ClientAuth = tls.RequireAnyClientCert // judged by VerifyConnection
	base.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.state().cert, nil }
	base.VerifyConnection = c.verifier(p, x509.ExtKeyUsageClientAuth, Identity{}, nil)
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		var addr net.Addr
		if hello.Conn != nil {
			addr = hello.Conn.RemoteAddr()
		}
		own := base.Clone()
		own.GetConfigForClient = nil
		own.VerifyConnection = c.verifier(p, x509.ExtKeyUsageClientAuth, Identity{}, addr)
		return own, nil
	}
	return base
}

// ClientConfig is for the end that calls. want is whom it must reach; an empty
// field is anybody of the fleet. Addresses are not compared with the
// certificate: a node may have any.
func (c *Credentials) ClientConfig(p Purpose, want Identity) *tls.Config {
	cfg := c.config(p)
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.state().cert, nil }
	cfg.VerifyConnection = c.verifier(p, x509.ExtKeyUsageServerAuth, want, nil)
	return cfg
}

func (c *Credentials) config(p Purpose) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{p.ALPN(c.state().self.Fleet)},
		SessionTicketsDisabled: true,
		// The chain is verified by VerifyConnection, at a time of our own and with
		// no host name in it; nothing is left unverified.
		InsecureSkipVerify: true,
	}
}

// verifier runs in every handshake, after the peer has proven to hold the key
// of its certificate.
func (c *Credentials) verifier(p Purpose, usage x509.ExtKeyUsage, want Identity, addr net.Addr) func(tls.ConnectionState) error {
	return func(cs tls.ConnectionState) error {
		if err := c.admit(p, usage, want, cs); err != nil {
			return c.turnAway(addr, err)
		}
		return nil
	}
}

func (c *Credentials) admit(p Purpose, usage x509.ExtKeyUsage, want Identity, cs tls.ConnectionState) error {
	peer, err := c.check(cs.PeerCertificates, usage, p.grace())
	if err != nil {
		return err
	}
	alpn := p.ALPN(c.state().self.Fleet)
	switch {
	case !peer.matches(want):
		return refuse(WrongPeer, "%s answers where %s/%s was called", peer, want.Site, want.Node)
	case cs.NegotiatedProtocol != alpn:
		return refuse(WrongProtocol, "%s speaks %q; %q is expected", peer, clip(cs.NegotiatedProtocol), alpn)
	}
	return nil
}

// PeerOf says who is at the other end of an established connection, and judges
// it again as of now: a link that lasts must not outlive a certificate.
func (c *Credentials) PeerOf(p Purpose, cs tls.ConnectionState) (Peer, error) {
	if !cs.HandshakeComplete {
		return Peer{}, refuse(NoCertificate, "the handshake is not complete")
	}
	return c.check(cs.PeerCertificates, x509.ExtKeyUsageAny, p.grace())
}

// Relayed judges the certificate, in DER, that came along with an observation
// through somebody else. Nothing of it is proven but who it is about: the
// observation's signature must follow.
func (c *Credentials) Relayed(der []byte) (Peer, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Peer{}, c.turnAway(nil, refuse(Unfit, "a relayed certificate cannot be read: %s", err))
	}
	p, err := c.check([]*x509.Certificate{cert}, x509.ExtKeyUsageClientAuth, 0)
	if err != nil {
		return Peer{}, c.turnAway(nil, err)
	}
	return p, nil
}
