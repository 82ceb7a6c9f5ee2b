package ledger

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Identity is who a certificate speaks for: its URI is
// steadycast://FLEET/SITE/NODE. A certificate without exactly one such URI
// speaks for nobody.
type Identity struct{ Fleet, Site, Node string }

func (i Identity) String() string { return "steadycast://" + i.Fleet + "/" + i.Site + "/" + i.Node }

// identityOf reads the URI of a certificate.
func identityOf(c *x509.Certificate) (Identity, error) {
	ours := slices.DeleteFunc(slices.Clone(c.URIs), func(u *url.URL) bool { return u.Scheme != "steadycast" })
	if len(ours) != 1 {
		return Identity{}, fmt.Errorf("the certificate of %q has %d names steadycast://FLEET/SITE/NODE; exactly one is needed", c.Subject.CommonName, len(ours))
	}
	site, node, ok := strings.Cut(strings.TrimPrefix(ours[0].Path, "/"), "/")
	if u := ours[0]; !ok || u.Host == "" || site == "" || node == "" || strings.Contains(node, "/") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return Identity{}, fmt.Errorf("the certificate's name %q is not steadycast://FLEET/SITE/NODE", ours[0])
	}
	return Identity{ours[0].Host, site, node}, nil
}

// peerOf is who is at the other end of a connection whose handshake is done.
func peerOf(s tls.ConnectionState) (Identity, error) {
	if len(s.PeerCertificates) == 0 {
		return Identity{}, errors.New("the other end shows no certificate")
	}
	return identityOf(s.PeerCertificates[0])
}

// TLS is what a node proves itself with, and checks others by. Both sides of
// every connection show a certificate of the fleet.
type TLS struct {
	// Server needs a certificate and ClientCAs, Client a certificate and RootCAs;
	// what they say of other names, protocols and versions is replaced. Their
	// Time, VerifyConnection and GetCertificate functions are kept. A Client with
	// InsecureSkipVerify must check the chain in VerifyConnection.
	Server, Client *tls.Config
}

// server is the config for incoming connections.
func (t TLS) server(fleet string, protocols ...string) *tls.Config {
	c := harden(t.Server, fleet, protocols)
	if each := t.Server.GetConfigForClient; each != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := each(hello)
			if own == nil || err != nil {
				return nil, err
			}
			return harden(own, fleet, protocols), nil
		}
	}
	return c
}

func harden(base *tls.Config, fleet string, protocols []string) *tls.Config {
	c := base.Clone()
	c.MinVersion, c.NextProtos, c.ClientAuth = tls.VersionTLS13, protocols, tls.RequireAndVerifyClientCert
	// A resumed session would not look at the certificate's end again.
	c.SessionTicketsDisabled = true
	before := c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if before != nil {
			if err := before(s); err != nil {
				return err
			}
		}
		_, err := member(s, fleet)
		return err
	}
	return c
}

// client is the config for a connection to node, or to any node of the fleet
// when it is empty.
func (t TLS) client(fleet, node, protocol string) *tls.Config {
	c := t.Client.Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{protocol}
	c.ClientSessionCache = nil
	before, chain := c.VerifyConnection, !c.InsecureSkipVerify
	// The names that certificates carry are not those of hosts, so the chain is
	// checked here and the name by what it says.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if chain {
			if err := verifyChain(s, c); err != nil {
				return err
			}
		}
		if before != nil {
			if err := before(s); err != nil {
				return err
			}
		}
		who, err := member(s, fleet)
		if err == nil && node != "" && who.Node != node {
			err = fmt.Errorf("node %s was to answer, and it is %s", node, who.Node)
		}
		return err
	}
	return c
}

func verifyChain(s tls.ConnectionState, c *tls.Config) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other end shows no certificate")
	}
	o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if c.Time != nil {
		o.CurrentTime = c.Time()
	}
	for _, i := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(i)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

// member checks that the other end is of the fleet.
func member(s tls.ConnectionState, fleet string) (Identity, error) {
	who, err := peerOf(s)
	if err == nil && who.Fleet != fleet {
		err = fmt.Errorf("%s is of fleet %s, not of %s", who, who.Fleet, fleet)
	}
	return who, err
}
