package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// State is the state of one end of a session (RFC 5880 §4.1).
type State uint8

// The states, by their numbers on the wire.
const (
	AdminDown State = iota // held down by a person or a program
	Down                   // nothing is heard, or the other end hears nothing
	Init                   // the other end is heard, and does not hear this one yet
	Up                     // each hears the other
)

func (s State) String() string {
	return [...]string{"admin-down", "down", "init", "up"}[s&3]
}

// Diag is why a session last left Up (RFC 5880 §4.1).
type Diag uint8

// The reasons that this package gives or knows by name.
const (
	NoDiag       Diag = 0
	TimeExpired  Diag = 1 // control detection time expired
	NeighborDown Diag = 3 // the neighbour signalled session down
	AdminReason  Diag = 7 // administratively down
)

var diagWords = [...]string{
	"none", "detection time expired", "echo failed", "neighbour signalled down", "forwarding plane reset",
	"path down", "concatenated path down", "administratively down", "reverse concatenated path down",
}

func (d Diag) String() string {
	if int(d) < len(diagWords) {
		return diagWords[d]
	}
	return fmt.Sprintf("reason %d", d)
}

// Packet is a BFD control packet without authentication (RFC 5880 §4.1).
type Packet struct {
	Diag   Diag
	State  State
	Poll   bool
	Final  bool
	Demand bool
	// Independent is bit C: the sender's BFD does not share its control plane's fate.
	Independent bool
	// Multiplier times its interval is how long the sender may be silent; never 0.
	Multiplier uint8
	// Mine names the session at the sender, never 0; Yours at the receiver, 0
	// while the sender does not know.
	Mine, Yours uint32
	// MinTx is the least interval at which the sender would like to send; MinRx
	// that at which it can receive, 0 if it wants nothing; MinEcho the same for
	// Echo. In microseconds on the wire.
	MinTx, MinRx, MinEcho time.Duration
}

const (
	version   = 1
	packetLen = 24

	bitPoll, bitFinal, bitIndependent = 1 << 5, 1 << 4, 1 << 3
	bitAuth, bitDemand, bitMultipoint = 1 << 2, 1 << 1, 1 << 0
)

// Why a packet is not one; RFC 5880 §6.8.6, in its order.
var (
	errShort      = errors.New("bfd: shorter than a control packet")
	errVersion    = errors.New("bfd: not version 1")
	errLength     = errors.New("bfd: its length does not fit")
	errMultiplier = errors.New("bfd: detect multiplier 0")
	errMultipoint = errors.New("bfd: the multipoint bit is set")
	errMine       = errors.New("bfd: its own discriminator is 0")
	errYours      = errors.New("bfd: without our discriminator, and neither down nor admin-down")
	errAuth       = errors.New("bfd: authenticated, which this session is not")
	errPollFinal  = errors.New("bfd: both poll and final")
)

// Parse reads a control packet by every rule of RFC 5880 §6.8.6 that needs no
// session; a packet that breaks one MUST be discarded.
func Parse(b []byte) (Packet, error) {
	switch {
	case len(b) < packetLen:
		return Packet{}, errShort
	case b[0]>>5 != version:
		return Packet{}, errVersion
	case int(b[3]) < packetLen || int(b[3]) > len(b):
		return Packet{}, errLength
	}
	flags := b[1] & 0x3F
	p := Packet{
		Diag: Diag(b[0] & 0x1F), State: State(b[1] >> 6),
		Poll: flags&bitPoll != 0, Final: flags&bitFinal != 0, Demand: flags&bitDemand != 0, Independent: flags&bitIndependent != 0,
		Multiplier: b[2],
		Mine:       binary.BigEndian.Uint32(b[4:]), Yours: binary.BigEndian.Uint32(b[8:]),
		MinTx: micros(b[12:]), MinRx: micros(b[16:]), MinEcho: micros(b[20:]),
	}
	switch {
	case p.Multiplier == 0:
		return Packet{}, errMultiplier
	case flags&bitMultipoint != 0:
		return Packet{}, errMultipoint
	case p.Mine == 0:
		return Packet{}, errMine
	case p.Yours == 0 && p.State != Down && p.State != AdminDown:
		return Packet{}, errYours
	case flags&bitAuth != 0:
		return Packet{}, errAuth
	case p.Poll && p.Final: // §6.5: never both
		return Packet{}, errPollFinal
	}
	return p, nil
}

// Append writes p to b. Intervals are whole microseconds of at most 71 minutes.
func (p Packet) Append(b []byte) []byte {
	flags := byte(p.State)<<6 | flag(p.Poll, bitPoll) | flag(p.Final, bitFinal) | flag(p.Independent, bitIndependent) | flag(p.Demand, bitDemand)
	b = append(b, version<<5|byte(p.Diag)&0x1F, flags, p.Multiplier, packetLen)
	for _, v := range []uint32{p.Mine, p.Yours, inMicros(p.MinTx), inMicros(p.MinRx), inMicros(p.MinEcho)} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func micros(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Microsecond
}

func inMicros(d time.Duration) uint32 { return uint32(d / time.Microsecond) }
