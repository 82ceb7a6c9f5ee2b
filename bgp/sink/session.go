package sink

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/steadycast/steadycast"
)

// session is one peer's connection. Its goroutine run reads; writes are
// serialised by write.
type session struct {
	r    *Router
	c    net.Conn
	peer netip.Addr

	write sync.Mutex
}

// run is the whole state machine: OPEN for OPEN, KEEPALIVE for KEEPALIVE, then
// UPDATEs until something breaks.
func (s *session) run() {
	defer func() {
		s.c.Close()
		s.r.mu.Lock()
		delete(s.r.all, s)
		s.r.forget(s)
		s.r.mu.Unlock()
	}()
	in := bufio.NewReaderSize(s.c, 64<<10)
	if s.send(s.open()) != nil {
		return
	}
	hold := s.r.o.HoldTime
	var stop chan struct{}
	defer func() {
		if stop != nil {
			close(stop)
		}
	}()
	for {
		s.c.SetReadDeadline(time.Now().Add(hold))
		m, err := read(in)
		if err != nil {
			return
		}
		s.r.listening()
		switch b := m.Body.(type) {
		case *bgp.BGPOpen:
			if b.HoldTime > 0 {
				hold = min(hold, time.Duration(b.HoldTime)*time.Second)
			}
			if s.send(bgp.NewBGPKeepAliveMessage()) != nil {
				return
			}
		case *bgp.BGPKeepAlive:
			if stop == nil {
				stop = make(chan struct{})
				s.r.up(s)
				go s.keepalive(hold/3, stop)
			}
		case *bgp.BGPNotification:
			s.notified(b)
			return
		case *bgp.BGPUpdate:
			s.update(b)
		}
	}
}

// read reads one message; a panic of the parser is an error.
func read(r *bufio.Reader) (m *bgp.BGPMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parsing panicked: %v", p)
		}
	}()
	h, err := r.Peek(bgp.BGP_HEADER_LENGTH)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(h[16:]))
	if n < bgp.BGP_HEADER_LENGTH || n > bgp.BGP_MAX_MESSAGE_LENGTH {
		return nil, errors.New("a message of an impossible length")
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return bgp.ParseBGPMessage(b)
}

func (s *session) open() *bgp.BGPMessage {
	o := s.r.o
	caps := []bgp.ParameterCapabilityInterface{bgp.NewCapRouteRefresh()}
	for _, f := range o.Families {
		rf := bgp.RF_IPv4_UC
		if f == "ipv6" {
			rf = bgp.RF_IPv6_UC
		}
		caps = append(caps, bgp.NewCapMultiProtocol(rf))
	}
	as2 := uint16(bgp.AS_TRANS)
	if o.ASN <= 0xffff {
		as2 = uint16(o.ASN)
	}
	if !o.TwoOctet {
		caps = append(caps, bgp.NewCapFourOctetASNumber(o.ASN))
	}
	hold := uint16(o.HoldTime / time.Second)
	if o.HoldZero {
		hold = 0
	}
	return bgp.NewBGPOpenMessage(as2, hold, o.RouterID.String(), []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(caps)})
}

func (s *session) send(m *bgp.BGPMessage) error {
	b, err := m.Serialize()
	if err != nil {
		return err
	}
	return s.sendRaw(b)
}

func (s *session) sendRaw(b []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.c.Write(b)
	return err
}

func (s *session) keepalive(every time.Duration, stop chan struct{}) {
	t := time.NewTicker(max(every, time.Second))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if s.send(bgp.NewBGPKeepAliveMessage()) != nil {
				return
			}
		case <-stop:
			return
		}
	}
}

func (s *session) notified(b *bgp.BGPNotification) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notifications = append(r.notifications, Notification{time.Now(), s.peer, b.ErrorCode, b.ErrorSubcode, b.Data})
	if n := len(r.notifications); n > notificationBuffer {
		r.notifications = append(r.notifications[:0], r.notifications[n-notificationBuffer:]...)
	}
	r.notify()
}

// update takes one UPDATE into the table.
func (s *session) update(u *bgp.BGPUpdate) {
	at := time.Now()
	a, gone, come := take(u)
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates[s.peer]++
	t := r.table[s.peer]
	if t == nil || r.sessions[s.peer] != s {
		return
	}
	for _, p := range gone {
		if was, ok := t[p]; ok {
			delete(t, p)
			r.emit(Event{At: at, Peer: s.peer, Prefix: p, Attributes: was})
		}
	}
	for _, c := range come {
		a.NextHop = c.hop
		t[c.prefix] = a
		r.emit(Event{At: at, Peer: s.peer, Announce: true, Prefix: c.prefix, Attributes: a})
	}
	r.notify()
}

type route struct {
	prefix netip.Prefix
	hop    netip.Addr
}

// take takes an UPDATE apart.
func take(u *bgp.BGPUpdate) (a steadycast.Attributes, gone []netip.Prefix, come []route) {
	var hop netip.Addr
	for _, w := range u.WithdrawnRoutes {
		gone = append(gone, prefix(w))
	}
	for _, attr := range u.PathAttributes {
		switch v := attr.(type) {
		case *bgp.PathAttributeNextHop:
			hop = address(v.Value)
		case *bgp.PathAttributeAsPath:
			a.ASPath = []uint32{}
			for _, seg := range v.Value {
				a.ASPath = append(a.ASPath, seg.GetAS()...)
			}
		case *bgp.PathAttributeAs4Path:
			a.ASPath = []uint32{}
			for _, seg := range v.Value {
				a.ASPath = append(a.ASPath, seg.AS...)
			}
		case *bgp.PathAttributeMultiExitDisc:
			a.MED = &v.Value
		case *bgp.PathAttributeLocalPref:
			a.LocalPref = &v.Value
		case *bgp.PathAttributeCommunities:
			for _, c := range v.Value {
				a.Communities = append(a.Communities, steadycast.Community(c))
			}
		case *bgp.PathAttributeLargeCommunities:
			for _, c := range v.Values {
				a.LargeCommunities = append(a.LargeCommunities, steadycast.LargeCommunity{Global: c.ASN, Data1: c.LocalData1, Data2: c.LocalData2})
			}
		case *bgp.PathAttributeMpUnreachNLRI:
			for _, n := range v.Value {
				gone = append(gone, prefix(n))
			}
		case *bgp.PathAttributeMpReachNLRI:
			for _, n := range v.Value {
				come = append(come, route{prefix(n), address(v.Nexthop)})
			}
		}
	}
	for _, n := range u.NLRI {
		come = append(come, route{prefix(n), hop})
	}
	return a, gone, come
}

func prefix(n bgp.AddrPrefixInterface) netip.Prefix {
	p, _ := netip.ParsePrefix(n.String())
	return p
}

func address(ip net.IP) netip.Addr {
	if v4 := ip.To4(); v4 != nil && len(ip) == 4 {
		return netip.AddrFrom4([4]byte(v4))
	}
	a, _ := netip.AddrFromSlice(ip)
	return a
}
