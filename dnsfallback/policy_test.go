package dnsfallback

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the expected texts in testdata")

// TestProblems gives each mistake its sentence, and wants the whole policy refused.
func TestProblems(t *testing.T) {
	zone := func(records ...string) []Zone {
		return []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Records: records}}
	}
	for _, c := range []struct {
		name  string
		zones []Zone
		want  []string
	}{
		{"no zone", nil, []string{"zones: is empty; name at least one zone"}},
		{"no name", []Zone{{NS: []string{"a."}}}, []string{"zones[0].name: is missing; name the zone that is delegated here, as gslb.example.com"}},
		{"a name that is none", []Zone{{Name: "a..b", NS: []string{"a."}}}, []string{`zones[0].name: "a..b" is no name: not a domain name: labels have 1 to 63 octets, a name at most 255`}},
		{"the root", []Zone{{Name: ".", NS: []string{"a."}}}, []string{`zones[0].name: "." cannot be a zone here`}},
		{"no servers", []Zone{{Name: "example.com"}}, []string{"zones[0].ns: is missing; name the zone's servers, at least two in different networks"}},
		{"twice", append(zone(), Zone{Name: "EXAMPLE.com.", NS: []string{"a."}}), []string{`zones[1].name: "EXAMPLE.com." is zones[0] already`}},
		{"times", []Zone{{Name: "example.com", NS: []string{"a."}, TTL: 1500 * time.Millisecond, SOA: SOA{Minimum: -time.Second}}}, []string{
			"zones[0].soa.minimum: -1s is out of range; 0s to 2147483647s (RFC 2181 §8)",
			"zones[0].ttl: 1.5s is not whole seconds, and DNS knows no others",
		}},
		{"a server without glue", []Zone{{Name: "example.com", NS: []string{"ns1", "ns2"}, Records: []string{"ns1 A 192.0.2.1"}}}, []string{
			"zones[0].ns[0]: the server ns2.example.com has no address; add the record  ns2 A …  (glue)"}},
		{"a delegation without glue", zone("sub NS ns.sub"), []string{
			"zones[0].records[0]: the server ns.sub.example.com has no address; add the record  ns.sub A …  (glue)"}},
		{"a server that is an alias", zone("sub NS ns", "ns CNAME www.example.org."), []string{
			"zones[0].records[0]: ns.example.com is an alias (zones[0].records[1]), and NS must name a host by its own name (RFC 2181 §10.3)"}},
		{"mail to an alias", zone("@ MX 0 m", "m CNAME x.example.org."), []string{
			"zones[0].records[0]: m.example.com is an alias (zones[0].records[1]), and MX must name a host by its own name (RFC 2181 §10.3)"}},
		{"outside", zone("www.example.org. A 192.0.2.1"), []string{
			"zones[0].records[0]: www.example.org is outside the zone example.com; a last dot makes a name absolute"}},
		{"in a zone below", append(zone("x.sub A 192.0.2.1"), Zone{Name: "sub.example.com", NS: []string{"ns.example.net."}}), []string{
			"zones[0].records[0]: x.sub.example.com belongs to sub.example.com, which is zones[1]"}},
		{"CNAME beside data", zone("a CNAME b", "a TXT x"), []string{
			"zones[0].records[1]: a.example.com has TXT beside the CNAME zones[0].records[0]; an alias has nothing else (RFC 1034 §3.6.2)"}},
		{"two CNAMEs", zone("a CNAME b", "a CNAME c"), []string{
			"zones[0].records[0]: a.example.com has 2 CNAMEs; a name can be an alias of one"}},
		{"CNAME at the apex", zone("@ CNAME b"), []string{
			"zones[0].records[0]: is a CNAME at the zone's own name, which has SOA and NS beside it; write addresses there"}},
		{"a loop", zone("a CNAME b", "b CNAME a"), []string{
			"zones[0].records[0]: leads back to itself: a.example.com → b.example.com → a.example.com",
			"zones[0].records[1]: leads back to itself: b.example.com → a.example.com → b.example.com"}},
		{"a loop through a wildcard", zone("*.w CNAME x.w"), []string{
			"zones[0].records[0]: leads back to itself: *.w.example.com → x.w.example.com → x.w.example.com"}},
		{"a long chain", zone("a CNAME b", "b CNAME c", "c CNAME d", "d CNAME e", "e CNAME f", "f CNAME g", "g CNAME h", "h CNAME i", "i CNAME j", "j A 192.0.2.1"), []string{
			"zones[0].records[0]: begins a chain of over 8 CNAMEs: a.example.com → b.example.com → c.example.com → d.example.com → e.example.com → f.example.com → g.example.com → h.example.com → i.example.com → j.example.com"}},
		{"hidden by a delegation", zone("sub NS ns.example.net.", "sub TXT x", "a.sub MX 0 b", "b.sub NS c.example.net.", "c.sub A 192.0.2.1"), []string{
			"zones[0].records[1]: TXT of sub.example.com is hidden by the delegation of sub.example.com (zones[0].records[0]); only addresses of its servers can stand here",
			"zones[0].records[2]: MX of a.sub.example.com is hidden by the delegation of sub.example.com (zones[0].records[0]); only addresses of its servers can stand here",
			"zones[0].records[3]: b.sub.example.com is below the delegation of sub.example.com (zones[0].records[0]), so only that zone can say this"}},
		{"a wildcard delegated", zone("*.x NS ns.example.net."), []string{
			"zones[0].records[0]: delegates a wildcard, which has no defined meaning (RFC 4592 §4.2)"}},
		{"DS of nothing", zone("x DS 1 13 2 00"), []string{
			"zones[0].records[0]: x.example.com is not delegated, and DS is said of a delegation only"}},
		{"the same twice", zone("a A 192.0.2.1", "a A 192.0.2.1", "m MX 1 B", "m MX 1 b"), []string{
			"zones[0].records[1]: is the same as zones[0].records[0]",
			"zones[0].records[3]: is the same as zones[0].records[2]"}},
		{"two TTLs", zone("a 60 A 192.0.2.1", "a A 192.0.2.2"), []string{
			"zones[0].records[1]: has a TTL of 300 and zones[0].records[0] of the same set has 60; a set has one (RFC 2181 §5.2)"}},
		{"lines", zone("", "$TTL 60", "a CH TXT x", "A 192.0.2.1", "a A 192.0.2", "a NOTYPE x", "a A 192.0.2.1\nb A 192.0.2.1", "@ SOA a b 1 2 3 4 5", "@ NS x.", "a DNAME b", "a ANY x", "a 4294967295 A 192.0.2.1", "@ DNSKEY 257 3 13 AAAA", "web A", "web MX", "web SRV"), nil},
		{"too much for a message", zone(many(4100)...), []string{
			"zones[0].records[0]: many.example.com has more records than fit a message (65600 octets of 64752)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ps := NewPolicy(1, Placement{Zones: c.zones}, Known{})
			if p != nil {
				t.Error("the policy is taken")
			}
			got := texts(ps)
			if c.want == nil { // one sentence for each line, read as prose in testdata
				golden(t, "problems.txt", strings.Join(got, "\n")+"\n")
				if len(got) != len(c.zones[0].Records) {
					t.Errorf("%d problems of %d", len(got), len(c.zones[0].Records))
				}
				return
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
