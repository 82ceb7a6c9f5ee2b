package probe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadycast/steadycast"
)

// Env is what probes of the node itself ask. Functions are called from many
// goroutines at once, at every probe, and must return at once; what they return
// is only read. The zero value works: it knows no sessions, and sees addresses
// and links as the kernel shows them.
type Env struct {
	// VIPs are the service addresses and whether this host has them. Nil: the
	// kernel is asked, and every address counts as usable.
	VIPs func() []steadycast.VIP
	// Peers are the BGP sessions. Nil: unknown.
	Peers func() []steadycast.Peer
	// Link tells whether an interface has carrier. Nil: /sys/class/net is read.
	Link func(name string) (up bool, err error)

	word *word // of a View
}

// vip finds the service address a. known is false when a is none of ours.
func (e Env) vip(a netip.Addr) (v steadycast.VIP, known bool) {
	if e.VIPs == nil {
		return v, false
	}
	for _, v := range e.VIPs() {
		if v.Address.Addr() == a {
			return v, true
		}
	}
	return v, false
}

// kernelHas reports whether a is on some interface of this host.
func kernelHas(a netip.Addr) (bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, x := range addrs {
		if n, ok := x.(*net.IPNet); ok {
			if got, ok := netip.AddrFromSlice(n.IP); ok && got.Unmap() == a {
				return true, nil
			}
		}
	}
	return false, nil
}

func (e Env) link(name string) (bool, error) {
	if e.Link != nil {
		return e.Link(name)
	}
	return sysfsLink("/sys/class/net", name)
}

// sysfsLink reads carrier and operstate. A loopback's operstate is "unknown"
// while it works; reading carrier of an interface that is administratively down
// gives EINVAL, which means no carrier.
func sysfsLink(root, name string) (bool, error) {
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		return false, fmt.Errorf("no interface %s on this host", name)
	}
	state, err := os.ReadFile(filepath.Join(dir, "operstate"))
	if err != nil {
		return false, err
	}
	if s := strings.TrimSpace(string(state)); s != "up" && s != "unknown" {
		return false, nil
	}
	carrier, err := os.ReadFile(filepath.Join(dir, "carrier"))
	return err == nil && strings.TrimSpace(string(carrier)) == "1", nil
}
