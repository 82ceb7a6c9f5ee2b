package ledger

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Identity is who a certificate speaks for: its URI is
// steadycast://FLEET/SITE/NODE. A certificate without exactly one such URI
// speaks for nobody.
type Identity struct{ Fleet, Site, Node string }

func (i Identity) String() string { return "steadycast://" + i.Fleet + "/" + i.Site + "/" + i.Node }

// identityOf reads the URI of a certificate. It may carry others of ours, with
// longer paths, which say more of the same node.
func identityOf(c *x509.Certificate) (Identity, error) {
	var found []Identity
	for _, u := range c.URIs {
		if part := strings.Split(strings.TrimPrefix(u.Path, "/"), "/"); u.Scheme == "steadycast" && len(part) == 2 {
			found = append(found, Identity{u.Host, part[0], part[1]})
		}
	}
	if len(found) != 1 || found[0].Fleet == "" || found[0].Site == "" || found[0].Node == "" {
		return Identity{}, fmt.Errorf("the certificate of %q names %d nodes as steadycast://FLEET/SITE/NODE; it must name one", c.Subject.CommonName, len(found))
	}
	return found[0], nil
}

// peerOf is who is at the other end of a connection whose handshake is done.
func peerOf(s tls.ConnectionState) (Identity, error) {
	if len(s.PeerCertificates) == 0 {
		return Identity{}, errors.New("the other end shows no certificate")
	}
	return identityOf(s.PeerCertificates[0])
}

// TLS is what a node proves itself with, and checks others by. Both ends of
// every connection show a certificate of the fleet; TLS 1.3 is the least.
//
// The functions give the config for a protocol (ALPN): [RaftProtocol] between
// voters, h2 for everything else. What is done here comes on top: the fleet and
// the node that the certificate names.
type TLS struct {
	// Server's config has a certificate, and ClientCAs or, with ClientAuth
	// RequireAnyClientCert, a VerifyConnection that judges the chain.
	Server func(protocol string) *tls.Config
	// Client's has a certificate, and RootCAs or, with InsecureSkipVerify, a
	// VerifyConnection that judges the chain.
	Client func(protocol string) *tls.Config
	// Again judges the other end of a connection as of now, so that one that lasts
	// does not outlive its certificate; default none.
	Again func(tls.ConnectionState) error
}

// again is Again, if there is one.
func (t TLS) again(s tls.ConnectionState) error {
	if t.Again == nil {
		return nil
	}
	return t.Again(s)
}

// server is the config for incoming connections of any of the protocols.
func (t TLS) server(fleet string, protocols ...string) *tls.Config {
	return &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		i := slices.IndexFunc(protocols, func(p string) bool { return slices.Contains(hello.SupportedProtos, p) })
		if i < 0 {
			return nil, fmt.Errorf("it speaks %q; here %q are spoken", hello.SupportedProtos, protocols)
		}
		base := t.Server(protocols[i])
		if each := base.GetConfigForClient; each != nil {
			own, err := each(hello)
			if err != nil {
				return nil, err
			}
			if own != nil {
				base = own
			}
		}
		return harden(base, fleet, protocols[i]), nil
	}}
}

func harden(base *tls.Config, fleet, protocol string) *tls.Config {
	c := base.Clone()
	c.MinVersion, c.NextProtos, c.GetConfigForClient = tls.VersionTLS13, []string{protocol}, nil
	// A resumed session would not look at the certificate's end again.
	c.SessionTicketsDisabled = true
	before := c.VerifyConnection
	if c.ClientAuth != tls.RequireAnyClientCert || before == nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
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
	c := t.Client(protocol).Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{protocol}
	c.ClientSessionCache = nil
	before, chain := c.VerifyConnection, !c.InsecureSkipVerify || c.VerifyConnection == nil
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
