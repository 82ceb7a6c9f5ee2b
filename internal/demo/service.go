package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// service is one site's web server, which can be broken on purpose.
//
// Its mutex guards the server and its port; the mode is read by every request.
type service struct {
	site string
	addr netip.AddrPort
	net  *network
	slow atomic.Bool
	gone chan struct{} // closed when the demo ends, so that a slow answer does not outlive it

	mu       sync.Mutex
	port     *port
	listener net.Listener
	server   *http.Server
}

// slowness is longer than any timeout in the demo.
const slowness = 5 * time.Second

// newService starts serving on ip.
func newService(site string, ip netip.Addr, n *network) (*service, error) {
	p, err := takePort(ip)
	if err != nil {
		return nil, fmt.Errorf("service of %s: %w", site, err)
	}
	s := &service{site: site, addr: p.addr, net: n, port: p, gone: make(chan struct{})}
	if err := s.heal(); err != nil {
		p.close()
		return nil, err
	}
	return s, nil
}

// heal listens again after a kill, and answers quickly.
func (s *service) heal() error {
	s.slow.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	l, err := s.port.listen()
	if err != nil {
		return fmt.Errorf("service of %s: %w", s.site, err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: slowness}
	s.listener, s.server = l, srv
	go func() {
		if err := srv.Serve(s.net.behind(l)); err != nil && !errors.Is(err, http.ErrServerClosed) {
			_ = srv.Close()
		}
	}()
	return nil
}

// kill refuses and ends every connection, as the death of a process does.
func (s *service) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.listener.Close() // the server may not know it yet
		_ = s.server.Close()
		s.server = nil
	}
}

func (s *service) close() {
	close(s.gone)
	s.kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.port.close()
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
