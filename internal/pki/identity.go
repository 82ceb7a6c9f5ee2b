package pki

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const scheme = "steadycast"

// The shape of the names of fleets, sites, nodes and operators: the same as in
// the configuration.
var nameShape = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

const nameRule = "allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -"

func checkName(what, name string) error {
	if !nameShape.MatchString(name) {
		return fmt.Errorf("%s %q is not a name; %s", what, clip(name), nameRule)
	}
	return nil
}

// clip bounds what a stranger wrote, before it is repeated in an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Identity names one node of one site of one fleet.
type Identity struct {
	Fleet string `json:"fleet"`
	Site  string `json:"site"`
	Node  string `json:"node"`
}

func (id Identity) String() string { return scheme + "://" + id.Fleet + "/" + id.Site + "/" + id.Node }

// Check says what is wrong with the names.
func (id Identity) Check() error {
	for _, n := range []struct{ what, name string }{{"fleet", id.Fleet}, {"site", id.Site}, {"node", id.Node}} {
		if err := checkName(n.what, n.name); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether id is one of those that want names; an empty field of
// want is every name.
func (id Identity) matches(want Identity) bool {
	return (want.Fleet == "" || want.Fleet == id.Fleet) && (want.Site == "" || want.Site == id.Site) && (want.Node == "" || want.Node == id.Node)
}

// uris are the subject alternative names of a node's certificate.
func (id Identity) uris(observe ed25519.PublicKey) []*url.URL {
	path := "/" + id.Site + "/" + id.Node
	return []*url.URL{
		{Scheme: scheme, Host: id.Fleet, Path: path},
		{Scheme: scheme, Host: id.Fleet, Path: path + "/observe/" + hex.EncodeToString(observe)},
	}
}

// Peer is whom a certificate is about, read from a chain that was verified.
type Peer struct {
	Identity
	// Observe is the key that the node signs its observations with.
	Observe ed25519.PublicKey
	// Expires is the end of the certificate.
	Expires time.Time
	// Serial is the certificate's number in hex, as a revocation list has it.
	Serial string
}

// peerOf reads who a certificate is about. It judges nothing else.
func peerOf(cert *x509.Certificate) (Peer, error) {
	p := Peer{Expires: cert.NotAfter, Serial: serial(cert)}
	var bound string // the identity that the observation key is bound to
	for _, u := range cert.URIs {
		if u.Scheme != scheme {
			continue
		}
		part := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
		switch id := (Identity{Fleet: u.Host, Site: part[0]}); {
		case len(part) == 2 && p.Node == "":
			id.Node = part[1]
			if err := id.Check(); err != nil {
				return Peer{}, fmt.Errorf("the certificate names %s: %w", clip(u.String()), err)
			}
			p.Identity = id
		case len(part) == 4 && part[2] == "observe" && p.Observe == nil:
			key, err := hex.DecodeString(part[3])
			if err != nil || len(key) != ed25519.PublicKeySize {
				return Peer{}, fmt.Errorf("the certificate names %s, whose key is not %d octets in hex", clip(u.String()), ed25519.PublicKeySize)
			}
			id.Node = part[1]
			p.Observe, bound = key, id.String()
		default:
			return Peer{}, fmt.Errorf("the certificate names %s; allowed: one %s://FLEET/SITE/NODE and one …/observe/KEY", clip(u.String()), scheme)
		}
	}
	switch {
	case p.Node == "":
		return Peer{}, fmt.Errorf("the certificate names no node: it has no URI %s://FLEET/SITE/NODE", scheme)
	case p.Observe == nil:
		return Peer{}, fmt.Errorf("the certificate of %s has no observation key: the URI %s/observe/KEY is missing", p.Identity, p.Identity)
	case bound != p.String():
		return Peer{}, fmt.Errorf("the certificate of %s binds the observation key of %s", p.Identity, clip(bound))
	}
	return p, nil
}

// String is the identity.
func (p Peer) String() string { return p.Identity.String() }

func serial(cert *x509.Certificate) string { return fmt.Sprintf("%x", cert.SerialNumber) }
