package bgp

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// updateBytes writes an UPDATE with GoBGP's own library.
func updateBytes(t interface{ Fatal(...any) }, withdrawn, nlri []netip.Prefix, hop string, attrs ...packet.PathAttributeInterface) []byte {
	v4 := func(ps []netip.Prefix) (out []*packet.IPAddrPrefix) {
		for _, p := range ps {
			if p.Addr().Is4() {
				out = append(out, packet.NewIPAddrPrefix(uint8(p.Bits()), p.Addr().String()))
			}
		}
		return out
	}
	v6 := func(ps []netip.Prefix) (out []packet.AddrPrefixInterface) {
		for _, p := range ps {
			if p.Addr().Is6() {
				out = append(out, packet.NewIPv6AddrPrefix(uint8(p.Bits()), p.Addr().String()))
			}
		}
		return out
	}
	if n := v6(nlri); len(n) > 0 {
		attrs = append(attrs, packet.NewPathAttributeMpReachNLRI(hop, n))
	} else if len(nlri) > 0 {
		attrs = append(attrs, packet.NewPathAttributeNextHop(hop))
	}
	if n := v6(withdrawn); len(n) > 0 {
		attrs = append(attrs, packet.NewPathAttributeMpUnreachNLRI(n))
	}
	b, err := packet.NewBGPUpdateMessage(v4(withdrawn), attrs, v4(nlri)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What GoBGP's writer writes, our reader reads: a second implementation of each.
func TestReadUpdateAgainstGoBGP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		six := rapid.Bool().Draw(t, "ipv6")
		prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
			if six {
				a := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address")))
				if a.Is4In6() {
					a = netip.MustParseAddr("2001:db8::")
				}
				p, _ := a.Prefix(rapid.IntRange(0, 128).Draw(t, "bits"))
				return p
			}
			p, _ := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))).Prefix(rapid.IntRange(0, 32).Draw(t, "bits"))
			return p
		})
		hop := "192.0.2.1"
		if six {
			hop = "2001:db8::1"
		}
		come := rapid.SliceOfN(prefix, 1, 20).Draw(t, "announced")
		gone := rapid.SliceOfN(prefix, 0, 20).Draw(t, "withdrawn")
		path := rapid.SliceOfN(rapid.Uint32(), 0, 12).Draw(t, "path")
		cs := rapid.SliceOfN(rapid.Uint32(), 0, 80).Draw(t, "communities")
		attrs := []packet.PathAttributeInterface{packet.NewPathAttributeOrigin(0)}
		want := steadycast.Attributes{NextHop: netip.MustParseAddr(hop), ASPath: path}
		if len(path) > 0 {
			attrs = append(attrs, packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, path)}))
		} else {
			attrs = append(attrs, packet.NewPathAttributeAsPath(nil))
			want.ASPath = []uint32{}
		}
		if len(cs) > 0 {
			attrs = append(attrs, packet.NewPathAttributeCommunities(cs))
			for _, c := range cs {
				want.Communities = append(want.Communities, steadycast.Community(c))
			}
		}
		if rapid.Bool().Draw(t, "MED") {
			want.MED = new(rapid.Uint32().Draw(t, "MED value"))
			attrs = append(attrs, packet.NewPathAttributeMultiExitDisc(*want.MED))
		}
		if rapid.Bool().Draw(t, "large") {
			attrs = append(attrs, packet.NewPathAttributeLargeCommunities([]*packet.LargeCommunity{{ASN: 1, LocalData1: 2, LocalData2: 3}}))
			want.LargeCommunities = []steadycast.LargeCommunity{{Global: 1, Data1: 2, Data2: 3}}
		}
		b := updateBytes(t, gone, come, hop, attrs...)
		u, err := readUpdate(b[headerLen:], true)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(u.announced, come) || !slices.Equal(u.withdrawn, gone) {
			t.Fatalf("announced %v, withdrawn %v", u.announced, u.withdrawn)
		}
		if got := u.attributesOf(come[0]); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// The last hand on a route: nothing else leaves, whatever GoBGP says.
