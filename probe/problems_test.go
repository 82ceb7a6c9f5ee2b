package probe

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every mistake has its path and its sentence, and Compile finds what Problems
// finds.
func TestProblems(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	plainFile := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plainFile, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dns := func(change func(*DNS)) Check {
		d := &DNS{Names: []string{"example.test"}}
		change(d)
		return Check{Kind: "dns", Target: "127.0.0.1:53", DNS: d}
	}
	web := func(h HTTP) Check { return Check{Kind: "http", Target: "http://127.0.0.1/", HTTP: &h} }
	prom := func(p Prometheus) Check {
		return Check{Kind: "prometheus", Target: "http://127.0.0.1:9090", Prometheus: &p}
	}
	for _, c := range []struct {
		check Check
		want  string
	}{
		{Check{Name: "Web", Kind: "link", Target: "lo"}, `name: "Web" is not a name; a lower-case letter, then`},
		{Check{Name: "and", Kind: "link", Target: "lo"}, `name: "and" is a word of expressions`},
		{Check{Kind: "htpp"}, `kind: "htpp" is not a kind; one of dns, http, tcp, tls, icmp, exec, grpc, file, prometheus, vip, link, bgp; did you mean "http"?`},
		{Check{}, `kind: missing; one of dns`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", HTTP: &HTTP{}}, `http: settings of another kind; this check is kind: tcp`},
		{Check{Kind: "tcp"}, `target: missing; address:port`},
		{Check{Kind: "tcp", Target: "127.0.0.1"}, `target: "127.0.0.1" is not address:port; add the port: 127.0.0.1:PORT`},
		{Check{Kind: "tcp", Target: "2001:db8::1"}, `target: "2001:db8::1" is not address:port; add the port: [2001:db8::1]:PORT`},
		{Check{Kind: "tcp", Target: "127.0.0.1:http"}, `target: "http" is not a port; 1 to 65535`},
		{Check{Kind: "tcp", Target: "127.0.0.1:0"}, `is not a port`},
		{Check{Kind: "tcp", Target: "127.0.0.1:70000"}, `is not a port`},
		{Check{Kind: "tcp", Target: ":80"}, `target: ":80" has no address`},
		{Check{Kind: "tcp", Target: "192.0.2.300:80"}, `target: "192.0.2.300" is neither an address nor a host name`},
		{Check{Kind: "tcp", Target: "0.0.0.0:80"}, `target: 0.0.0.0 is not an address that answers`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", Interval: time.Nanosecond}, `interval: 1ns is out of range; 10ms to 1h0m0s`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", Timeout: -1}, `timeout: -1ns is out of range; 1ms to 1m0s`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", Timeout: time.Hour}, `timeout: 1h0m0s is out of range`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", Source: netip.MustParseAddr("::1")}, `source: ::1 and the target 127.0.0.1 are not of one family`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", Device: "a-very-long-device-name"}, `device: "a-very-long-device-name" is longer`},
		{Check{Kind: "link", Target: "lo", Source: netip.MustParseAddr("::1")}, `source: kind link sends nothing`},
		{Check{Kind: "file", Target: "/x", Device: "lo"}, `device: kind file sends nothing`},
		{Check{Kind: "icmp", Target: "127.0.0.1", Tripwire: true}, `tripwire: kind icmp holds no TCP connection`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", TCP: &TCP{Expect: "("}}, `tcp.expect: "(" is not a regular expression (RE2): `},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", TCP: &TCP{MaxLatency: 2 * time.Second}}, `tcp.max_latency: 2s is not under the timeout of 1s`},
		{Check{Kind: "tcp", Target: "127.0.0.1:80", TCP: &TCP{MaxLatency: -1}}, `tcp.max_latency: -1ns is negative`},

		{Check{Kind: "dns", Target: "127.0.0.1:53"}, `dns.names: empty`},
		{dns(func(d *DNS) { d.Names = slices.Repeat([]string{"a.test"}, 17) }), `dns.names: 17 of them; at most 16`},
		{dns(func(d *DNS) { d.Names = []string{"a..test"} }), `dns.names[0]: "a..test" is not a domain name`},
		{dns(func(d *DNS) { d.Names = []string{"a.test", strings.Repeat("a", 64) + ".test"} }), `dns.names[1]: `},
		{dns(func(d *DNS) { d.Names = []string{"{rand}.test"} }), `dns.names[0]: "{rand}.test": the only thing in braces can be {random}`},
		{dns(func(d *DNS) { d.Names = []string{`a\.b.{random}.test`} }), `{random} and escapes do not go together`},
		{dns(func(d *DNS) { d.Names = []string{strings.Repeat("a", 55) + "{random}.test"} }), `is not a domain name`},
		{dns(func(d *DNS) { d.Need = 2 }), `dns.need: 2 of 1 names can never be right; 1 to 1`},
		{dns(func(d *DNS) { d.Need = -1 }), `dns.need: -1`},
		{dns(func(d *DNS) { d.Type = "AAAAA" }), `dns.type: "AAAAA" is not a type of record; did you mean "AAAA"?`},
		{dns(func(d *DNS) { d.Type = "AXFR" }), `dns.type: AXFR cannot be asked for by a probe`},
		{dns(func(d *DNS) { d.Protocol = "dot" }), `dns.protocol: "dot" is not a protocol; udp, tcp or both`},
		{dns(func(d *DNS) { d.Rcode = "NXDOMIAN" }), `dns.rcode: "NXDOMIAN" is not a response code; did you mean "NXDOMAIN"?`},
		{dns(func(d *DNS) { d.Answers = []netip.Prefix{{}} }), `dns.answers[0]: not a prefix`},
		{dns(func(d *DNS) { d.Answers, d.Type = []netip.Prefix{netip.MustParsePrefix("::/0")}, "TXT" }), `dns.answers: records of type TXT have no address`},
		{dns(func(d *DNS) { d.Match = "[" }), `dns.match: "[" is not a regular expression`},
		{dns(func(d *DNS) { d.MinAnswers = new(-1) }), `dns.min_answers: -1 is out of range`},
		{dns(func(d *DNS) { d.MinTTL = time.Millisecond }), `dns.min_ttl: 1ms is not a TTL; whole seconds`},
		{dns(func(d *DNS) { d.MinTTL, d.MaxTTL = 2*time.Second, time.Second }), `dns.min_ttl: 2s is over max_ttl, 1s`},
		{dns(func(d *DNS) { d.Identity = strings.Repeat("x", 129) }), `dns.identity: 129 bytes`},
		{dns(func(d *DNS) { d.MaxLatency = time.Second }), `dns.max_latency: 1s is not under the timeout`},

		{Check{Kind: "http", Target: "127.0.0.1"}, `target: "127.0.0.1" does not start with http:// or https://`},
		{Check{Kind: "http", Target: "http://"}, `target: "http://" has no host`},
		{Check{Kind: "http", Target: "http://%zz"}, `is not a URL`},
		{Check{Kind: "http", Target: "http://a:b@127.0.0.1/"}, `target: a user in the URL would show in logs`},
		{Check{Kind: "http", Target: "http://127.0.0.1:99999/"}, `is not a port`},
		{web(HTTP{Method: "G T"}), `http.method: "G T" is not a method`},
		{web(HTTP{Method: "get"}), `http.method: "get" is not a method`},
		{web(HTTP{Host: "a b"}), `http.host: "a b" is not a host`},
		{web(HTTP{Headers: map[string]string{"X A": "b"}}), `http.headers: "X A" is not the name of a header`},
		{web(HTTP{Headers: map[string]string{"X-A": "b\r\nX-B: c"}}), `http.headers: the value of X-A has a character`},
		{web(HTTP{Headers: map[string]string{"host": "b"}}), `http.headers: Host is set by http.host`},
		{web(HTTP{Status: []string{"200", "2x"}}), `http.status[1]: "2x" is not a status; write 200, 2xx or 200-299`},
		{web(HTTP{Status: []string{"299-200"}}), `http.status[0]`},
		{web(HTTP{Status: []string{"+20"}}), `http.status[0]`},
		{web(HTTP{Status: []string{"600"}}), `http.status[0]`},
		{web(HTTP{Match: "(?<"}), `http.match: `},
		{web(HTTP{NotMatch: "*"}), `http.not_match: `},
		{web(HTTP{Header: "X-A", HeaderMatch: "*"}), `http.header_match: `},
		{web(HTTP{Header: "X-A"}), `http.header: http.header and http.header_match go together`},
		{web(HTTP{MaxBody: 2 << 20}), `http.max_body: 2097152 is out of range; 1 to 1048576`},
		{web(HTTP{JSONValue: "x"}), `http.json_value: needs http.json_field`},
		{web(HTTP{JSONField: "a..b", JSONValue: "x"}), `http.json_field: "a..b" has an empty part`},
		{web(HTTP{Identity: "fra"}), `http.identity: "fra" is not a header and its value; write X-Site: fra`},
		{web(HTTP{Version: "3"}), `http.version: "3" is not a version; one of any, 1.1, 2`},
		{web(HTTP{FollowRedirects: 11}), `http.follow_redirects: 11 is out of range; 0 to 10`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{CAFile: "ca.pem"}}, `tls.ca_file: "ca.pem" is not an absolute path`},
		{web(HTTP{CAFile: "/x"}), `http.ca_file: is for https`},
		{web(HTTP{SkipVerify: true}), `http.skip_verify: is for https`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{CAFile: "/no/such.pem"}}, `here: tls.ca_file: open /no/such.pem`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{CAFile: empty}}, `here: has no certificate in PEM form`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{CAFile: empty, SkipVerify: true}}, `tls.ca_file: ` + empty + ` is never used with skip_verify`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{MinVersion: "1.1"}}, `tls.min_version: "1.1" is not a version; 1.2 or 1.3`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{MinDays: -1}}, `tls.min_days: -1 is out of range`},
		{Check{Kind: "tls", Target: "127.0.0.1:443", TLS: &TLS{ALPN: []string{""}}}, `tls.alpn: "" is not a protocol name`},
		{Check{Kind: "icmp", Target: "127.0.0.1:80"}, `is neither an address nor a host name`},
		{Check{Kind: "icmp", Target: "127.0.0.1", ICMP: &ICMP{Count: 101}}, `icmp.count: 101 is out of range; 1 to 100`},
		{Check{Kind: "icmp", Target: "127.0.0.1", Timeout: 20 * time.Millisecond}, `icmp.count: 3 echoes take 30ms to send, and the timeout is 20ms`},
		{Check{Kind: "icmp", Target: "127.0.0.1", ICMP: &ICMP{MaxLoss: 100}}, `icmp.max_loss_percent: 100 is out of range`},
		{Check{Kind: "exec"}, `exec.argv: empty`},
		{Check{Kind: "exec", Target: "x", Exec: &Exec{Argv: []string{"/bin/true"}}}, `target: kind exec has no target`},
		{Check{Kind: "exec", Exec: &Exec{Argv: []string{"true"}}}, `exec.argv[0]: "true" is not an absolute path`},
		{Check{Kind: "exec", Exec: &Exec{Argv: []string{"/no/such"}}}, `here: exec.argv[0]: stat /no/such`},
		{Check{Kind: "exec", Exec: &Exec{Argv: []string{plainFile}}}, `here: is not executable`},
		{Check{Kind: "exec", Exec: &Exec{Argv: []string{"/bin/true"}, Dir: "x"}}, `exec.dir: "x" is not an absolute path`},
		{Check{Kind: "exec", Exec: &Exec{Argv: []string{"/bin/true"}, Env: map[string]string{"A=B": ""}}}, `exec.env: "A=B" cannot be the name`},
		{Check{Kind: "grpc", Target: "127.0.0.1:80", GRPC: &GRPC{SkipVerify: true}}, `grpc.skip_verify: is for TLS; set grpc.tls: true`},
		{Check{Kind: "file", Target: "x"}, `target: "x" is not an absolute path`},
		{Check{Kind: "file", Target: "/x", File: &File{MaxAge: -1}}, `file.max_age: -1ns is negative`},
		{Check{Kind: "file", Target: "/x", File: &File{Presence: "yes"}}, `file.presence: "yes" is neither up_if_present nor down_if_present`},
		{prom(Prometheus{Above: new(1.0)}), `prometheus.query: missing`},
		{prom(Prometheus{Query: "x"}), `prometheus.above: give above, below or both`},
		{prom(Prometheus{Query: "x", Above: new(2.0), Below: new(1.0)}), `prometheus.above: 2 is not under below, 1`},
		{prom(Prometheus{Query: "x", Above: new(2.0), Empty: "no"}), `prometheus.empty: "no" is not an outcome`},
		{Check{Kind: "vip", Target: "lo"}, `target: "lo" is not an address`},
		{Check{Kind: "link", Target: "../../etc"}, `is not the name of an interface`},
		{Check{Kind: "bgp"}, `target: missing; a neighbour's name, any, all, or path:NAME`},
		{Check{Kind: "bgp", Target: "path:"}, `target: names no path; write path:NAME`},
	} {
		if c.check.Name == "" {
			c.check.Name = "it"
		}
		var all []string
		for _, p := range c.check.Problems() {
			all = append(all, p.String())
		}
		onHost := strings.HasPrefix(c.want, "here: ") // only Compile, on the host itself, can tell
		c.want = strings.TrimPrefix(c.want, "here: ")
		if onHost && len(all) > 0 {
			t.Errorf("%q was told without the host", all)
		} else if !onHost && (len(all) != 1 || !strings.Contains(all[0], c.want)) {
			t.Errorf("got  %q\nwant …%s…", all, c.want)
		}
		if _, err := Compile(c.check, Env{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Compile: %v, want …%s…", err, c.want)
		}
	}
	two := Check{Name: "it", Kind: "dns", Target: "x", DNS: &DNS{Rcode: "X", Names: []string{"a.test"}}}
	if ps := two.Problems(); len(ps) != 2 {
		t.Errorf("not all problems at once: %v", ps)
	}
}

