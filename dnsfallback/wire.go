package dnsfallback

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	headerLen = 12
	// farthest is the last offset that a pointer is made to: it has 14 bits (RFC
	// 1035 §4.1.4), and what it points to may shift by the length of a name.
	farthest = 1<<14 - 1 - maxNameLen
	// toQuestion points to the question's name.
	toQuestion = 0xC000 | headerLen
)

// reply is a prepared answer: what follows the question, in wire form.
//
// One is written for the shortest question it can be given to, whose name has
// base octets. When the question's name is longer, everything behind the
// question stands so much further on, and the pointers in shifts grow by as
// much. Pointers to the question's own name stay.
type reply struct {
	// id tells like answers from others, for the limiter.
	id    uint32
	rcode uint16
	aa    bool
	// ede says why, to those who read it (RFC 8914); 0 is nothing.
	ede uint16
	// answers, authority and additional count the records.
	answers, authority, additional uint16
	// optional is how many of the additional records may be left out if they do not fit.
	optional uint16
	body     []byte
	// needed is the length of the body without the optional records.
	needed int
	base   int
	shifts []uint16
	// steered goes on where the body ends: it is answered by state. Its owner
	// stands at message offset owner of the template; 0 is the question itself.
	steered *steered
	owner   int
}

// flags are the second word of the header for this reply.
func (r *reply) flags() uint16 {
	f := r.rcode & 0xF
	if r.aa {
		f |= flagAA
	}
	return f
}

// put appends the body for a question whose name has nameLen octets.
func (r *reply) put(dst []byte, nameLen int, whole bool) []byte {
	at := len(dst)
	if whole {
		dst = append(dst, r.body...)
	} else {
		dst = append(dst, r.body[:r.needed]...)
	}
	if delta := nameLen - r.base; delta > 0 {
		for _, i := range r.shifts {
			if int(i) < len(dst)-at {
				p := dst[at+int(i):]
				binary.BigEndian.PutUint16(p, binary.BigEndian.Uint16(p)+uint16(delta))
			}
		}
	}
	return dst
}

// builder writes a reply.
type builder struct {
	r reply
	// self is written as a pointer to the question.
	self name
	// fixed: the question is exactly self, so nothing shifts.
	fixed bool
	seen  map[name]int // message offset of each name written so far
}

// newBuilder begins a reply to questions at name.
func newBuilder(n name) *builder { return begin(n, n, true) }

// newShiftingBuilder begins a reply to questions below encloser. When self is
// not empty, it stands for the question's name: the wildcard that matched.
func newShiftingBuilder(encloser, self name) *builder { return begin(encloser, self, false) }

func begin(question, self name, fixed bool) *builder {
	b := &builder{self: self, fixed: fixed, seen: map[name]int{}}
	b.r.base = len(question)
	b.r.aa = true
	b.note(question, headerLen)
	return b
}

// note remembers where a name and those above it stand.
func (b *builder) note(n name, at int) {
	for ; n != root && at <= farthest; n = n.parent() {
		if _, ok := b.seen[n]; !ok {
			b.seen[n] = at
		}
		at += 1 + int(n[0])
	}
}

// at is the message offset of what is written next.
func (b *builder) at() int { return headerLen + b.r.base + 4 + len(b.r.body) }

// owner writes a record's owner. The question's own name is pointed to, so that
// it comes back in the asker's case.
func (b *builder) owner(n name) {
	if n == b.self {
		b.r.body = binary.BigEndian.AppendUint16(b.r.body, toQuestion)
		return
	}
	b.name([]byte(n))
}

// name writes one, compressed; wire is its form in the case to be shown.
func (b *builder) name(wire []byte) {
	low := lower(wire)
	start, n, i := b.at(), low, 0
	for n != root {
		if at, ok := b.seen[n]; ok {
			b.r.body = append(b.r.body, wire[:i]...)
			if !b.fixed {
				b.r.shifts = append(b.r.shifts, uint16(len(b.r.body)))
			}
			b.r.body = binary.BigEndian.AppendUint16(b.r.body, uint16(0xC000|at))
			b.note(low, start)
			return
		}
		i += 1 + int(n[0])
		n = n.parent()
	}
	b.r.body = append(b.r.body, wire...)
	b.note(low, start)
}

// set writes the records of a set, as owned by owner, and returns how many.
func (b *builder) set(owner name, s *rrset) uint16 {
	for _, d := range s.data {
		b.owner(owner)
		b.r.body = binary.BigEndian.AppendUint16(b.r.body, s.typ)
		b.r.body = binary.BigEndian.AppendUint16(b.r.body, dns.ClassINET)
		b.r.body = binary.BigEndian.AppendUint32(b.r.body, s.ttl)
		length := len(b.r.body)
		b.r.body = append(b.r.body, 0, 0)
		b.data(s.typ, d)
		binary.BigEndian.PutUint16(b.r.body[length:], uint16(len(b.r.body)-length-2))
	}
	return uint16(len(s.data))
}

func (b *builder) data(typ uint16, d []byte) {
	if typ == dns.TypeSOA {
		mname := wireName(d)
		rname := wireName(d[len(mname):])
		b.name(mname)
		b.name(rname)
		b.r.body = append(b.r.body, d[len(mname)+len(rname):]...)
		return
	}
	at, compress := embedded(typ)
	if !compress {
		b.r.body = append(b.r.body, d...)
		return
	}
	b.r.body = append(b.r.body, d[:at]...)
	b.name(d[at:])
}

func (b *builder) answer(owner name, s *rrset)    { b.r.answers += b.set(owner, s) }
func (b *builder) authority(owner name, s *rrset) { b.r.authority += b.set(owner, s) }

// glue writes addresses without which the answer is of no use (RFC 9471).
func (b *builder) glue(owner name, s *rrset) { b.r.additional += b.set(owner, s) }

// helpful writes addresses that may be left out.
func (b *builder) helpful(owner name, s *rrset) {
	if b.r.needed == 0 {
		b.r.needed = len(b.r.body)
	}
	n := b.set(owner, s)
	b.r.additional += n
	b.r.optional += n
}

// steered ends the answer at a name that is answered by state.
func (b *builder) steered(owner name, s *steered) {
	b.r.steered = s
	if owner != b.self {
		b.r.owner = b.seen[owner]
	}
}

// done ends the reply.
func (b *builder) done() *reply {
	if b.r.needed == 0 {
		b.r.needed = len(b.r.body)
	}
	return &b.r
}
