package bgp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// inbound decides what of a router's messages GoBGP may read. GoBGP can be
// killed by what a configured router sends, and its panic cannot be recovered
// from outside, so nothing a router wrote reaches it: what passes is written
// anew here, from what was understood. It is pure: time is an argument. The
// pump that reads from the router owns it.
//
// An UPDATE is never passed. Nothing is needed from a router, and a wrong one
// is a router's mistake that must not become our outage: dropping it is
// treat-as-withdraw of a route that was never taken (RFC 7606 §2).
type inbound struct {
	asn      uint32     // the router's, as configured
	localASN uint32     // ours towards it
	id       netip.Addr // ours
	families []string   // ours

	peer        openMessage
	opened      bool // its OPEN was accepted
	established bool // its first KEEPALIVE came after that
	fed         time.Time

	refreshed [2]time.Time // last ROUTE-REFRESH passed, per family

	updates, malformed uint64
	wrong              string // what the newest malformed one was
}

// refreshGap is the least time between two ROUTE-REFRESHes of one family: each
// makes GoBGP queue the whole table again.
const refreshGap = time.Second

// check returns what GoBGP reads in place of m (nil for nothing). If wait is
// not 0 it is to be passed only after that long. A fault ends the session.
func (c *inbound) check(m []byte, now time.Time) (pass []byte, wait time.Duration, f *fault) {
	defer func() {
		if r := recover(); r != nil {
			pass, wait, f = nil, 0, faultf(codeCease, 8, nil, "reading the router's message failed: %v", r)
		}
	}()
	body := m[headerLen:]
	switch kind := m[18]; {
	case kind < msgOpen || kind > msgRouteRefresh:
		// RFC 4271 §6.1. GoBGP dies of this one.
		return nil, 0, faultf(codeHeader, 3, []byte{kind}, "the router sent a message of unknown type %d", kind)
	case kind == msgNotification:
		return nil, 0, heard(body)
	case kind == msgOpen && !c.opened:
		return c.open(body)
	case kind == msgKeepalive && len(body) != 0:
		return nil, 0, faultf(codeHeader, 2, m[16:18:18], "the router's KEEPALIVE is %d octets long, not %d", len(m), headerLen)
	case kind == msgKeepalive && c.opened:
		c.established = true
		c.fed = now
		return keepalive, 0, nil
	case kind == msgUpdate && c.established:
		return c.update(body, now), 0, nil
	case kind == msgRouteRefresh && c.established:
		pass, wait = c.refresh(body, now)
		return pass, wait, nil
	default:
		// RFC 6608 §3: unexpected message in OpenSent, OpenConfirm, Established.
		sub, state := byte(1), "before its OPEN"
		if c.opened {
			sub, state = 2, "between its OPEN and its first KEEPALIVE"
		}
		if c.established {
			sub, state = 3, "in an established session"
		}
		return nil, 0, faultf(codeFSM, sub, nil, "the router sent %s %s", kindName(m[18]), state)
	}
}

// open checks the router's OPEN (RFC 4271 §6.2).
func (c *inbound) open(body []byte) ([]byte, time.Duration, *fault) {
	o, f := readOpen(body)
	switch {
	case f != nil:
		return nil, 0, f
	case o.asn != c.asn:
		return nil, 0, faultf(codeOpen, 2, nil, "the router says it is AS %d; asn here is %d", o.asn, c.asn)
	case o.id.IsUnspecified() || (o.id == c.id && c.asn == c.localASN):
		return nil, 0, faultf(codeOpen, 3, nil, "the router's BGP identifier %s is not usable: it must be set and, within one AS, differ from ours (RFC 6286)", o.id)
	case o.hold < 3*time.Second:
		// Zero would mean no keepalives at all, and makes GoBGP fail every write.
		return nil, 0, faultf(codeOpen, 6, nil, "the router proposes a hold time of %s; at least 3s is needed", o.hold)
	}
	c.peer, c.opened = o, true
	return o.bytes(), 0, nil
}

// negotiated returns the families both sides named.
func (c *inbound) negotiated() []string {
	var out []string
	for _, f := range c.families {
		if c.peer.carries(f) {
			out = append(out, f)
		}
	}
	return out
}

func (c *inbound) carries(family string) bool {
	return c.peer.carries(family) && slices.Contains(c.families, family)
}

// update counts an UPDATE and passes nothing of it. End-of-RIB goes on. The
// hold timer is fed by UPDATEs too (RFC 4271 §6.5), and GoBGP keeps it: while
// a router sends its table it may send no KEEPALIVE, so one is put in.
func (c *inbound) update(body []byte, now time.Time) []byte {
	for i, f := range []string{familyIPv4, familyIPv6} {
		if eor := endOfRIBs[i][headerLen:]; bytes.Equal(body, eor) && c.carries(f) {
			return endOfRIBs[i]
		}
	}
	c.updates++
	if why := updateShape(body); why != "" {
		c.malformed++
		c.wrong = why
	}
	if now.Sub(c.fed) < time.Second {
		return nil
	}
	c.fed = now
	return keepalive
}

var endOfRIBs = [2][]byte{endOfRIB(familyIPv4), endOfRIB(familyIPv6)}

