package dnsfallback

import (
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/dchest/siphash"
)

// Secret signs server cookies (RFC 9018 §4.4).
type Secret [16]byte

// Secrets are those of a fleet: every node takes what any of them signed. The
// first signs. To change it without a refused cookie, one is put on all nodes
// as the second, then as the first, and the old one goes when its cookies are
// over an hour old (RFC 9018 §5).
type Secrets []Secret

// maxSecrets are enough for the three stages of a roll, and bound what a forged cookie costs.
const maxSecrets = 4

// LoadSecrets reads a file that all nodes of the fleet have: 32 hexadecimal digits
// on a line for each secret, the one that signs first; what follows a # is for
// people. No part of a secret is in any error.
func LoadSecrets(file string) (Secrets, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (%v); chmod 600 %[1]s", file, info.Mode().Perm())
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out Secrets
	n := 0
	for line := range strings.Lines(string(src)) {
		n++
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(Secret{}) {
			return nil, fmt.Errorf("%s:%d: is not 32 hexadecimal digits, as openssl rand -hex 16 gives them", file, n)
		}
		s := Secret(b)
		switch {
		case s == Secret{}:
			return nil, fmt.Errorf("%s:%d: is all zeros, which is no secret", file, n)
		case slices.Contains(out, s):
			return nil, fmt.Errorf("%s:%d: stands before already", file, n)
		case len(out) == maxSecrets:
			return nil, fmt.Errorf("%s:%d: is one more than %d secrets; take those away whose cookies are over an hour old", file, n, maxSecrets)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: holds no secret", file)
	}
	return out, nil
}

const (
	clientCookieLen = 8
	serverCookieLen = 16
	cookieVersion   = 1

	// RFC 9018 §4.3, in seconds: no older than an hour, no further ahead than five
	// minutes, and renewed after half an hour.
	cookieOld, cookieAhead, cookieRenew = 3600, 300, 1800
)

// cookieHash is that of RFC 9018 §4.4: of the client's cookie, the server
// cookie's head, and the client's address.
func cookieHash(s *Secret, client []byte, head *[8]byte, addr netip.Addr) uint64 {
	var in [clientCookieLen + 8 + 16]byte
	n := copy(in[:], client[:clientCookieLen])
	n += copy(in[n:], head[:])
	if addr.Is4() {
		a := addr.As4()
		n += copy(in[n:], a[:])
	} else {
		a := addr.As16()
		n += copy(in[n:], a[:])
	}
	return siphash.Hash(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), in[:n])
}

// sign makes the server cookie for a client, of now in Unix seconds.
func (ss Secrets) sign(out *[serverCookieLen]byte, client []byte, addr netip.Addr, now uint32) {
	var head [8]byte
	head[0] = cookieVersion
	binary.BigEndian.PutUint32(head[4:], now)
	copy(out[:], head[:])
	binary.LittleEndian.PutUint64(out[8:], cookieHash(&ss[0], client, &head, addr))
}

// verify reports whether the cookie option's server part is one that this fleet
// gave the client, and whether it should be renewed. Times are compared in
// serial arithmetic (RFC 1982), as they are 32 bits.
func (ss Secrets) verify(option []byte, addr netip.Addr, now uint32) (good, renew bool) {
	if len(option) != clientCookieLen+serverCookieLen || option[clientCookieLen] != cookieVersion {
		return false, false
	}
	server := option[clientCookieLen:]
	age := int32(now - binary.BigEndian.Uint32(server[4:]))
	if age > cookieOld || age < -cookieAhead {
		return false, false
	}
	var want [8]byte
	head := [8]byte(server[:8])
	for i := range ss {
		binary.LittleEndian.PutUint64(want[:], cookieHash(&ss[i], option, &head, addr))
		if subtle.ConstantTimeCompare(want[:], server[8:]) == 1 {
			return true, age > cookieRenew || i > 0
		}
	}
	return false, false
}
