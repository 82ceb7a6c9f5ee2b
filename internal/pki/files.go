package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/steadycast/steadycast/internal/role"
)

// The files of an authority's directory and of a node's.
const (
	caCertFile  = "ca.crt"      // both: the authority's certificate; a node may have several in it, for a change of authority
	caKeyFile   = "ca.key"      // authority only
	revokedFile = "revoked.crl" // both, optional at a node: a revocation list that the authority signed (RFC 5280 §5)
	issuedDir   = "issued"      // authority only: a copy of every certificate, by serial
	certFile    = "node.crt"    // node: its certificate
	keyFile     = "node.key"    // node: its private key
	observeFile = "observe.key" // node: the private key it signs observations with
)

const (
	publicMode  fs.FileMode = 0o644
	privateMode fs.FileMode = 0o600
)

// maxFile bounds what is read: a list of some ten thousand revocations.
const maxFile = 1 << 20

const (
	pemCert    = "CERTIFICATE"
	pemKey     = "PRIVATE KEY"
	pemRevoked = "X509 CRL"
)

// readFile reads a file of at most maxFile. A private one that others may read
// is refused, because then it is not private.
func readFile(path string, private bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case private && st.Mode().Perm()&0o027 != 0:
		return nil, fmt.Errorf("%s has mode %#o: a private key that others may read or change; allowed: 0600 or 0640. Next: chmod 600 %s", path, st.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d octets", path, maxFile)
	}
	return b, err
}

// blocks are the PEM blocks of a file. Anything else in it, such as the rest of
// a file cut short, is an error: half a list must not pass for a whole one.
func blocks(path string, data []byte, kind string) ([]*pem.Block, error) {
	var out []*pem.Block
	for rest := data; len(bytes.TrimSpace(rest)) > 0; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, fmt.Errorf("%s is cut short or is not PEM; a block %q is expected", path, kind)
		}
		if b.Type != kind {
			return nil, fmt.Errorf("%s holds a block %q; %q is expected", path, clip(b.Type), kind)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is empty; a block %q is expected", path, kind)
	}
	return out, nil
}

func parseCerts(path string, data []byte) ([]*x509.Certificate, error) {
	bs, err := blocks(path, data, pemCert)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, b := range bs {
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		certs = append(certs, c)
	}
	return certs, nil
}

func readCerts(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path, false)
	if err != nil {
		return nil, err
	}
	return parseCerts(path, data)
}

// readKey reads a private key in PKCS #8 (RFC 5208). No error shows any of it.
func readKey(path string) (crypto.Signer, *pem.Block, error) {
	data, err := readFile(path, true)
	if err != nil {
		return nil, nil, err
	}
	bs, err := blocks(path, data, pemKey)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(bs[0].Bytes)
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok || len(bs) != 1 {
		return nil, nil, fmt.Errorf("%s is not one private key in PKCS #8", path)
	}
	return signer, bs[0], nil
}

func readECDSA(path string) (*ecdsa.PrivateKey, error) {
	key, _, err := readKey(path)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a key of another kind; ECDSA is expected", path)
	}
	return ec, nil
}

func readEd25519(path string) (ed25519.PrivateKey, *pem.Block, error) {
	key, block, err := readKey(path)
	if err != nil {
		return nil, nil, err
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s holds a key of another kind; Ed25519 is expected", path)
	}
	return ed, block, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: der})
}

func encodeKey(key crypto.Signer, headers map[string]string) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der, Headers: headers}), nil
}

// writeKey writes a private key that only its owner may read, and never over another.
func writeKey(path string, key crypto.Signer, headers map[string]string) error {
	if err := absent(path); err != nil {
		return err
	}
	data, err := encodeKey(key, headers)
	if err != nil {
		return err
	}
	// Take the temporary file's name over from no one: its mode would stay.
	if err := os.Remove(path + ".tmp"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return role.WriteFile(path, data, privateMode)
}

// absent refuses a path where something is.
func absent(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return fmt.Errorf("%s exists; it is not written over", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}
