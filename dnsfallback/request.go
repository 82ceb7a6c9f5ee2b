package dnsfallback

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"
)

const (
	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8

	flagDO = 1 << 15 // in the OPT record's TTL (RFC 3225 §3)

	opcodeMask = 0xF << 11

	maxLabels = maxNameLen / 2

	typeOPT = byte(dns.TypeOPT)
)

// request is one question as it came. It is used again for the next one, and
// points into the packet that it was read from.
type request struct {
	id    uint16
	flags uint16
	// question is the packet's question section, to be sent back as it is: the
	// name's case is the asker's (RFC 4343 §4.1). Empty when there was none that could be read.
	question []byte
	// name is the question's, in lower case, and at where its labels begin.
	name   [maxNameLen]byte
	length int
	at     [maxLabels + 1]uint8
	labels int
	typ    uint16
	class  uint16

	// edns: the packet has an OPT record (RFC 6891), of version and with size, its sender's limit.
	edns      bool
	version   uint8
	size      uint16
	do        bool
	nsid      bool
	alive     bool // asks for the timeout of the connection (RFC 7828)
	cookie    []byte
	subnet    []byte       // the client subnet option as it came (RFC 7871 §6)
	prefix    netip.Prefix // and what it says; invalid if nothing usable
	hasCookie bool

	// zone that the name is in; nil for none, or before it was looked for.
	zone *zone
}

// Verdicts of read that are no rcode.
const (
	readOK   = -1
	readDrop = -2
)

// read takes a packet apart. It returns readOK, readDrop for what deserves no
// answer, or the rcode to refuse with.
func (q *request) read(p []byte) int {
	q.question, q.length, q.labels = nil, 0, 0
	q.edns, q.do, q.nsid, q.alive, q.hasCookie = false, false, false, false, false
	q.version, q.size, q.typ, q.class = 0, dns.MinMsgSize, 0, 0
	q.cookie, q.subnet, q.prefix, q.zone = nil, nil, netip.Prefix{}, nil
	if len(p) < headerLen {
		return readDrop
	}
	q.id, q.flags = binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:])
	if q.flags&flagQR != 0 {
		return readDrop // an answer to an answer would be answered again
	}
	questions := binary.BigEndian.Uint16(p[4:])
	if q.flags&opcodeMask != 0 {
		return dns.RcodeNotImplemented // whatever it holds (RFC 8906 §3.1.4)
	}
	if questions > 1 {
		return dns.RcodeFormatError // RFC 9619 §4
	}
	off := headerLen
	if questions == 1 {
		if off = q.readQuestion(p); off < 0 {
			return dns.RcodeFormatError
		}
	}
	others := int(binary.BigEndian.Uint16(p[6:])) + int(binary.BigEndian.Uint16(p[8:]))
	additional := int(binary.BigEndian.Uint16(p[10:]))
	if others+additional == 1 && others == 0 && off+11 <= len(p) && p[off] == 0 && p[off+1] == 0 && p[off+2] == typeOPT {
		if off = q.readOPT(p, off); off < 0 { // by far the commonest
			return dns.RcodeFormatError
		}
	} else if off = q.readRecords(p, off, others, additional); off < 0 {
		return dns.RcodeFormatError
	}
	switch {
	case off != len(p):
		return dns.RcodeFormatError
	case q.edns && q.version > 0:
		return dns.RcodeBadVers // RFC 6891 §6.1.3
	case questions == 0 && !q.hasCookie:
		return dns.RcodeFormatError // but for asking for a cookie (RFC 7873 §5.4)
	}
	return readOK
}

func (q *request) readQuestion(p []byte) int {
	off, n := headerLen, 0
	for {
		if off >= len(p) || q.labels > maxLabels {
			return -1
		}
		l := int(p[off])
		if l == 0 {
			break
		}
		if l > 63 || n+1+l >= maxNameLen || off+1+l > len(p) {
			return -1
		}
		q.at[q.labels] = uint8(n)
		q.labels++
		for _, b := range p[off : off+1+l] {
			q.name[n] = lowerOctet[b]
			n++
		}
		off += 1 + l
	}
	q.name[n] = 0
	q.length = n + 1
	off++
	if off+4 > len(p) {
		return -1
	}
	q.typ, q.class = binary.BigEndian.Uint16(p[off:]), binary.BigEndian.Uint16(p[off+2:])
	off += 4
	q.question = p[headerLen:off]
	return off
}

