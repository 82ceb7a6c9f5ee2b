package bgp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Message types (RFC 4271 §4.1, RFC 2918 §3).
const (
	msgOpen         = 1
	msgUpdate       = 2
	msgNotification = 3
	msgKeepalive    = 4
	msgRouteRefresh = 5
)

const (
	headerLen  = 19
	maxMessage = 4096 // RFC 4271 §4.1; RFC 8654 is never offered
)

// NOTIFICATION codes this package sends itself (RFC 4271 §4.5, RFC 9687 §3).
const (
	codeHeader    = 1
	codeOpen      = 2
	codeUpdate    = 3
	codeHold      = 4
	codeFSM       = 5
	codeCease     = 6
	codeSendHold  = 8
	subShutdown   = 2  // of Cease: Administrative Shutdown
	subReset      = 4  // of Cease: Administrative Reset
	subDeconfig   = 3  // of Cease: Peer De-configured
	subBFDDown    = 10 // of Cease: BFD Down (RFC 9384)
	maxReasonText = 255
)

// fault is a reason to end a session. If Code is not 0 the router is told by a
// NOTIFICATION before the connection is closed.
type fault struct {
	Code, Sub byte
	Data      []byte
	Text      string
	told      bool // the router has had its NOTIFICATION
}

func (f *fault) Error() string { return f.Text }

func faultf(code, sub byte, data []byte, format string, args ...any) *fault {
	return &fault{Code: code, Sub: sub, Data: bytes.Clone(data), Text: fmt.Sprintf(format, args...)}
}

// message builds one BGP message.
func message(kind byte, body []byte) []byte {
	b := make([]byte, headerLen, headerLen+len(body))
	for i := range 16 {
		b[i] = 0xff
	}
	binary.BigEndian.PutUint16(b[16:], uint16(headerLen+len(body)))
	b[18] = kind
	return append(b, body...)
}

func notification(code, sub byte, data []byte) []byte {
	return message(msgNotification, append([]byte{code, sub}, data...))
}

var keepalive = message(msgKeepalive, nil)

// endOfRIB is the marker of RFC 4724 §2 for one family.
func endOfRIB(family string) []byte {
	if family == familyIPv4 {
		return message(msgUpdate, []byte{0, 0, 0, 0})
	}
	return message(msgUpdate, []byte{0, 0, 0, 6, 0x80, attrMPUnreach, 3, 0, 2, 1})
}

// shutdownText is the data of Cease with a reason (RFC 9003 §2): one length
// octet, then at most 255 octets of UTF-8, cut between characters.
func shutdownText(reason string) []byte {
	reason = strings.ToValidUTF8(reason, "?")
	for len(reason) > maxReasonText {
		_, n := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-n]
	}
	return append([]byte{byte(len(reason))}, reason...)
}

// framer cuts a byte stream into messages. What it returns is valid until the
// next call.
type framer struct {
	r    *bufio.Reader
	last int
}

