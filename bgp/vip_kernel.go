package bgp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ifaProto is IFA_PROTO of linux/if_addr.h (Linux 5.18): a number that the
// kernel keeps with an address, of either family, and shows in every dump. It
// is our mark of ownership.
const ifaProto = 11

// hostAddr is one address as the kernel shows it.
type hostAddr struct {
	Prefix netip.Prefix
	Index  int32
	Proto  uint8
	Flags  uint32
}

// hostLink is one interface as the kernel shows it.
type hostLink struct {
	Index int32
	Name  string
	Up    bool
}

// errNoLink is returned for an interface that does not exist.
var errNoLink = errors.New("no such interface")

// kernel makes requests over one socket, opened once: it stays in the network
// namespace in which it was opened, whatever thread uses it later, and needs no
// new descriptor when descriptors have run out. Owned by one goroutine.
type kernel struct{ sockets map[int]*nl.SocketHandle }

func openKernel() (*kernel, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE) // no groups: a plain request socket
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	// A request that the kernel answers late must not stop the owner for good.
	patience := unix.Timeval{Sec: 3}
	if err := errors.Join(s.SetSendTimeout(&patience), s.SetReceiveTimeout(&patience), s.SetExtAck(true)); err != nil {
		s.Close()
		return nil, fmt.Errorf("netlink: %w", err)
	}
	return &kernel{map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}}, nil
}

func (k *kernel) close() { k.sockets[unix.NETLINK_ROUTE].Close() }

func (k *kernel) request(kind, flags int, parts ...nl.NetlinkRequestData) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = k.sockets
	for _, p := range parts {
		r.AddData(p)
	}
	return r
}

// links lists the interfaces.
func (k *kernel) links() ([]hostLink, error) {
	msgs, err := k.dump(unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var all []hostLink
	for _, m := range msgs {
		if l, ok := parseLink(m); ok {
			all = append(all, l)
		}
	}
	return all, nil
}

// addrs lists the addresses of every interface, in the kernel's order.
func (k *kernel) addrs() ([]hostAddr, error) {
	msgs, err := k.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var all []hostAddr
	for _, m := range msgs {
		if a, ok := parseAddr(m); ok {
			all = append(all, a)
		}
	}
	return all, nil
}

// dump asks again when the kernel says that the list changed while it was read.
func (k *kernel) dump(ask int, want uint16, head nl.NetlinkRequestData) (msgs [][]byte, err error) {
	for range 5 {
		msgs, err = k.request(ask, unix.NLM_F_DUMP, head).Execute(unix.NETLINK_ROUTE, want)
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	return msgs, err
}

// add puts an address on an interface with our mark. An address that is there
// already is left as it is.
func (k *kernel) add(p netip.Prefix, link int32, mark uint8, label string) error {
	parts := addrParts(p, link)
	parts = append(parts, nl.NewRtAttr(ifaProto, []byte{mark}))
	switch {
	case p.Addr().Is6():
		// No duplicate address detection: an anycast address is meant to be held
		// by many (RFC 4862 §5.4), and must be usable at once. No route for the
		// prefix either: the address is for this host alone.
		flags := binary.NativeEndian.AppendUint32(nil, unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE)
		parts = append(parts, nl.NewRtAttr(unix.IFA_FLAGS, flags))
	case label != "":
		parts = append(parts, nl.NewRtAttr(unix.IFA_LABEL, nl.ZeroTerminated(label)))
	}
	_, err := k.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, parts...).Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// remove takes an address off an interface. One that is gone already is no error.
func (k *kernel) remove(p netip.Prefix, link int32) error {
	_, err := k.request(unix.RTM_DELADDR, unix.NLM_F_ACK, addrParts(p, link)...).Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func addrParts(p netip.Prefix, link int32) []nl.NetlinkRequestData {
	family := unix.AF_INET
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	head := nl.NewIfAddrmsg(family)
	head.Prefixlen = uint8(p.Bits())
	head.Index = uint32(link)
	ip := p.Addr().AsSlice()
	return []nl.NetlinkRequestData{head, nl.NewRtAttr(unix.IFA_LOCAL, ip), nl.NewRtAttr(unix.IFA_ADDRESS, ip)}
}

// attributes reads what follows a message's header. The library steps from one
// attribute to the next by its length rounded up to four, past the end where
// the last one is not padded; so what is read ends on such a border.
func attributes(b []byte) ([]syscall.NetlinkRouteAttr, error) {
	if odd := len(b) % unix.RTA_ALIGNTO; odd != 0 {
		b = append(slices.Clip(b), make([]byte, unix.RTA_ALIGNTO-odd)...)
	}
	return nl.ParseRouteAttr(b)
}

// parseAddr reads one RTM_NEWADDR or RTM_DELADDR message.
func parseAddr(m []byte) (hostAddr, bool) {
	if len(m) < unix.SizeofIfAddrmsg {
		return hostAddr{}, false
	}
	head := nl.DeserializeIfAddrmsg(m)
	attrs, err := attributes(m[unix.SizeofIfAddrmsg:])
	if err != nil {
		return hostAddr{}, false
	}
	a := hostAddr{Index: int32(head.Index), Flags: uint32(head.Flags)}
	var local, address netip.Addr
	for _, at := range attrs {
		switch at.Attr.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(at.Value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(at.Value)
		case unix.IFA_FLAGS: // the header has room for eight of them only
			if len(at.Value) >= 4 {
				a.Flags = binary.NativeEndian.Uint32(at.Value)
			}
		case ifaProto:
			if len(at.Value) >= 1 {
				a.Proto = at.Value[0]
			}
		}
	}
	// IFA_ADDRESS is the far end on a point-to-point link; ours is IFA_LOCAL then.
	if !local.IsValid() {
		local = address
	}
	a.Prefix = netip.PrefixFrom(local, int(head.Prefixlen))
	return a, a.Prefix.IsValid()
}

// parseLink reads one RTM_NEWLINK or RTM_DELLINK message.
func parseLink(m []byte) (hostLink, bool) {
	if len(m) < unix.SizeofIfInfomsg {
		return hostLink{}, false
	}
	head := nl.DeserializeIfInfomsg(m)
	attrs, err := attributes(m[unix.SizeofIfInfomsg:])
	if err != nil {
		return hostLink{}, false
	}
	l := hostLink{Index: head.Index, Up: head.Flags&unix.IFF_UP != 0}
	for _, at := range attrs {
		if at.Attr.Type == unix.IFLA_IFNAME {
			l.Name = nl.BytesToString(at.Value)
		}
	}
	return l, l.Name != ""
}

// openWatch subscribes to changes of addresses and interfaces.
func openWatch() (*nl.NetlinkSocket, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("netlink subscription: %w", err)
	}
	// About 40,000 events. Beyond rmem_max only with CAP_NET_ADMIN of the host,
	// hence the second try; what does not fit is made good by reading everything.
	const room = 8 << 20
	if s.SetReceiveBufferSize(room, true) != nil {
		_ = s.SetReceiveBufferSize(room, false)
	}
	return s, nil
}

// concerns reports whether a message of the subscription may change what is
// known of the addresses that interest accepts.
func concerns(m syscall.NetlinkMessage, interest func(hostAddr) bool) bool {
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, ok := parseAddr(m.Data)
		return ok && interest(a)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return true
	}
	return false
}
