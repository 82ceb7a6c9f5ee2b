package dnsfallback

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// udpSize is the most that is sent in one datagram, and what is told of ours:
// no path breaks it up (RFC 9715 §3.1).
const udpSize = 1232

// answer appends the message that answers q from t. limit is the most octets
// that the transport takes.
func (t *Table) answer(dst []byte, q *request, limit int) []byte {
	r := refused
	switch {
	case len(q.question) == 0:
		r = empty
	case q.class != dns.ClassINET:
		// CHAOS names the software to whoever asks, and other classes are not served.
	case q.typ == dns.TypeAXFR || q.typ == dns.TypeIXFR:
	case q.typ == dns.TypeOPT || q.typ == dns.TypeNone:
		r = malformed
	case q.typ >= 128 && q.typ < dns.TypeANY:
		r = unknownMeta
	default:
		r = t.policy.match(q)
	}
	return q.compose(dst, r, limit)
}

var (
	empty       = &reply{} // to a question for nothing but a cookie
	malformed   = &reply{rcode: dns.RcodeFormatError}
	unknownMeta = &reply{rcode: dns.RcodeNotImplemented} // RFC 6895 §3.1
)

// compose writes a whole message: header, the question as it came, the reply,
// and an OPT record if one came.
func (q *request) compose(dst []byte, r *reply, limit int) []byte {
	additional := r.additional
	flags := flagQR | r.flags() | q.flags&(opcodeMask|flagRD)
	size := headerLen + len(q.question) + q.optLen()
	body, whole := len(r.body), true
	if size+body > limit && r.optional > 0 {
		body, whole = r.needed, false
		additional -= r.optional
	}
	answers, authority := r.answers, r.authority
	if size+body > limit {
		flags |= flagTC // and nothing else: what is cut off misleads (RFC 2181 §9)
		body, answers, authority, additional = 0, 0, 0, 0
	}
	if q.edns {
		additional++
	}
	var h [headerLen]byte
	binary.BigEndian.PutUint16(h[0:], q.id)
	binary.BigEndian.PutUint16(h[2:], flags)
	if len(q.question) > 0 {
		h[5] = 1
	}
	binary.BigEndian.PutUint16(h[6:], answers)
	binary.BigEndian.PutUint16(h[8:], authority)
	binary.BigEndian.PutUint16(h[10:], additional)
	dst = append(dst, h[:]...)
	dst = append(dst, q.question...)
	if body > 0 {
		dst = r.put(dst, q.length, whole)
	}
	if q.edns {
		dst = q.opt(dst, r)
	}
	return dst
}

// optLen is what opt will append.
func (q *request) optLen() int {
	if !q.edns {
		return 0
	}
	return 11
}

// opt appends the OPT record (RFC 6891 §6.1).
func (q *request) opt(dst []byte, r *reply) []byte {
	var o [11]byte
	o[2] = typeOPT
	binary.BigEndian.PutUint16(o[3:], udpSize)
	if q.do {
		binary.BigEndian.PutUint16(o[7:], flagDO) // copied (RFC 3225 §3); all other flags are clear
	}
	return append(dst, o[:]...)
}
