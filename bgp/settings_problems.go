package bgp

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"time"
)

// pathName is what the table calls a path; see decide.Place.
var pathName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

var neighborName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// findings gathers problems below one path.
type findings struct {
	at  string
	out *[]Problem
}

func (f findings) add(key, format string, args ...any) {
	path := f.at
	if key != "" {
		if path != "" {
			path += "."
		}
		path += key
	}
	*f.out = append(*f.out, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

func (f findings) below(key string) findings {
	if f.at != "" {
		key = f.at + "." + key
	}
	return findings{key, f.out}
}

// Problems returns everything wrong with s, all at once, in the order of the
// file. It looks at nothing but s: whether an address or a device exists here
// is found when it is used.
func (s Settings) Problems() []Problem {
	var out []Problem
	s = s.WithDefaults()
	f := findings{"", &out}
	checkASN(f, "asn", s.ASN)
	if !s.RouterID.Is4() || s.RouterID.IsUnspecified() || s.RouterID.IsMulticast() {
		f.add("router_id", "%s is not a BGP identifier; write an IPv4 address that no other peer of the router uses (RFC 4271 §4.2)", orNothing(s.RouterID))
	}
	if len(s.Allow) == 0 {
		f.add("allow", "nothing may be announced; list the prefixes this node may ever announce")
	}
	for i, p := range s.Allow {
		s.checkAllowed(f, fmt.Sprintf("allow[%d]", i), p)
	}
	for i, p := range s.AllowBackup {
		s.checkAllowed(f, fmt.Sprintf("allow_backup[%d]", i), p)
	}
	if len(s.Neighbors) == 0 {
		f.add("neighbors", "there is no neighbour; name at least one router")
	}
	for i := range s.Neighbors {
		s.checkNeighbor(f.below(fmt.Sprintf("neighbors[%d]", i)), i)
	}
	return out
}

func (s Settings) checkAllowed(f findings, key string, p netip.Prefix) {
	switch a := p.Addr(); {
	case !p.IsValid():
		f.add(key, "this is not a prefix; write address/length")
		return
	case a.Is4In6():
		f.add(key, "%s is an IPv4-mapped address; write the IPv4 prefix itself", p)
	case p != p.Masked():
		f.add(key, "%s has bits set beyond its length; did you mean %s?", p, p.Masked())
	case p.Bits() == 0:
		f.add(key, "%s would allow every address there is; list the prefixes that are yours", p)
	case a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsUnspecified():
		f.add(key, "%s cannot be reached from elsewhere; allow only unicast prefixes that others can route to", p)
	}
	if fam := familyOf(p.Addr()); len(s.Neighbors) > 0 && !slices.ContainsFunc(s.Neighbors, func(n Neighbor) bool { return n.carries(fam) }) {
		f.add(key, "%s would be announced to nobody: no neighbour has %s in its families", p, fam)
	}
}

func checkASN(f findings, key string, asn uint32) {
	switch asn {
	case 0:
		f.add(key, "0 is not an autonomous system (RFC 7607); write 1…4294967294")
	case 23456:
		f.add(key, "23456 is AS_TRANS, which stands for others (RFC 6793); write the AS itself")
	case 65535, 4294967295:
		f.add(key, "%d is reserved (RFC 7300); write another AS", asn)
	}
}

// checkNeighbor checks one neighbour, by itself and beside those before it.
func (s Settings) checkNeighbor(f findings, i int) {
	n := s.Neighbors[i]
	if !neighborName.MatchString(n.Name) {
		f.add("name", "%q is not a name; write a letter, then up to 62 of a-z 0-9 _ -", n.Name)
	}
	for j, m := range s.Neighbors[:i] {
		if m.Name == n.Name {
			f.add("name", "%q is also neighbors[%d]; names must differ", n.Name, j)
		}
		if m.Address == n.Address && m.BindDevice == n.BindDevice && m.Passive == n.Passive &&
			(n.Passive && m.ListenPort == n.ListenPort || !n.Passive && m.Port == n.Port) {
			f.add("address", "%s is also neighbors[%d]; one router is one neighbour", n.Address, j)
		}
	}
	if n.Path != "" && !pathName.MatchString(n.Path) {
		f.add("path", "%q is not the name of a path; use 1 to 63 letters, digits, dots, dashes or underscores", n.Path)
	}
	checkASN(f, "asn", n.ASN)
	if n.LocalASN != 0 {
		checkASN(f, "local_asn", n.LocalASN)
	}
	checkEndpoint(f, n)
	checkTransport(f, n, n.internal(s))
	checkTimers(f, n)
	checkBFD(f, n)
	s.checkFamilies(f, n)
	checkPreference(f, n, n.internal(s))
}

func checkEndpoint(f findings, n Neighbor) {
	switch a := n.Address; {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast():
		f.add("address", "%s is not a router's address; write an IPv4 or IPv6 literal", orNothing(a))
	case a.Is4In6():
		f.add("address", "%s is an IPv4-mapped address; write %s", a, a.Unmap())
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		f.add("address", "%s is link-local and needs its interface: %s%%eth0", a, a)
	case a.Zone() != "" && !a.IsLinkLocalUnicast():
		f.add("address", "%s is not link-local, so it has no zone; write %s", a, a.WithZone(""))
	}
	if l := n.LocalAddress; l.IsValid() {
		switch {
		case l.IsUnspecified() || l.IsMulticast() || l.Is4In6():
			f.add("local_address", "%s is not an address of this node; leave it out to let the kernel choose", l)
		case n.Address.IsValid() && l.Is4() != n.Address.Is4():
			f.add("local_address", "%s and the router's %s are of different families", l, n.Address)
		}
	}
	if len(n.BindDevice) > 15 {
		f.add("bind_device", "%q is longer than an interface name can be (15)", n.BindDevice)
	}
	if n.ListenPort != 0 && !n.Passive {
		f.add("listen_port", "has no effect without passive: true; remove one of them")
	}
}

func checkTransport(f findings, n Neighbor, internal bool) {
	// tcp(7): TCP_MD5SIG_MAXKEYLEN.
	if len(n.Password) > 80 {
		f.add("password", "is %d octets; TCP-MD5 takes 1…80", len(n.Password))
	}
	if n.Password != "" && n.PasswordFile != "" {
		f.add("password_file", "stands beside password; keep one of them, better the file")
	}
	if n.TTLSecurity == 255 {
		f.add("ttl_security", "255 hops would accept every TTL; write 1 for a directly connected router, at most 254 (RFC 5082)")
	}
	if n.TTLSecurity != 0 && n.Multihop != 0 {
		f.add("multihop", "stands beside ttl_security, which already says how far the router may be; keep one of them")
	}
	if n.Multihop != 0 && internal {
		f.add("multihop", "has no effect on iBGP, which is not limited to one hop; remove it")
	}
}

func checkTimers(f findings, n Neighbor) {
	switch {
	case n.HoldTime < 3*time.Second:
		f.add("hold_time", "%s is under the 3s minimum (RFC 4271 §4.2); leave it out for %s", n.HoldTime, defaultHoldTime)
	case n.HoldTime > 65535*time.Second:
		f.add("hold_time", "%s is over the 65535s that fit the message (RFC 4271 §4.2)", n.HoldTime)
	case n.HoldTime%time.Second != 0:
		f.add("hold_time", "%s is not whole seconds, which is all the message carries; write %s", n.HoldTime, n.HoldTime.Round(time.Second))
	}
	switch {
	case n.Keepalive < time.Second || n.Keepalive%time.Second != 0:
		f.add("keepalive", "%s is not a whole number of seconds, at least 1s (RFC 4271 §4.4)", n.Keepalive)
	case n.Keepalive > n.HoldTime/2:
		f.add("keepalive", "%s leaves the router no second chance before the hold time of %s; leave it out for a third of that", n.Keepalive, n.HoldTime)
	}
	if n.ConnectRetry < 100*time.Millisecond || n.ConnectRetry > 5*time.Minute {
		f.add("connect_retry", "%s is outside 100ms…5m; leave it out for %s", n.ConnectRetry, defaultConnectRetry)
	}
}

func checkBFD(f findings, n Neighbor) {
	if n.BFD == nil {
		return
	}
	n.BFD.Problems(func(key, text string) { f.below("bfd").add(key, "%s", text) })
	if n.Multihop > 1 || n.TTLSecurity > 1 {
		f.add("bfd", "is for a router one hop away (RFC 5881), and this one may be farther by multihop or ttl_security; remove one of them")
	}
}

func (s Settings) checkFamilies(f findings, n Neighbor) {
	for i, fam := range n.Families {
		if fam != familyIPv4 && fam != familyIPv6 {
			f.add(fmt.Sprintf("families[%d]", i), "%q is not an address family; allowed: ipv4, ipv6", fam)
		}
		if slices.Contains(n.Families[:i], fam) {
			f.add(fmt.Sprintf("families[%d]", i), "%q is there twice", fam)
		}
	}
	overLoopback := n.Address.IsLoopback()
	if h := n.NextHop4; h.IsValid() {
		if !h.Is4() {
			f.add("next_hop4", "%s is not an IPv4 address", h)
		} else if why := badNextHop(h, overLoopback); why != "" {
			f.add("next_hop4", "%s %s", h, why)
		}
	}
	if h := n.NextHop6; h.IsValid() {
		if h.Is4() {
			f.add("next_hop6", "%s is not an IPv6 address", h)
		} else if why := badNextHop(h.WithZone(""), overLoopback); why != "" {
			f.add("next_hop6", "%s %s", h, why)
		}
	}
	allowed := familiesOf(slices.Concat(s.Allow, s.AllowBackup))
	if !n.Address.IsValid() {
		return
	}
	if n.Address.Is4() && n.carries(familyIPv6) && slices.Contains(allowed, familyIPv6) && !n.NextHop6.IsValid() {
		f.add("next_hop6", "is missing: an IPv6 prefix over the IPv4 session with %s has no next hop of its own; write this node's IPv6 address, or families: [ipv4]", n.Address)
	}
	if !n.Address.Is4() && n.carries(familyIPv4) && slices.Contains(allowed, familyIPv4) && !n.NextHop4.IsValid() {
		f.add("next_hop4", "is missing: an IPv4 prefix over the IPv6 session with %s has no next hop of its own; write this node's IPv4 address, or families: [ipv6]", n.Address)
	}
}

func checkPreference(f findings, n Neighbor, internal bool) {
	if n.Prepend > 10 {
		f.add("prepend", "%d is more than 10; longer paths are filtered by others", n.Prepend)
	}
	if internal && n.Prepend > 0 {
		f.add("prepend", "our own AS in the path makes an iBGP router drop the route as a loop (RFC 4271 §9.1.2); use local_pref")
	}
	if !internal && n.LocalPref != nil {
		f.add("local_pref", "is sent on iBGP only (RFC 4271 §5.1.5); use med, prepend or a community the router knows")
	}
	for _, x := range []struct {
		key string
		Deprefer
	}{{"deprefer", n.Deprefer}, {"drain", n.Drain}, {"backup", n.Backup}} {
		g, d := f.below(x.key), x.Deprefer
		if x.key == "drain" && reflect.DeepEqual(n.Drain, n.Deprefer) {
			continue // taken from deprefer, where it was just checked
		}
		if d.Prepend != nil && *d.Prepend > 10 {
			g.add("prepend", "%d is more than 10; longer paths are filtered by others", *d.Prepend)
		}
		if internal && d.Prepend != nil && *d.Prepend > 0 {
			g.add("prepend", "our own AS in the path makes an iBGP router drop the route as a loop (RFC 4271 §9.1.2); use local_pref")
		}
		if !internal && d.LocalPref != nil {
			g.add("local_pref", "is sent on iBGP only (RFC 4271 §5.1.5); use med, prepend or a community the router knows")
		}
		if !*d.GracefulShutdown && d.Prepend == nil && d.MED == nil && d.LocalPref == nil && len(d.Communities) == 0 && len(d.LargeCommunities) == 0 {
			g.add("graceful_shutdown", "false alone leaves nothing that makes a route less attractive; add prepend, med or a community")
		}
	}
}

// badNextHop says why no router could forward to h, or "".
func badNextHop(h netip.Addr, overLoopback bool) string {
	switch {
	case !h.IsValid() || h.IsUnspecified():
		return "is no address at all"
	case h.Is4In6():
		return "is an IPv4-mapped address, which routers accept and then forward nowhere"
	case h.IsMulticast():
		return "is a multicast address"
	case h.IsLoopback() && !overLoopback:
		return "is a loopback address, which is the router itself"
	default:
		return ""
	}
}

func orNothing(a netip.Addr) string {
	if !a.IsValid() {
		return "nothing"
	}
	return a.String()
}
