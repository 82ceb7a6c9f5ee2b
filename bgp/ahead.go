package bgp

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// A withdrawal does not wait for GoBGP, which takes a millisecond or more to
// come to it. The wire knows what each router holds, so it writes the withdrawal
// itself, at once; GoBGP's own comes after and is left out.
//
// It is an overtaking, not a second truth: only what this session announced is
// withdrawn ahead, and only GoBGP's answer to that is left out, and only while
// the router still holds nothing. Whatever GoBGP says in between passes, so the
// last word is its in every case.

// aheadRoom is how many octets may be unacknowledged, this message included,
// for a withdrawal to go ahead. It is far below any socket's buffer, so that the
// write cannot block, and a router that does not read holds nobody up.
const aheadRoom = 8 << 10

// withdrawAhead writes the withdrawal of those prefixes that the router holds,
// as far as that is possible at once, and returns them in order; GoBGP must be
// told all of them. What is not possible stays GoBGP's alone to do.
func (n *neighbor) withdrawAhead(prefixes []netip.Prefix) []netip.Prefix {
	n.mu.Lock()
	s := n.session
	var held []netip.Prefix
	if s != nil {
		held = n.sent.holds(prefixes)
	}
	n.mu.Unlock()
	if len(held) == 0 || s.ups.Load() != 2 {
		return nil
	}
	return s.withdrawAhead(held)
}

func (s *session) withdrawAhead(held []netip.Prefix) (gone []netip.Prefix) {
	if !s.lockSoon() {
		return nil
	}
	defer s.routerWrite.Unlock()
	select {
	case <-s.ended:
		return nil
	default:
	}
	var b batch
	for _, family := range []string{familyIPv4, familyIPv6} {
		m, ps := withdrawal(family, held)
		if len(ps) > 0 {
			b.octets = append(b.octets, m...)
			b.updates = append(b.updates, sentUpdate{&update{withdrawn: ps}, len(m), len(b.octets)})
			gone = append(gone, ps...) // IPv4 before IPv6, as comparePrefix has it
		}
	}
	if out, err := unacknowledged(s.raw); err != nil || out+len(b.octets) > aheadRoom {
		return nil
	}
	for _, p := range gone {
		s.ahead[p] = struct{}{}
	}
	s.n.messagesOut.Add(uint64(len(b.updates)))
	if err := s.send(&b); err != nil {
		go s.end(faultOf(err)) // it takes the lock that is held here
	}
	return gone
}

// lockSoon takes routerWrite unless somebody holds it for longer than one who
// only writes down what was sent: a router that does not read.
func (s *session) lockSoon() bool {
	const (
		patience = time.Millisecond
		pause    = 20 * time.Microsecond
	)
	for began := time.Now(); ; time.Sleep(pause) {
		if s.routerWrite.TryLock() {
			return true
		}
		if time.Since(began) > patience {
			return false
		}
	}
}

// leaveOut takes the messages out of b that withdraw what was withdrawn ahead,
// and nothing else. The caller holds routerWrite.
func (s *session) leaveOut(b *batch) {
	if len(s.ahead) == 0 {
		return
	}
	octets, updates, begin := b.octets[:0], b.updates[:0], 0
	for _, u := range b.updates {
		m := b.octets[begin:u.end]
		begin = u.end
		// Messages without routes stand before the UPDATE they came before, and
		// are kept with it: cut off what belongs to this one alone.
		other, own := m[:len(m)-u.size], m[len(m)-u.size:]
		octets = append(octets, other...)
		if s.overtaken(u.update) {
			s.n.messagesOut.Add(^uint64(0))
			continue
		}
		octets = append(octets, own...)
		updates = append(updates, sentUpdate{u.update, u.size, len(octets)})
	}
	octets = append(octets, b.octets[begin:]...)
	b.octets, b.updates = octets, updates
}

// overtaken reports whether u only withdraws what was withdrawn ahead and not
// announced since.
func (s *session) overtaken(u *update) bool {
	for _, p := range u.announced {
		delete(s.ahead, p)
	}
	if len(u.announced) > 0 || len(u.withdrawn) == 0 {
		return false
	}
	for _, p := range u.withdrawn {
		if _, ok := s.ahead[p]; !ok {
			return false
		}
	}
	for _, p := range u.withdrawn {
		delete(s.ahead, p)
	}
	return true
}

// withdrawal makes one UPDATE of as many of a family's prefixes as fit, and
// returns those: WITHDRAWN ROUTES for IPv4 (RFC 4271 §4.3), MP_UNREACH_NLRI for
// IPv6 (RFC 4760 §4).
func withdrawal(family string, prefixes []netip.Prefix) (m []byte, in []netip.Prefix) {
	const frame = 4 + 4 + 3 // both lengths, the attribute's head, AFI and SAFI
	var nlri []byte
	for _, p := range prefixes {
		if familyOf(p.Addr()) != family {
			continue
		}
		size := (p.Bits() + 7) / 8
		if headerLen+frame+len(nlri)+1+size > maxMessage {
			break
		}
		nlri = append(append(nlri, byte(p.Bits())), p.Addr().AsSlice()[:size]...)
		in = append(in, p)
	}
	if family == familyIPv4 {
		body := binary.BigEndian.AppendUint16(nil, uint16(len(nlri)))
		return message(msgUpdate, append(append(body, nlri...), 0, 0)), in
	}
	attr := []byte{0x90, attrMPUnreach} // optional, extended length
	attr = binary.BigEndian.AppendUint16(attr, uint16(3+len(nlri)))
	attr = append(append(attr, 0, 2, 1), nlri...) // IPv6 unicast
	body := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attr)))
	return message(msgUpdate, append(body, attr...)), in
}
