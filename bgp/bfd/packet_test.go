package bfd

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"
)

// wellFormed is a packet as another implementation sends it while up.
var wellFormed = Packet{
	State: Up, Independent: true, Multiplier: 3, Mine: 0x11223344, Yours: 0x55667788,
	MinTx: 300 * time.Millisecond, MinRx: 300 * time.Millisecond, MinEcho: 50 * time.Millisecond,
}

func TestPacketOctets(t *testing.T) {
	const want = "20c80318" + "11223344" + "55667788" + "000493e0" + "000493e0" + "0000c350"
	b := wellFormed.Append(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if p, err := Parse(b); err != nil || p != wellFormed {
		t.Fatalf("read back: %+v, %v", p, err)
	}
}

// Every sentence of RFC 5880 §6.8.6 that says "MUST be discarded" and needs no session.
func TestParseDiscards(t *testing.T) {
	change := func(f func(b []byte) []byte) []byte { return f(wellFormed.Append(nil)) }
	set := func(i int, v byte) []byte { return change(func(b []byte) []byte { b[i] = v; return b }) }
	tests := map[string]struct {
		b    []byte
		want error
	}{
		"empty":                          {nil, errShort},
		"one octet short":                {wellFormed.Append(nil)[:23], errShort},
		"version 0":                      {set(0, 0<<5), errVersion},
		"version 2":                      {set(0, 2<<5), errVersion},
		"length under 24":                {set(3, 23), errLength},
		"length over the datagram":       {set(3, 25), errLength},
		"multiplier 0":                   {set(2, 0), errMultiplier},
		"multipoint":                     {set(1, 0xC1), errMultipoint},
		"my discriminator 0":             {change(func(b []byte) []byte { clear(b[4:8]); return b }), errMine},
		"your discriminator 0 when up":   {change(func(b []byte) []byte { clear(b[8:12]); return b }), errYours},
		"your discriminator 0 when init": {change(func(b []byte) []byte { clear(b[8:12]); b[1] = 2 << 6; return b }), errYours},
		"authenticated":                  {set(1, 0xC4), errAuth},
		"poll and final":                 {set(1, 0xF0), errPollFinal},
	}
	for name, x := range tests {
		if _, err := Parse(x.b); err != x.want {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
	for _, ok := range []State{Down, AdminDown} {
		if _, err := Parse(Packet{State: ok, Multiplier: 1, Mine: 1}.Append(nil)); err != nil {
			t.Errorf("your discriminator 0 when %s: %v", ok, err)
		}
	}
	if p, err := Parse(append(wellFormed.Append(nil), 1, 2, 3)); err != nil || p != wellFormed {
		t.Errorf("octets after the packet: %+v, %v", p, err)
	}
}

// FuzzParse: whatever comes, nothing but a packet within bounds is let in, and
// what is let in means the same when it is written again.
func FuzzParse(f *testing.F) {
	f.Add(wellFormed.Append(nil))
	f.Add(Packet{State: Down, Multiplier: 1, Mine: 1, Poll: true, Demand: true}.Append(nil))
	f.Add([]byte{0x20, 0xC4, 3, 24})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		if p.Mine == 0 || p.Multiplier == 0 || p.MinTx < 0 || p.MinRx < 0 || p.Poll && p.Final {
			t.Fatalf("%x was let in as %+v", b, p)
		}
		q, err := Parse(p.Append(nil))
		if err != nil || p != q {
			t.Fatalf("%+v written and read: %+v, %v", p, q, err)
		}
		if again := q.Append(nil); !bytes.Equal(again[4:], b[4:packetLen]) {
			t.Fatalf("%x written again: %x", b, again)
		}
	})
}
