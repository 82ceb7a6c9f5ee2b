package dnsfallback

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"
)

// udpSize is the most that is sent in one datagram, and what is told of ours:
// no path breaks it up (RFC 9715 §3.1).
const udpSize = 1232

// The answers that are of no zone.
var (
	empty       = &reply{id: 3} // to a question for nothing but a cookie (RFC 7873 §5.4)
	badCookie   = &reply{id: 4, rcode: dns.RcodeBadCookie}
	badVersion  = &reply{id: 5, rcode: dns.RcodeBadVers}
	malformed   = &reply{id: 6, rcode: dns.RcodeFormatError}
	notDone     = &reply{id: 7, rcode: dns.RcodeNotImplemented}
	noTransfer  = &reply{id: 8, rcode: dns.RcodeRefused, ede: dns.ExtendedErrorCodeProhibited}
	otherClass  = &reply{id: 9, rcode: dns.RcodeRefused, ede: dns.ExtendedErrorCodeNotSupported}
	unknownMeta = &reply{id: 10, rcode: dns.RcodeNotImplemented} // RFC 6895 §3.1
)

// refusal is the answer to what could not be read.
func refusal(rcode int) *reply {
	switch rcode {
	case dns.RcodeBadVers:
		return badVersion
	case dns.RcodeNotImplemented:
		return notDone
	}
	return malformed
}

// lookup finds the answer to a question that could be read.
func (t *Table) lookup(q *request) *reply {
	switch {
	case q.class != dns.ClassINET:
		// CHAOS would name the software to whoever asks, and nobody uses the others.
		return otherClass
	case q.typ == dns.TypeAXFR || q.typ == dns.TypeIXFR:
		return noTransfer
	case q.typ == dns.TypeOPT || q.typ == dns.TypeNone:
		return malformed
	case q.typ >= 128 && q.typ < dns.TypeANY:
		return unknownMeta
	}
	return t.policy.match(q)
}

// responder turns packets into answers. Each worker and each connection has its own.
type responder struct {
	*shared
	q     request
	x     extras
	limit *limiter // nil over TCP, whose clients are where they say
	// choose and made are for answers by state: what was chosen, and the reply of it.
	choose chooser
	made   reply
	// sample takes some of the answers aside; left counts to the next of them.
	sample *sampling
	left   uint32
	// For explanations: where the client is said to be, and the name that was answered by state.
	located netip.Prefix
	steered *steered
}

// shared is what all responders of a server have in common.
type shared struct {
	nsid    []byte
	secrets atomic.Pointer[Secrets]
	// alive is the idle timeout of a connection in tenths of a second, as RFC 7828 §3.1 tells it.
	alive uint16
	udp   int // the most octets of one datagram
	tally tally
}

// moment is the time of a batch.
type moment struct {
	unix uint32 // seconds, for cookies
	ms   uint32 // milliseconds since the server began, for the limiter
}

// extras are what an answer carries in its OPT record.
type extras struct {
	nsid      []byte
	hasCookie bool
	cookie    [clientCookieLen + serverCookieLen]byte
	subnet    []byte // as it was asked (RFC 7871 §7.2.1)
	scope     uint8
	alive     uint16 // 0: none
	ede       uint16
}

// respond appends the answer to packet, or nothing for what deserves none.
func (a *responder) respond(dst, packet []byte, t *Table, from netip.AddrPort, now moment, stream bool) []byte {
	if a.sample != nil {
		if a.left--; a.left == 0 {
			return a.sampled(dst, packet, t, from, now, stream)
		}
	}
	return a.answer(dst, packet, t, from, now, stream)
}

func (a *responder) answer(dst, packet []byte, t *Table, from netip.AddrPort, now moment, stream bool) []byte {
	q, x := &a.q, &a.x
	v := q.read(packet)
	if v == readDrop || from.Port() == 0 || t.mute {
		a.tally.dropped.Add(1)
		return dst
	}
	*x = extras{}
	limit := min(int(q.size), a.udp)
	if stream {
		limit = dns.MaxMsgSize
	}
	if v != readOK {
		return a.bounded(dst, refusal(v), limit, from, now, stream)
	}
	r, known := empty, false
	if q.hasCookie {
		known = a.identify(from.Addr(), now)
	}
	switch {
	case len(q.question) > 0:
		if r = t.lookup(q); r.steered != nil {
			r = a.steer(t, r, from.Addr())
		}
	case len(q.cookie) > clientCookieLen && !known:
		r = badCookie // RFC 7873 §5.4
	}
	if q.nsid {
		x.nsid = a.nsid
	}
	if stream && q.alive {
		x.alive = a.alive
	}
	x.subnet = q.subnet
	if r == &a.made && a.choose.told {
		x.scope = a.choose.scope
	}
	x.ede = r.ede
	if known {
		return a.send(dst, r, limit, stream)
	}
	return a.bounded(dst, r, limit, from, now, stream)
}

// bounded sends as much of r as the limiter lets go to a source that may be
// forged: all, nothing, or what is no longer than the question.
func (a *responder) bounded(dst []byte, r *reply, limit int, from netip.AddrPort, now moment, stream bool) []byte {
	switch a.over(from, r, now) {
	case drop:
		return dst
	case slip:
		a.x = extras{}
		return a.q.compose(dst, r, &a.x, 0)
	}
	return a.send(dst, r, limit, stream)
}

