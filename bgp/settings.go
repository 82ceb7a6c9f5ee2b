package bgp

import (
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
)

// Settings is the `bgp:` section of node.yaml.
type Settings struct {
	// ASN is this node's autonomous system number, 1…4294967295.
	ASN uint32 `yaml:"asn"`
	// RouterID is the BGP identifier, an IPv4 address unique among the router's peers (RFC 4271 §4.2).
	RouterID netip.Addr `yaml:"router_id"`
	// Allow lists the only prefixes this node may ever announce; each announced
	// prefix must be equal to or inside one of them. Default: the prefixes of
	// the services written in node.yaml itself.
	Allow []netip.Prefix `yaml:"allow"`
	// AllowBackup lists what else this node may announce, as backup only: addresses
	// of other sites that it covers for.
	AllowBackup []netip.Prefix `yaml:"allow_backup"`
	// Neighbors are the routers that hear the announcements; at least one.
	Neighbors []Neighbor `yaml:"neighbors"`
}

// Neighbor is one router.
type Neighbor struct {
	// Name is used in output and metrics: [a-z][a-z0-9_-]{0,62}.
	Name string `yaml:"name"`
	// Path this router belongs to, by a name of the site's `paths`; it hears routes
	// while they go that way. Default: none, and it hears them always.
	Path string `yaml:"path"`
	// Address of the router, an IP literal; a link-local one carries its zone: fe80::1%eth0.
	Address netip.Addr `yaml:"address"`
	// Port of the router; default 179.
	Port uint16 `yaml:"port"`
	// ASN of the router; equal to ours means iBGP.
	ASN uint32 `yaml:"asn"`
	// LocalASN replaces the node's own towards this neighbour; default 0, the node's.
	LocalASN uint32 `yaml:"local_asn"`
	// LocalAddress is the source address of the session. Default: the one the kernel chooses.
	LocalAddress netip.Addr `yaml:"local_address"`
	// BindDevice binds the session to an interface or VRF (SO_BINDTODEVICE).
	BindDevice string `yaml:"bind_device"`
	// Passive waits for the router to connect, on ListenPort, instead of dialling it.
	Passive bool `yaml:"passive"`
	// ListenPort for a passive neighbour; default 179.
	ListenPort uint16 `yaml:"listen_port"`
	// Password is the TCP-MD5 secret (RFC 2385), 1…80 octets. Prefer PasswordFile.
	Password string `yaml:"password" secret:"true"`
	// PasswordFile holds the secret in its first line.
	PasswordFile string `yaml:"password_file"`
	// TTLSecurity is GTSM (RFC 5082): the greatest number of hops the router may
	// be away; 1 for a directly connected one, 0 turns it off.
	TTLSecurity uint8 `yaml:"ttl_security"`
	// Multihop is the TTL of an eBGP session over several hops; 0 means directly connected (TTL 1).
	Multihop uint8 `yaml:"multihop"`
	// HoldTime proposed to the router, 0 not allowed, at least 3s (RFC 4271 §4.2); default 9s.
	HoldTime time.Duration `yaml:"hold_time"`
	// Keepalive interval; default a third of HoldTime.
	Keepalive time.Duration `yaml:"keepalive"`
	// ConnectRetry is the pause between attempts to connect; default 2s, grown to 30s with jitter while refused.
	ConnectRetry time.Duration `yaml:"connect_retry"`
	// BFD notices within a second that the router, or the way to it, is gone (RFC
	// 5880, 5881), and ends the session then; nil, the default: the hold time does.
	BFD *bfd.Settings `yaml:"bfd"`
	// Families are ipv4, ipv6; default: the families of Allow.
	Families []string `yaml:"families"`
	// NextHop4 and NextHop6 are announced as next hop per family. Default: the
	// local address of the session where it is of that family. An IPv6 prefix
	// over an IPv4 session needs NextHop6.
	NextHop4 netip.Addr `yaml:"next_hop4"`
	NextHop6 netip.Addr `yaml:"next_hop6"`
	// Attributes of ordinary announcements.
	Communities      []steadycast.Community      `yaml:"communities"`
	LargeCommunities []steadycast.LargeCommunity `yaml:"large_communities"`
	MED              *uint32                     `yaml:"med"`
	// Prepend is how many more times our ASN stands in the path, 0…10.
	Prepend uint8 `yaml:"prepend"`
	// LocalPref is sent on iBGP only; default 100.
	LocalPref *uint32 `yaml:"local_pref"`
	// Deprefer says how a route is made less attractive at this router.
	Deprefer Deprefer `yaml:"deprefer"`
	// Drain says how a route about to leave is marked; default: GSHUT (RFC 8326) and Deprefer.
	Drain Deprefer `yaml:"drain"`
	// Backup says how an address of another site is announced; default: prepend 2
	// (eBGP) or local preference 50 (iBGP), and no GSHUT, which would make it as bad
	// as what is about to leave.
	Backup Deprefer `yaml:"backup"`
}

// Deprefer is how a route is made less attractive. What is not given stays as
// in the ordinary announcement. All empty means the default: GSHUT on, and MED
// 4294967294 (eBGP) or local preference 0 (iBGP), prepend 3.
type Deprefer struct {
	// GracefulShutdown adds 65535:0; default true. BIRD does not honour it by itself.
	GracefulShutdown *bool `yaml:"graceful_shutdown"`
	// Prepend is how many more times our ASN is put in front, 0…10; default 3.
	Prepend          *uint8                      `yaml:"prepend"`
	MED              *uint32                     `yaml:"med"`
	LocalPref        *uint32                     `yaml:"local_pref"`
	Communities      []steadycast.Community      `yaml:"communities"`
	LargeCommunities []steadycast.LargeCommunity `yaml:"large_communities"`
}
