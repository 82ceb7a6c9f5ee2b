package bgp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

func newInbound() *inbound {
	return &inbound{asn: 65000, localASN: 65001, id: netip.MustParseAddr("192.0.2.1"), families: []string{familyIPv4, familyIPv6}}
}

// goodOpen is an OPEN as a router of today writes it, with capabilities that
// nobody here asked for.
func goodOpen() []byte {
	m := packet.NewBGPOpenMessage(65000, 90, "192.0.2.254", []packet.OptionParameterInterface{packet.NewOptionParameterCapability([]packet.ParameterCapabilityInterface{
		packet.NewCapMultiProtocol(packet.RF_IPv4_UC), packet.NewCapMultiProtocol(packet.RF_EVPN), packet.NewCapRouteRefresh(),
		packet.NewCapFourOctetASNumber(65000), packet.NewCapFQDN("tor1", "example.net"),
		packet.NewCapAddPath([]*packet.CapAddPathTuple{packet.NewCapAddPathTuple(packet.RF_IPv4_UC, packet.BGP_ADD_PATH_BOTH)}),
		packet.NewCapGracefulRestart(false, true, 120, nil),
	})})
	b, err := m.Serialize()
	if err != nil {
		panic(err)
	}
	return b
}

// edit returns b with one octet changed.
func edit(b []byte, at int, to ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], to)
	return b
}

func TestInboundFaults(t *testing.T) {
	eor := endOfRIB(familyIPv4)
	open, up := []byte("o"), []byte("ok")
	for _, c := range []struct {
		name      string
		before    []byte // o: its OPEN came; k: its KEEPALIVE came
		m         []byte
		code, sub byte
		data      []byte
		text      string
	}{
		{"version 3", nil, edit(goodOpen(), 19, 3), 2, 1, []byte{0, 4}, "speaks BGP version 3"},
		{"another AS", nil, func() []byte { o := openMessage{asn: 65009, hold: 9e9, id: home}; return o.bytes() }(), 2, 2, nil, "the router says it is AS 65009; asn here is 65000"},
		{"hold time 0", nil, edit(goodOpen(), 22, 0, 0), 2, 6, nil, "hold time of 0s"},
		{"hold time 2", nil, edit(goodOpen(), 22, 0, 2), 2, 6, nil, "hold time of 2s"},
		{"no identifier", nil, edit(goodOpen(), 24, 0, 0, 0, 0), 2, 3, nil, "0.0.0.0"},
		{"OPEN cut short", nil, message(msgOpen, goodOpen()[19:25]), 2, 0, nil, "ends in the middle"},
		{"OPEN with a lie about its length", nil, edit(goodOpen(), 28, 1), 2, 0, nil, "ends in the middle"},
		{"parameter that is no capability", nil, edit(goodOpen(), 29, 1), 2, 4, nil, "optional parameter 1"},
		{"KEEPALIVE first", nil, keepalive, 5, 1, nil, "a KEEPALIVE before its OPEN"},
		{"UPDATE first", nil, eor, 5, 1, nil, "an UPDATE before its OPEN"},
		{"UPDATE before KEEPALIVE", open, eor, 5, 2, nil, "an UPDATE between its OPEN and its first KEEPALIVE"},
		{"second OPEN", up, goodOpen(), 5, 3, nil, "an OPEN in an established session"},
		{"KEEPALIVE with a body", up, message(msgKeepalive, []byte{1}), 1, 2, []byte{0, 20}, "KEEPALIVE is 20 octets"},
		{"type 0", up, message(0, nil), 1, 3, []byte{0}, "unknown type 0"},
		{"type 9", up, message(9, nil), 1, 3, []byte{9}, "unknown type 9"},
		{"type 9 first of all", nil, message(9, nil), 1, 3, []byte{9}, "unknown type 9"},
		{"shutdown with a reason", up, notification(codeCease, subShutdown, shutdownText("maintenance")), 0, 0, nil, `administrative shutdown (6/2): "maintenance"`},
		{"shutdown with a lie about its length", up, notification(codeCease, subShutdown, []byte{200, 'h', 'i'}), 0, 0, nil, `(6/2): "hi"`},
		{"NOTIFICATION of 0 octets", up, message(msgNotification, nil), 0, 0, nil, "says nothing"},
		{"NOTIFICATION of no known code", up, notification(99, 99, nil), 0, 0, nil, "error (99/99)"},
	} {
		in := newInbound()
		now := time.Now()
		for _, s := range c.before {
			m := goodOpen()
			if s == 'k' {
				m = keepalive
			}
			if _, _, f := in.check(m, now); f != nil {
				t.Fatal(f)
			}
		}
		pass, _, f := in.check(c.m, now)
		if f == nil || pass != nil || f.Code != c.code || f.Sub != c.sub || !bytes.Equal(f.Data, c.data) || !strings.Contains(f.Text, c.text) {
			t.Errorf("%s: passed %v, fault %+v", c.name, pass, f)
		}
	}
}

