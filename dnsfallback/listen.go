package dnsfallback

import (
	"cmp"
	"fmt"
	"net/netip"
	"runtime"
	"time"
)

// Settings are those of a node's server.
type Settings struct {
	// Listen are the addresses to answer at, on UDP and TCP alike. Write each
	// address of its own; an unspecified one answers from whichever was asked.
	Listen []netip.AddrPort `yaml:"listen"`
	// Workers are the UDP sockets at each address, among which the kernel
	// spreads the clients; default the number of processors.
	Workers int `yaml:"workers"`
	// Identity is told to who asks for it (NSID, RFC 5001); default nothing.
	Identity string `yaml:"identity"`
	// RateLimit is how many like answers a second go to one network (/24, /56) of
	// clients that showed no cookie; 0 is no limit. Default 1000.
	RateLimit *int `yaml:"rate_limit"`
	// Slip answers every so manieth that is over the limit, empty and with TC, so
	// that a real client may come over TCP; 0 is none. Default 2.
	Slip *int `yaml:"slip"`
	// TCP bounds the connections.
	TCP TCPSettings `yaml:"tcp"`
}

// TCPSettings bound the connections of a server.
type TCPSettings struct {
	// Connections at a time; default 1000. What comes beyond is closed at once.
	Connections int `yaml:"connections"`
	// PerNetwork of those from one /24 or /56; default 100.
	PerNetwork int `yaml:"per_network"`
	// Idle is how long a connection may take from one query to the end of the next; default 10s.
	Idle time.Duration `yaml:"idle"`
}

// WithDefaults fills in what was not said.
func (s Settings) WithDefaults() Settings {
	s.Workers = cmp.Or(s.Workers, runtime.NumCPU())
	if s.RateLimit == nil {
		s.RateLimit = new(1000)
	}
	if s.Slip == nil {
		s.Slip = new(2)
	}
	s.TCP.Connections = cmp.Or(s.TCP.Connections, 1000)
	s.TCP.PerNetwork = cmp.Or(s.TCP.PerNetwork, 100)
	s.TCP.Idle = cmp.Or(s.TCP.Idle, 10*time.Second)
	return s
}

// Problems finds what is wrong with the settings as they are written.
func (s Settings) Problems() []Problem {
	var ps problems
	s = s.WithDefaults()
	if len(s.Listen) == 0 {
		ps.add("listen", "is missing; name the addresses to answer at, as [192.0.2.53:53]")
	}
	for i, a := range s.Listen {
		at := fmt.Sprintf("listen[%d]", i)
		if a.Addr().Is4In6() {
			ps.add(at, "%v is IPv4 inside IPv6; write it as IPv4", a)
		}
		for k, b := range s.Listen[:i] {
			if a == b {
				ps.add(at, "%v is listen[%d] already", a, k)
			}
		}
	}
	limits := func(path string, n, low, high int) {
		if n < low || n > high {
			ps.add(path, "%d is out of range; %d to %d", n, low, high)
		}
	}
	limits("workers", s.Workers, 1, 256)
	limits("rate_limit", *s.RateLimit, 0, 1_000_000)
	limits("slip", *s.Slip, 0, 100)
	limits("tcp.connections", s.TCP.Connections, 1, 1_000_000)
	limits("tcp.per_network", s.TCP.PerNetwork, 1, 1_000_000)
	if s.TCP.Idle < 100*time.Millisecond || s.TCP.Idle > 10*time.Minute {
		ps.add("tcp.idle", "%v is out of range; 100ms to 10m", s.TCP.Idle)
	}
	if len(s.Identity) > 64 {
		ps.add("identity", "has %d octets; at most 64, so that it fits every answer", len(s.Identity))
	}
	return ps
}
