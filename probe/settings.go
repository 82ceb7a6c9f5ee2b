package probe

import (
	"net/netip"
	"time"
)

// Check is one entry of a service's `checks:`. Exactly one of the kind's
// sections may be given, and it must be the one that Kind names.
type Check struct {
	// Name is used in `up:` expressions, output and metrics: [a-z][a-z0-9_]{0,62}.
	Name string `yaml:"name"`
	// Kind is one of dns, http, tcp, tls, icmp, exec, grpc, file, prometheus, vip, link, bgp.
	Kind string `yaml:"kind"`
	// Target is host:port (an IP literal) for dns, tcp, tls and grpc, a URL for
	// http and prometheus, an address for icmp and vip, an interface for link, a
	// path for file, a neighbour's name (or `any`, `all`, `path:NAME`) for bgp.
	Target string `yaml:"target"`
	// Interval of this check, when it should be longer than the service's: in the
	// rounds between, its last result is used again. Default: every round.
	Interval time.Duration `yaml:"interval"`
	// Timeout is the deadline of one attempt, enforced outside it; default 1s. It
	// may exceed the interval: a probe still running is not started twice.
	Timeout time.Duration `yaml:"timeout"`
	// Source is the local address the probe must come from.
	Source netip.Addr `yaml:"source"`
	// Device binds the probe to an interface or VRF (SO_BINDTODEVICE).
	Device string `yaml:"device"`
	// Tripwire holds one idle TCP connection to Target; its loss hurries the
	// probes and is never a verdict. For tcp, http, tls and grpc kinds.
	Tripwire bool `yaml:"tripwire"`

	DNS        *DNS        `yaml:"dns"`
	HTTP       *HTTP       `yaml:"http"`
	TCP        *TCP        `yaml:"tcp"`
	TLS        *TLS        `yaml:"tls"`
	ICMP       *ICMP       `yaml:"icmp"`
	Exec       *Exec       `yaml:"exec"`
	GRPC       *GRPC       `yaml:"grpc"`
	File       *File       `yaml:"file"`
	Prometheus *Prometheus `yaml:"prometheus"`
}

// DNS judges answers to questions.
type DNS struct {
	// Names to ask for; `{random}` in a label is replaced by a fresh random label each time, past any cache.
	Names []string `yaml:"names"`
	// Need is how many of the names must come out right; default all.
	Need int `yaml:"need"`
	// Type of record; default A.
	Type string `yaml:"type"`
	// Protocol is udp (default), tcp, or both. What has no answer over UDP after a
	// third of the timeout is asked once more.
	Protocol string `yaml:"protocol"`
	// Rcode that is expected; default NOERROR.
	Rcode string `yaml:"rcode"`
	// Answers: every address must be inside one of these; an address outside is a tampered answer, a hard failure.
	Answers []netip.Prefix `yaml:"answers"`
	// Match: one record's text must match this regular expression (RE2).
	Match string `yaml:"match"`
	// MinAnswers is the least number of records of Type; default 1 for NOERROR.
	MinAnswers *int `yaml:"min_answers"`
	// MinTTL and MaxTTL bound every answer's TTL; 0 means no bound. Whole seconds.
	MinTTL time.Duration `yaml:"min_ttl"`
	MaxTTL time.Duration `yaml:"max_ttl"`
	// Authoritative demands (or forbids) AA. Default: not looked at.
	Authoritative *bool `yaml:"authoritative"`
	// Authenticated demands AD (and sends DO). Default: not looked at.
	Authenticated bool `yaml:"authenticated"`
	// Recursion sets RD; default true.
	Recursion *bool `yaml:"recursion"`
	// CheckingDisabled sets CD, so that a validation failure upstream does not count.
	CheckingDisabled bool `yaml:"checking_disabled"`
	// Identity is the NSID (RFC 5001) the answer must carry, so that another site cannot answer for this one.
	Identity string `yaml:"identity"`
	// MaxLatency makes a slower right answer a soft failure; 0 means none.
	MaxLatency time.Duration `yaml:"max_latency"`
}

