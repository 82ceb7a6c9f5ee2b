package dnsfallback

import (
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/internal/loopback"
)

// TestSweep asks with dig what RFC 8906 §8 has every server asked, and what
// those do who survey the world's servers with the same questions.
func TestSweep(t *testing.T) {
	dig := program(t, "dig")
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}), func(s *Settings) {
		own := loopback.Own(t)
		s.Listen = []netip.AddrPort{own, netip.AddrPortFrom(netip.IPv6Loopback(), own.Port())}
	})
	const plain, edns = "+noedns +noad +norec", "+nocookie +noad +norec"
	for _, c := range []struct {
		section, args string
		want, never   []string
	}{
		{"8.1.1", plain + " soa example.com", []string{"NOERROR", "flags: qr aa;", `SOA\s+ns1`}, []string{"OPT"}},
		{"8.1.2", plain + " type1000 example.com", []string{"NOERROR", "flags: qr aa;", "ANSWER: 0, AUTHORITY: 1"}, []string{"OPT"}},
		{"8.1.3.1", plain + " +cd soa example.com", []string{"NOERROR", "flags: qr aa;", `SOA\s+ns1`}, []string{"OPT"}},
		{"8.1.3.2", "+noedns +ad +norec soa example.com", []string{"NOERROR", "flags: qr aa;", `SOA\s+ns1`}, nil},
		{"8.1.3.3", plain + " +zflag soa example.com", []string{"NOERROR", "flags: qr aa;", `SOA\s+ns1`}, []string{"MBZ"}},
		{"8.1.3.4", "+noedns +noad +rec soa example.com", []string{"NOERROR", "flags: qr aa rd;", "recursion requested but not available"}, nil},
		{"8.1.4", plain + " +opcode=15 +header-only", []string{"NOTIMP", "opcode: RESERVED15", "flags: qr;"}, []string{`SOA\s+ns1`}},
		{"8.1.5", plain + " +tcp soa example.com", []string{"NOERROR", "flags: qr aa;", `SOA\s+ns1`}, []string{"OPT"}},
		{"8.2.1", edns + " +edns=0 soa example.com", []string{"NOERROR", "version: 0,", `SOA\s+ns1`}, nil},
		{"8.2.2", edns + " +edns=1 +noednsneg soa example.com", []string{"BADVERS", "version: 0,", "flags: qr;"}, []string{`SOA\s+ns1`}},
		{"8.2.3", edns + " +edns=0 +ednsopt=100 soa example.com", []string{"NOERROR", "version: 0,", `SOA\s+ns1`}, []string{"OPT=100"}},
		{"8.2.4", edns + " +edns=0 +ednsflags=0x80 soa example.com", []string{"NOERROR", "version: 0, flags:;", `SOA\s+ns1`}, []string{"MBZ"}},
		{"8.2.5", edns + " +edns=1 +noednsneg +ednsflags=0x80 soa example.com", []string{"BADVERS", "version: 0, flags:;"}, []string{"MBZ", `SOA\s+ns1`}},
		{"8.2.6", edns + " +edns=1 +noednsneg +ednsopt=100 soa example.com", []string{"BADVERS", "version: 0,"}, []string{"OPT=100", `SOA\s+ns1`}},
		{"8.2.7", edns + " +edns=0 +dnssec soa example.com", []string{"NOERROR", "version: 0, flags: do;", `SOA\s+ns1`}, nil},
		{"8.2.8", edns + " +edns=1 +noednsneg +dnssec soa example.com", []string{"BADVERS", "version: 0,"}, []string{`SOA\s+ns1`}},
		{"8.2.9", "+noad +norec +edns=0 +cookie +nsid +expire +subnet=0.0.0.0/0 soa example.com", []string{"NOERROR", `COOKIE: [0-9a-f]{48} \(good\)`, "NSID: 66 72 61 2d 31", "CLIENT-SUBNET: 0.0.0.0/0/0", `SOA\s+ns1`}, []string{"EXPIRE"}},
		{"subnet", "+noad +norec +nocookie +subnet=203.0.113.0/24 www.example.com", []string{"NOERROR", "CLIENT-SUBNET: 203.0.113.0/24/0"}, nil},
		{"512", edns + " +bufsize=512 www.example.com", []string{"NOERROR", "udp: 1232", "ANSWER: 2"}, nil},
		{"header alone", plain + " +header-only", []string{"FORMERR"}, nil},
		{"a cookie alone", "+header-only +cookie +noad +norec", []string{"NOERROR", `COOKIE: [0-9a-f]{48} \(good\)`}, nil},
		{"CHAOS", plain + " +nocookie ch txt version.bind", []string{"REFUSED"}, nil},
		{"not ours", edns + " example.org", []string{"REFUSED", "EDE: 20"}, []string{"flags: qr aa"}},
		{"transfer", plain + " +tcp axfr example.com", []string{"Transfer failed"}, nil},
		{"keepalive", edns + " +tcp +keepalive www.example.com", []string{`TCP.KEEPALIVE: 10\.0 secs`}, nil},
		{"padding", edns + " +padding=468 www.example.com", []string{"NOERROR", "ANSWER: 2"}, []string{"PAD"}},
	} {
		for _, at := range v.Addresses() {
			argv := append([]string{"@" + at.Addr().String(), "-p", strconv.Itoa(int(at.Port())), "+tries=1", "+time=10"}, strings.Fields(c.args)...)
			out, err := exec.Command(dig, argv...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: dig %s: %v\n%s", c.section, c.args, err, out)
				continue
			}
			for _, w := range c.want {
				if !regexp.MustCompile(w).Match(out) {
					t.Errorf("%s: dig %s has no %q:\n%s", c.section, c.args, w, out)
				}
			}
			for _, w := range append(c.never, "Warning", "WARNING: Message", "malformed") {
				if regexp.MustCompile(w).Match(out) {
					t.Errorf("%s: dig %s has %q:\n%s", c.section, c.args, w, out)
				}
			}
		}
	}
}

