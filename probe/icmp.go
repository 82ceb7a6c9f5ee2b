package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/steadycast/steadycast"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// icmpProbe sends echo requests (RFC 792, RFC 4443 §4) and counts the replies.
// It uses the kernel's unprivileged ping socket where
// net.ipv4.ping_group_range allows it, and a raw socket where it has
// CAP_NET_RAW; with neither it gives unknown.
type icmpProbe struct {
	dialer
	target string
	set    ICMP
	kinds  []int // of socket, in order of preference
}

const (
	maxEchoes = 100
	echoGap   = 10 * time.Millisecond
	tokenLen  = 16 // random bytes in each round's echoes, so that only their own replies count
)

func (i *ICMP) withDefaults() *ICMP {
	if i.Count == 0 {
		i.Count = 3
	}
	return i
}

func icmpProblems(c Check) []Problem {
	var ps []Problem
	if c.Target != "" {
		ps = hostProblems(c.Target)
	}
	if c.ICMP.Count < 1 || c.ICMP.Count > maxEchoes {
		ps = append(ps, problem("icmp.count", "%d is out of range; 1 to %d", c.ICMP.Count, maxEchoes))
	} else if least := time.Duration(c.ICMP.Count) * echoGap; least >= c.Timeout {
		ps = append(ps, problem("icmp.count", "%d echoes take %v to send, and the timeout is %v", c.ICMP.Count, least, c.Timeout))
	}
	if c.ICMP.MaxLoss < 0 || c.ICMP.MaxLoss > 99 {
		ps = append(ps, problem("icmp.max_loss_percent", "%d is out of range; 0 to 99", c.ICMP.MaxLoss))
	}
	return append(ps, latencyProblems("icmp.max_latency", c.ICMP.MaxLatency, c.Timeout)...)
}

func compileICMP(c Check, env Env) (body, error) {
	return &icmpProbe{newDialer(c, env), c.Target, *c.ICMP, []int{unix.SOCK_DGRAM, unix.SOCK_RAW}}, nil
}

func (p *icmpProbe) probe(ctx context.Context) steadycast.Result {
	to, err := p.resolve(ctx, p.target)
	if err != nil {
		return failed(err, p.target, "resolving")
	}
	conn, raw, err := p.open(to)
	if err != nil {
		if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
			return unknown("ping is not permitted here (%v); widen net.ipv4.ping_group_range or give CAP_NET_RAW", err)
		}
		return failed(err, p.target, "opening a socket")
	}
	defer conn.Close()
	defer until(ctx, conn)()
	return p.count(ctx, conn, to, raw)
}

// count sends the echoes, a little apart, and reads replies until all have come
// or the deadline has.
func (p *icmpProbe) count(ctx context.Context, conn net.PacketConn, to netip.Addr, raw bool) steadycast.Result {
	var token [tokenLen]byte
	rand.Read(token[:])
	id := int(binary.BigEndian.Uint16(token[:]))
	sent := make([]time.Time, 0, p.set.Count)
	trips := make([]time.Duration, 0, p.set.Count)
	answered := make([]bool, p.set.Count)
	end, _ := ctx.Deadline()
	buf := make([]byte, 1500)
	for len(trips) < p.set.Count {
		if len(sent) < p.set.Count {
			sent = append(sent, time.Now())
			if _, err := conn.WriteTo(echo(to, id, len(sent)-1, token[:]), sockaddr(to, raw)); err != nil {
				return failed(err, p.target, "sending an echo")
			}
			wait := time.Now().Add(echoGap)
			if len(sent) == p.set.Count {
				wait = end
			}
			setReadDeadline(ctx, conn, wait)
		}
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			if isTimeout(err) && len(sent) < p.set.Count && ctx.Err() == nil {
				continue
			}
			if !isTimeout(err) {
				return failed(err, p.target, "waiting for echo replies")
			}
			break
		}
		if seq, ok := echoReply(buf[:n], from, to, id, token[:], raw); ok && seq < len(sent) && !answered[seq] {
			answered[seq] = true
			trips = append(trips, time.Since(sent[seq]))
		}
	}
	return p.judge(trips)
}

func (p *icmpProbe) judge(trips []time.Duration) steadycast.Result {
	lost := p.set.Count - len(trips)
	if lost*100 > p.set.MaxLoss*p.set.Count {
		return soft("%s: %d of %d echoes lost, over %d %%", p.target, lost, p.set.Count, p.set.MaxLoss)
	}
	slices.Sort(trips)
	if r, slow := tooSlow(trips[len(trips)/2], p.set.MaxLatency); slow {
		return r
	}
	return up("echoed")
}

// open makes a socket of the first kind that is permitted.
func (p *icmpProbe) open(to netip.Addr) (conn net.PacketConn, raw bool, err error) {
	for _, kind := range p.kinds {
		if conn, err = p.socket(to, kind); err == nil {
			return conn, kind == unix.SOCK_RAW, nil
		}
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EPROTONOSUPPORT) {
			break
		}
	}
	return nil, false, err
}

func (p *icmpProbe) socket(to netip.Addr, kind int) (net.PacketConn, error) {
	family, proto := unix.AF_INET, unix.IPPROTO_ICMP
	var local unix.Sockaddr = &unix.SockaddrInet4{}
	if to.Is6() {
		family, proto = unix.AF_INET6, unix.IPPROTO_ICMPV6
		local = &unix.SockaddrInet6{}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "icmp")
	defer f.Close() // FilePacketConn has its own copy
	if p.device != "" {
		if err := unix.BindToDevice(fd, p.device); err != nil {
			return nil, os.NewSyscallError("SO_BINDTODEVICE "+p.device, err)
		}
	}
	if p.source.IsValid() {
		if p.source.Is4() {
			local = &unix.SockaddrInet4{Addr: p.source.As4()}
		} else {
			local = &unix.SockaddrInet6{Addr: p.source.As16()}
		}
		if err := unix.Bind(fd, local); err != nil {
			return nil, os.NewSyscallError("bind", err)
		}
	}
	return net.FilePacketConn(f)
}

func sockaddr(to netip.Addr, raw bool) net.Addr {
	if raw {
		return &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()}
	}
	return &net.UDPAddr{IP: to.AsSlice(), Zone: to.Zone()}
}

func echo(to netip.Addr, id, seq int, token []byte) []byte {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: seq, Data: token}}
	if to.Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest // the kernel fills in the checksum, which covers addresses
	}
	b, _ := m.Marshal(nil) // an echo always marshals
	return b
}

// echoReply reports whether b is a reply from `to` to one of ours. A ping socket
// sees only its own and the kernel has put in an id of its choice; a raw socket
// sees everybody's, so token and id are looked at.
func echoReply(b []byte, from net.Addr, to netip.Addr, id int, token []byte, raw bool) (seq int, ok bool) {
	proto, want := 1, icmp.Type(ipv4.ICMPTypeEchoReply)
	if to.Is6() {
		proto, want = 58, ipv6.ICMPTypeEchoReply
	}
	var ip net.IP
	switch a := from.(type) {
	case *net.IPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	if a, valid := netip.AddrFromSlice(ip); !valid || a.Unmap() != to.WithZone("") {
		return 0, false
	}
	m, err := icmp.ParseMessage(proto, b)
	if err != nil || m.Type != want {
		return 0, false
	}
	e, isEcho := m.Body.(*icmp.Echo)
	if !isEcho || string(e.Data) != string(token) || raw && e.ID != id {
		return 0, false
	}
	return e.Seq, true
}
