package mesh

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A stream is a sequence of frames: four octets of length, big-endian, one of
// kind, and the content. The length counts kind and content.

type kind byte

const (
	// Both ways.
	kindNonce kind = 'N' // tick: a nonce of the sender's; on the way down also how much has arrived
	// Up, from the caller.
	kindHello  kind = 'H' // hello: once, first
	kindReport kind = 'O' // Signed
	kindRelay  kind = 'R' // name, Signed: for that reader
	kindTold   kind = 'K' // the reader's nonce in eight octets, and what a sibling tells
	// Down, to the caller.
	kindForward kind = 'F' // certificate, Signed: through this voter
	kindThird   kind = 'P' // third: another reader's nonce, asked for by a kindRelay
	kindNoRoute kind = 'X' // name: that reader has no link here
)

const (
	// frameHead is length and kind, in octets.
	frameHead = 4 + 1
	// maxFrame bounds a frame; whoever sends a larger one is cut off.
	maxFrame = 64 << 10
	// maxSigned leaves room for a certificate or a name beside a report.
	maxSigned = 56 << 10
	// maxName is a node's name, a slash, and a word.
	maxName = 128
)

type hello struct {
	// Name is the caller's as a reader: its node, or node/word where one node has several.
	Name string `json:"name"`
}

type tick struct {
	Nonce uint64 `json:"n"`
	// Got counts the reports that have arrived on this stream.
	Got uint64 `json:"got"`
}

type third struct {
	Name  string `json:"name"`
	Nonce uint64 `json:"n"`
}

// encode makes a frame of parts.
func encode(k kind, parts ...[]byte) []byte {
	n := 1
	for _, p := range parts {
		n += len(p)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+n), uint32(n))
	b = append(b, byte(k))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// carries reports whether an encoded frame brings a report, which the reader confirms.
func carries(frame []byte) bool {
	return len(frame) > 4 && (kind(frame[4]) == kindReport || kind(frame[4]) == kindRelay)
}

func encodeJSON(k kind, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own plain structs
	}
	return encode(k, b)
}

// encodeNamed puts a name, or anything of up to 64 KiB, before a report.
func encodeNamed(k kind, name []byte, s Signed) []byte {
	return encode(k, binary.BigEndian.AppendUint16(nil, uint16(len(name))), name, s)
}

var errNamed = errors.New("a frame is shorter than it says")

func decodeNamed(b []byte) (name []byte, s Signed, err error) {
	if len(b) < 2 {
		return nil, nil, errNamed
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < n {
		return nil, nil, errNamed
	}
	return b[:n], Signed(b[n:]), nil
}

// keepBuffer is the largest buffer that a link keeps between two frames: a voter has
// hundreds of links, and each has a long frame once in ten seconds.
const keepBuffer = 4 << 10

// readFrame reads one frame. buf is used and grown, but for long frames; what is
// returned is good until the next call with it.
func readFrame(r io.Reader, buf *[]byte) (kind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d octets; allowed: 1 to %d", n, maxFrame)
	}
	b := *buf
	if uint32(cap(b)) < n {
		if b = make([]byte, max(n, 1<<10)); n <= keepBuffer {
			*buf = b
		}
	}
	b = b[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, fmt.Errorf("a frame is cut short: %w", err)
	}
	return kind(b[0]), b[1:], nil
}
