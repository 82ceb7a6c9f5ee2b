package bgp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// The names of the address families in settings and in Actual.
const (
	familyIPv4 = "ipv4"
	familyIPv6 = "ipv6"
)

// Defaults of one neighbour.
const (
	defaultPort         = 179
	defaultHoldTime     = 9 * time.Second
	defaultConnectRetry = 2 * time.Second
	defaultLocalPref    = 100
	// defaultDepreferMED is the worst MED that is not the "none" some routers
	// make of 4294967295.
	defaultDepreferMED     = 4294967294
	defaultDepreferPrepend = 3
	defaultBackupPrepend   = 2
	defaultBackupLocalPref = 50
)

// WithDefaults returns a copy of s with every default filled in. Doing it twice
// changes nothing.
func (s Settings) WithDefaults() Settings {
	s.Allow = slices.Clone(s.Allow)
	s.AllowBackup = slices.Clone(s.AllowBackup)
	families := familiesOf(slices.Concat(s.Allow, s.AllowBackup))
	s.Neighbors = slices.Clone(s.Neighbors)
	for i := range s.Neighbors {
		n := &s.Neighbors[i]
		setDefault(&n.Port, defaultPort)
		if n.Passive {
			setDefault(&n.ListenPort, defaultPort)
		}
		setDefault(&n.HoldTime, defaultHoldTime)
		// RFC 4271 §4.4: a reasonable maximum between KEEPALIVEs is one third of
		// the hold time.
		setDefault(&n.Keepalive, max(time.Second, (n.HoldTime/3).Truncate(time.Second)))
		setDefault(&n.ConnectRetry, defaultConnectRetry)
		if n.BFD != nil {
			n.BFD = new(n.BFD.WithDefaults())
		}
		if len(n.Families) == 0 {
			n.Families = families
		}
		if n.internal(s) && n.LocalPref == nil {
			n.LocalPref = new(uint32(defaultLocalPref))
		}
		n.Deprefer = n.Deprefer.withDefaults(Deprefer{}, n.internal(s))
		n.Drain = n.Drain.withDefaults(n.Deprefer, n.internal(s))
		n.Backup = n.Backup.backupDefaults(n.internal(s))
	}
	return s
}

// withDefaults fills d in. When nothing at all is given the whole is replaced:
// by like, if that says anything, else by the strongest thing each kind of
// session has.
func (d Deprefer) withDefaults(like Deprefer, internal bool) Deprefer {
	if d.empty() {
		switch {
		case !like.empty():
			d = like
			d.GracefulShutdown = nil
		case internal:
			d.LocalPref = new(uint32(0))
		default:
			d.MED = new(uint32(defaultDepreferMED))
			d.Prepend = new(uint8(defaultDepreferPrepend))
		}
	}
	if d.GracefulShutdown == nil {
		d.GracefulShutdown = new(true)
	}
	return d
}

// backupDefaults fills in d as the way to announce a backup.
func (d Deprefer) backupDefaults(internal bool) Deprefer {
	if d.empty() {
		if internal {
			d.LocalPref = new(uint32(defaultBackupLocalPref))
		} else {
			d.Prepend = new(uint8(defaultBackupPrepend))
		}
	}
	if d.GracefulShutdown == nil {
		d.GracefulShutdown = new(false)
	}
	return d
}

func (d Deprefer) empty() bool {
	return d.GracefulShutdown == nil && d.Prepend == nil && d.MED == nil && d.LocalPref == nil &&
		len(d.Communities) == 0 && len(d.LargeCommunities) == 0
}

// localASN is what this node calls itself towards n.
func (n Neighbor) localASN(s Settings) uint32 {
	if n.LocalASN != 0 {
		return n.LocalASN
	}
	return s.ASN
}

// internal reports whether the session with n is iBGP.
func (n Neighbor) internal(s Settings) bool { return n.ASN == n.localASN(s) }

func (n Neighbor) carries(family string) bool { return slices.Contains(n.Families, family) }

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return familyIPv4
	}
	return familyIPv6
}

// familiesOf returns the families ps belong to, ipv4 first.
func familiesOf(ps []netip.Prefix) []string {
	var out []string
	for _, f := range []string{familyIPv4, familyIPv6} {
		if slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.IsValid() && familyOf(p.Addr()) == f }) {
			out = append(out, f)
		}
	}
	return out
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// allowList answers whether a prefix may be announced: it must be equal to or
// inside one of the list. One map look-up per different length in the list, so
// that ten thousand host routes cost no more than one block.
type allowList struct {
	set  map[netip.Prefix]struct{}
	bits [2][]int // lengths in use: IPv4, IPv6
}

// allowed is what may be announced at all, and what of it in any stance.
type allowed struct{ any, primary *allowList }

func (s Settings) allowed() allowed {
	return allowed{newAllowList(slices.Concat(s.Allow, s.AllowBackup)), newAllowList(s.Allow)}
}

// may reports whether r may be announced.
func (a allowed) may(r steadycast.Route) bool {
	if r.Stance == steadycast.Backup {
		return a.any.covers(r.Prefix)
	}
	return a.primary.covers(r.Prefix)
}

func newAllowList(ps []netip.Prefix) *allowList {
	a := &allowList{set: make(map[netip.Prefix]struct{}, len(ps))}
	for _, p := range ps {
		p = p.Masked()
		a.set[p] = struct{}{}
		b := &a.bits[familyIndex(p.Addr())]
		if !slices.Contains(*b, p.Bits()) {
			*b = append(*b, p.Bits())
		}
	}
	return a
}

func (a *allowList) covers(p netip.Prefix) bool {
	for _, bits := range a.bits[familyIndex(p.Addr())] {
		if bits <= p.Bits() {
			q, err := p.Addr().Prefix(bits)
			if _, ok := a.set[q]; err == nil && ok {
				return true
			}
		}
	}
	return false
}

func familyIndex(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}