// HTTP judges a response.
type HTTP struct {
	// Method; default GET. Body is sent with it.
	Method string `yaml:"method"`
	Body   string `yaml:"body"`
	// Host header and TLS server name, when they differ from the URL's.
	Host    string            `yaml:"host"`
	Headers map[string]string `yaml:"headers" secret:"true"`
	// Status lists what passes: 200, 2xx, 200-299. Default 2xx.
	Status []string `yaml:"status"`
	// Match and NotMatch are regular expressions (RE2) over the first MaxBody bytes of the body.
	Match    string `yaml:"match"`
	NotMatch string `yaml:"not_match"`
	// MaxBody is how much of the body is read, in bytes; default 65536, at most 1048576.
	MaxBody int64 `yaml:"max_body"`
	// JSONField is a dotted path whose value must be JSONValue.
	JSONField string `yaml:"json_field"`
	JSONValue string `yaml:"json_value"`
	// Header that must match HeaderMatch (RE2).
	Header      string `yaml:"header"`
	HeaderMatch string `yaml:"header_match"`
	// Version is any (default), 1.1 or 2.
	Version string `yaml:"version"`
	// FollowRedirects up to this many; default 0: a redirect is judged as it is.
	FollowRedirects int           `yaml:"follow_redirects"`
	MaxLatency      time.Duration `yaml:"max_latency"`
	// Identity: this response header must have this value (`X-Site: fra`).
	Identity string `yaml:"identity"`
	// TLS says how the server is verified for https.
	CAFile     string `yaml:"ca_file"`
	SkipVerify bool   `yaml:"skip_verify"`
}

// TCP connects, and may send and expect.
type TCP struct {
	Send       string        `yaml:"send"`
	Expect     string        `yaml:"expect"` // regular expression (RE2) over the first 64 KiB
	MaxLatency time.Duration `yaml:"max_latency"`
}

// TLS makes a handshake and judges the certificate.
type TLS struct {
	// ServerName to ask for and verify; default the target's host.
	ServerName string `yaml:"server_name"`
	// MinDays until expiry; fewer is a soft failure. Default 0: only expired fails.
	MinDays    int    `yaml:"min_days"`
	CAFile     string `yaml:"ca_file"`
	SkipVerify bool   `yaml:"skip_verify"`
	// MinVersion is 1.2 (default) or 1.3.
	MinVersion string        `yaml:"min_version"`
	ALPN       []string      `yaml:"alpn"`
	MaxLatency time.Duration `yaml:"max_latency"`
}

// ICMP sends echo requests.
type ICMP struct {
	// Count of echoes per round; default 3. Loss in percent that still passes; default 0.
	Count   int `yaml:"count"`
	MaxLoss int `yaml:"max_loss_percent"`
	// MaxLatency bounds the median round trip.
	MaxLatency time.Duration `yaml:"max_latency"`
}

// Exec runs a command that node.yaml names, without a shell: exit 0 is up, 1
// is down, anything else unknown.
type Exec struct {
	// Argv begins with the absolute path of the command.
	Argv []string `yaml:"argv"`
	// Env is the whole environment besides PATH.
	Env map[string]string `yaml:"env" secret:"true"`
	Dir string            `yaml:"dir"`
}

// GRPC asks grpc.health.v1.Health/Check.
type GRPC struct {
	Service    string        `yaml:"service"`
	TLS        bool          `yaml:"tls"`
	ServerName string        `yaml:"server_name"`
	CAFile     string        `yaml:"ca_file"`
	SkipVerify bool          `yaml:"skip_verify"`
	MaxLatency time.Duration `yaml:"max_latency"`
}

// File reads a result that someone else writes: up, down or unknown, then an
// optional reason, on the first line.
type File struct {
	// MaxAge after which the content is unknown; default 1m.
	MaxAge time.Duration `yaml:"max_age"`
	// Presence makes the file itself the answer: up_if_present, down_if_present.
	Presence string `yaml:"presence"`
}

// Prometheus asks one instant query and compares.
type Prometheus struct {
	Query string `yaml:"query"`
	// Above and Below: up while the value is over Above and under Below, where given.
	Above *float64 `yaml:"above"`
	Below *float64 `yaml:"below"`
	// Empty says what no data means: unknown (default), up or down.
	Empty string `yaml:"empty"`
}