func TestOutboundHoldsBack(t *testing.T) {
	one := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	path := packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{65001})})
	for _, c := range []struct {
		name string
		m    []byte
		loop bool
		want string // empty: it leaves
	}{
		{"ours", updateBytes(t, nil, one("192.0.2.0/24"), "192.0.2.1", path), false, ""},
		{"inside ours", updateBytes(t, nil, one("192.0.2.53/32"), "192.0.2.1", path), false, ""},
		{"another's", updateBytes(t, nil, one("203.0.113.0/24"), "192.0.2.1", path), false, "203.0.113.0/24 is not in the allow-list"},
		{"ours and another's", updateBytes(t, nil, append(one("192.0.2.0/24"), one("203.0.113.0/24")...), "192.0.2.1", path), false, "not in the allow-list"},
		{"more than ours", updateBytes(t, nil, one("192.0.0.0/16"), "192.0.2.1", path), false, "not in the allow-list"},
		{"withdrawal of another's does no harm", updateBytes(t, one("203.0.113.0/24"), nil, ""), false, ""},
		{"loopback next hop", updateBytes(t, nil, one("192.0.2.0/24"), "127.0.0.1", path), false, "loopback"},
		{"loopback next hop over loopback", updateBytes(t, nil, one("192.0.2.0/24"), "127.0.0.1", path), true, ""},
		{"no next hop", updateBytes(t, nil, one("192.0.2.0/24"), "0.0.0.0", path), false, "no address at all"},
		{"unspecified IPv6 next hop", updateBytes(t, nil, one("2001:db8::/48"), "::", path), false, "no address at all"},
		{"IPv4-mapped next hop", message(msgUpdate, append([]byte{0, 0, 0, 31, 0x80, attrMPReach, 28, 0, 2, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, 0}, 48, 0x20, 0x01, 0x0d, 0xb8, 0, 0)), false, "IPv4-mapped"},
		{"multicast next hop", updateBytes(t, nil, one("192.0.2.0/24"), "224.0.0.1", path), false, "multicast"},
		{"End-of-RIB", endOfRIB(familyIPv6), false, ""},
		{"ROUTE-REFRESH", message(msgRouteRefresh, []byte{0, 1, 0, 1}), false, "of type 5"},
		{"half an UPDATE", message(msgUpdate, []byte{0, 0, 0}), false, "ends in the middle"},
		{"prefix of 33 bits", message(msgUpdate, []byte{0, 6, 33, 1, 2, 3, 4, 5, 0, 0}), false, "length 33"},
		{"bits beyond the length", message(msgUpdate, []byte{0, 2, 7, 255, 0, 0}), false, "bits set beyond"},
		{"IPv4 without next hop", message(msgUpdate, []byte{0, 0, 0, 0, 24, 192, 0, 2}), false, "without a next hop"},
	} {
		o := outbound{allow: newAllowList(append(one("192.0.2.0/24"), one("2001:db8::/32")...)), overLoopback: c.loop, fourOctet: true}
		_, err := o.check(c.m)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzOutbound(f *testing.F) {
	f.Add(updateBytes(f, nil, []netip.Prefix{net1}, "192.0.2.1"), true)
	f.Add(updateBytes(f, []netip.Prefix{net6}, nil, ""), false)
	f.Add(updateBytes(f, nil, []netip.Prefix{net6}, "2001:db8::1"), true)
	allow := newAllowList([]netip.Prefix{net1, net6})
	f.Fuzz(func(t *testing.T, m []byte, fourOctet bool) {
		if len(m) < headerLen {
			return
		}
		o := outbound{allow: allow, fourOctet: fourOctet}
		u, err := o.check(m)
		if err != nil {
			if strings.HasPrefix(err.Error(), "reading it failed") {
				t.Fatal(err)
			}
			return
		}
		if u == nil {
			return
		}
		for _, p := range u.announced {
			if !allow.covers(p) {
				t.Fatalf("%s would leave", p)
			}
		}
	})
}

// The table of what was sent against the plainest model there is: the list of
// everything that was written.
func TestSentTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type written struct {
			p        netip.Prefix
			announce bool
			end      uint64
			at       time.Time
		}
		var log []written
		ackedAt := map[int]time.Time{}
		table, end, acked := newSentTable(), uint64(0), uint64(0)
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Millisecond)
			if rapid.Bool().Draw(t, "write") {
				u := &update{nextHop4: home}
				end += uint64(rapid.IntRange(19, 100).Draw(t, "size"))
				for range rapid.IntRange(1, 3).Draw(t, "prefixes") {
					p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 5).Draw(t, "prefix"))}), 32)
					if slices.Contains(u.withdrawn, p) || slices.Contains(u.announced, p) {
						continue
					}
					come := rapid.Bool().Draw(t, "announce")
					if come {
						u.announced = append(u.announced, p)
					} else {
						u.withdrawn = append(u.withdrawn, p)
					}
					log = append(log, written{p, come, end, now})
				}
				table.record(u, now, end)
			} else {
				acked += uint64(rapid.Uint64Range(0, end-acked).Draw(t, "acked"))
				for i, w := range log {
					if _, ok := ackedAt[i]; !ok && w.end <= acked {
						ackedAt[i] = now
					}
				}
				table.acknowledge(acked, now)
			}
			last, n := map[netip.Prefix]int{}, 0
			for i, w := range log {
				last[w.p] = i
			}
			rows := table.rowsOf("r")
			if len(rows) != len(last) {
				t.Fatalf("%d rows, want %d", len(rows), len(last))
			}
			for i, r := range rows {
				w := log[last[r.Prefix]]
				if r.Announced != w.announce || r.At != w.at || !r.Acked.Equal(ackedAt[last[r.Prefix]]) {
					t.Fatalf("%+v, want %+v acknowledged %s", r, w, ackedAt[last[r.Prefix]])
				}
				if r.Announced {
					n++
				}
				if i > 0 && comparePrefix(rows[i-1].Prefix, r.Prefix) >= 0 {
					t.Fatalf("out of order: %s, %s", rows[i-1].Prefix, r.Prefix)
				}
			}
			if n != table.announced {
				t.Fatalf("counts %d announced, there are %d", table.announced, n)
			}
		}
		table.acknowledge(end, now)
		if len(table.waiting) != 0 {
			t.Fatalf("%d rows wait for nothing", len(table.waiting))
		}
	})
}

func TestShutdownText(t *testing.T) {
	for _, s := range []string{"", "plain", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("ä", 128), "bad \xff byte"} {
		b := shutdownText(s)
		if int(b[0]) != len(b)-1 || len(b) > 256 || strings.ToValidUTF8(string(b[1:]), "") != string(b[1:]) {
			t.Errorf("%q: %q", s, b)
		}
	}
}

func ExampleSettings_Problems() {
	s := Settings{ASN: 65001, RouterID: netip.MustParseAddr("192.0.2.1"), Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	for _, p := range s.Problems() {
		fmt.Println(p)
	}
	// Output: neighbors: there is no neighbour; name at least one router
}