// steer finds the answer that depends on who asks, and makes a reply of it: what
// stands before it, as the aliases that led there, and what was chosen.
func (a *responder) steer(t *Table, r *reply, from netip.Addr) *reply {
	q, s, c := &a.q, r.steered, &a.choose
	client, told := q.prefix, q.prefix.IsValid()
	if a.located.IsValid() {
		client, told = a.located, true
	}
	a.steered = s
	if !told {
		client = netip.PrefixFrom(from, from.BitLen())
	}
	family := 0
	if q.typ == dns.TypeAAAA {
		family = 1
	}
	c.start(t.maps, client, told, family)
	t.choose(c, s)

	m := &a.made
	*m = reply{id: r.id, aa: r.aa, answers: r.answers, base: q.length, body: r.put(m.body[:0], q.length, true)}
	owner := uint16(toQuestion)
	if r.owner > 0 {
		owner = uint16(0xC000 | r.owner + q.length - r.base)
	}
	setTTL(c.given, owner, t.steering.ttl[s.index])
	m.body = append(m.body, c.given...)
	m.needed = len(m.body)
	m.answers += c.count
	return m
}

// over asks the limiter, and counts.
func (a *responder) over(from netip.AddrPort, r *reply, now moment) verdict {
	if a.limit == nil {
		return pass
	}
	v := a.limit.check(from.Addr(), r.id, now.ms)
	switch v {
	case drop:
		a.tally.limited.Add(1)
	case slip:
		a.tally.slipped.Add(1)
	}
	return v
}

func (a *responder) send(dst []byte, r *reply, limit int, stream bool) []byte {
	if a.choose.aside {
		return a.q.compose(dst, r, &a.x, limit)
	}
	count := &a.tally.answers
	if a.q.zone != nil {
		count = a.q.zone.tally
	}
	count.add(a.q.typ, r.rcode, stream)
	if a.q.prefix.IsValid() {
		a.tally.located.Add(1)
		if a.x.scope > 0 {
			a.tally.scoped.Add(1)
		}
	}
	return a.q.compose(dst, r, &a.x, limit)
}

// identify looks at the cookie that was sent, prepares the one to send back,
// and reports whether the client is where it says.
func (a *responder) identify(addr netip.Addr, now moment) bool {
	q, x := &a.q, &a.x
	x.hasCookie = true
	copy(x.cookie[:], q.cookie[:clientCookieLen])
	secrets := *a.secrets.Load()
	good, renew := secrets.verify(q.cookie, addr, now.unix)
	if good && !renew {
		copy(x.cookie[:], q.cookie)
	} else {
		secrets.sign((*[serverCookieLen]byte)(x.cookie[clientCookieLen:]), q.cookie, addr, now.unix)
	}
	switch {
	case good:
		a.tally.cookieGood.Add(1)
	case len(q.cookie) > clientCookieLen:
		a.tally.cookieBad.Add(1)
	default:
		a.tally.cookieNew.Add(1)
	}
	return good
}

// compose writes a whole message: header, the question as it came, the reply,
// and an OPT record if one came.
func (q *request) compose(dst []byte, r *reply, x *extras, limit int) []byte {
	additional := r.additional
	flags := flagQR | r.flags() | q.flags&(opcodeMask|flagRD)
	size := headerLen + len(q.question)
	if q.edns {
		size += x.len()
	}
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
		dst = x.put(dst, r.rcode, q.do)
	}
	return dst
}

const (
	optLen    = 11
	optionLen = 4
)

// len is how long the OPT record will be.
func (x *extras) len() int {
	n := optLen
	if len(x.nsid) > 0 {
		n += optionLen + len(x.nsid)
	}
	if x.hasCookie {
		n += optionLen + len(x.cookie)
	}
	if x.subnet != nil {
		n += optionLen + len(x.subnet)
	}
	if x.alive > 0 {
		n += optionLen + 2
	}
	if x.ede > 0 {
		n += optionLen + 2
	}
	return n
}

// put appends the OPT record (RFC 6891 §6.1). Of the flags, DO is copied (RFC
// 3225 §3) and all others are clear.
func (x *extras) put(dst []byte, rcode uint16, do bool) []byte {
	var o [optLen]byte
	o[2] = typeOPT
	binary.BigEndian.PutUint16(o[3:], udpSize)
	o[5] = byte(rcode >> 4)
	if do {
		binary.BigEndian.PutUint16(o[7:], flagDO)
	}
	binary.BigEndian.PutUint16(o[9:], uint16(x.len()-optLen))
	dst = append(dst, o[:]...)
	if len(x.nsid) > 0 {
		dst = append(option(dst, dns.EDNS0NSID, len(x.nsid)), x.nsid...)
	}
	if x.hasCookie {
		dst = append(option(dst, dns.EDNS0COOKIE, len(x.cookie)), x.cookie[:]...)
	}
	if x.subnet != nil {
		at := len(dst) + optionLen
		dst = append(option(dst, dns.EDNS0SUBNET, len(x.subnet)), x.subnet...)
		dst[at+3] = x.scope
	}
	if x.alive > 0 {
		dst = binary.BigEndian.AppendUint16(option(dst, dns.EDNS0TCPKEEPALIVE, 2), x.alive)
	}
	if x.ede > 0 {
		dst = binary.BigEndian.AppendUint16(option(dst, dns.EDNS0EDE, 2), x.ede)
	}
	return dst
}

func option(dst []byte, code uint16, length int) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(dst, code), uint16(length))
}
