package config

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// Node is node.yaml: who this node is, its routers, its files and listeners.
//
// Fields marked `layer` may also be set by a STEADYCAST_* variable or a flag;
// see [Load].
type Node struct {
	// Mode is solo: one site with a ledger of its own; or fleet: sites that
	// decide together, by the ledger that Ledger names.
	Mode string `yaml:"mode" layer:"one site with a ledger of its own (solo), or many with one together (fleet)"`
	// Fleet is the name of the fleet; default "default".
	Fleet string `yaml:"fleet" layer:"name of the fleet"`
	// Site this node belongs to: [a-z][a-z0-9_-]{0,62}.
	Site string `yaml:"site" layer:"name of this node's site"`
	// Node is this node's name; default SITE-1.
	Node string `yaml:"node" layer:"name of this node"`

	// Table is the path of fleet.yaml, relative to node.yaml where that names it.
	// A solo node may write Services, Prefixes, Guards, DrainWait and Levels here instead.
	// With mode fleet the ledger's table is in force, and only [Check] reads this one.
	Table    string    `yaml:"table" layer:"path of fleet.yaml"`
	Services []Service `yaml:"services"`
	// Paths are the ways by which packets come to this site, where it has no table of
	// its own; see decide.Place.
	Paths     []string        `yaml:"paths"`
	Prefixes  []decide.Prefix `yaml:"prefixes"`
	Guards    decide.Guards   `yaml:"guards"`
	DrainWait time.Duration   `yaml:"drain_wait"`
	Levels    []decide.Level  `yaml:"levels"`

	BGP bgp.Settings    `yaml:"bgp"`
	VIP bgp.VIPSettings `yaml:"vip"`
	// Outside are views that can contradict a proof: a router's own table, a
	// looking glass, a collector. Each is a check of kind exec, http, prometheus
	// or file that is up while our route is there; {prefix} and {address} in it
	// stand for the prefix looked at.
	Outside []probe.Check `yaml:"outside" empty:"ok"`
	// Elsewhere are looks for whoever else serves a prefix: checks of the same
	// kinds that are up while somebody does, and down while nobody does. LastResort
	// is how long the ledger must be out of reach before this site, when it is well
	// and they find nobody, announces what is out; default 15m, 0 never.
	Elsewhere  []probe.Check `yaml:"elsewhere" empty:"ok"`
	LastResort time.Duration `yaml:"last_resort"`
	// WhoAnswers ask shared addresses, which this node does not have itself, for sites
	// that are out: each is up while the site that it names answers; {site}, {node},
	// {prefix} and {address} in it stand for what is asked for.
	WhoAnswers []probe.Check `yaml:"who_answers" empty:"ok"`

	// Ledger says where the fleet's ledger is, TLS what this node proves itself
	// with to other nodes. Both are for mode fleet.
	Ledger Ledger `yaml:"ledger"`
	TLS    TLS    `yaml:"tls"`
	// FallbackURL is where a newer table may be, signed by the fleet's admins, while no
	// voter is heard: what another node has in state_dir/table.seal.json. Empty: nowhere.
	FallbackURL string `yaml:"fallback_url"`
	// Mesh is where other nodes tell this one what they see of its site; for mode fleet.
	Mesh Mesh `yaml:"mesh"`

	// DNS is how this node answers for the zones of the table, in role dns.
	DNS DNS `yaml:"dns"`

	// Roles that `steadycast run` starts: speaker, agent (default both), ledger, dns.
	// A node of a fleet without a speaker is a witness.
	Roles []string `yaml:"roles"`
	// StateDir keeps what must survive a restart; default /var/lib/steadycast.
	StateDir string `yaml:"state_dir" layer:"directory of what must survive a restart"`
	// RunDir holds sockets; default /run/steadycast.
	RunDir string `yaml:"run_dir" layer:"directory of the sockets"`
	// Socket of the agent's API; default RunDir/agent.sock.
	Socket string `yaml:"socket" layer:"unix socket of the agent's API"`
	// SpeakerSocket is where the agent reaches the speaker; default RunDir/speaker.sock.
	SpeakerSocket string `yaml:"speaker_socket" layer:"unix socket of the speaker"`
	// LedgerSocket is where `steadycast ledger` reaches the voter of this node;
	// default RunDir/ledger.sock.
	LedgerSocket string `yaml:"ledger_socket" layer:"unix socket of the voter"`
	// DNSSocket is where `steadycast dns` reaches the server of this node; default RunDir/dns.sock.
	DNSSocket string `yaml:"dns_socket"`
	// SocketGroup may use Socket and DNSSocket besides its owner; default none.
	SocketGroup string `yaml:"socket_group" layer:"group that may use the API socket"`

	Log     Log     `yaml:"log"`
	Metrics Metrics `yaml:"metrics"`

	// Count is off (default) or nftables: packets to the services' prefixes are
	// counted by a table of our own, which needs CAP_NET_ADMIN.
	Count string `yaml:"count"`
	// LoadPackets takes the packets a second that Count counts for what this site
	// carries, and Load asks Prometheus for it; both instead of LoadFile.
	LoadPackets bool     `yaml:"load_packets"`
	Load        LoadFrom `yaml:"load"`
	// LoadFile is where others write what this site carries; its first line is a
	// number in the unit of the site's capacity. Default none.
	LoadFile string `yaml:"load_file"`

	// AgentLost is what the speaker does when its agent is gone for
	// AgentLostAfter: keep (default) the routes, or deprefer them.
	AgentLost      string        `yaml:"agent_lost"`
	AgentLostAfter time.Duration `yaml:"agent_lost_after"`
	// Isolated is what a certain local failure does while no ledger can be
	// asked: deprefer (default) or freeze.
	Isolated string `yaml:"isolated"`
	Stop     Stop   `yaml:"stop"`
	// Exec lists the programs that exec checks of a Table may run, as absolute
	// paths. Checks written in node.yaml itself need no mention.
	Exec []string `yaml:"exec" empty:"ok"`
}

