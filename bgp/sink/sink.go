// Package sink is a router that only listens: it accepts any BGP peer, keeps
// what it is told and says when it was told. For the demo, tests and benches.
package sink

import (
	"errors"
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
)

// Options of a router.
type Options struct {
	// Address to listen on; port 0 chooses one.
	Address string
	// ASN of the router.
	ASN uint32
	// RouterID is its BGP identifier.
	RouterID netip.Addr
	// Password is the TCP-MD5 secret (RFC 2385) for every peer; empty for none.
	Password string
}

// Event is one prefix announced or withdrawn by one peer.
type Event struct {
	At         time.Time             `json:"at"`
	Peer       netip.Addr            `json:"peer"`
	Announce   bool                  `json:"announce"`
	Prefix     netip.Prefix          `json:"prefix"`
	Attributes steadycast.Attributes `json:"attributes"`
}

// Router listens.
type Router struct{}

// Listen starts a router.
func Listen(o Options) (*Router, error) { return nil, errors.New("sink: being built") }

// Addr is where it listens.
func (r *Router) Addr() netip.AddrPort { return netip.AddrPort{} }

// Table is what each peer, by its source address, announces now.
func (r *Router) Table() map[netip.Addr]map[netip.Prefix]steadycast.Attributes { return nil }

// Events delivers each announcement and withdrawal; bounded, the oldest is dropped.
func (r *Router) Events() <-chan Event { return nil }

// Close ends every session and the listener.
func (r *Router) Close() error { return nil }
