package lab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func message(kind byte, body ...byte) []byte {
	head := bytes.Repeat([]byte{0xff}, 16)
	head = binary.BigEndian.AppendUint16(head, uint16(19+len(body)))
	return append(append(head, kind), body...)
}

// However TCP cuts, repeats, overlaps and reorders a connection, the messages
// that come out are those that went in, once each and in order.
func TestStreamIsWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []string
		var wire []byte
		for range rapid.IntRange(1, 12).Draw(t, "messages") {
			body := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "body")
			kind := rapid.ByteRange(1, 5).Draw(t, "kind")
			sent = append(sent, fmt.Sprint(kind, body))
			wire = append(wire, message(kind, body...)...)
		}
		first := rapid.Uint32().Draw(t, "first sequence number") // also where it wraps
		var segments []segment
		for at := 0; at < len(wire); {
			n := rapid.IntRange(1, min(len(wire)-at, 50)).Draw(t, "size")
			back := rapid.IntRange(0, min(at, 20)).Draw(t, "overlap")
			segments = append(segments, segment{seq: first + 1 + uint32(at-back), data: wire[at-back : at+n]})
			at += n
		}
		for range rapid.IntRange(0, 5).Draw(t, "repeats") {
			segments = append(segments, segments[rapid.IntRange(0, len(segments)-1).Draw(t, "which")])
		}
		segments = rapid.Permutation(segments).Draw(t, "order")

		var s stream
		var got []string
		hear := func(kind uint8, body []byte) { got = append(got, fmt.Sprint(kind, slices.Clone(body))) }
		s.add(segment{syn: true, seq: first}, hear)
		for _, g := range segments {
			s.add(g, hear)
		}
		if !slices.Equal(got, sent) || s.broken != nil {
			t.Fatalf("got %v (%v), want %v", got, s.broken, sent)
		}
	})
}

// What cannot be a whole count says so instead of counting.
func TestStreamSaysWhatItMissed(t *testing.T) {
	ignore := func(uint8, []byte) {}
	var s stream
	s.add(segment{syn: true, seq: 9}, ignore)
	s.add(segment{seq: 10, data: []byte("this is no BGP message")}, ignore)
	if s.broken == nil {
		t.Error("took a stream that is not BGP")
	}
	s = stream{}
	s.add(segment{syn: true, seq: 9}, ignore)
	for i := range uint32(earlyBound + 1) {
		s.add(segment{seq: 1000 + i*19, data: message(4)}, ignore)
	}
	if s.broken == nil {
		t.Error("waits for ever for a byte that was lost")
	}
}

func TestParseUpdate(t *testing.T) {
	attributes := []byte{
		0x40, 1, 1, 0, // ORIGIN
		0x40, 2, 10, 2, 2, 0, 0, 0xfd, 0xf2, 0, 1, 0, 1, // AS_PATH 65010 65537
		0x40, 3, 4, 10, 1, 0, 2,
		0x80, 4, 4, 0, 0, 0, 7,
		0xc0, 8, 8, 0xff, 0xff, 0, 0, 0xfd, 0xf2, 0, 100,
		0xd0, 32, 0, 12, 0, 0, 0xfd, 0xf2, 0, 0, 0, 1, 0, 0, 0, 2, // extended length
		0x80, 14, 38, 0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0,
		128, 0x20, 1, 0xd, 0xb8, 0, 0x53, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x53,
	}
	body := []byte{0, 4, 24, 203, 0, 113} // withdrawn
	body = binary.BigEndian.AppendUint16(body, uint16(len(attributes)))
	body = append(append(body, attributes...), 32, 192, 0, 2, 53)
	h, err := parseMessage(bgpUpdate, body)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(h.Withdrawn, h.Announced, h.Path.ASPath, *h.Path.MED, h.Path.Communities, h.Path.NextHop)
	want := "[203.0.113.0/24] [192.0.2.53/32 2001:db8:53::53/128] 65010 65537 7 [65535:0 65010:100 65010:1:2] 2001:db8:1::2\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for n := range body {
		// A message cut anywhere is an error or a smaller one, and never a panic.
		_, _ = parseMessage(bgpUpdate, body[:n])
	}
	if _, err := parseMessage(bgpUpdate, body[:20]); err == nil {
		t.Error("took half a message")
	}
	for _, eor := range [][]byte{{0, 0, 0, 0}, {0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1}} {
		if h, err := parseMessage(bgpUpdate, eor); err != nil || h.change() {
			t.Errorf("% x: End-of-RIB is taken for a change (%v)", eor, err)
		}
	}
	if got := asPath([]byte{2, 2, 0xfd, 0xf2, 0, 9}); got != "65010 9" {
		t.Errorf("two-octet path: %q", got)
	}
}

// packet makes an IP packet with one TCP segment.
func packet(v6 bool, hops byte, options, data []byte) []byte {
	for len(options)%4 != 0 {
		options = append(options, 1)
	}
	tcp := []byte{0x9c, 0x40, 0, 179, 0, 0, 0, 5, 0, 0, 0, 0, byte(20+len(options)) / 4 << 4, 0x18, 0, 0, 0, 0, 0, 0}
	tcp = append(append(tcp, options...), data...)
	if v6 {
		ip := make([]byte, 40)
		ip[0], ip[6], ip[7] = 0x60, 6, hops
		binary.BigEndian.PutUint16(ip[4:], uint16(len(tcp)))
		copy(ip[8:], netip.MustParseAddr("2001:db8:1::2").AsSlice())
		copy(ip[24:], netip.MustParseAddr("2001:db8:1::1").AsSlice())
		return append(ip, tcp...)
	}
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, hops, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(tcp)))
	copy(ip[12:], []byte{10, 1, 0, 2, 10, 1, 0, 1})
	return append(ip, tcp...)
}

// A segment without a signature, or from further away, is seen as such.
func TestGuardedSegments(t *testing.T) {
	md5 := append([]byte{2, 4, 5, 180, 19, 18}, make([]byte, 16)...)
	for _, c := range []struct {
		v6       bool
		hops     byte
		options  []byte
		unsigned int
		routed   int
	}{
		{false, 255, md5, 0, 0},
		{true, 255, md5, 0, 0},
		{false, 254, md5, 0, 1},
		{true, 64, md5, 0, 1},
		{false, 255, []byte{2, 4, 5, 180}, 1, 0},
		{true, 255, nil, 1, 0},
	} {
		w := &capture{streams: map[[2]netip.AddrPort]*stream{}}
		w.take(append(packet(c.v6, c.hops, c.options, nil), 0, 0)) // with link padding
		if w.segments != 1 || w.unsigned != c.unsigned || w.routed != c.routed {
			t.Errorf("%+v: got %d, %d, %d", c, w.segments, w.unsigned, w.routed)
		}
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(packet(false, 255, nil, message(4)))
	f.Add(packet(true, 255, []byte{19, 18}, message(2, 0, 0, 0, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &capture{streams: map[[2]netip.AddrPort]*stream{}}
		w.take(b)
		_, _ = parseMessage(bgpUpdate, b)
		_ = hasOption(b, 19)
	})
}