// Ledger names the voters of the fleet.
type Ledger struct {
	// Listen is the address of the voter on this node, an IP literal and a port;
	// default the one that Peers gives it.
	Listen string `yaml:"listen"`
	// Peers are all voters, and those that are to become one.
	Peers []LedgerPeer `yaml:"peers"`
	// MaxRTT is the greatest round trip between two voters, the same at all of
	// them; default 100ms. One that hears no leader for ten times as long (at
	// least 1s) looks for another.
	MaxRTT time.Duration `yaml:"max_rtt"`
}

// LedgerPeer is one voter.
type LedgerPeer struct {
	// Node is its name, as in its certificate.
	Node string `yaml:"node"`
	// Address is where others reach it: an IP literal and a port, inside no prefix
	// that the fleet announces.
	Address string `yaml:"address"`
	// FailureDomain is what it shares its fate with: a power feed, an uplink, a
	// provider. No two voters may share one.
	FailureDomain string `yaml:"failure_domain"`
	// Mesh is where it hears, in its own process, what every node sees, and passes
	// on what has no direct way: an IP literal and a port. All voters have one.
	Mesh string `yaml:"mesh"`
}

// LoadFrom is a query that gives what a site carries.
type LoadFrom struct {
	// Prometheus is the address of a server, as http://127.0.0.1:9090, and Query what
	// gives one figure there, in the unit of the site's capacity.
	Prometheus string `yaml:"prometheus"`
	Query      string `yaml:"query"`
}

// Mesh is this node's end of the links between nodes.
type Mesh struct {
	// Listen is an IP literal and a port. Others call the address that the table
	// gives this node (sites[].nodes).
	Listen string `yaml:"listen"`
}

// TLS is where a node's certificate and keys are.
type TLS struct {
	// Dir is the directory that `steadycast pki issue` made; default
	// /etc/steadycast/pki.
	Dir string `yaml:"dir"`
}

// Log says how the processes log, to standard error.
type Log struct {
	// Level is debug, info (default), warn or error.
	Level string `yaml:"level" layer:"debug, info, warn or error"`
	// Format is text (default) or json.
	Format string `yaml:"format" layer:"text or json"`
}

// Metrics is the Prometheus listener.
type Metrics struct {
	// Listen is an IP literal and port, default 127.0.0.1:9342, or off.
	Listen string `yaml:"listen" layer:"address and port of /metrics, or off"`
}

// Stop is how a node leaves when it is told to.
type Stop struct {
	// Drain is how long routes carry GSHUT before they are withdrawn; default 3s.
	Drain time.Duration `yaml:"drain"`
	// AfterWithdraw is how long the addresses stay after the withdrawal, for
	// packets still under way; default 500ms.
	AfterWithdraw time.Duration `yaml:"after_withdraw"`
	// Timeout ends the whole; default 15s.
	Timeout time.Duration `yaml:"timeout"`
}

// newNode is a node with the defaults that rest on nothing else. A file is read
// over it, so that a value written as 0 stays 0.
func newNode() Node {
	return Node{
		Mode:           "solo",
		Fleet:          "default",
		StateDir:       "/var/lib/steadycast",
		RunDir:         "/run/steadycast",
		Ledger:         Ledger{MaxRTT: 100 * time.Millisecond},
		TLS:            TLS{Dir: "/etc/steadycast/pki"},
		Log:            Log{Level: "info", Format: "text"},
		Metrics:        Metrics{Listen: "127.0.0.1:9342"},
		Count:          "off",
		DNS:            newDNS(),
		AgentLost:      "keep",
		AgentLostAfter: time.Minute,
		Isolated:       "deprefer",
		LastResort:     15 * time.Minute,
		Stop:           Stop{Drain: 3 * time.Second, AfterWithdraw: 500 * time.Millisecond, Timeout: 15 * time.Second},
	}
}

// settle fills in the defaults that rest on other values.
func (n *Node) settle() {
	if n.Site != "" {
		n.Node = cmp.Or(n.Node, n.Site+"-1")
	}
	for _, p := range n.Ledger.Peers {
		if n.Ledger.Listen == "" && p.Node == n.Node && n.Node != "" {
			n.Ledger.Listen = p.Address
		}
	}
	if len(n.Roles) == 0 {
		n.Roles = []string{"speaker", "agent"}
	}
	if len(n.DNS.Listen) > 0 {
		n.DNS.Settings = n.DNS.Settings.WithDefaults()
	}
	n.Socket = cmp.Or(n.Socket, filepath.Join(n.RunDir, "agent.sock"))
	n.LedgerSocket = cmp.Or(n.LedgerSocket, filepath.Join(n.RunDir, "ledger.sock"))
	n.DNSSocket = cmp.Or(n.DNSSocket, filepath.Join(n.RunDir, "dns.sock"))
	n.SpeakerSocket = cmp.Or(n.SpeakerSocket, filepath.Join(n.RunDir, "speaker.sock"))
}
