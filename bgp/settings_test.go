package bgp

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/bfd"
)

func plain() Settings {
	return Settings{
		ASN: 65001, RouterID: netip.MustParseAddr("192.0.2.1"),
		Allow:     []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Neighbors: []Neighbor{{Name: "tor1", Address: netip.MustParseAddr("192.0.2.254"), ASN: 65000}},
	}
}

func TestDefaults(t *testing.T) {
	s := plain()
	s.Neighbors = append(s.Neighbors, Neighbor{Name: "rr", Address: netip.MustParseAddr("192.0.2.253"), ASN: 65001, HoldTime: 4 * time.Second})
	d := s.WithDefaults()
	if again := d.WithDefaults(); !reflect.DeepEqual(again, d) {
		t.Errorf("twice is not once:\n%+v\n%+v", d, again)
	}
	if !reflect.DeepEqual(s.Neighbors[0], plain().Neighbors[0]) {
		t.Error("the original was changed")
	}
	e, i := d.Neighbors[0], d.Neighbors[1]
	if e.Port != 179 || e.HoldTime != 9*time.Second || e.Keepalive != 3*time.Second || e.ConnectRetry != 2*time.Second || e.LocalPref != nil || !reflect.DeepEqual(e.Families, []string{"ipv4"}) {
		t.Errorf("external: %+v", e)
	}
	if i.Keepalive != time.Second || *i.LocalPref != 100 {
		t.Errorf("internal: %+v", i)
	}
	if w := e.Deprefer; !*w.GracefulShutdown || *w.MED != 4294967294 || *w.Prepend != 3 || w.LocalPref != nil {
		t.Errorf("external deprefer: %+v", w)
	}
	if w := i.Deprefer; !*w.GracefulShutdown || w.MED != nil || w.Prepend != nil || *w.LocalPref != 0 {
		t.Errorf("internal deprefer: %+v", w)
	}
	if !reflect.DeepEqual(e.Drain, e.Deprefer) || !reflect.DeepEqual(i.Drain, i.Deprefer) {
		t.Error("drain is not deprefer")
	}
	// Something given: the rest stays ordinary, GSHUT stays on.
	s.Neighbors[0].Deprefer = Deprefer{MED: new(uint32(9))}
	if w := s.WithDefaults().Neighbors[0].Deprefer; !*w.GracefulShutdown || w.Prepend != nil || *w.MED != 9 {
		t.Errorf("partly given: %+v", w)
	}
	// GSHUT off for deprefer stays on for drain: that is what drain is (RFC 8326).
	s.Neighbors[0].Deprefer.GracefulShutdown = new(false)
	if w := s.WithDefaults().Neighbors[0].Drain; !*w.GracefulShutdown || *w.MED != 9 {
		t.Errorf("drain like deprefer: %+v", w)
	}
}

