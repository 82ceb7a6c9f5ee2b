package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/steadycast/steadycast"
)

// contextObservation is the context of Ed25519ctx (RFC 8032 §5.1) for what nodes
// saw; those for what people sign are the root package's.
const contextObservation = "steadycast observation 1"

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

// Pen is an operator's private key. It prints as its public half.
type Pen struct {
	steadycast.Operator
	key ed25519.PrivateKey
}

// NewPen makes the key of an operator and writes it to path, which must not exist.
func NewPen(path, name string, role steadycast.Role) (*Pen, error) {
	if err := (steadycast.Operator{Name: name, Role: role}).Check(); err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return newPen(name, role, key), writeKey(path, key, map[string]string{"Name": name, "Role": role.String()})
}

func newPen(name string, role steadycast.Role, key ed25519.PrivateKey) *Pen {
	pen := &Pen{steadycast.Operator{Name: name, Role: role}, key}
	copy(pen.Key[:], key.Public().(ed25519.PublicKey))
	return pen
}

// OpenPen reads what NewPen wrote. The role in it is what the operator was made
// for; the ledger holds what counts.
func OpenPen(path string) (*Pen, error) {
	key, block, err := readEd25519(path)
	if err != nil {
		return nil, err
	}
	pen := newPen(block.Headers["Name"], steadycast.NoRole, key)
	err = pen.Role.UnmarshalText([]byte(block.Headers["Role"]))
	if err == nil {
		err = pen.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not an operator's key: %w", path, err)
	}
	return pen, nil
}

// GoString hides the key from %#v too.
func (p *Pen) GoString() string { return p.String() }

// Sign signs message in a context, [steadycast.ContextOrder] or [steadycast.ContextTable].
func (p *Pen) Sign(context string, message []byte) []byte { return sign(p.key, context, message) }