func newFramer(r io.Reader) *framer { return &framer{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns one whole message with its header, or a *fault for a stream no
// longer worth reading (RFC 4271 §6.1).
func (f *framer) next() ([]byte, error) {
	f.r.Discard(f.last)
	f.last = 0
	h, err := f.r.Peek(headerLen)
	if err != nil {
		return nil, err
	}
	for _, b := range h[:16] {
		if b != 0xff {
			return nil, faultf(codeHeader, 1, nil, "the stream is not BGP: a message does not begin with the marker")
		}
	}
	n := int(binary.BigEndian.Uint16(h[16:]))
	if n < headerLen || n > maxMessage {
		return nil, faultf(codeHeader, 2, h[16:18:18], "a message claims a length of %d, outside %d…%d", n, headerLen, maxMessage)
	}
	m, err := f.r.Peek(n)
	if err != nil {
		return nil, err
	}
	f.last = n
	return m, nil
}

// more reports whether a whole message can be had without waiting.
func (f *framer) more() bool {
	n := f.r.Buffered() - f.last
	if n < headerLen {
		return false
	}
	b, _ := f.r.Peek(f.last + headerLen)
	return n >= int(binary.BigEndian.Uint16(b[f.last+16:]))
}

// openMessage is what the two OPENs of a session say, as far as this package
// cares.
type openMessage struct {
	asn          uint32
	hold         time.Duration
	id           netip.Addr
	families     []string
	fourOctet    bool
	refresh      bool
	extendedHops bool // RFC 8950: IPv4 with an IPv6 next hop
}

// readOpen parses an OPEN (RFC 4271 §4.2) with its capabilities (RFC 5492),
// also in the long form of RFC 9072. An unknown capability is not an error.
func readOpen(body []byte) (openMessage, *fault) {
	short := func() (openMessage, *fault) {
		return openMessage{}, faultf(codeOpen, 0, nil, "the router's OPEN ends in the middle")
	}
	var o openMessage
	if len(body) < 10 {
		return short()
	}
	if body[0] != 4 {
		return o, faultf(codeOpen, 1, []byte{0, 4}, "the router speaks BGP version %d, not 4", body[0])
	}
	o.asn = uint32(binary.BigEndian.Uint16(body[1:]))
	o.hold = time.Duration(binary.BigEndian.Uint16(body[3:])) * time.Second
	o.id = netip.AddrFrom4([4]byte(body[5:9]))
	params, long := body[10:], false
	if body[9] == 255 && len(params) >= 3 && params[0] == 255 {
		if int(binary.BigEndian.Uint16(params[1:])) != len(params)-3 {
			return short()
		}
		params, long = params[3:], true
	} else if int(body[9]) != len(params) {
		return short()
	}
	var multiprotocol bool
	for len(params) > 0 {
		kind, n, skip := params[0], 0, 2
		switch {
		case long && len(params) >= 3:
			n, skip = int(binary.BigEndian.Uint16(params[1:])), 3
		case !long && len(params) >= 2:
			n = int(params[1])
		default:
			return short()
		}
		if len(params) < skip+n {
			return short()
		}
		if kind != 2 {
			return o, faultf(codeOpen, 4, nil, "the router's OPEN has the optional parameter %d, which is not known", kind)
		}
		caps := params[skip : skip+n]
		params = params[skip+n:]
		for len(caps) > 0 {
			if len(caps) < 2 || len(caps) < 2+int(caps[1]) {
				return short()
			}
			v := caps[2 : 2+int(caps[1])]
			multiprotocol = o.capability(caps[0], v) || multiprotocol
			caps = caps[2+len(v):]
		}
	}
	if !multiprotocol {
		// RFC 4760 §8: without the capability it is plain IPv4.
		o.families = []string{familyIPv4}
	}
	return o, nil
}

// capability takes in one capability and reports whether it named a family.
func (o *openMessage) capability(code byte, v []byte) bool {
	switch code {
	case 1: // Multiprotocol (RFC 4760)
		if len(v) != 4 {
			return false
		}
		if f := familyName(binary.BigEndian.Uint16(v), v[3]); f != "" && !o.carries(f) {
			o.families = append(o.families, f)
		}
		return true
	case 2: // Route Refresh (RFC 2918)
		o.refresh = true
	case 5: // Extended Next Hop (RFC 8950)
		for ; len(v) >= 6; v = v[6:] {
			if [6]byte(v) == [6]byte{0, 1, 0, 1, 0, 2} {
				o.extendedHops = true
			}
		}
	case 65: // Four-octet AS numbers (RFC 6793)
		if len(v) == 4 {
			o.fourOctet, o.asn = true, binary.BigEndian.Uint32(v)
		}
	}
	return false
}

func (o *openMessage) carries(family string) bool { return slices.Contains(o.families, family) }

// bytes writes the OPEN again with nothing but what was understood. This, and
// not what the router wrote, is what GoBGP reads.
func (o *openMessage) bytes() []byte {
	var caps []byte
	for _, f := range []string{familyIPv4, familyIPv6} {
		if o.carries(f) {
			caps = append(caps, 1, 4, 0, byte(1+indexOf(f)), 0, 1)
		}
	}
	if o.refresh {
		caps = append(caps, 2, 0)
	}
	if o.extendedHops {
		caps = append(caps, 5, 6, 0, 1, 0, 1, 0, 2)
	}
	as2 := o.asn
	if o.fourOctet {
		caps = append(caps, 65, 4)
		caps = binary.BigEndian.AppendUint32(caps, o.asn)
		if o.asn > 0xffff {
			as2 = 23456 // AS_TRANS (RFC 6793 §4.2.2)
		}
	}
	id := o.id.As4()
	b := []byte{4}
	b = binary.BigEndian.AppendUint16(b, uint16(as2))
	b = binary.BigEndian.AppendUint16(b, uint16(o.hold/time.Second))
	b = append(b, id[:]...)
	if len(caps) == 0 {
		return message(msgOpen, append(b, 0))
	}
	b = append(b, byte(2+len(caps)), 2, byte(len(caps)))
	return message(msgOpen, append(b, caps...))
}

// familyName names an AFI and SAFI this package carries, or "".
func familyName(afi uint16, safi byte) string {
	switch {
	case safi != 1:
		return ""
	case afi == 1:
		return familyIPv4
	case afi == 2:
		return familyIPv6
	default:
		return ""
	}
}

func indexOf(family string) int {
	if family == familyIPv4 {
		return 0
	}
	return 1
}
