package dnsfallback

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// batch is how many datagrams go through one system call.
	batch = 64
	// packetSize is the longest question that is read; a longer one cannot be right.
	packetSize = 2048
	// controlSize holds one IP_PKTINFO or IPV6_PKTINFO message.
	controlSize = 64
)

// mmsghdr is the kernel's: one message of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   uint32
}

// A worker owns one socket: it reads a batch, answers each, sends the batch.
// Everything it needs is made once.
type worker struct {
	server *Server
	raw    syscall.RawConn
	answer responder
	v6     bool
	// wildcard: the address that was asked comes with each datagram, and is the
	// one that the answer leaves from.
	wildcard bool

	in, out   [batch]mmsghdr
	iov, oov  [batch]unix.Iovec
	questions [batch][packetSize]byte
	answers   [batch][]byte
	names     [batch]unix.RawSockaddrInet6 // large enough for both families
	controls  [batch][controlSize]byte

	got, sent, ready int
}

func newWorker(v *Server, c *net.UDPConn) (*worker, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	at := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	w := &worker{server: v, raw: raw, answer: v.responder(false), v6: at.Is6(), wildcard: at.IsUnspecified()}
	for i := range batch {
		w.answers[i] = make([]byte, 0, packetSize)
		w.iov[i].Base = &w.questions[i][0]
		w.iov[i].SetLen(packetSize)
		w.in[i].hdr.Iov, w.in[i].hdr.Iovlen = &w.iov[i], 1
		w.in[i].hdr.Name = (*byte)(unsafe.Pointer(&w.names[i]))
		w.out[i].hdr.Iov, w.out[i].hdr.Iovlen = &w.oov[i], 1
		if w.wildcard {
			w.in[i].hdr.Control = &w.controls[i][0]
		}
	}
	return w, nil
}

// run answers until its socket is closed, or its deadline has passed and
// nothing waits any more.
func (w *worker) run() {
	read, write := w.read, w.write
	for {
		if err := w.raw.Read(read); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				w.drain(read, write)
			}
			return
		}
		w.turn(write)
	}
}

// drain answers what came before the server was told to stop.
func (w *worker) drain(read, write func(uintptr) bool) {
	for more := true; more; {
		w.got = 0
		w.raw.Control(func(fd uintptr) { more = read(fd) && w.got > 0 })
		w.turn(write)
	}
}

func (w *worker) turn(write func(uintptr) bool) {
	if w.got == 0 {
		return
	}
	began := time.Now()
	defer func() { w.server.shared.tally.udp.took(time.Since(began), w.got) }()
	w.respond(began)
	for w.sent < w.ready {
		if w.raw.Write(write) != nil {
			return
		}
	}
}

// read takes what waits; it reports false when the socket is empty.
func (w *worker) read(fd uintptr) bool {
	for i := range w.in {
		w.in[i].hdr.Namelen = unix.SizeofSockaddrInet6
		if w.wildcard {
			w.in[i].hdr.SetControllen(controlSize)
		}
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&w.in[0])), batch, unix.MSG_DONTWAIT, 0, 0)
	w.got = 0
	switch errno {
	case 0:
		w.got = int(n)
	case unix.EAGAIN:
		return false
	} // else an error that an earlier answer brought back; it is spent now
	return true
}

// respond answers the batch that was read.
func (w *worker) respond(at time.Time) {
	w.sent, w.ready = 0, 0
	t, now := w.server.table.Load(), w.server.moment(at)
	for i := range w.got {
		in := &w.in[i]
		if in.hdr.Flags&unix.MSG_TRUNC != 0 || w.wildcard && !w.turnAround(i) {
			w.server.shared.tally.dropped.Add(1)
			continue
		}
		k := w.ready
		w.answers[k] = w.answer.respond(w.answers[k][:0], w.questions[i][:in.n], t, w.from(i), now, false)
		n := len(w.answers[k])
		if n == 0 {
			continue
		}
		w.oov[k].Base = &w.answers[k][0]
		w.oov[k].SetLen(n)
		out := &w.out[k].hdr
		out.Name, out.Namelen = in.hdr.Name, in.hdr.Namelen
		if w.wildcard {
			out.Control, out.Controllen = in.hdr.Control, in.hdr.Controllen
		}
		w.ready++
	}
}

// write sends what is ready; it reports false when the socket is full.
func (w *worker) write(fd uintptr) bool {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&w.out[w.sent])), uintptr(w.ready-w.sent), unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		w.sent += int(n)
	case unix.EAGAIN:
		return false
	default: // of the first; the others have their turn
		w.server.shared.tally.unsent.Add(1)
		w.sent++
	}
	return true
}

// from is who asked.
func (w *worker) from(i int) netip.AddrPort {
	if w.v6 {
		sa := &w.names[i]
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), port(&sa.Port))
	}
	sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&w.names[i]))
	return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), port(&sa.Port))
}

func port(p *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(p))
	return uint16(b[0])<<8 | uint16(b[1])
}

// turnAround makes what the kernel said of a datagram's destination into what
// it wants to be told of the answer's source. Without it the answer would leave
// from another address, and be taken for a forgery; so there is none.
func (w *worker) turnAround(i int) bool {
	h := &w.in[i].hdr
	if h.Controllen < unix.SizeofCmsghdr {
		return false
	}
	c := (*unix.Cmsghdr)(unsafe.Pointer(&w.controls[i]))
	data := unsafe.Pointer(&w.controls[i][unix.CmsgLen(0)])
	switch {
	case !w.v6 && c.Level == unix.IPPROTO_IP && c.Type == unix.IP_PKTINFO:
		info := (*unix.Inet4Pktinfo)(data)
		info.Spec_dst, info.Ifindex = info.Addr, 0 // the route decides the interface
	case w.v6 && c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_PKTINFO:
		info := (*unix.Inet6Pktinfo)(data)
		if info.Addr[0] != 0xFE || info.Addr[1]&0xC0 != 0x80 {
			info.Ifindex = 0 // but for link-local addresses, which need theirs
		}
	default:
		return false
	}
	return true
}
