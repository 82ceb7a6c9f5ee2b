package dnsfallback

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Server answers at its addresses from the newest table. Its sockets belong to
// their workers; the table is the one thing that changes, and is replaced whole.
type Server struct {
	settings Settings
	shared   *shared
	table    atomic.Pointer[Table]
	tested   atomic.Uint32 // the zone that the next self-test begins with
	began    time.Time
	seed     [2]uint64

	sample *sampling

	udp  []*net.UDPConn
	tcp  []*net.TCPListener
	door door
}

// TakeOver is [Listen] with the sockets of a server before, from its
// [Server.Files], in any order: the same addresses and as many workers. When that
// one stops, no query is lost. The files are the caller's to close.
func TakeOver(s Settings, secrets Secrets, files []*os.File) (*Server, error) {
	s = s.WithDefaults()
	if want := len(s.Listen) * (1 + s.Workers); len(files) != want {
		return nil, fmt.Errorf("%d sockets were handed over, and %d addresses with %d workers need %d", len(files), len(s.Listen), s.Workers, want)
	}
	files, err := arrange(s, files)
	if err != nil {
		return nil, err
	}
	return listen(s, secrets, files)
}

// arrange brings sockets into the order of [Server.Files].
func arrange(s Settings, files []*os.File) ([]*os.File, error) {
	type socket struct {
		*os.File
		at     netip.AddrPort
		stream bool
	}
	var all []socket
	for _, f := range files {
		var kind int
		var name unix.Sockaddr
		var bad [2]error
		raw, err := f.SyscallConn() // File.Fd would make the socket block
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				kind, bad[0] = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
				name, bad[1] = unix.Getsockname(int(fd))
			})
		}
		if err = errors.Join(err, bad[0], bad[1]); err != nil {
			return nil, fmt.Errorf("taking a socket over: %w", err)
		}
		k := socket{File: f, stream: kind == unix.SOCK_STREAM}
		switch n := name.(type) {
		case *unix.SockaddrInet4:
			k.at = netip.AddrPortFrom(netip.AddrFrom4(n.Addr), uint16(n.Port))
		case *unix.SockaddrInet6:
			k.at = netip.AddrPortFrom(netip.AddrFrom16(n.Addr), uint16(n.Port))
		}
		all = append(all, k)
	}
	var out []*os.File
	take := func(at netip.AddrPort, stream bool) (netip.AddrPort, error) {
		i := slices.IndexFunc(all, func(k socket) bool {
			return k.stream == stream && k.at.Addr() == at.Addr() && (at.Port() == 0 || at.Port() == k.at.Port())
		})
		if i < 0 {
			return at, fmt.Errorf("too few sockets of %v were handed over", at)
		}
		at = all[i].at
		out, all = append(out, all[i].File), slices.Delete(all, i, i+1)
		return at, nil
	}
	for _, at := range s.Listen {
		at, err := take(at, true)
		for i := 0; i < s.Workers && err == nil; i++ {
			_, err = take(at, false)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Listen opens the sockets of a server. It answers nothing until [Server.Serve]
// is called, which wants a table first. With no secrets, cookies are signed by
// one that no other node knows.
func Listen(s Settings, secrets Secrets) (*Server, error) {
	return listen(s.WithDefaults(), secrets, nil)
}

func listen(s Settings, secrets Secrets, files []*os.File) (*Server, error) {
	if ps := s.Problems(); len(ps) > 0 {
		return nil, errors.New(ps[0].String())
	}
	var random [32]byte
	rand.Read(random[:])
	if len(secrets) == 0 {
		secrets = Secrets{Secret(random[:16])}
	}
	v := &Server{
		settings: s,
		shared: &shared{
			nsid: []byte(s.Identity), udp: udpSize,
			alive: uint16(min(s.TCP.Idle/(100*time.Millisecond), 1<<16-1)),
		},
		began: time.Now(),
		seed:  [2]uint64{binary.LittleEndian.Uint64(random[16:]), binary.LittleEndian.Uint64(random[24:])},
	}
	v.shared.secrets.Store(&secrets)
	v.door = door{most: s.TCP.Connections, each: s.TCP.PerNetwork, from: map[netip.Prefix]int{}}
	for _, at := range s.Listen {
		var err error
		if files == nil {
			err = v.open(at)
		} else {
			err = v.take(at, files[:1+s.Workers])
			files = files[1+s.Workers:]
		}
		if err != nil {
			v.close()
			return nil, err
		}
	}
	return v, nil
}

// Files are the server's sockets, to be given to the process that follows it: in
// the order of [Settings.Listen], for each address the one of TCP and then those
// of UDP. What has arrived at them waits there, whoever reads it.
func (v *Server) Files() ([]*os.File, error) {
	var out []*os.File
	add := func(f *os.File, err error) error {
		if err == nil {
			out = append(out, f)
		}
		return err
	}
	for i, l := range v.tcp {
		err := add(l.File())
		for _, c := range v.udp[i*v.settings.Workers : (i+1)*v.settings.Workers] {
			err = errors.Join(err, add(c.File()))
		}
		if err != nil {
			for _, f := range out {
				f.Close()
			}
			return nil, fmt.Errorf("handing %v over: %w", l.Addr(), err)
		}
	}
	return out, nil
}

// take takes the sockets of one address from a server before, as Files gave them.
func (v *Server) take(at netip.AddrPort, files []*os.File) error {
	l, err := net.FileListener(files[0])
	if err != nil {
		return fmt.Errorf("taking %v over: %w", at, err)
	}
	t, ok := l.(*net.TCPListener)
	if !ok {
		l.Close()
		return fmt.Errorf("taking %v over: a socket of another kind", at)
	}
	v.tcp = append(v.tcp, t)
	is := []netip.AddrPort{t.Addr().(*net.TCPAddr).AddrPort()}
	for _, f := range files[1:] {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return fmt.Errorf("taking %v over: %w", at, err)
		}
		u, ok := c.(*net.UDPConn)
		if !ok {
			c.Close()
			return fmt.Errorf("taking %v over: a socket of another kind", at)
		}
		v.udp = append(v.udp, u)
		is = append(is, u.LocalAddr().(*net.UDPAddr).AddrPort())
	}
	for _, got := range is {
		if got.Addr().Unmap() != at.Addr() || at.Port() != 0 && got.Port() != at.Port() {
			return fmt.Errorf("taking %v over: a socket is bound to %v", at, got)
		}
	}
	return nil
}

// receiveBuffer holds some thousand questions while a worker is not at its turn.
const receiveBuffer = 1 << 20

// open opens the sockets of one address: TCP first, since for port 0 it chooses the port.
func (v *Server) open(at netip.AddrPort) error {
	network := "4"
	if at.Addr().Is6() {
		network = "6"
	}
	l, err := (&net.ListenConfig{Control: v.control(at)}).Listen(context.Background(), "tcp"+network, at.String())
	if err != nil {
		return fmt.Errorf("answering at %v: %w", at, err)
	}
	v.tcp = append(v.tcp, l.(*net.TCPListener))
	at = netip.AddrPortFrom(at.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port())
	for range v.settings.Workers {
		c, err := (&net.ListenConfig{Control: v.control(at)}).ListenPacket(context.Background(), "udp"+network, at.String())
		if err != nil {
			return fmt.Errorf("answering at %v: %w", at, err)
		}
		u := c.(*net.UDPConn)
		_ = u.SetReadBuffer(receiveBuffer) // what the kernel allows of it
		v.udp = append(v.udp, u)
	}
	return nil
}

// control sets what must be set before a socket is bound.
func (v *Server) control(at netip.AddrPort) func(string, string, syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		var bad error
		set := func(fd, level, option int) {
			if err := unix.SetsockoptInt(fd, level, option, 1); err != nil && bad == nil {
				bad = err
			}
		}
		err := c.Control(func(f uintptr) {
			fd := int(f)
			// A service address comes and goes with what puts it on the host.
			if at.Addr().Is6() {
				set(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
				set(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND)
			} else {
				set(fd, unix.IPPROTO_IP, unix.IP_FREEBIND)
			}
			if network[:3] == "tcp" {
				return
			}
			set(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT)
			if at.Addr().IsUnspecified() {
				if at.Addr().Is6() {
					set(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO)
				} else {
					set(fd, unix.IPPROTO_IP, unix.IP_PKTINFO)
				}
			}
		})
		return errors.Join(err, bad)
	}
}

// Addresses are those that the server answers at, with their ports.
func (v *Server) Addresses() []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range v.tcp {
		out = append(out, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return out
}

// Set makes t the table that is answered from. A query sees one table from
// beginning to end. A table that is older than the present one is refused.
func (v *Server) Set(t *Table) error {
	for {
		old := v.table.Load()
		if old != nil && t.version < old.version {
			return fmt.Errorf("table %d is older than %d, which keeps serving", t.version, old.version)
		}
		if old != nil && old.policy != t.policy {
			t.policy.countOn(old.policy)
		}
		if v.table.CompareAndSwap(old, t) {
			return nil
		}
	}
}

// SetSecrets makes these sign and verify cookies from now on.
func (v *Server) SetSecrets(s Secrets) error {
	if len(s) == 0 {
		return errors.New("no secret to sign cookies with; the present ones stay")
	}
	s = slices.Clone(s)
	v.shared.secrets.Store(&s)
	return nil
}

// Table is the one that is answered from; nil before the first.
func (v *Server) Table() *Table { return v.table.Load() }

// Counters are what the server has done.
func (v *Server) Counters() Counters {
	c := v.shared.tally.read()
	if t := v.table.Load(); t != nil {
		for _, z := range t.policy.zones {
			c.Answers = z.tally.read(c.Answers, z.apex.text())
		}
	}
	return c
}

// Serve answers until the context ends, then answers what has arrived, closes
// the sockets and returns. It is called once.
func (v *Server) Serve(ctx context.Context) error {
	defer v.close()
	if v.table.Load() == nil {
		return errors.New("there is no table to answer from")
	}
	var wg, accepting sync.WaitGroup
	for _, c := range v.udp {
		w, err := newWorker(v, c)
		if err != nil {
			return fmt.Errorf("answering at %v: %w", c.LocalAddr(), err)
		}
		wg.Go(w.run)
	}
	for _, l := range v.tcp {
		accepting.Go(func() { v.accept(l) })
	}
	<-ctx.Done()
	now := time.Now()
	for _, c := range v.udp {
		c.SetReadDeadline(now) // wakes it; what is in its queue is still answered
	}
	for _, l := range v.tcp {
		l.Close()
	}
	accepting.Wait() // those who were let in are answered
	v.door.shut(now.Add(lastWords))
	wg.Wait()
	return nil
}

func (v *Server) close() {
	for _, c := range v.udp {
		c.Close()
	}
	for _, l := range v.tcp {
		l.Close()
	}
}

// moment is a time as answers need it.
func (v *Server) moment(now time.Time) moment {
	return moment{unix: uint32(now.Unix()), ms: uint32(now.Sub(v.began) / time.Millisecond)}
}

func rand64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// responder makes one for a worker, or for a connection.
func (v *Server) responder(stream bool) responder {
	a := responder{shared: v.shared, sample: v.sample}
	a.choose.draw = rand64()
	if a.sample != nil {
		a.left = a.sample.first(a.choose.draw)
	}
	if !stream {
		rate := uint32(*v.settings.RateLimit)
		if rate > 0 {
			rate = max(1, rate/uint32(v.settings.Workers)) // the kernel spreads a flood over them
		}
		a.limit = newLimiter(rate, uint32(*v.settings.Slip), v.seed)
	}
	return a
}