// TestSweepByAnother asks with kdig, which reads options with another codec and
// judges what dig does not: over both transports, each thing that it can say itself.
func TestSweepByAnother(t *testing.T) {
	kdig := program(t, "kdig")
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}))
	at := v.Addresses()[0]
	for _, c := range []struct {
		args string
		want []string
	}{
		{"soa example.com", []string{"status: NOERROR", "Flags: qr aa;", `SOA\s+ns1`}},
		{"+edns=0 +nsid +dnssec www.example.com", []string{"Version: 0; flags: do; UDP size: 1232", `NSID: 6672612D31 "fra-1"`, "ANSWER: 2;"}},
		{"+edns=1 www.example.com", []string{"BADVERS", "Version: 0;", "ANSWER: 0;"}},
		{"+subnet=203.0.113.0/24 www.example.com", []string{"CLIENT-SUBNET: 203.0.113.0/24/0"}},
		{"+subnet=2001:db8::/56 www.example.com", []string{"CLIENT-SUBNET: 2001:db8::/56/0"}},
		{"+cookie=0102030405060708 www.example.com", []string{"COOKIE: 010203040506070801000000", "status: NOERROR"}},
		{"any www.example.com", []string{"HINFO\\s+\"RFC8482\" \"\"", "ANSWER: 1;"}},
		{"b.c.example.com", []string{"status: NOERROR", "ANSWER: 0; AUTHORITY: 1"}},
		{"no.example.com", []string{"status: NXDOMAIN", "AUTHORITY: 1"}},
		{"x.sub.example.com", []string{"Flags: qr;", "AUTHORITY: 2; ADDITIONAL: 3"}},
		{"+edns a example.org", []string{"status: REFUSED", "EDE: 20"}},
	} {
		for _, transport := range []string{"+notcp +ignore", "+tcp"} {
			argv := append([]string{"@" + at.Addr().String(), "-p", strconv.Itoa(int(at.Port())), "+norec", "+retry=0", "+time=10"}, strings.Fields(transport+" "+c.args)...)
			out, err := exec.Command(kdig, argv...).CombinedOutput()
			if err != nil {
				t.Errorf("kdig %s %s: %v", transport, c.args, err)
			}
			for _, w := range c.want {
				if !regexp.MustCompile(w).Match(out) {
					t.Errorf("kdig %s %s has no %q:\n%s", transport, c.args, w, out)
				}
			}
			if regexp.MustCompile("(?i)warning|malformed").Match(out) {
				t.Errorf("kdig %s %s:\n%s", transport, c.args, out)
			}
		}
	}
}
