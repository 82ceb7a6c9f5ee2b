package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The kinds of BGP message (RFC 4271 §4.1, RFC 2918).
const (
	bgpOpen         = 1
	bgpUpdate       = 2
	bgpNotification = 3
	bgpKeepalive    = 4
	bgpRefresh      = 5
)

// Heard is one BGP message that reached a router, read from the wire.
type Heard struct {
	At   time.Time
	From netip.Addr
	Kind uint8
	// Announced and Withdrawn are an UPDATE's prefixes; both empty is End-of-RIB.
	Announced, Withdrawn []netip.Prefix
	// Path holds an UPDATE's attributes; its Prefix is not set.
	Path Path
	// Text is a NOTIFICATION's code and subcode.
	Text string
}

// change reports whether h is an UPDATE that says something: not End-of-RIB (RFC 4724 §2).
func (h Heard) change() bool {
	return h.Kind == bgpUpdate && len(h.Announced)+len(h.Withdrawn) > 0
}

func (h Heard) String() string {
	switch h.Kind {
	case bgpOpen:
		return fmt.Sprintf("OPEN from %s", h.From)
	case bgpNotification:
		return fmt.Sprintf("NOTIFICATION %s from %s", h.Text, h.From)
	case bgpKeepalive:
		return fmt.Sprintf("KEEPALIVE from %s", h.From)
	case bgpRefresh:
		return fmt.Sprintf("ROUTE-REFRESH from %s", h.From)
	case bgpUpdate:
		if !h.change() {
			return fmt.Sprintf("End-of-RIB from %s", h.From)
		}
	}
	var said []string
	for _, p := range h.Withdrawn {
		said = append(said, "withdraw "+p.String())
	}
	for _, p := range h.Announced {
		q := h.Path
		q.Prefix = p
		said = append(said, "announce "+q.String())
	}
	return fmt.Sprintf("UPDATE from %s: %s", h.From, strings.Join(said, "; "))
}

var errShort = errors.New("a field runs past the end of the message")

// reader takes fields off the front of a message; after the first field that
// is not there, all are zero and short is set.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.short, r.b = true, nil
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

// prefixes reads to the end of r (RFC 4271 §4.3, NLRI).
func (r *reader) prefixes(v6 bool) (out []netip.Prefix) {
	for len(r.b) > 0 {
		bits := int(r.u8())
		var a [16]byte
		size := 4
		if v6 {
			size = 16
		}
		if bits > size*8 {
			r.short = true
			return out
		}
		copy(a[:], r.take((bits+7)/8))
		addr, _ := netip.AddrFromSlice(a[:size])
		out = append(out, netip.PrefixFrom(addr, bits))
	}
	return out
}

// parseMessage reads the body of one message of a kind.
func parseMessage(kind uint8, body []byte) (Heard, error) {
	h := Heard{Kind: kind}
	r := reader{b: body}
	switch kind {
	case bgpNotification:
		h.Text = fmt.Sprintf("%d/%d", r.u8(), r.u8())
	case bgpUpdate:
		// RFC 4271 §4.3
		withdrawn := reader{b: r.take(int(r.u16()))}
		h.Withdrawn = withdrawn.prefixes(false)
		attributes := reader{b: r.take(int(r.u16()))}
		h.Announced = r.prefixes(false)
		for len(attributes.b) > 0 && !attributes.short {
			h.attribute(&attributes)
		}
		r.short = r.short || withdrawn.short || attributes.short
	}
	if r.short {
		return h, errShort
	}
	return h, nil
}

// attribute reads one path attribute; those that no scenario asks for are skipped.
func (h *Heard) attribute(r *reader) {
	flags, kind := r.u8(), r.u8()
	size := int(0)
	if flags&0x10 != 0 { // extended length
		size = int(r.u16())
	} else {
		size = int(r.u8())
	}
	v := reader{b: r.take(size)}
	switch kind {
	case 2: // AS_PATH
		h.Path.ASPath = asPath(v.b)
		v.b = nil
	case 3: // NEXT_HOP
		h.Path.NextHop, _ = netip.AddrFromSlice(v.take(4))
	case 4: // MULTI_EXIT_DISC
		n := v.u32()
		h.Path.MED = &n
	case 5: // LOCAL_PREF
		n := v.u32()
		h.Path.LocalPref = &n
	case 8: // COMMUNITIES, RFC 1997
		for len(v.b) > 0 {
			h.Path.Communities = append(h.Path.Communities, fmt.Sprintf("%d:%d", v.u16(), v.u16()))
		}
	case 32: // LARGE_COMMUNITY, RFC 8092
		for len(v.b) > 0 {
			h.Path.Communities = append(h.Path.Communities, fmt.Sprintf("%d:%d:%d", v.u32(), v.u32(), v.u32()))
		}
	case 14: // MP_REACH_NLRI, RFC 4760 §3
		v6 := v.u16() == 2
		v.u8()
		next := v.take(int(v.u8()))
		if len(next) == 32 { // a global address, then a link-local one (RFC 2545 §3)
			next = next[:16]
		}
		h.Path.NextHop, _ = netip.AddrFromSlice(next)
		v.u8()
		h.Announced = append(h.Announced, v.prefixes(v6)...)
	case 15: // MP_UNREACH_NLRI
		v6 := v.u16() == 2
		v.u8()
		h.Withdrawn = append(h.Withdrawn, v.prefixes(v6)...)
	}
	r.short = r.short || v.short
}

// asPath reads an AS_PATH with numbers of four octets (RFC 6793), or of two
// where only that fits its lengths.
func asPath(b []byte) string {
	for _, width := range []int{4, 2} {
		r := reader{b: b}
		var out []string
		for len(r.b) > 0 {
			kind, n := r.u8(), int(r.u8())
			var segment []string
			for range n {
				if width == 4 {
					segment = append(segment, fmt.Sprint(r.u32()))
				} else {
					segment = append(segment, fmt.Sprint(r.u16()))
				}
			}
			text := strings.Join(segment, " ")
			if kind != 2 { // an AS_SET has no order
				text = "{" + text + "}"
			}
			out = append(out, text)
		}
		if !r.short {
			return strings.Join(out, " ")
		}
	}
	return "?"
}
