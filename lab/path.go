package lab

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Path is one way to a prefix, as a router's table or a message on the wire
// tells it. The same words are asked of both.
type Path struct {
	Prefix  netip.Prefix
	NextHop netip.Addr
	// ASPath is the numbers, nearest first, joined by spaces.
	ASPath string
	// MED is nil when the path has none (OpenBGPD shows that as 0).
	MED *uint32
	// LocalPref is what the router gave it; nil on an eBGP wire.
	LocalPref *uint32
	// Communities as AS:VALUE and GLOBAL:DATA1:DATA2, in order.
	Communities []string
}

func (p Path) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s via %s as-path %q", p.Prefix, p.NextHop, p.ASPath)
	if p.MED != nil {
		fmt.Fprintf(&b, " med %d", *p.MED)
	}
	if p.LocalPref != nil {
		fmt.Fprintf(&b, " local-pref %d", *p.LocalPref)
	}
	for _, c := range p.Communities {
		fmt.Fprintf(&b, " community %s", c)
	}
	return b.String()
}

// quality is one thing a scenario asks of a path: `with med 7`, `without
// community 65535:0`.
type quality struct {
	not        bool
	key, value string
}

var qualities = []string{"community", "med", "local-pref", "next-hop", "as-path"}

func (q quality) of(p Path) bool {
	return q.not != q.holds(p)
}

func (q quality) holds(p Path) bool {
	number := func(n *uint32) bool { return n != nil && fmt.Sprint(*n) == q.value }
	switch q.key {
	case "community":
		return slices.Contains(p.Communities, q.value)
	case "med":
		return number(p.MED)
	case "local-pref":
		return number(p.LocalPref)
	case "next-hop":
		return p.NextHop.String() == q.value
	default: // as-path
		return p.ASPath == q.value
	}
}

// parseQualities reads `with KEY VALUE` and `without KEY VALUE`, any number of them.
func parseQualities(f []string) ([]quality, error) {
	var out []quality
	for len(f) > 0 {
		if len(f) < 3 || f[0] != "with" && f[0] != "without" || !slices.Contains(qualities, f[1]) {
			return nil, fmt.Errorf("%q: write with or without, one of %s, and its value", strings.Join(f, " "), strings.Join(qualities, ", "))
		}
		out = append(out, quality{not: f[0] == "without", key: f[1], value: f[2]})
		f = f[3:]
	}
	return out, nil
}

// community writes a router's way of showing a community as AS:VALUE.
func community(s string) string {
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) {
	case "gracefulshutdown":
		return "65535:0" // RFC 8326
	case "noexport":
		return "65535:65281" // RFC 1997
	case "noadvertise":
		return "65535:65282"
	}
	return s
}