// GoBGP reads an OPEN of ours, with nothing in it that is not needed.
func TestInboundOpenIsRewritten(t *testing.T) {
	in := newInbound()
	pass, _, f := in.check(goodOpen(), time.Now())
	if f != nil {
		t.Fatal(f)
	}
	m, err := packet.ParseBGPMessage(pass)
	if err != nil {
		t.Fatal(err)
	}
	o := m.Body.(*packet.BGPOpen)
	var codes []int
	for _, p := range o.OptParams {
		for _, c := range p.(*packet.OptionParameterCapability).Capability {
			codes = append(codes, int(c.Code()))
		}
	}
	if o.MyAS != 65000 || o.HoldTime != 90 || o.ID.String() != "192.0.2.254" || !slices.Equal(codes, []int{1, 2, 65}) {
		t.Errorf("%+v, capabilities %v", o, codes)
	}
	if got := in.negotiated(); !slices.Equal(got, []string{familyIPv4}) {
		t.Errorf("negotiated %v", got)
	}
	// The long form of RFC 9072 says the same.
	short := goodOpen()[headerLen:]
	long := append(bytes.Clone(short[:9]), 255, 255)
	params := append([]byte{2}, binary.BigEndian.AppendUint16(nil, uint16(len(short)-12))...)
	params = append(params, short[12:]...)
	long = binary.BigEndian.AppendUint16(long, uint16(len(params)))
	again, _, f := newInbound().check(message(msgOpen, append(long, params...)), time.Now())
	if f != nil || !bytes.Equal(again, pass) {
		t.Errorf("RFC 9072: %v, %v", again, f)
	}
	// No capability at all is plain IPv4 (RFC 4760 §8).
	bare := openMessage{asn: 65000, hold: 9e9, id: home}
	in = newInbound()
	if _, _, f := in.check(bare.bytes(), time.Now()); f != nil || !slices.Equal(in.negotiated(), []string{familyIPv4}) || in.peer.fourOctet {
		t.Errorf("bare OPEN: %+v, %v", in.peer, f)
	}
}

func established2(t testing.TB, now time.Time) *inbound {
	in := newInbound()
	for _, m := range [][]byte{goodOpen(), keepalive} {
		if _, _, f := in.check(m, now); f != nil {
			t.Fatal(f)
		}
	}
	return in
}

// While a router sends its table it may send nothing else; GoBGP's hold timer
// must not run out meanwhile (RFC 4271 §6.5: an UPDATE feeds it too).
func TestUpdatesFeedTheHoldTimer(t *testing.T) {
	now := time.Unix(1000, 0)
	in := established2(t, now)
	u := message(msgUpdate, []byte{0, 0, 0, 0, 24, 192, 0, 2})
	fed := 0
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		pass, _, f := in.check(u, now)
		if f != nil {
			t.Fatal(f)
		}
		if pass != nil {
			fed++
			if !bytes.Equal(pass, keepalive) {
				t.Fatalf("passed %v", pass)
			}
		}
	}
	if fed != 10 || in.updates != 100 {
		t.Errorf("%d KEEPALIVEs in 10 s of UPDATEs, %d counted", fed, in.updates)
	}
	for _, f := range []string{familyIPv4, familyIPv6} {
		want := endOfRIB(f)
		if f == familyIPv6 { // not negotiated: an UPDATE like any other
			want = nil
		}
		if pass, _, _ := in.check(endOfRIB(f), now); !bytes.Equal(pass, want) {
			t.Errorf("End-of-RIB of %s: passed %v", f, pass)
		}
	}
}

func TestMalformedIsCounted(t *testing.T) {
	attr := func(kind byte, v ...byte) []byte {
		a := append([]byte{0x40, kind, byte(len(v))}, v...)
		return append([]byte{0, 0, 0, byte(len(a))}, a...)
	}
	for name, body := range map[string][]byte{
		"empty":                           nil,
		"withdrawn longer than it":        {0, 9, 0, 0},
		"attributes longer than it":       {0, 0, 0, 9},
		"half an attribute":               {0, 0, 0, 2, 0x40, 1},
		"half an extended attribute":      {0, 0, 0, 3, 0x50, 1, 0},
		"attribute longer than the rest":  {0, 0, 0, 3, 0x40, 1, 7},
		"ORIGIN of 0 octets":              attr(attrOrigin),
		"NEXT_HOP of 3 octets":            attr(attrNextHop, 1, 2, 3),
		"MED of 5 octets":                 attr(attrMED, 1, 2, 3, 4, 5),
		"MP_REACH_NLRI of 3 octets":       attr(attrMPReach, 0, 1, 1),
		"MP_UNREACH_NLRI of 2 octets":     attr(attrMPUnreach, 0, 1),
		"communities of 3 octets":         attr(attrCommunities, 1, 2, 3),
		"large communities of 11 octets":  attr(attrLargeCommunities, make([]byte, 11)...),
		"Prefix-SID that ends too early":  attr(40, 5, 0, 9, 1),
		"Prefix-SID of 2 octets":          attr(40, 5, 0),
		"ROUTE-REFRESH of the wrong size": nil,
	} {
		now := time.Now()
		in := established2(t, now)
		m := message(msgUpdate, body)
		if strings.HasPrefix(name, "ROUTE") {
			m = message(msgRouteRefresh, []byte{0, 1, 0})
		}
		pass, _, f := in.check(m, now)
		if f != nil || pass != nil || in.malformed != 1 || in.wrong == "" {
			t.Errorf("%s: passed %v, fault %v, counted %d %q", name, pass, f, in.malformed, in.wrong)
		}
	}
}

