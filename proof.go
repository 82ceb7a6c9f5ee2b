package steadycast

import (
	"net/netip"
	"time"
)

// Actual is what a speaker really did, read back from the wire and the kernel.
// It is an immutable snapshot.
type Actual struct {
	// Incarnation and Version are those of the last RouteSet that was applied.
	Incarnation uint64 `json:"inc"`
	Version     uint64 `json:"version"`
	// Started counts the speaker's starts; another number than last time means it was restarted.
	Started uint64 `json:"started"`
	// Peers in the order of the settings.
	Peers []Peer `json:"peers"`
	// Sent has one row per peer and prefix that is or was announced to it in
	// this session, in order of peer, then prefix.
	Sent []Sent `json:"sent"`
	// VIPs in order of address.
	VIPs []VIP `json:"vips,omitempty"`
	// Path is the one that is proven and relied on; empty where every neighbour
	// hears the routes. Toward is another that the routes move to, and PathWait why
	// they have not yet, in words: until then the neighbours of both hear them.
	Path     string `json:"path,omitempty"`
	Toward   string `json:"toward,omitempty"`
	PathWait string `json:"path_wait,omitempty"`
	// Alarm says what is wrong with the speaker itself, in words; empty when all is well.
	Alarm string `json:"alarm,omitempty"`
}

// Peer is one BGP session as seen on the wire.
type Peer struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	ASN     uint32     `json:"asn"`
	// State is one of idle, connect, open, established, stuck, stopped.
	State string `json:"state"`
	// Since is when State began.
	Since time.Time `json:"since"`
	// LastError is the newest distinct reason for which the session was lost or not made.
	LastError string `json:"last_error,omitempty"`
	// Families negotiated: ipv4, ipv6.
	Families []string      `json:"families,omitempty"`
	HoldTime time.Duration `json:"hold_time_ns,omitempty"`
	// Flaps counts losses of an established session.
	Flaps       uint64 `json:"flaps"`
	MessagesIn  uint64 `json:"messages_in"`
	MessagesOut uint64 `json:"messages_out"`
	// UpdatesDropped counts inbound UPDATEs, which are never needed and never kept.
	UpdatesDropped uint64 `json:"updates_dropped"`
	// Malformed counts inbound messages that were refused by the parser.
	Malformed uint64 `json:"malformed"`
	// Announced counts prefixes this peer holds from us.
	Announced int `json:"announced"`
	// BFD is the BFD session beside it; nil where there is none.
	BFD *BFD `json:"bfd,omitempty"`
	// Path that the peer belongs to; empty: every one.
	Path string `json:"path,omitempty"`
	// OffPath: the routes go another way, so this peer is to have none.
	OffPath bool `json:"off_path,omitempty"`
}

// BFD is the BFD session with one router (RFC 5880).
type BFD struct {
	// State of this end is admin-down, down, init or up, since Since; Remote is
	// what the router said of its own last.
	State  string    `json:"state"`
	Remote string    `json:"remote"`
	Since  time.Time `json:"since"`
	// Why it is not up, in words; empty when it is.
	Why string `json:"why,omitempty"`
	// Interval at which packets leave; Detection is the silence of the router's
	// after which it is taken for gone, 0 before it was heard.
	Interval  time.Duration `json:"interval_ns"`
	Detection time.Duration `json:"detection_ns,omitempty"`
	// Downs counts losses of a session that was up.
	Downs uint64 `json:"downs"`
	// Sent and Received count packets. Dropped ones were malformed, of no session,
	// or from more than one hop away.
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Dropped  uint64 `json:"dropped"`
}

// Up reports whether each end hears the other.
func (b *BFD) Up() bool { return b != nil && b.State == "up" }

// The states of a peer that others rest on.
const (
	// PeerEstablished: routes can be sent and believed.
	PeerEstablished = "established"
	// PeerStuck: the session stands and the router has stopped reading, so it
	// still holds what it was sent.
	PeerStuck = "stuck"
)

// Up reports whether routes can be sent and believed.
func (p Peer) Up() bool { return p.State == PeerEstablished }

// Restarted reports whether a comes from another start of the speaker than the
// earlier was. A speaker whose count of starts was lost, or could not be written,
// is known by its numbers: those of a running one never go back.
func (a *Actual) Restarted(was *Actual) bool {
	return was.Started != 0 && (a.Started != was.Started ||
		a.Incarnation < was.Incarnation || a.Incarnation == was.Incarnation && a.Version < was.Version)
}

// Sent is the last thing that left on the wire to one peer about one prefix.
type Sent struct {
	Peer   string       `json:"peer"`
	Prefix netip.Prefix `json:"prefix"`
	// Announced is false after a withdrawal.
	Announced  bool       `json:"announced"`
	Attributes Attributes `json:"attributes"`
	// Stale: it left with other attributes than are wanted by now; the newer
	// announcement has not left yet.
	Stale bool `json:"stale,omitempty"`
	// At is when it was written, Acked when the peer's TCP had acknowledged it;
	// Acked is zero until then.
	At    time.Time `json:"at"`
	Acked time.Time `json:"acked,omitzero"`
}

// Attributes are the path attributes as they left on the wire.
type Attributes struct {
	NextHop          netip.Addr       `json:"next_hop,omitzero"`
	ASPath           []uint32         `json:"as_path,omitempty"`
	MED              *uint32          `json:"med,omitempty"`
	LocalPref        *uint32          `json:"local_pref,omitempty"`
	Communities      []Community      `json:"communities,omitempty"`
	LargeCommunities []LargeCommunity `json:"large_communities,omitempty"`
}

// VIP is one service address on the host.
type VIP struct {
	Address   netip.Prefix `json:"address"`
	Interface string       `json:"interface"`
	Present   bool         `json:"present"`
	// Ours is true for an address this software added and may remove.
	Ours bool `json:"ours"`
	// Usable is false while the kernel holds it tentative or found a duplicate (IPv6).
	Usable bool   `json:"usable"`
	Error  string `json:"error,omitempty"`
}
