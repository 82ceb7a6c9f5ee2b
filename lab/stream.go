package lab

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// segment is one TCP segment as captured, as far as it matters here.
type segment struct {
	from, to netip.AddrPort
	// hops is the TTL or hop limit with which it arrived.
	hops     uint8
	signed   bool // carries a TCP-MD5 option (RFC 2385)
	syn, rst bool
	seq      uint32
	data     []byte
}

// parsePacket reads an IP packet; ok is false for what is not TCP over a plain IP header.
func parsePacket(b []byte) (s segment, ok bool) {
	var src, dst netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		// A total of 0 is a packet larger than the field, as offloads make them.
		if total == 0 {
			total = len(b)
		}
		if b[9] != 6 || head < 20 || total > len(b) || head > total {
			return s, false
		}
		src, _ = netip.AddrFromSlice(b[12:16])
		dst, _ = netip.AddrFromSlice(b[16:20])
		s.hops, b = b[8], b[head:total]
	case len(b) >= 40 && b[0]>>4 == 6:
		size := int(binary.BigEndian.Uint16(b[4:]))
		if size == 0 {
			size = len(b) - 40
		}
		if b[6] != 6 || size > len(b)-40 {
			return s, false
		}
		src, _ = netip.AddrFromSlice(b[8:24])
		dst, _ = netip.AddrFromSlice(b[24:40])
		s.hops, b = b[7], b[40:40+size]
	default:
		return s, false
	}
	if len(b) < 20 {
		return s, false
	}
	head := int(b[12]>>4) * 4
	if head < 20 || head > len(b) {
		return s, false
	}
	s.from = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
	s.to = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	s.seq = binary.BigEndian.Uint32(b[4:])
	s.rst, s.syn = b[13]&4 != 0, b[13]&2 != 0
	s.signed = hasOption(b[20:head], 19)
	s.data = b[head:]
	return s, true
}

func hasOption(options []byte, kind byte) bool {
	for len(options) > 0 && options[0] != 0 {
		switch {
		case options[0] == kind:
			return true
		case options[0] == 1: // padding
			options = options[1:]
		case len(options) < 2 || options[1] < 2 || int(options[1]) > len(options):
			return false
		default:
			options = options[options[1]:]
		}
	}
	return false
}

// stream puts one direction of a TCP connection back in order and cuts it into
// BGP messages. Repeated, overlapping and reordered segments make no difference.
type stream struct {
	started bool   // the SYN was seen, so that no byte can be missing
	next    uint32 // sequence number of the next byte
	ready   []byte // in order, not yet a whole message
	early   map[uint32][]byte
	broken  error
}

// earlyBound is how many segments may wait for a missing one.
const earlyBound = 1024

func (s *stream) add(g segment, message func(kind uint8, body []byte)) {
	if g.syn {
		*s = stream{started: true, next: g.seq + 1, early: map[uint32][]byte{}}
		return
	}
	if !s.started || s.broken != nil || len(g.data) == 0 {
		return
	}
	if len(s.early) >= earlyBound {
		s.broken = fmt.Errorf("%d segments wait for byte %d, which was never captured", len(s.early), s.next)
		return
	}
	if old, ok := s.early[g.seq]; !ok || len(old) < len(g.data) {
		s.early[g.seq] = append([]byte(nil), g.data...)
	}
	for moved := true; moved; {
		moved = false
		for seq, data := range s.early {
			behind := int32(s.next - seq)
			if behind < 0 {
				continue
			}
			delete(s.early, seq)
			if int(behind) < len(data) {
				s.ready = append(s.ready, data[behind:]...)
				s.next = seq + uint32(len(data))
				moved = true
			}
		}
	}
	s.cut(message)
}

// cut hands over whole messages (RFC 4271 §4.1: 16 octets of ones, length, type).
func (s *stream) cut(message func(kind uint8, body []byte)) {
	for len(s.ready) >= 19 {
		size := int(binary.BigEndian.Uint16(s.ready[16:]))
		for _, b := range s.ready[:16] {
			if b != 0xff {
				s.broken = fmt.Errorf("no message starts here: % x", s.ready[:19])
				return
			}
		}
		if size < 19 {
			s.broken = fmt.Errorf("a message of length %d", size)
			return
		}
		if len(s.ready) < size {
			return
		}
		message(s.ready[18], s.ready[19:size])
		s.ready = s.ready[size:]
	}
}