func TestProblems(t *testing.T) {
	p6 := netip.MustParsePrefix("2001:db8::/32")
	for _, c := range []struct {
		change func(*Settings, *Neighbor)
		want   string
	}{
		{func(s *Settings, n *Neighbor) {}, ""},
		{func(s *Settings, n *Neighbor) { s.ASN = 0 }, "asn: 0 is not an autonomous system (RFC 7607); write 1…4294967294"},
		{func(s *Settings, n *Neighbor) { s.ASN = 23456 }, "asn: 23456 is AS_TRANS, which stands for others (RFC 6793); write the AS itself"},
		{func(s *Settings, n *Neighbor) { s.RouterID = netip.Addr{} }, "router_id: nothing is not a BGP identifier; write an IPv4 address that no other peer of the router uses (RFC 4271 §4.2)"},
		{func(s *Settings, n *Neighbor) { s.Allow[0] = netip.MustParsePrefix("192.0.2.5/24") }, "allow[0]: 192.0.2.5/24 has bits set beyond its length; did you mean 192.0.2.0/24?"},
		{func(s *Settings, n *Neighbor) { s.Allow[0] = netip.MustParsePrefix("0.0.0.0/0") }, "allow[0]: 0.0.0.0/0 would allow every address there is; list the prefixes that are yours"},
		{func(s *Settings, n *Neighbor) { s.Allow[0] = netip.MustParsePrefix("127.0.0.0/8") }, "allow[0]: 127.0.0.0/8 cannot be reached from elsewhere; allow only unicast prefixes that others can route to"},
		{func(s *Settings, n *Neighbor) { s.Allow = append(s.Allow, p6); n.Families = []string{"ipv4"} }, "allow[1]: 2001:db8::/32 would be announced to nobody: no neighbour has ipv6 in its families"},
		{func(s *Settings, n *Neighbor) { s.Allow = append(s.Allow, p6) }, "neighbors[0].next_hop6: is missing: an IPv6 prefix over the IPv4 session with 192.0.2.254 has no next hop of its own; write this node's IPv6 address, or families: [ipv4]"},
		{func(s *Settings, n *Neighbor) { n.Address = netip.MustParseAddr("2001:db8::254") }, "neighbors[0].next_hop4: is missing: an IPv4 prefix over the IPv6 session with 2001:db8::254 has no next hop of its own; write this node's IPv4 address, or families: [ipv6]"},
		{func(s *Settings, n *Neighbor) { s.Neighbors = nil }, "neighbors: there is no neighbour; name at least one router"},
		{func(s *Settings, n *Neighbor) { n.Name = "Tor 1" }, `neighbors[0].name: "Tor 1" is not a name; write a letter, then up to 62 of a-z 0-9 _ -`},
		{func(s *Settings, n *Neighbor) { n.Address = netip.MustParseAddr("0.0.0.0") }, "neighbors[0].address: 0.0.0.0 is not a router's address; write an IPv4 or IPv6 literal"},
		{func(s *Settings, n *Neighbor) {
			n.Address, n.NextHop4 = netip.MustParseAddr("fe80::1"), netip.MustParseAddr("192.0.2.1")
		}, "neighbors[0].address: fe80::1 is link-local and needs its interface: fe80::1%eth0"},
		{func(s *Settings, n *Neighbor) { n.LocalAddress = netip.MustParseAddr("2001:db8::1") }, "neighbors[0].local_address: 2001:db8::1 and the router's 192.0.2.254 are of different families"},
		{func(s *Settings, n *Neighbor) { n.ListenPort = 179 }, "neighbors[0].listen_port: has no effect without passive: true; remove one of them"},
		{func(s *Settings, n *Neighbor) { n.Password = string(make([]byte, 81)) }, "neighbors[0].password: is 81 octets; TCP-MD5 takes 1…80"},
		{func(s *Settings, n *Neighbor) { n.Password, n.PasswordFile = "x", "/y" }, "neighbors[0].password_file: stands beside password; keep one of them, better the file"},
		{func(s *Settings, n *Neighbor) { n.TTLSecurity, n.Multihop = 1, 2 }, "neighbors[0].multihop: stands beside ttl_security, which already says how far the router may be; keep one of them"},
		{func(s *Settings, n *Neighbor) { n.BFD = &bfd.Settings{} }, ""},
		{func(s *Settings, n *Neighbor) { n.BFD = &bfd.Settings{Interval: time.Millisecond} }, "neighbors[0].bfd.interval: 1ms is outside 10ms…10s; leave it out for 300ms"},
		{func(s *Settings, n *Neighbor) { n.BFD = &bfd.Settings{Interval: 20*time.Millisecond + 1} }, "neighbors[0].bfd.interval: 20.000001ms is not whole microseconds, which is all the packet carries (RFC 5880 §4.1)"},
		{func(s *Settings, n *Neighbor) { n.BFD = &bfd.Settings{Multiplier: 51} }, "neighbors[0].bfd.multiplier: 51 is more than 50; leave it out for 3"},
		{func(s *Settings, n *Neighbor) { n.BFD, n.TTLSecurity = &bfd.Settings{}, 2 }, "neighbors[0].bfd: is for a router one hop away (RFC 5881), and this one may be farther by multihop or ttl_security; remove one of them"},
		{func(s *Settings, n *Neighbor) { n.HoldTime = 2 * time.Second }, "neighbors[0].hold_time: 2s is under the 3s minimum (RFC 4271 §4.2); leave it out for 9s"},
		{func(s *Settings, n *Neighbor) { n.HoldTime = 3500 * time.Millisecond }, "neighbors[0].hold_time: 3.5s is not whole seconds, which is all the message carries; write 4s"},
		{func(s *Settings, n *Neighbor) { n.Keepalive = 8 * time.Second }, "neighbors[0].keepalive: 8s leaves the router no second chance before the hold time of 9s; leave it out for a third of that"},
		{func(s *Settings, n *Neighbor) { n.ConnectRetry = time.Hour }, "neighbors[0].connect_retry: 1h0m0s is outside 100ms…5m; leave it out for 2s"},
		{func(s *Settings, n *Neighbor) { n.Families = []string{"ipv4", "evpn"} }, `neighbors[0].families[1]: "evpn" is not an address family; allowed: ipv4, ipv6`},
		{func(s *Settings, n *Neighbor) { n.NextHop4 = netip.MustParseAddr("127.0.0.1") }, "neighbors[0].next_hop4: 127.0.0.1 is a loopback address, which is the router itself"},
		{func(s *Settings, n *Neighbor) { n.NextHop6 = netip.MustParseAddr("::ffff:192.0.2.1") }, "neighbors[0].next_hop6: ::ffff:192.0.2.1 is an IPv4-mapped address, which routers accept and then forward nowhere"},
		{func(s *Settings, n *Neighbor) { n.Prepend = 11 }, "neighbors[0].prepend: 11 is more than 10; longer paths are filtered by others"},
		{func(s *Settings, n *Neighbor) { n.ASN, n.Prepend = 65001, 1 }, "neighbors[0].prepend: our own AS in the path makes an iBGP router drop the route as a loop (RFC 4271 §9.1.2); use local_pref"},
		{func(s *Settings, n *Neighbor) { n.LocalPref = new(uint32(5)) }, "neighbors[0].local_pref: is sent on iBGP only (RFC 4271 §5.1.5); use med, prepend or a community the router knows"},
		{func(s *Settings, n *Neighbor) { n.Deprefer.GracefulShutdown = new(false) }, "neighbors[0].deprefer.graceful_shutdown: false alone leaves nothing that makes a route less attractive; add prepend, med or a community"},
		{func(s *Settings, n *Neighbor) { n.Drain.LocalPref = new(uint32(0)) }, "neighbors[0].drain.local_pref: is sent on iBGP only (RFC 4271 §5.1.5); use med, prepend or a community the router knows"},
		{func(s *Settings, n *Neighbor) { s.Neighbors = append(s.Neighbors, *n); s.Neighbors[1].Name = "b" }, "neighbors[1].address: 192.0.2.254 is also neighbors[0]; one router is one neighbour"},
		{func(s *Settings, n *Neighbor) { s.Neighbors = append(s.Neighbors, *n); s.Neighbors[1].Port = 1790 }, `neighbors[1].name: "tor1" is also neighbors[0]; names must differ`},
	} {
		s := plain()
		c.change(&s, &s.Neighbors[0])
		ps := s.Problems()
		switch {
		case c.want == "" && len(ps) == 0:
		case c.want != "" && len(ps) == 1 && ps[0].String() == c.want:
		default:
			t.Errorf("got  %q\nwant %q", ps, c.want)
		}
	}
	if n := len((Settings{}).Problems()); n != 4 {
		t.Errorf("nothing at all: %d problems, want asn, router_id, allow, neighbors", n)
	}
	if n := len((Settings{Neighbors: make([]Neighbor, 1), Allow: make([]netip.Prefix, 1)}).Problems()); n < 5 {
		t.Errorf("zero values: %d problems", n)
	}
}

