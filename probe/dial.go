package probe

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer reaches the target of a remote check from where the check says. It is
// immutable.
type dialer struct {
	source netip.Addr
	device string
	env    Env
}

func newDialer(c Check, env Env) dialer { return dialer{c.Source.Unmap(), c.Device, env} }

// absentError says that the target is a service address that this host should
// have and has not. It is not asked, since another site would answer for us.
type absentError struct{ addr netip.Addr }

func (e *absentError) Error() string { return e.addr.String() + " is not on this host" }

// resolveError is a failure of this host's resolver, never of the service.
type resolveError struct {
	host string
	err  error
}

func (e *resolveError) Error() string {
	return fmt.Sprintf("this host cannot resolve %s: %v", e.host, e.err)
}
func (e *resolveError) Unwrap() error { return e.err }

// resolve gives the address of host, and refuses a service address that is not
// on this host, however it was come by: written, resolved, or redirected to.
func (d dialer) resolve(ctx context.Context, host string) (netip.Addr, error) {
	a, err := netip.ParseAddr(host)
	if err != nil {
		if a, err = d.lookUp(ctx, host); err != nil {
			return a, &resolveError{host, err}
		}
	}
	a = a.Unmap()
	return a, d.present(a)
}

// present refuses a service address that is not on this host.
func (d dialer) present(a netip.Addr) error {
	if v, known := d.env.vip(a.WithZone("")); known && !v.Present {
		return &absentError{a}
	}
	return nil
}

// lookUp asks the resolver; of several addresses it takes the first of the
// source's family.
func (d dialer) lookUp(ctx context.Context, host string) (netip.Addr, error) {
	network := "ip"
	if d.source.IsValid() {
		network = "ip6"
		if d.source.Is4() {
			network = "ip4"
		}
	}
	as, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(as) == 0 {
		return netip.Addr{}, errors.New("no address")
	}
	return as[0], nil
}

// dial connects over network (tcp or udp) to address, host:port.
func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	a, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is not a port", port)
	}
	to := netip.AddrPortFrom(a, uint16(n))
	if network == "tcp" {
		c, err := (&connecting{dialer: d, to: to}).wait(ctx)
		if err != nil {
			return nil, err // and no nil in an interface
		}
		return c, nil
	}
	nd := net.Dialer{}
	if d.source.IsValid() {
		nd.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(d.source, 0))
	}
	if d.device != "" {
		nd.Control = d.bindDevice
	}
	return nd.DialContext(ctx, network, to.String())
}

func (d dialer) bindDevice(_, _ string, rc syscall.RawConn) error {
	var err error
	if cerr := rc.Control(func(fd uintptr) {
		err = os.NewSyscallError("SO_BINDTODEVICE "+d.device, unix.BindToDevice(int(fd), d.device))
	}); cerr != nil {
		return cerr
	}
	return err
}

// until makes conn fail at ctx's deadline, and at once when ctx is cancelled.
// The caller must call the function it returns.
func until(ctx context.Context, conn interface{ SetDeadline(time.Time) error }) (done func() bool) {
	if t, ok := ctx.Deadline(); ok {
		conn.SetDeadline(t)
	}
	return context.AfterFunc(ctx, func() { conn.SetDeadline(past) })
}

// setReadDeadline moves the deadline of reading under until, which may be
// cutting the connection short at the same moment.
func setReadDeadline(ctx context.Context, conn interface{ SetReadDeadline(time.Time) error }, t time.Time) {
	conn.SetReadDeadline(t)
	if ctx.Err() != nil {
		conn.SetReadDeadline(past)
	}
}

func loadCAs(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", file)
	}
	return pool, nil
}