func TestServiceProblems(t *testing.T) {
	ok := Check{Name: "web", Kind: "tcp", Target: "127.0.0.1:80"}
	for _, c := range []struct {
		s    Service
		want string
	}{
		{Service{Checks: []Check{ok}}, "name: missing"},
		{Service{Name: "s"}, "checks: empty"},
		{Service{Name: "s", Checks: []Check{ok, ok}}, `checks[1].name: "web" is the name of an earlier check`},
		{Service{Name: "s", Checks: []Check{{Name: "x", Kind: "tcp", Target: "127.0.0.1"}}}, `checks[0].target: "127.0.0.1" is not address:port`},
		{Service{Name: "s", Checks: []Check{ok}, Up: "webb"}, `up: column 1: no check named "webb"; there are web; did you mean "web"?`},
		{Service{Name: "s", Checks: []Check{ok}, Interval: -1}, "interval: -1ns is out of range"},
		{Service{Name: "s", Checks: []Check{ok}, FastInterval: time.Minute}, "fast_interval: 1m0s is out of range; 10ms to the interval, 1s"},
		{Service{Name: "s", Checks: []Check{{Name: "web", Kind: "tcp", Target: "127.0.0.1:80", Interval: time.Second}}, Interval: time.Minute},
			"checks[0].interval: 1s is under the service's 1m0s"},
		{Service{Name: "s", Checks: []Check{ok}}, ""},
	} {
		var all []string
		for _, p := range c.s.Problems() {
			all = append(all, p.String())
		}
		if got := strings.Join(all, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// Filling in defaults leaves the caller's settings alone, and twice is once.
func TestDefaults(t *testing.T) {
	for _, name := range kindNames {
		c := Check{Name: "x", Kind: name, DNS: &DNS{}, HTTP: &HTTP{}, TLS: &TLS{}, ICMP: &ICMP{}, File: &File{}, Prometheus: &Prometheus{}}
		once := c.WithDefaults()
		if !reflect.DeepEqual(*c.DNS, DNS{}) || !reflect.DeepEqual(*c.HTTP, HTTP{}) || *c.ICMP != (ICMP{}) || *c.File != (File{}) {
			t.Errorf("%s: the caller's settings were changed", name)
		}
		if twice := once.WithDefaults(); !reflect.DeepEqual(once, twice) {
			t.Errorf("%s: defaults of defaults differ", name)
		}
		if kinds[name].compile == nil || targetWanted[name] == "" && name != "exec" {
			t.Errorf("%s is not complete", name)
		}
	}
}
