package steadycast

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Stance is how attractive an announced route is made. What it means in
// attributes is said per neighbour, since not every router honours GSHUT.
type Stance uint8

const (
	// Normal: the neighbour's ordinary attributes.
	Normal Stance = iota
	// Depreferred: still announced, less attractive.
	Depreferred
	// Draining: about to leave; carries GRACEFUL_SHUTDOWN (RFC 8326).
	Draining
	// Backup: covers an address of another site, which announces it better while it
	// is there.
	Backup
)

func (s Stance) String() string {
	switch s {
	case Depreferred:
		return "depreferred"
	case Draining:
		return "draining"
	case Backup:
		return "backup"
	default:
		return "normal"
	}
}

// MarshalText writes the word of String.
func (s Stance) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads one of normal, depreferred, draining, backup.
func (s *Stance) UnmarshalText(b []byte) error {
	return parseWord(b, s, "stance", Normal, Depreferred, Draining, Backup)
}

// Community is a standard BGP community (RFC 1997), written AS:VALUE.
type Community uint32

// GracefulShutdown is the well-known community of RFC 8326.
const GracefulShutdown Community = 0xFFFF0000

func (c Community) String() string { return fmt.Sprintf("%d:%d", c>>16, c&0xFFFF) }

// MarshalText writes AS:VALUE.
func (c Community) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads AS:VALUE with both parts in 0…65535.
func (c *Community) UnmarshalText(b []byte) error {
	hi, lo, ok := strings.Cut(string(b), ":")
	h, err1 := strconv.ParseUint(hi, 10, 16)
	l, err2 := strconv.ParseUint(lo, 10, 16)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("%q is not a community; write AS:VALUE, each 0…65535 (65535:0 is GSHUT)", b)
	}
	*c = Community(h<<16 | l)
	return nil
}

// LargeCommunity is a large BGP community (RFC 8092), written GLOBAL:DATA1:DATA2.
type LargeCommunity struct{ Global, Data1, Data2 uint32 }

func (c LargeCommunity) String() string { return fmt.Sprintf("%d:%d:%d", c.Global, c.Data1, c.Data2) }

// MarshalText writes GLOBAL:DATA1:DATA2.
func (c LargeCommunity) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads GLOBAL:DATA1:DATA2, each an unsigned 32-bit number.
func (c *LargeCommunity) UnmarshalText(b []byte) error {
	parts := strings.Split(string(b), ":")
	var n [3]uint32
	ok := len(parts) == 3
	for i := 0; ok && i < 3; i++ {
		v, err := strconv.ParseUint(parts[i], 10, 32)
		n[i], ok = uint32(v), err == nil
	}
	if !ok {
		return fmt.Errorf("%q is not a large community; write GLOBAL:DATA1:DATA2 (RFC 8092)", b)
	}
	*c = LargeCommunity{n[0], n[1], n[2]}
	return nil
}

// Route is one prefix to announce. Attributes common to all neighbours are
// here; a neighbour's own are in its settings.
type Route struct {
	Prefix           netip.Prefix     `json:"prefix"`
	Stance           Stance           `json:"stance"`
	Communities      []Community      `json:"communities,omitempty"`
	LargeCommunities []LargeCommunity `json:"large_communities,omitempty"`
	// MED replaces the neighbour's when set.
	MED *uint32 `json:"med,omitempty"`
	// Permit is the fence of the decision behind it, for the record.
	Permit Fence `json:"permit"`
	// Reason says why it is as it is, in words.
	Reason string `json:"reason,omitempty"`
}

// RouteSet is everything a node should announce, set whole: a prefix that is
// absent is withdrawn.
type RouteSet struct {
	// Incarnation and Version order the sets of one node; a speaker refuses a lower one.
	Incarnation uint64 `json:"inc"`
	Version     uint64 `json:"version"`
	// Fence is the highest ledger position the set rests on; a speaker refuses a lower one.
	Fence Fence `json:"fence"`
	// Routes in order of prefix, each prefix once.
	Routes []Route `json:"routes"`
	// VIPs are the addresses the services need on the host, announced or not.
	VIPs []netip.Prefix `json:"vips,omitempty"`
	// Path names the neighbours that hear the routes: those of this path, and those
	// of none. Empty means every neighbour.
	Path string `json:"path,omitempty"`
	// Overlap is how long the routes stay where they were, marked as about to leave,
	// after they are proven on a new path: who is further away must hear of the new
	// one before the old one is withdrawn.
	Overlap time.Duration `json:"overlap_ns,omitempty"`
}

// Find returns the route of p.
func (s RouteSet) Find(p netip.Prefix) (Route, bool) {
	for _, r := range s.Routes {
		if r.Prefix == p {
			return r, true
		}
	}
	return Route{}, false
}
