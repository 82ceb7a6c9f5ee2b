package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// service is one site's web server, which can be broken on purpose.
//
// Its mutex guards the listener; the mode is read by every request.
type service struct {
	site string
	addr netip.AddrPort
	kept int // a socket that keeps the port ours while nobody listens
	slow atomic.Bool
	gone chan struct{} // closed when the demo ends, so that a slow answer does not outlive it

	mu       sync.Mutex
	listener net.Listener
	server   *http.Server
}

// slowness is longer than any timeout in the demo.
const slowness = 5 * time.Second

// newService starts serving on ip, at a port the kernel chooses.
func newService(site string, ip netip.Addr) (*service, error) {
	kept, addr, err := keep(ip)
	if err != nil {
		return nil, fmt.Errorf("service of %s: %w", site, err)
	}
	s := &service{site: site, addr: addr, kept: kept, gone: make(chan struct{})}
	if err := s.heal(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// keep takes a port for as long as the socket is open. It never listens: whoever
// connects is refused, but for when someone who may share the address
// (SO_REUSEADDR, as Go's listeners do) listens; and the kernel gives the port to
// nobody else.
func keep(ip netip.Addr) (fd int, at netip.AddrPort, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, at, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, at, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: ip.As4()}); err != nil {
		return 0, at, os.NewSyscallError("bind", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, at, os.NewSyscallError("getsockname", err)
	}
	return fd, netip.AddrPortFrom(ip, uint16(name.(*unix.SockaddrInet4).Port)), nil
}

// heal opens the listener if it is closed, and answers quickly.
func (s *service) heal() error {
	s.slow.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.addr.String())
	if err != nil {
		return fmt.Errorf("service of %s: %w", s.site, err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: slowness}
	s.listener, s.server = l, srv
	go func() {
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			_ = srv.Close()
		}
	}()
	return nil
}

// kill closes the listener and resets every connection, as the death of a process does.
func (s *service) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.listener.Close() // which the server does only if it has begun
		_ = s.server.Close()
		s.listener, s.server = nil, nil
	}
}

func (s *service) close() {
	close(s.gone)
	s.kill()
	unix.Close(s.kept)
}

// fault carries out a word of the operator: kill, heal, slow, fast.
func (s *service) fault(what string) error {
	switch what {
	case "kill":
		s.kill()
	case "heal":
		return s.heal()
	case "slow":
		s.slow.Store(true)
	case "fast":
		s.slow.Store(false)
	default:
		return fmt.Errorf("%q is not a fault; allowed: kill, heal, slow, fast", what)
	}
	return nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.slow.Load() {
		select {
		case <-time.After(slowness):
		case <-s.gone:
		case <-r.Context().Done():
		}
	}
	w.Header().Set("X-Site", s.site)
	fmt.Fprintf(w, "hello from %s\n", s.site)
}

// ask makes one request as the client does: a new connection each time.
func ask(ctx context.Context, addr netip.AddrPort) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	var b [12]byte
	if _, err := c.Read(b[:]); err != nil {
		return err
	}
	if string(b[:]) != "HTTP/1.0 200" {
		return fmt.Errorf("answered %q", b)
	}
	return nil
}
