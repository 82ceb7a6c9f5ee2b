package sink

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// listen opens the listener with the socket options that must be there before
// the first SYN.
func listen(o Options) (*net.TCPListener, error) {
	at, err := netip.ParseAddrPort(o.Address)
	if err != nil {
		return nil, err
	}
	v4 := at.Addr().Is4()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = prepare(int(fd), o, v4) })
		return errors.Join(err, failed)
	}}
	lc.SetMultipathTCP(false) // an MPTCP socket takes no MD5 key
	network := "tcp6"
	if v4 {
		network = "tcp4"
	}
	l, err := lc.Listen(context.Background(), network, o.Address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

func prepare(fd int, o Options, v4 bool) error {
	if o.ReceiveBuffer > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, o.ReceiveBuffer); err != nil {
			return os.NewSyscallError("setsockopt SO_RCVBUF", err)
		}
	}
	if o.TTLSecurity > 0 {
		level, ttl, least := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
		if !v4 {
			level, ttl, least = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
		}
		if err := errors.Join(unix.SetsockoptInt(fd, level, ttl, 255), unix.SetsockoptInt(fd, level, least, 256-int(o.TTLSecurity))); err != nil {
			return os.NewSyscallError("setsockopt TTL", err)
		}
	}
	if o.Password == "" {
		return nil
	}
	// One key for every address: a prefix of length 0.
	sig := &unix.TCPMD5Sig{Keylen: uint16(len(o.Password)), Flags: unix.TCP_MD5SIG_FLAG_PREFIX}
	copy(sig.Key[:], o.Password)
	sig.Addr.Family = unix.AF_INET6
	if v4 {
		sig.Addr.Family = unix.AF_INET
	}
	return os.NewSyscallError("setsockopt TCP_MD5SIG_EXT", unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG_EXT, sig))
}
