package dnsfallback

import (
	"bytes"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// FuzzRecord: whatever stands on the line of a record, it is refused in words or
// can be answered with, as an independent codec reads it, and exported.
func FuzzRecord(f *testing.F) {
	for _, z := range exampleZones() {
		for _, r := range z.Records {
			f.Add(r)
		}
	}
	for _, r := range []string{"a LOC 52 22 23.000 N 4 53 32.000 E -2.00m", "a NAPTR 10 100 \"s\" \"SIP+D2U\" \"!^.*$!sip:x@y!\" _sip._udp", "a SSHFP 4 2 00", "a TLSA 3 1 1 00",
		"a SVCB 0 b", "a URI 1 1 \"https://x\"", "a APL 1:10.0.0.0/8", "a\\000b A 192.0.2.1", "a TYPE1 \\# 4 C0000201", "a PTR b", "a RP x y", "a HINFO \"a\" \"b\"", "a CERT PGP 0 0 AAAA", "a IPSECKEY 10 1 2 192.0.2.38 AQNR"} {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, line string) {
		z := Zone{Name: "example.com", NS: []string{"ns.example.net."}, Records: []string{line}}
		p, ps := NewPolicy(1, Placement{Zones: []Zone{z}}, Known{})
		if p == nil {
			if len(ps) == 0 || strings.TrimSpace(ps[0].Text) == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		table := p.Table(1, nil, FleetState{})
		var file bytes.Buffer
		if err := p.Export(&file, z.Name); err != nil {
			t.Fatal(err)
		}
		for n, node := range p.nodes {
			for _, s := range node.sets {
				if node.cut != nil {
					continue
				}
				q := new(dns.Msg)
				q.Question = []dns.Question{{Name: n.String(), Qtype: s.typ, Qclass: dns.ClassINET}}
				packet, err := q.Pack()
				if err != nil {
					t.Fatalf("%v cannot be asked for: %v", n, err)
				}
				m := respond(t, newResponder(nil, nil), table, packet, true)
				if m.Rcode != dns.RcodeSuccess || len(m.Answer) < len(s.data) {
					t.Fatalf("%q is answered\n%v", line, m)
				}
			}
		}
	})
}
