package steadycast

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
)

// Role is what an operator may do; each includes the ones before it.
type Role uint8

const (
	// NoRole is the zero value and may do nothing.
	NoRole Role = iota
	// Viewer may look.
	Viewer
	// Mover may give orders: withdraw, drain, announce, freeze, approve and the like.
	Mover
	// Admin may also change the table and the operators.
	Admin
)

func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Mover:
		return "operator"
	case Admin:
		return "admin"
	default:
		return "none"
	}
}

// MarshalText writes the word of String.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads one of viewer, operator, admin.
func (r *Role) UnmarshalText(b []byte) error {
	return parseWord([]byte(clip(string(b))), r, "role", Viewer, Mover, Admin)
}

// Operator is a person whom the ledger knows: the public half of a key, and what
// it may do. Its text is one line, `steadycast-operator NAME ROLE KEY`.
type Operator struct {
	// Name is a lower-case letter, then up to 62 of a-z 0-9 _ -.
	Name string
	Role Role
	// Key is the public key (Ed25519, RFC 8032).
	Key [32]byte
}

const operatorWord = "steadycast-operator"

func (o Operator) String() string {
	return operatorWord + " " + o.Name + " " + o.Role.String() + " " + base64.RawStdEncoding.EncodeToString(o.Key[:])
}

// Check says what is wrong with the name or the role.
func (o Operator) Check() error {
	good := o.Name != "" && len(o.Name) <= 63 && 'a' <= o.Name[0] && o.Name[0] <= 'z'
	for _, c := range []byte(o.Name) {
		good = good && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	}
	switch {
	case !good:
		return fmt.Errorf("operator %q is not a name; allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -", clip(o.Name))
	case o.Role < Viewer || o.Role > Admin:
		return fmt.Errorf("operator %s has no role; allowed: viewer, operator, admin", o.Name)
	}
	return nil
}

// MarshalText writes the line of String.
func (o Operator) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads that line.
func (o *Operator) UnmarshalText(b []byte) error {
	f := strings.Fields(string(b))
	if len(f) != 4 || f[0] != operatorWord {
		return fmt.Errorf("%q is not an operator's public key; allowed: %s NAME ROLE KEY", clip(string(b)), operatorWord)
	}
	q := Operator{Name: f[1]}
	if err := q.Role.UnmarshalText([]byte(f[2])); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	key, err := base64.RawStdEncoding.DecodeString(f[3])
	if err != nil || len(key) != len(q.Key) {
		return fmt.Errorf("the public key of operator %s is not %d octets in base64", f[1], len(q.Key))
	}
	copy(q.Key[:], key)
	*o = q
	return nil
}

// The contexts of Ed25519ctx (RFC 8032 §5.1): what was signed for one use cannot
// be shown for another.
const (
	// ContextOrder is for orders and the like.
	ContextOrder = "steadycast order 1"
	// ContextTable is for tables, and for who may sign them.
	ContextTable = "steadycast table 1"
)

// Signed reports whether this operator signed message in a context. It says
// nothing of whether the role suffices. To verify takes no randomness and no
// clock, so every replica comes to the same.
func (o Operator) Signed(context string, message, signature []byte) bool {
	return o.Name != "" && ed25519.VerifyWithOptions(o.Key[:], message, signature, &ed25519.Options{Context: context}) == nil
}

// clip bounds what a stranger wrote, before it is repeated in an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