// refresh passes a ROUTE-REFRESH (RFC 2918) for a family in use, not more often
// than refreshGap: what comes sooner is passed when the gap is over, and what
// comes while one is waiting is the same request.
func (c *inbound) refresh(body []byte, now time.Time) ([]byte, time.Duration) {
	if len(body) != 4 {
		c.malformed++
		c.wrong = fmt.Sprintf("a ROUTE-REFRESH of %d octets", len(body))
		return nil, 0
	}
	f := familyName(binary.BigEndian.Uint16(body), body[3])
	if f == "" || !c.carries(f) || body[2] != 0 { // RFC 7313 subtypes are not negotiated
		return nil, 0
	}
	last := &c.refreshed[indexOf(f)]
	if last.After(now) {
		return nil, 0
	}
	wait := max(0, refreshGap-now.Sub(*last))
	*last = now.Add(wait)
	return message(msgRouteRefresh, []byte{0, byte(1 + indexOf(f)), 0, 1}), wait
}

// heard turns the router's NOTIFICATION into the reason of the session's end.
// It is not passed on: GoBGP's session is closed instead.
func heard(body []byte) *fault {
	if len(body) < 2 {
		return &fault{Text: "the router closed the session with a NOTIFICATION that says nothing"}
	}
	text := "the router closed the session: " + codeName(body[0], body[1])
	if data := body[2:]; body[0] == codeCease && len(data) > 1 && (body[1] == subShutdown || body[1] == subReset) {
		if n := min(int(data[0]), len(data)-1); n > 0 {
			text += fmt.Sprintf(": %q", strings.ToValidUTF8(string(data[1:1+n]), "?"))
		}
	}
	return &fault{Text: text}
}

// updateShape says what is wrong with the frame of an UPDATE, or "". It walks
// lengths only; the contents do not matter, since nothing is kept.
func updateShape(b []byte) string {
	if len(b) < 4 {
		return "an UPDATE that ends in the middle"
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 4+n {
		return "an UPDATE with more withdrawn routes than octets"
	}
	b = b[2+n:]
	n = int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return "an UPDATE with more attributes than octets"
	}
	for a := b[2 : 2+n]; len(a) > 0; {
		if len(a) < 3 {
			return "an UPDATE with half an attribute"
		}
		size, skip := int(a[2]), 3
		if a[0]&0x10 != 0 {
			if len(a) < 4 {
				return "an UPDATE with half an attribute"
			}
			size, skip = int(binary.BigEndian.Uint16(a[2:])), 4
		}
		if len(a) < skip+size {
			return "an UPDATE with an attribute longer than the rest"
		}
		if why := attributeShape(a[1], a[skip:skip+size]); why != "" {
			return why
		}
		a = a[skip+size:]
	}
	return ""
}

// attributeShape checks the few attributes whose bad lengths are known to kill
// BGP speakers, so that such a router is counted and named.
func attributeShape(kind byte, v []byte) string {
	switch {
	case kind == attrOrigin && len(v) != 1,
		kind == attrNextHop && len(v) != 4,
		(kind == attrMED || kind == attrLocalPref) && len(v) != 4,
		kind == attrCommunities && len(v)%4 != 0,
		kind == attrLargeCommunities && len(v)%12 != 0,
		kind == attrMPReach && len(v) < 5,
		kind == attrMPUnreach && len(v) < 3:
		return fmt.Sprintf("an UPDATE whose attribute %d is %d octets long", kind, len(v))
	case kind == 40: // Prefix-SID (RFC 8669): TLVs of one type and two length octets
		for len(v) > 0 {
			if len(v) < 3 || len(v) < 3+int(binary.BigEndian.Uint16(v[1:])) {
				return "an UPDATE whose Prefix-SID attribute ends in the middle"
			}
			v = v[3+int(binary.BigEndian.Uint16(v[1:])):]
		}
	}
	return ""
}

func kindName(k byte) string {
	return [...]string{"a message", "an OPEN", "an UPDATE", "a NOTIFICATION", "a KEEPALIVE", "a ROUTE-REFRESH"}[k]
}

// codeName says a NOTIFICATION in words (RFC 4271 §4.5, RFC 4486, 6608, 8538, 9384, 9687).
func codeName(code, sub byte) string {
	names := map[[2]byte]string{
		{1, 1}: "connection not synchronised", {1, 2}: "bad message length", {1, 3}: "bad message type",
		{2, 1}: "unsupported version", {2, 2}: "bad peer AS", {2, 3}: "bad BGP identifier", {2, 4}: "unsupported optional parameter",
		{2, 5}: "authentication failure", {2, 6}: "unacceptable hold time", {2, 7}: "unsupported capability",
		{3, 1}: "malformed attribute list", {3, 3}: "missing well-known attribute", {3, 5}: "attribute length error",
		{3, 6}: "invalid ORIGIN", {3, 8}: "invalid NEXT_HOP", {3, 10}: "invalid network field", {3, 11}: "malformed AS_PATH",
		{6, 1}: "maximum number of prefixes reached", {6, 2}: "administrative shutdown", {6, 3}: "peer de-configured",
		{6, 4}: "administrative reset", {6, 5}: "connection rejected", {6, 6}: "other configuration change",
		{6, 7}: "connection collision", {6, 8}: "out of resources", {6, 9}: "hard reset", {6, 10}: "BFD down",
	}
	kinds := [...]string{"", "message header error", "OPEN error", "UPDATE error", "hold timer expired", "state machine error", "cease", "ROUTE-REFRESH error", "send hold timer expired"}
	kind := "error"
	if int(code) < len(kinds) && code > 0 {
		kind = kinds[code]
	}
	if n, ok := names[[2]byte{code, sub}]; ok {
		return fmt.Sprintf("%s (%d/%d)", n, code, sub)
	}
	return fmt.Sprintf("%s (%d/%d)", kind, code, sub)
}