func TestRefreshIsHeldBack(t *testing.T) {
	now := time.Unix(1000, 0)
	in := established2(t, now)
	rr := func(afi, sub, safi byte) []byte { return message(msgRouteRefresh, []byte{0, afi, sub, safi}) }
	for _, c := range []struct {
		after time.Duration
		m     []byte
		pass  bool
		wait  time.Duration
	}{
		{0, rr(1, 0, 1), true, 0},
		{0, rr(1, 0, 1), true, time.Second},                      // once the gap is over
		{0, rr(1, 0, 1), false, 0},                               // the same request
		{500 * time.Millisecond, rr(1, 0, 1), false, 0},          // still waiting
		{500 * time.Millisecond, rr(1, 0, 1), true, time.Second}, // that one has just gone out
		{5 * time.Second, rr(1, 0, 1), true, 0},
		{0, rr(2, 0, 1), false, 0},  // not negotiated
		{0, rr(1, 1, 1), false, 0},  // RFC 7313 was not offered
		{0, rr(1, 0, 4), false, 0},  // another SAFI
		{0, rr(25, 0, 1), false, 0}, // another AFI
	} {
		now = now.Add(c.after)
		pass, wait, f := in.check(c.m, now)
		if f != nil || (pass != nil) != c.pass || wait != c.wait {
			t.Errorf("%v at %s: passed %v after %s, %v", c.m[headerLen:], now.Sub(time.Unix(1000, 0)), pass, wait, f)
		}
	}
}

func TestFramer(t *testing.T) {
	f := newFramer(bytes.NewReader(slices.Concat(keepalive, goodOpen(), keepalive)))
	for _, kind := range []byte{msgKeepalive, msgOpen, msgKeepalive} {
		m, err := f.next()
		if err != nil || m[18] != kind {
			t.Fatalf("%v %v", m, err)
		}
		if more := f.more(); more != (f.r.Buffered() > f.last) {
			t.Errorf("more: %v", more)
		}
	}
	if _, err := f.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	for name, b := range map[string][]byte{
		"no marker":   append([]byte("SSH-2.0-OpenSSH_9.2"), make([]byte, 40)...),
		"length 18":   edit(keepalive, 16, 0, 18),
		"length 4097": append(edit(keepalive, 16, 0x10, 0x01), make([]byte, 5000)...),
	} {
		if _, err := newFramer(bytes.NewReader(b)).next(); faultOf(err).Code != codeHeader {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newFramer(bytes.NewReader(goodOpen()[:30])).next(); err == nil {
		t.Error("half a message was a message")
	}
}

// Whatever a router sends, nothing is passed that GoBGP cannot read, nothing of
// an UPDATE is passed, and nothing panics.
func FuzzInbound(f *testing.F) {
	seeds := [][]byte{goodOpen(), keepalive, endOfRIB(familyIPv4), endOfRIB(familyIPv6), notification(6, 2, shutdownText("x")), message(msgRouteRefresh, []byte{0, 1, 0, 1})}
	for _, k := range killers {
		seeds = append(seeds, k)
	}
	for _, s := range seeds {
		f.Add(s, uint8(0))
		f.Add(slices.Concat(keepalive, s), uint8(1))
		f.Add(slices.Concat(s, s), uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, state uint8) {
		now := time.Unix(1000, 0)
		in := newInbound()
		for _, m := range [][]byte{goodOpen(), keepalive}[:state%3] {
			if _, _, fault := in.check(m, now); fault != nil {
				t.Fatal(fault)
			}
		}
		fr := newFramer(bytes.NewReader(stream))
		for {
			m, err := fr.next()
			if err != nil {
				return
			}
			now = now.Add(300 * time.Millisecond)
			pass, _, fault := in.check(m, now)
			if fault != nil {
				if pass != nil {
					t.Fatal("a fault and something passed")
				}
				if strings.HasPrefix(fault.Text, "reading the router's message failed") {
					t.Fatal(fault)
				}
				return
			}
			if pass == nil {
				continue
			}
			p, err := packet.ParseBGPMessage(pass)
			if err != nil {
				t.Fatalf("GoBGP cannot read what was passed: %v", err)
			}
			if u, ok := p.Body.(*packet.BGPUpdate); ok {
				if eor, _ := u.IsEndOfRib(); !eor {
					t.Fatalf("an UPDATE was passed: %v", pass)
				}
			}
		}
	})
}
