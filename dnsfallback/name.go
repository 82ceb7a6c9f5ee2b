package dnsfallback

import (
	"errors"
	"strings"

	"github.com/miekg/dns"
)

// name is a domain name in wire form (RFC 1035 §3.1) and lower case (RFC 4343
// §3): its labels, each after its length, and the root's empty one. Two names
// are equal when their octets are.
type name string

const (
	root       = name("\x00")
	maxNameLen = 255 // RFC 1035 §2.3.4
)

// parseName reads a name as people write it. One that does not end in a dot is
// taken as below origin.
func parseName(s string, origin name) (name, error) {
	if s == "@" && origin != "" {
		return origin, nil
	}
	if s == "" {
		return "", errors.New("an empty name")
	}
	if !dns.IsFqdn(s) {
		s += "."
		if origin != "" && origin != root {
			s += origin.String()
		}
	}
	if _, ok := dns.IsDomainName(s); !ok {
		return "", errors.New("not a domain name: labels have 1 to 63 octets, a name at most 255")
	}
	var buf [maxNameLen]byte
	n, err := dns.PackDomainName(s, buf[:], 0, nil, false)
	if err != nil {
		return "", err
	}
	return lower(buf[:n]), nil
}

// lower makes a name of one in wire form.
func lower(wire []byte) name {
	low := make([]byte, len(wire))
	for i, b := range wire {
		low[i] = lowerOctet[b]
	}
	return name(low)
}

// lowerOctet folds ASCII letters, and no other octets (RFC 4343 §3). The lengths
// of labels are under 64, so that it may run over a whole name.
var lowerOctet = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// String writes the name with its last dot.
func (n name) String() string {
	s, _, err := dns.UnpackDomainName([]byte(n), 0)
	if err != nil {
		return "?"
	}
	return s
}

// text is the name as settings write it: without the last dot.
func (n name) text() string {
	if n == root {
		return "."
	}
	return strings.TrimSuffix(n.String(), ".")
}

// parent cuts the first label off. The root is its own parent.
func (n name) parent() name {
	if n == root {
		return root
	}
	return n[1+int(n[0]):]
}

// under reports whether n is z or below it.
func (n name) under(z name) bool {
	for len(n) > len(z) {
		n = n.parent()
	}
	return n == z
}

// labels counts them, without the root's.
func (n name) labels() int {
	c := 0
	for ; n != root; n = n.parent() {
		c++
	}
	return c
}

// wildcard reports whether the first label is an asterisk (RFC 4592 §2.1.1).
func (n name) wildcard() bool { return strings.HasPrefix(string(n), "\x01*") }

// wireName cuts the name off that stands uncompressed at the head of wire.
func wireName(wire []byte) []byte {
	i := 0
	for wire[i] != 0 {
		i += 1 + int(wire[i])
	}
	return wire[:i+1]
}
