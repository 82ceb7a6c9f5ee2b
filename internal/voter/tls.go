package voter

import (
	"crypto/tls"

	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/pki"
)

// TLS is what a node's credentials are to the ledger: one way of judging between
// voters, one for those who call them.
func TLS(c *pki.Credentials) ledger.TLS {
	purpose := func(protocol string) pki.Purpose {
		if protocol == ledger.RaftProtocol(c.Self().Fleet) {
			return pki.Ledger
		}
		return pki.LedgerCalls
	}
	return ledger.TLS{
		Again: func(s tls.ConnectionState) error {
			_, err := c.PeerOf(pki.LedgerCalls, s)
			return err
		},
		Server: func(protocol string) *tls.Config { return c.ServerConfig(purpose(protocol)) },
		Client: func(protocol string) *tls.Config { return c.ClientConfig(purpose(protocol), pki.Identity{}) },
	}
}
