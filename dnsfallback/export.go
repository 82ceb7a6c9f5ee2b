package dnsfallback

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/miekg/dns"
)

// Export writes the static records of a zone as a zone file (RFC 1035 §5), for
// other servers and for what checks such files.
func (p *Policy) Export(w io.Writer, zone string) error {
	apex, err := parseName(zone, root)
	if err != nil || p.apexes[apex] == nil {
		return fmt.Errorf("%q is no zone of the policy", zone)
	}
	z := p.apexes[apex]
	names := slices.SortedFunc(maps.Keys(p.nodes), func(a, b name) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	out := bufio.NewWriter(w)
	for _, n := range names { // the apex, and its SOA, first
		if p.nodes[n].zone != z {
			continue
		}
		for _, s := range p.nodes[n].sets {
			for _, d := range s.data {
				rr, err := s.record(d)
				if err != nil {
					return fmt.Errorf("%s: %w", s.path, err)
				}
				fmt.Fprintln(out, rr)
			}
		}
	}
	return out.Flush()
}

// record gives one of the set's records as the library has them.
func (s *rrset) record(data []byte) (dns.RR, error) {
	h := dns.RR_Header{Name: s.owner.String(), Rrtype: s.typ, Class: dns.ClassINET, Ttl: s.ttl, Rdlength: uint16(len(data))}
	rr, _, err := dns.UnpackRRWithHeader(h, data, 0)
	return rr, err
}