// A second, naive reading of the allow-list.
func TestAllowList(t *testing.T) {
	list := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.53/32"), netip.MustParsePrefix("2001:db8::/32")}
	a := newAllowList(list)
	for _, s := range []string{"10.0.0.0/8", "10.1.2.3/32", "0.0.0.0/0", "10.0.0.0/7", "192.0.2.53/32", "192.0.2.52/32", "192.0.2.0/24", "2001:db8::/32", "2001:db8:1::/48", "2001:db9::/48", "::/0", "a00::/16"} {
		p, naive := netip.MustParsePrefix(s), false
		for _, l := range list {
			naive = naive || l.Bits() <= p.Bits() && l.Contains(p.Addr())
		}
		if got := a.covers(p); got != naive {
			t.Errorf("%s: %v, want %v", p, got, naive)
		}
	}
}

func TestResolve(t *testing.T) {
	s := plain()
	s.Neighbors[0].Communities = []steadycast.Community{5, 3}
	s.Neighbors[0].MED = new(uint32(1))
	s.Neighbors[0].Prepend = 1
	s.Neighbors[0].Drain = Deprefer{Communities: []steadycast.Community{4}}
	s = s.WithDefaults()
	local := netip.MustParseAddr("192.0.2.7")
	r := newResolver(s, s.Neighbors[0], local)
	route := steadycast.Route{Prefix: netip.MustParsePrefix("192.0.2.53/32"), Communities: []steadycast.Community{3, 9}, MED: new(uint32(2))}
	for stance, want := range map[steadycast.Stance]pathAttributes{
		steadycast.Normal:      {nextHop: local, prepend: 1, med: new(uint32(2)), communities: []steadycast.Community{3, 5, 9}},
		steadycast.Depreferred: {nextHop: local, prepend: 4, med: new(uint32(4294967294)), communities: []steadycast.Community{3, 5, 9, steadycast.GracefulShutdown}},
		steadycast.Draining:    {nextHop: local, prepend: 1, med: new(uint32(2)), communities: []steadycast.Community{3, 4, 5, 9, steadycast.GracefulShutdown}},
	} {
		route.Stance = stance
		if got := r.resolve(route); !got.equal(&want) {
			t.Errorf("%s: %+v, want %+v", stance, got, want)
		}
		if again := r.resolve(route); again != r.resolve(route) {
			t.Errorf("%s: equal attributes are not one", stance)
		}
	}
	if got := r.resolve(steadycast.Route{Prefix: netip.MustParsePrefix("2001:db8::/48")}); got != nil {
		t.Errorf("a family not carried: %+v", got)
	}
	if got := newResolver(s, s.Neighbors[0], netip.Addr{}).resolve(route); got != nil {
		t.Errorf("no next hop known yet: %+v", got)
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		ups  []time.Duration // how long each attempt was established
		want []time.Duration
	}{
		{[]time.Duration{0, 0, 0, 0, 0, 0, 0}, []time.Duration{2e9, 4e9, 8e9, 16e9, 30e9, 30e9, 30e9}},
		{[]time.Duration{time.Hour, time.Hour}, []time.Duration{0, 0}},
		{[]time.Duration{time.Second, time.Second, time.Second, time.Minute}, []time.Duration{0, 4e9, 8e9, 0}},
		{[]time.Duration{time.Hour, 0, 0, time.Hour, 0}, []time.Duration{0, 4e9, 8e9, 0, 4e9}},
	} {
		b := backoff{base: 2 * time.Second}
		for i, u := range c.ups {
			if got := b.after(u, 0.5); got != c.want[i] {
				t.Errorf("%v: attempt %d waits %s, want %s", c.ups, i, got, c.want[i])
			}
		}
	}
	b := backoff{base: 2 * time.Second}
	if lo := b.after(0, 0); lo != 1500*time.Millisecond {
		t.Errorf("shortest first pause %s", lo)
	}
	for range 100 {
		if hi := b.after(0, 0.999); hi > 38*time.Second {
			t.Fatalf("pause %s", hi)
		}
	}
}
