package dnsfallback

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// record is one record as it stands in the settings.
type record struct {
	owner name
	typ   uint16
	ttl   uint32
	// data is the RDATA in wire form, uncompressed, in the case it was written in.
	data []byte
	// path is where it was written.
	path string
}

// rrset are the records of one owner and type (RFC 2181 §5).
type rrset struct {
	owner name
	typ   uint16
	ttl   uint32
	data  [][]byte
	path  string // of its first
}

// parseRecord reads one line of a zone file. Unlike there, the owner is always written.
func parseRecord(line string, origin name, ttl uint32) (record, error) {
	line = strings.TrimSpace(line)
	if line == "" {
		return record{}, errors.New("an empty line; a record is owner, type and data, as: www A 192.0.2.1")
	}
	if line[0] == '$' || line[0] == ';' {
		return record{}, fmt.Errorf("%q is no record; directives and comments have no meaning here", strings.Fields(line)[0])
	}
	if first := strings.Fields(line)[0]; strings.EqualFold(first, "IN") || dns.StringToType[strings.ToUpper(first)] != 0 && len(strings.Fields(line)) < 3 {
		return record{}, fmt.Errorf("begins with %s; a record begins with its owner, @ for the zone itself", first)
	}
	p := dns.NewZoneParser(strings.NewReader(line+"\n"), origin.String(), "")
	p.SetDefaultTTL(ttl)
	rr, ok := p.Next()
	if err := p.Err(); err != nil {
		return record{}, fmt.Errorf("cannot be read: %s", plain(err))
	}
	if !ok {
		return record{}, errors.New("is no record; write owner, type and data, as: www A 192.0.2.1")
	}
	if _, more := p.Next(); more || p.Err() != nil {
		return record{}, errors.New("holds more than one record; give each its own line")
	}
	return packRecord(rr)
}

// plain takes the library's name, and the place in a file that is none, out of its sentence.
func plain(err error) string {
	s := strings.TrimPrefix(err.Error(), "dns: ")
	if i := strings.Index(s, " at line: "); i >= 0 {
		s = s[:i]
	}
	return strings.ReplaceAll(s, `"\n"`, "the end of the line")
}

func packRecord(rr dns.RR) (record, error) {
	h := rr.Header()
	if h.Class != dns.ClassINET {
		return record{}, fmt.Errorf("is of class %s; only IN is served", dns.ClassToString[h.Class])
	}
	if h.Ttl > maxTTL {
		return record{}, fmt.Errorf("has a TTL of %d; at most %d (RFC 2181 §8)", h.Ttl, maxTTL)
	}
	if why := unserved(h.Rrtype); why != "" {
		return record{}, fmt.Errorf("is of type %s; %s", typeName(h.Rrtype), why)
	}
	buf := make([]byte, dns.Len(rr)+maxNameLen)
	n, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		return record{}, fmt.Errorf("cannot be sent: %s", plain(err))
	}
	owner := wireName(buf)
	if n == len(owner)+10 { // the library reads these as the empty records of RFC 2136
		return record{}, errors.New("has no data; write owner, type and data, as: www A 192.0.2.1")
	}
	if !whole(rr, buf[:n]) {
		return record{}, errors.New("has data that is not whole; write owner, type and data, as: www A 192.0.2.1")
	}
	return record{
		owner: lower(owner), typ: h.Rrtype, ttl: h.Ttl,
		data: buf[len(owner)+10 : n : n],
	}, nil
}

// whole reports whether a record that was packed is the one that others would
// read: the library's parser takes some that lack their last fields.
func whole(rr dns.RR, packed []byte) bool {
	again, err := dns.NewRR(rr.String())
	if err != nil || again == nil {
		return false
	}
	buf := make([]byte, dns.Len(again)+maxNameLen)
	n, err := dns.PackRR(again, buf, 0, nil, false)
	if err != nil || !bytes.Equal(buf[:n], packed) {
		return false
	}
	_, off, err := dns.UnpackRR(packed, 0)
	return err == nil && off == len(packed)
}

// unserved says why a type cannot be among the records; empty if it can.
func unserved(t uint16) string {
	switch t {
	case dns.TypeSOA:
		return "write soa: instead"
	case dns.TypeDNAME:
		return "write a wildcard CNAME, or delegate the name"
	case dns.TypeRRSIG, dns.TypeDNSKEY, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeSIG, dns.TypeKEY, dns.TypeNXT, dns.TypeCDS, dns.TypeCDNSKEY:
		return "zones are not signed here"
	case dns.TypeNone, dns.TypeOPT:
		return "it belongs to messages, not to zones"
	}
	if t >= 128 && t <= 255 {
		return "it is for questions only (RFC 6895 §3.1)"
	}
	return ""
}

func typeName(t uint16) string { return dns.Type(t).String() }

// embedded gives the offset of the name inside the data of a type whose data
// ends in one, and whether it may be compressed (RFC 3597 §4); -1 if there is none.
func embedded(t uint16) (offset int, compress bool) {
	switch t {
	case dns.TypeNS, dns.TypeCNAME, dns.TypePTR:
		return 0, true
	case dns.TypeMX:
		return 2, true
	case dns.TypeSVCB, dns.TypeHTTPS:
		return 2, false
	case dns.TypeSRV:
		return 6, false
	}
	return -1, false
}

// targets are the names that the set's data name, in order, each once.
func (s *rrset) targets() []name {
	at, _ := embedded(s.typ)
	if at < 0 {
		return nil
	}
	var out []name
	for _, d := range s.data {
		if n := lower(wireName(d[at:])); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// same reports whether two records of a type are one: names in them have no case.
func same(t uint16, a, b []byte) bool {
	at, _ := embedded(t)
	if at < 0 {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(a[:at], b[:at]) && lower(a[at:]) == lower(b[at:])
}
