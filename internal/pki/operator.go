package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
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
	// Operator may give orders: withdraw, drain, announce, freeze, approve.
	Operator
	// Admin may also change the table, the voters and the operators.
	Admin
)

func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
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
	for _, x := range []Role{Viewer, Operator, Admin} {
		if x.String() == string(b) {
			*r = x
			return nil
		}
	}
	return fmt.Errorf("%q is not a role; allowed: viewer, operator, admin", clip(string(b)))
}

// The contexts of Ed25519ctx (RFC 8032 §5.1): what is signed for one use cannot
// be shown for another.
const (
	contextObservation = "steadycast observation 1"
	// ContextOrder is for orders and the like: whatever becomes a ledger entry
	// by a person's wish.
	ContextOrder = "steadycast order 1"
	// ContextTable is for tables.
	ContextTable = "steadycast table 1"
)

func sign(key ed25519.PrivateKey, context string, message []byte) []byte {
	sig, err := key.Sign(nil, message, &ed25519.Options{Context: context})
	if err != nil {
		panic(err) // only a context of more than 255 octets, or a hash, can fail
	}
	return sig
}

var errSignature = errors.New("the signature does not fit")

func verify(key ed25519.PublicKey, context string, message, signature []byte) error {
	if len(key) != ed25519.PublicKeySize || ed25519.VerifyWithOptions(key, message, signature, &ed25519.Options{Context: context}) != nil {
		return errSignature
	}
	return nil
}

// Person is the public half of an operator's key: what the ledger trusts. Its
// text is one line, `steadycast-operator NAME ROLE KEY`.
type Person struct {
	Name string
	Role Role
	Key  ed25519.PublicKey
}

const personWord = "steadycast-operator"

func (p Person) String() string {
	return personWord + " " + p.Name + " " + p.Role.String() + " " + base64.RawStdEncoding.EncodeToString(p.Key)
}

// MarshalText writes the line of String.
func (p Person) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads that line.
func (p *Person) UnmarshalText(b []byte) error {
	f := strings.Fields(string(b))
	if len(f) != 4 || f[0] != personWord {
		return fmt.Errorf("%q is not an operator's public key; allowed: %s NAME ROLE KEY", clip(string(b)), personWord)
	}
	var q Person
	if err := checkName("operator", f[1]); err != nil {
		return err
	}
	if err := q.Role.UnmarshalText([]byte(f[2])); err != nil {
		return err
	}
	key, err := base64.RawStdEncoding.DecodeString(f[3])
	if err != nil || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("the public key of operator %s is not %d octets in base64", f[1], ed25519.PublicKeySize)
	}
	q.Name, q.Key = f[1], key
	*p = q
	return nil
}

// Verify reports whether this operator signed message in this context. It says
// nothing of whether the role suffices.
func (p Person) Verify(context string, message, signature []byte) error {
	if err := verify(p.Key, context, message, signature); err != nil {
		return fmt.Errorf("operator %s: %w", p.Name, err)
	}
	return nil
}

// Pen is an operator's private key. It prints as its public half.
type Pen struct {
	Person
	key ed25519.PrivateKey
}

// NewPen makes the key of an operator and writes it to path, which must not exist.
func NewPen(path, name string, role Role) (*Pen, error) {
	if err := checkName("operator", name); err != nil {
		return nil, err
	}
	if role < Viewer || role > Admin {
		return nil, errors.New("an operator needs a role; allowed: viewer, operator, admin")
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	pen := &Pen{Person{name, role, public}, key}
	return pen, writeKey(path, key, map[string]string{"Name": name, "Role": role.String()})
}

// OpenPen reads what NewPen wrote. The role in it is what the operator was made
// for; the ledger holds what counts.
func OpenPen(path string) (*Pen, error) {
	key, block, err := readEd25519(path)
	if err != nil {
		return nil, err
	}
	pen := &Pen{Person{Name: block.Headers["Name"], Key: key.Public().(ed25519.PublicKey)}, key}
	if err := checkName("operator", pen.Name); err != nil {
		return nil, fmt.Errorf("%s is not an operator's key: %w", path, err)
	}
	if err := pen.Role.UnmarshalText([]byte(block.Headers["Role"])); err != nil {
		return nil, fmt.Errorf("%s is not an operator's key: %w", path, err)
	}
	return pen, nil
}

// GoString hides the key from %#v too.
func (p *Pen) GoString() string { return p.String() }

// Sign signs message in a context, one of the constants of this package.
func (p *Pen) Sign(context string, message []byte) []byte { return sign(p.key, context, message) }
