package bgp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/steadycast/steadycast"
)

// Path attribute types (RFC 4271 §5, 1997, 4760, 6793, 8092).
const (
	attrOrigin           = 1
	attrASPath           = 2
	attrNextHop          = 3
	attrMED              = 4
	attrLocalPref        = 5
	attrCommunities      = 8
	attrMPReach          = 14
	attrMPUnreach        = 15
	attrAS4Path          = 17
	attrLargeCommunities = 32
)

var errShortUpdate = errors.New("it ends in the middle")

// update is one UPDATE, taken apart. All announced prefixes share Attributes.
type update struct {
	withdrawn  []netip.Prefix
	announced  []netip.Prefix
	attributes steadycast.Attributes
	// nextHops by family: an UPDATE may carry both (NEXT_HOP and MP_REACH_NLRI).
	nextHop4, nextHop6 netip.Addr
	// linkLocal is the second next hop of RFC 2545 §3, if any.
	linkLocal netip.Addr
}

// readUpdate takes the body of an UPDATE apart. It is a second reader beside
// GoBGP's writer, so that what counts as sent is what the octets say.
// fourOctet says how wide AS numbers are in AS_PATH (RFC 6793 §4.1).
func readUpdate(b []byte, fourOctet bool) (*update, error) {
	u := &update{}
	withdrawn, b, ok := sized(b)
	if !ok {
		return nil, errShortUpdate
	}
	attrs, nlri, ok := sized(b)
	if !ok {
		return nil, errShortUpdate
	}
	var err error
	if u.withdrawn, err = readPrefixes(u.withdrawn, withdrawn, familyIPv4); err != nil {
		return nil, err
	}
	for len(attrs) > 0 {
		if attrs, err = u.attribute(attrs, fourOctet); err != nil {
			return nil, err
		}
	}
	if len(nlri) > 0 && !u.nextHop4.IsValid() {
		return nil, errors.New("it announces IPv4 prefixes without a next hop")
	}
	u.announced, err = readPrefixes(u.announced, nlri, familyIPv4)
	return u, err
}

// sized cuts off a part led by its length in two octets.
func sized(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
		return nil, nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:n:n], b[n:], true
}

// attribute takes in the first attribute of b and returns the rest.
func (u *update) attribute(b []byte, fourOctet bool) ([]byte, error) {
	if len(b) < 3 {
		return nil, errShortUpdate
	}
	size, skip := int(b[2]), 3
	if b[0]&0x10 != 0 { // extended length
		if len(b) < 4 {
			return nil, errShortUpdate
		}
		size, skip = int(binary.BigEndian.Uint16(b[2:])), 4
	}
	if len(b) < skip+size {
		return nil, errShortUpdate
	}
	v, rest := b[skip:skip+size], b[skip+size:]
	if why := attributeShape(b[1], v); why != "" {
		return nil, errors.New(why)
	}
	a := &u.attributes
	var err error
	switch b[1] {
	case attrASPath:
		a.ASPath, err = readPath(v, fourOctet)
	case attrAS4Path:
		// RFC 6793 §4.2.3: our own UPDATEs carry the whole path in it.
		a.ASPath, err = readPath(v, true)
	case attrNextHop:
		u.nextHop4 = netip.AddrFrom4([4]byte(v))
	case attrMED:
		a.MED = new(binary.BigEndian.Uint32(v))
	case attrLocalPref:
		a.LocalPref = new(binary.BigEndian.Uint32(v))
	case attrCommunities:
		for ; len(v) > 0; v = v[4:] {
			a.Communities = append(a.Communities, steadycast.Community(binary.BigEndian.Uint32(v)))
		}
	case attrLargeCommunities:
		for ; len(v) > 0; v = v[12:] {
			a.LargeCommunities = append(a.LargeCommunities, steadycast.LargeCommunity{
				Global: binary.BigEndian.Uint32(v), Data1: binary.BigEndian.Uint32(v[4:]), Data2: binary.BigEndian.Uint32(v[8:])})
		}
	case attrMPReach:
		err = u.reach(v)
	case attrMPUnreach:
		f := familyName(binary.BigEndian.Uint16(v), v[2])
		if f == "" {
			return nil, fmt.Errorf("it withdraws from the family %d/%d", binary.BigEndian.Uint16(v), v[2])
		}
		u.withdrawn, err = readPrefixes(u.withdrawn, v[3:], f)
	}
	return rest, err
}

// reach reads MP_REACH_NLRI (RFC 4760 §3, RFC 2545 §3, RFC 8950 §3).
func (u *update) reach(v []byte) error {
	f, n := familyName(binary.BigEndian.Uint16(v), v[2]), int(v[3])
	if f == "" || len(v) < 5+n {
		return errors.New("its MP_REACH_NLRI is of another family or too short")
	}
	hop := v[4 : 4+n]
	var first netip.Addr
	switch n {
	case 4:
		first = netip.AddrFrom4([4]byte(hop))
	case 32:
		u.linkLocal = netip.AddrFrom16([16]byte(hop[16:]))
		fallthrough
	case 16:
		first = netip.AddrFrom16([16]byte(hop))
	default:
		return fmt.Errorf("its next hop is %d octets long", n)
	}
	if f == familyIPv4 {
		u.nextHop4 = first
	} else {
		u.nextHop6 = first
	}
	var err error
	u.announced, err = readPrefixes(u.announced, v[5+n:], f)
	return err
}

// attributesOf returns the attributes as they hold for p.
func (u *update) attributesOf(p netip.Prefix) steadycast.Attributes {
	a := u.attributes
	a.NextHop = u.nextHop6
	if p.Addr().Is4() {
		a.NextHop = u.nextHop4
	}
	return a
}

// readPath flattens an AS_PATH; a set (RFC 4271 §4.3) never leaves here.
func readPath(v []byte, fourOctet bool) ([]uint32, error) {
	width := 2
	if fourOctet {
		width = 4
	}
	path := []uint32{}
	for len(v) > 0 {
		if len(v) < 2 || len(v) < 2+width*int(v[1]) {
			return nil, errors.New("its AS path ends in the middle")
		}
		n := int(v[1])
		for v = v[2:]; n > 0; n, v = n-1, v[width:] {
			if fourOctet {
				path = append(path, binary.BigEndian.Uint32(v))
			} else {
				path = append(path, uint32(binary.BigEndian.Uint16(v)))
			}
		}
	}
	return path, nil
}

// readPrefixes appends the prefixes of one NLRI field (RFC 4271 §4.3).
func readPrefixes(to []netip.Prefix, b []byte, family string) ([]netip.Prefix, error) {
	most := 32
	if family == familyIPv6 {
		most = 128
	}
	for len(b) > 0 {
		bits := int(b[0])
		n := (bits + 7) / 8
		if bits > most || len(b) < 1+n {
			return nil, fmt.Errorf("it has an %s prefix of length %d that does not fit", family, bits)
		}
		var raw [16]byte
		copy(raw[:], b[1:1+n])
		a := netip.AddrFrom16(raw)
		if family == familyIPv4 {
			a = netip.AddrFrom4([4]byte(raw[:4]))
		}
		p := netip.PrefixFrom(a, bits)
		if p != p.Masked() {
			return nil, fmt.Errorf("it has the prefix %s with bits set beyond its length", p)
		}
		to = append(to, p)
		b = b[1+n:]
	}
	return to, nil
}