// readRecords walks what else there may be, as TSIG, and finds the OPT record.
func (q *request) readRecords(p []byte, off, others, additional int) int {
	for i := range others + additional {
		start := off
		for { // the owner; pointers are not followed
			if off >= len(p) {
				return -1
			}
			l := int(p[off])
			if l >= 0xC0 {
				off += 2
				break
			}
			off += 1 + l
			if l == 0 {
				break
			}
			if l > 63 {
				return -1
			}
		}
		if off+10 > len(p) {
			return -1
		}
		typ, length := binary.BigEndian.Uint16(p[off:]), int(binary.BigEndian.Uint16(p[off+8:]))
		if off+10+length > len(p) {
			return -1
		}
		if typ == dns.TypeOPT {
			if i < others || p[start] != 0 || q.edns {
				return -1 // RFC 6891 §6.1.1
			}
			if off = q.readOPT(p, start); off < 0 {
				return -1
			}
			continue
		}
		off += 10 + length
	}
	return off
}

// readOPT reads the OPT record at off.
func (q *request) readOPT(p []byte, off int) int {
	q.edns = true
	q.size = max(binary.BigEndian.Uint16(p[off+3:]), dns.MinMsgSize) // RFC 6891 §6.2.3
	q.version = p[off+6]
	q.do = binary.BigEndian.Uint16(p[off+7:])&flagDO != 0
	end := off + 11 + int(binary.BigEndian.Uint16(p[off+9:]))
	if end > len(p) {
		return -1
	}
	if q.version > 0 {
		return end // its options may mean something else
	}
	for off += 11; off < end; {
		if off+4 > end {
			return -1
		}
		code, length := binary.BigEndian.Uint16(p[off:]), int(binary.BigEndian.Uint16(p[off+2:]))
		off += 4
		if off+length > end {
			return -1
		}
		if !q.readOption(code, p[off:off+length]) {
			return -1
		}
		off += length
	}
	return end
}

// readOption takes one option; those it does not know are ignored (RFC 6891 §6.1.2).
func (q *request) readOption(code uint16, data []byte) bool {
	switch code {
	case dns.EDNS0NSID:
		q.nsid = true
	case dns.EDNS0COOKIE:
		if q.hasCookie {
			return true // the first counts (RFC 7873 §5.2)
		}
		if len(data) != 8 && (len(data) < 16 || len(data) > 40) {
			return false // RFC 7873 §5.2.2
		}
		q.hasCookie, q.cookie = true, data
	case dns.EDNS0SUBNET:
		if q.subnet != nil {
			return true
		}
		return q.readSubnet(data)
	case dns.EDNS0TCPKEEPALIVE:
		if len(data) != 0 {
			return false // a client sends no timeout (RFC 7828 §3.2.1)
		}
		q.alive = true
	}
	return true
}

// readSubnet reads a client subnet (RFC 7871 §6). What is malformed is refused
// (§7.1.2); a network that is not routed says nothing of where a client is.
func (q *request) readSubnet(data []byte) bool {
	if len(data) < 4 {
		return false
	}
	family, source, scope := binary.BigEndian.Uint16(data), int(data[2]), data[3]
	octets := data[4:]
	if scope != 0 || len(octets) != (source+7)/8 {
		return false
	}
	var addr netip.Addr
	switch family {
	case 1:
		if source > 32 {
			return false
		}
		var a [4]byte
		copy(a[:], octets)
		addr = netip.AddrFrom4(a)
	case 2:
		if source > 128 {
			return false
		}
		var a [16]byte
		copy(a[:], octets)
		addr = netip.AddrFrom16(a)
	default:
		return source == 0 // "no location", in no family
	}
	p := netip.PrefixFrom(addr, source)
	if p.Masked() != p {
		return false // bits beyond the prefix
	}
	q.subnet = data
	if source > 0 && locates(addr) {
		q.prefix = p
	}
	return true
}

// locates reports whether an address can say where a client is.
func locates(a netip.Addr) bool {
	return !a.Is4In6() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified()
}
