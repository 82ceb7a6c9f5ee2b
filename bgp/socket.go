package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout is how long a router may take to answer SYN: three of them.
const dialTimeout = 5 * time.Second

// dial opens the connection to a router we call. Every option is set before the
// first packet: a wrong TTL or a missing MD5 option there is a refusal.
func dial(ctx context.Context, n Neighbor, internal bool, password string) (*net.TCPConn, error) {
	d := net.Dialer{
		Timeout:   dialTimeout,
		KeepAlive: -1, // BGP has its own
		Control: func(_, _ string, c syscall.RawConn) error {
			return onSocket(c, func(fd int) error { return prepare(fd, n, internal, password) })
		},
	}
	if n.LocalAddress.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(zoned(n.LocalAddress, n.Address.Zone()), 0))
	}
	d.SetMultipathTCP(false) // MPTCP knows neither MD5 nor a minimum TTL
	c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(n.Address, n.Port).String())
	if err != nil {
		return nil, explainDial(err, n, password != "")
	}
	return c.(*net.TCPConn), nil
}

// prepare sets every option of a connection to n.
func prepare(fd int, n Neighbor, internal bool, password string) error {
	if n.BindDevice != "" {
		if err := unix.BindToDevice(fd, n.BindDevice); err != nil {
			return fmt.Errorf("binding to device %s: %w", n.BindDevice, err)
		}
	}
	if password != "" {
		if err := setMD5(fd, n.Address, password); err != nil {
			return err
		}
	}
	if err := setTTL(fd, n, internal); err != nil {
		return err
	}
	// Past this the kernel gives up on a silent router; the send-hold timer,
	// which says so in words, is a little earlier.
	limit := int((n.HoldTime + 2*time.Second) / time.Millisecond)
	return os.NewSyscallError("setsockopt TCP_USER_TIMEOUT", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, limit))
}

// setTTL limits how far the router may be: GTSM by what arrives (RFC 5082), an
// ordinary eBGP session by what leaves.
func setTTL(fd int, n Neighbor, internal bool) error {
	level, ttl, least := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	if !n.Address.Is4() {
		level, ttl, least = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
	}
	if n.TTLSecurity > 0 {
		return errors.Join(
			os.NewSyscallError("setsockopt TTL", unix.SetsockoptInt(fd, level, ttl, 255)),
			os.NewSyscallError("setsockopt minimum TTL", unix.SetsockoptInt(fd, level, least, 256-int(n.TTLSecurity))))
	}
	if internal {
		return nil
	}
	return os.NewSyscallError("setsockopt TTL", unix.SetsockoptInt(fd, level, ttl, max(1, int(n.Multihop))))
}

// setMD5 sets the TCP-MD5 key (RFC 2385) for segments to and from a; an empty
// password takes it away.
func setMD5(fd int, a netip.Addr, password string) error {
	sig := &unix.TCPMD5Sig{Keylen: uint16(len(password))}
	copy(sig.Key[:], password)
	sig.Addr.Family = unix.AF_INET6
	if a.Is4() {
		sig.Addr.Family = unix.AF_INET
		v := a.As4()
		copy(sig.Addr.Data[2:], v[:]) // after the port
	} else {
		v := a.As16()
		copy(sig.Addr.Data[6:], v[:]) // after port and flow label
	}
	err := unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, sig)
	if password == "" && errors.Is(err, unix.ENOENT) {
		return nil
	}
	return os.NewSyscallError("setsockopt TCP_MD5SIG", err)
}

// onSocket runs f on the descriptor of c.
func onSocket(c syscall.RawConn, f func(fd int) error) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// unacknowledged returns how many octets written to c the other side's TCP has
// not acknowledged.
func unacknowledged(c syscall.RawConn) (n int, err error) {
	err = onSocket(c, func(fd int) error {
		n, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		return err
	})
	return n, err
}

// zoned gives a link-local address the zone of its counterpart.
func zoned(a netip.Addr, zone string) netip.Addr {
	if a.Zone() == "" && a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(zone)
	}
	return a
}

// explainDial says why a router could not be reached, and what to look at.
func explainDial(err error, n Neighbor, password bool) error {
	to := netip.AddrPortFrom(n.Address, n.Port)
	var ne net.Error
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%s refused the connection: BGP is not running there, or does not know this node", to)
	case errors.As(err, &ne) && ne.Timeout() || errors.Is(err, unix.ETIMEDOUT):
		hint := []string{}
		if password {
			hint = append(hint, "MD5 mismatch? a router drops what is signed with another password, or not expected to be signed")
		} else {
			hint = append(hint, "a filter, or a password on the router's side only?")
		}
		if n.TTLSecurity > 0 {
			hint = append(hint, fmt.Sprintf("ttl_security: more than %d hops away, or not set on the router?", n.TTLSecurity))
		}
		return fmt.Errorf("%s does not answer: %s", to, strings.Join(hint, "; "))
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("local_address %s is not on this node", n.LocalAddress)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("bind_device %s does not exist", n.BindDevice)
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		return fmt.Errorf("there is no way to %s: %w", to, err)
	default:
		return fmt.Errorf("connecting to %s: %w", to, err)
	}
}
