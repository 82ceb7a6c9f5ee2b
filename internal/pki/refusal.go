package pki

import (
	"errors"
	"fmt"
)

// ErrUnknown is wrapped where nothing of that name exists.
var ErrUnknown = errors.New("no such node or serial")

// Reason is why a peer was refused; a closed set, fit for a counter's label.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	NoCertificate    Reason = "no_certificate"
	NoIdentity       Reason = "no_identity"       // no usable URI in it
	UnknownAuthority Reason = "unknown_authority" // no authority of ours signed it
	WrongFleet       Reason = "wrong_fleet"
	Revoked          Reason = "revoked"
	Expired          Reason = "expired"
	NotYetValid      Reason = "not_yet_valid"
	Unfit            Reason = "unfit"          // not for this use, or broken in another way
	WrongPeer        Reason = "wrong_peer"     // another node than the one that was called
	WrongProtocol    Reason = "wrong_protocol" // the ALPN names another protocol or fleet
)

// Reasons are all of them, for a counter that starts at zero.
var Reasons = []Reason{NoCertificate, NoIdentity, UnknownAuthority, WrongFleet, Revoked, Expired, NotYetValid, Unfit, WrongPeer, WrongProtocol}

// Refusal is the error of a peer that is not let in.
type Refusal struct {
	Reason Reason
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

func refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}
