package dnsfallback

import (
	"errors"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Sample is one question of many with its answer, and how that came about.
type Sample struct {
	At        time.Time
	Client    netip.AddrPort
	Transport string // udp, tcp
	// Question and Answer are the messages as they were, without TCP's length.
	// Answer is empty when none was given.
	Question, Answer []byte
	// Name and Type that were asked, and the rcode; empty when the question could not be read.
	Name, Type, Rcode string
	// Version of the table, and the steps that led to the answer.
	Version uint64
	Branch  []string
}

type sampling struct {
	every uint32
	take  func(Sample)
}

// Sample has take called with one of so many questions, from the workers: it
// must not block. It is called before [Server.Serve], if at all. What is sampled
// costs memory; the others cost nothing.
func (v *Server) Sample(every int, take func(Sample)) error {
	if every < 1 || every > 1<<30 {
		return errors.New("one of no questions cannot be sampled")
	}
	v.sample = &sampling{uint32(every), take}
	return nil
}

// first is how many questions a new responder lets pass before it takes one: not
// always the same, since a connection may bring only a few.
func (s *sampling) first(draw uint64) uint32 { return uint32(draw%uint64(s.every)) + 1 }

// sampled answers like answer, and takes it down.
func (a *responder) sampled(dst, packet []byte, t *Table, from netip.AddrPort, now moment, stream bool) []byte {
	a.left = a.sample.every
	s := Sample{At: time.Now(), Client: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), Transport: "udp", Version: t.version}
	if stream {
		s.Transport = "tcp"
	}
	a.choose.trace = &s.Branch
	at := len(dst)
	dst = a.answer(dst, packet, t, from, now, stream)
	a.choose.trace = nil
	s.Question = append(s.Question, packet...)
	s.Answer = append(s.Answer, dst[at:]...)
	if len(a.q.question) > 0 {
		s.Name, s.Type = name(a.q.name[:a.q.length]).text(), dns.Type(a.q.typ).String()
	}
	var m dns.Msg
	if len(s.Answer) > 0 && m.Unpack(s.Answer) == nil {
		s.Rcode = dns.RcodeToString[m.Rcode]
	}
	a.sample.take(s)
	return dst
}
