package steadycast

import (
	"net/netip"
	"time"
)

// OrderKind is what a person wants of a site.
type OrderKind uint8

const (
	// OrderNone is the zero value.
	OrderNone OrderKind = iota
	// OrderWithdraw forces the route out.
	OrderWithdraw
	// OrderDrain is maintenance: GSHUT first, then out.
	OrderDrain
	// OrderAnnounce ends the orders over the route, its lock and what it owes to
	// guards, so that it returns as soon as it is healthy. With Force it pins the
	// route in, whatever the checks say.
	OrderAnnounce
)

func (k OrderKind) String() string {
	switch k {
	case OrderWithdraw:
		return "withdraw"
	case OrderDrain:
		return "drain"
	case OrderAnnounce:
		return "announce"
	default:
		return "none"
	}
}

// MarshalText writes the word of String.
func (k OrderKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads one of none, withdraw, drain, announce.
func (k *OrderKind) UnmarshalText(b []byte) error {
	return parseWord(b, k, "order", OrderNone, OrderWithdraw, OrderDrain, OrderAnnounce)
}

// Order is an operator's wish for one site, or one node of it, always with who and why. It stands
// beside the real state and never hides it.
type Order struct {
	Kind OrderKind `json:"kind"`
	Site string    `json:"site"`
	// Node of a site of several that it is about; empty means the site.
	Node string `json:"node,omitempty"`
	// Prefixes it is about; empty means every prefix of the site.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	Actor    string         `json:"actor"`
	Reason   string         `json:"reason"`
	// For is how long it stands, in ledger time from its entry; 0 until cleared.
	For time.Duration `json:"for_ns,omitempty"`
	// Force passes floor and capacity; recorded with the order.
	Force bool `json:"force,omitempty"`
}

// Target is what the order is about, as a person writes it: SITE, or SITE/NODE.
func (o Order) Target() string {
	if o.Node == "" {
		return o.Site
	}
	return o.Site + "/" + o.Node
}

// Covers reports whether the order is about p.
func (o Order) Covers(p netip.Prefix) bool {
	if len(o.Prefixes) == 0 {
		return true
	}
	for _, q := range o.Prefixes {
		if q == p {
			return true
		}
	}
	return false
}

// Approval is a person's answer to a decision that automation may not take alone.
type Approval uint8

const (
	// Waiting: nobody has answered yet.
	Waiting Approval = iota
	// Approved: the site may, if every guard agrees when it asks.
	Approved
	// Rejected: it may not.
	Rejected
)

func (a Approval) String() string {
	switch a {
	case Approved:
		return "approved"
	case Rejected:
		return "rejected"
	default:
		return "waits"
	}
}

// MarshalText writes the word of String.
func (a Approval) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads one of waits, approved, rejected.
func (a *Approval) UnmarshalText(b []byte) error {
	return parseWord(b, a, "answer", Waiting, Approved, Rejected)
}
