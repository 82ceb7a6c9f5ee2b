package dnsfallback

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/miekg/dns"
)

// TestTopology: clients go where their network belongs, and the next method has
// those whose member is down; the scope is the network of the answer.
func TestTopology(t *testing.T) {
	m, err := readNetworks([]byte("10.1.0.0/16 fra\n10.1.128.0/24 ams\n10.2.0.0/16 ams\n10.3.0.0/16 ams\n10.8.0.0/16 elsewhere\n2001:db8:1::/48 fra\n"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := readDatabase(testDatabase(t, map[string]mmdbtype.Map{
		"10.4.0.0/16": country("DE", "EU", 50, 8), "10.5.0.0/16": country("FR", "EU", 48, 2), "10.6.0.0/16": {"autonomous_system_number": mmdbtype.Uint32(64500)},
		"10.8.0.0/16": country("US", "NA", 39, -77), "10.1.0.0/16": country("US", "NA", 39, -77),
	}))
	if err != nil {
		t.Fatal(err)
	}
	maps := &Maps{all: []*Map{m, db}}
	members := sites("fra", "ams", "iad")
	members[0].Serves = []string{"region:fra", "country:DE"}
	members[1].Serves = []string{"region:ams", "continent:EU"}
	members[2].Serves = []string{"region:iad", "asn:64500", "country:US"}
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"topology", "priority"}, Members: members})
	for _, c := range []struct {
		state, client, want string
		scope               uint8
	}{
		{"", "10.1.2.0/24", "192.0.2.1", 17},   // not the ams /24 in the upper half
		{"", "10.1.128.0/24", "192.0.2.2", 24}, // the longest match
		{"", "10.2.9.0/24", "192.0.2.2", 15},   // joined with the next row, which says the same
		{"", "10.8.9.0/24", "192.0.2.3", 16},   // no member serves elsewhere; the next map knows
		{"", "10.4.1.0/24", "192.0.2.1", 16},   // the country before the continent
		{"", "10.5.1.0/24", "192.0.2.2", 16},
		{"", "10.6.1.0/24", "192.0.2.3", 16},
		{"", "172.16.0.0/24", "192.0.2.1", 1}, // nowhere: priority
		{"ams down", "10.2.9.0/24", "192.0.2.1", 15},
		{"fra down", "10.1.2.0/24", "192.0.2.3", 17}, // by the second map
		{"fra down", "10.4.1.0/24", "192.0.2.2", 15}, // of Germany, now as of all Europe
		{"", "2001:db8:1::/56", "192.0.2.1", 48},
	} {
		k := newAsker(t, p.Table(1, maps, state(c.state)))
		got, scope, _ := k.once("www.example.com", "A", c.client)
		if got != c.want {
			t.Errorf("%q, %s: got %s; want %s", c.state, c.client, got, c.want)
		}
		block, _ := netip.MustParsePrefix(c.client).Addr().Prefix(int(scope))
		if scope != c.scope {
			t.Errorf("%q, %s: the scope is %v; want /%d", c.state, c.client, block, c.scope)
		}
		// Everyone in the network that the answer is said to be for gets it.
		a := block.Addr()
		for i := 0; i < 70000 && block.Contains(a); i += 97 {
			if other, _, _ := k.once("www.example.com", "A", netip.PrefixFrom(a, a.BitLen()).String()); other != got {
				t.Fatalf("%q: %s is answered %s for %v, and %v is answered %s", c.state, c.client, got, block, a, other)
			}
			for range 97 {
				a = a.Next()
			}
		}
	}
	// The resolver's own address counts when it says nothing of its client.
	k := newAsker(t, p.Table(1, maps, state("")))
	out := k.a.respond(nil, question(t, "www.example.com", "A"), k.table, netip.MustParseAddrPort("10.2.0.1:53"), moment{}, false)
	var msg dns.Msg
	if err := msg.Unpack(out); err != nil || msg.Answer[0].(*dns.A).A.String() != "192.0.2.2" {
		t.Error(err, &msg)
	}
	// Absence does not depend on the client.
	if _, scope, m := k.once("www.example.com", "MX", "10.1.2.0/24"); scope != 0 || len(m.Ns) != 1 {
		t.Errorf("the scope of an absence is %d", scope)
	}
	e, err := k.table.Explain("www.example.com", "A", netip.MustParsePrefix("10.8.9.0/24"))
	golden(t, "explain.txt", fmt.Sprintf("%v\n%s\n%s\n%v\n%s\n", err, strings.Join(e.Branch, "\n"), strings.Join(e.Records, "\n"), e.Network, e.Rcode))
}

// TestScopeOfNestedPools: the scope is that of all the decisions on the way, be the
// outer or the inner one the finer: whoever is in it gets the same answer.
func TestScopeOfNestedPools(t *testing.T) {
	m, err := readNetworks([]byte("10.1.0.0/16 fra\n10.1.128.0/24 ams\n10.2.0.0/16 ams\n"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := readDatabase(testDatabase(t, map[string]mmdbtype.Map{"10.0.0.0/8": country("DE", "EU", 50, 8), "11.0.0.0/8": country("US", "NA", 39, -77)}))
	if err != nil {
		t.Fatal(err)
	}
	maps := &Maps{all: []*Map{m, db}}
	topology := []string{"topology", "priority"}
	fine, coarse := sites("fra", "ams"), sites("fra", "ams")
	fine[0].Serves, fine[1].Serves = []string{"region:fra"}, []string{"region:ams"}
	coarse[0].Serves, coarse[1].Serves = []string{"continent:EU"}, []string{"continent:NA"}
	inner := func(members []Member, method ...string) Pool {
		return Pool{Name: "in", Choice: Choice{Service: "web", Methods: method, Members: members}}
	}
	rest := Member{Name: "rest", Addresses: at(9)}
	for _, c := range []struct {
		name, client string
		pool         Pool
		outer        []Member
		want         string
		scope        uint8
	}{
		{"the inner is finer", "10.1.2.0/24", inner(fine, topology...), []Member{{Pool: "in", Serves: []string{"continent:EU"}}, rest}, "192.0.2.1", 17},
		{"and finer still", "10.1.128.0/24", inner(fine, topology...), []Member{{Pool: "in", Serves: []string{"continent:EU"}}, rest}, "192.0.2.2", 24},
		{"the inner is not asked", "11.7.7.0/24", inner(fine, topology...), []Member{{Pool: "in", Serves: []string{"continent:EU"}}, {Name: "rest", Addresses: at(9), Serves: []string{"continent:NA"}}}, "192.0.2.9", 8},
		{"the outer is finer", "10.1.2.0/24", inner(coarse, topology...), []Member{{Pool: "in", Serves: []string{"region:fra"}}, rest}, "192.0.2.1", 17},
		{"a hash over one member tells nobody apart", "11.7.7.128/25", inner(sites("fra"), "hash"), []Member{{Pool: "in", Serves: []string{"continent:NA"}}, rest}, "192.0.2.1", 8},
	} {
		p := steeredPolicy(t, Choice{Service: "web", Methods: topology, Members: c.outer}, c.pool)
		k := newAsker(t, p.Table(1, maps, state("")))
		got, scope, _ := k.once("www.example.com", "A", c.client)
		if got != c.want || scope != c.scope {
			t.Errorf("%s: %s has %s for /%d; want %s for /%d", c.name, c.client, got, scope, c.want, c.scope)
		}
		block, _ := netip.MustParsePrefix(c.client).Addr().Prefix(int(scope))
		first := block.Addr().As4()
		for i := range 2000 { // all over the network that the answer is said to be for
			n := binary.BigEndian.Uint32(first[:]) + uint32(uint64(i)<<(32-int(scope))/2000)
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], n)
			if other, _, _ := k.once("www.example.com", "A", netip.PrefixFrom(netip.AddrFrom4(a), 32).String()); other != got {
				t.Fatalf("%s: %s is said to be for %v, and %v is answered %s", c.name, got, block, netip.AddrFrom4(a), other)
			}
		}
	}
}

// TestSubnetsThatSayNothing: a client subnet of no length, of a network that is not
// routed, or of no family leaves the place to the resolver's own address, and comes
// back as it was with scope 0; one that says something comes back with nothing
// changed but the scope (RFC 7871 §7.2.1); none was asked, none comes.
func TestSubnetsThatSayNothing(t *testing.T) {
	m, err := readNetworks([]byte("10.1.0.0/16 fra\n10.2.0.0/16 ams\n127.0.0.0/8 fra\n169.254.0.0/16 fra\n224.0.0.0/4 fra\nfe80::/10 fra\n::/96 fra\n2001:db8::/32 fra\n"))
	if err != nil {
		t.Fatal(err)
	}
	members := sites("fra", "ams")
	members[0].Serves, members[1].Serves = []string{"region:fra"}, []string{"region:ams"}
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"topology", "priority"}, Members: members})
	table := p.Table(1, &Maps{all: []*Map{m}}, state(""))
	for _, c := range []struct {
		name   string
		option []byte
		want   byte // the member; the resolver is at ams, 2
		says   bool
	}{
		{"none", nil, 2, false},
		{"/0", []byte{0, 1, 0, 0}, 2, false},
		{"/0 of IPv6", []byte{0, 2, 0, 0}, 2, false},
		{"no family", []byte{0, 0, 0, 0}, 2, false},
		{"loopback", []byte{0, 1, 8, 0, 127}, 2, false},
		{"link-local", []byte{0, 1, 16, 0, 169, 254}, 2, false},
		{"multicast", []byte{0, 1, 4, 0, 224}, 2, false},
		{"link-local IPv6", []byte{0, 2, 10, 0, 0xFE, 0x80}, 2, false},
		{"IPv4 inside IPv6", append(append([]byte{0, 2, 120, 0}, make([]byte, 10)...), 0xFF, 0xFF, 10, 1, 0), 2, false},
		{"IPv4", []byte{0, 1, 24, 0, 10, 1, 7}, 1, true},
		{"IPv4, the whole of it", []byte{0, 1, 32, 0, 10, 1, 7, 9}, 1, true},
		{"IPv6", []byte{0, 2, 56, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 1}, 1, true},
	} {
		packet := question(t, "www.example.com", "A", func(m *dns.Msg) { m.SetEdns0(1232, false) })
		if c.option != nil {
			option := append([]byte{0, 8, 0, byte(len(c.option))}, c.option...)
			packet = append(packet[:len(packet)-2], 0, byte(len(option)))
			packet = append(packet, option...)
		}
		out := newResponder(nil, nil).respond(nil, packet, table, netip.MustParseAddrPort("10.2.0.1:53"), moment{}, false)
		var got dns.Msg
		if err := got.Unpack(out); err != nil || len(got.Answer) != 1 {
			t.Fatalf("%s: %v\n%v", c.name, err, &got)
		}
		if a := got.Answer[0].(*dns.A).A.To4(); a[3] != c.want {
			t.Errorf("%s: %v; want member %d", c.name, a, c.want)
		}
		if c.option == nil {
			if len(got.IsEdns0().Option) > 0 {
				t.Errorf("%s: options come back:\n%v", c.name, &got)
			}
			continue
		}
		back := out[len(out)-len(c.option):]
		if scope := back[3]; (scope > 0) != c.says {
			t.Errorf("%s: scope %d", c.name, scope)
		}
		back[3] = 0
		if !bytes.Equal(back, c.option) {
			t.Errorf("%s: %x comes back as %x", c.name, c.option, back)
		}
	}
	// What exists does not depend on where one asks: ANY, and types that the name lacks.
	k := newAsker(t, table)
	for typ, want := range map[string]string{"ANY": "\"RFC8482\" \"\"", "MX": "", "HTTPS": "", "TXT": "\"beside\""} {
		if got, scope, m := k.once("www.example.com", typ, "10.1.7.0/24"); got != want || scope != 0 || m.Rcode != dns.RcodeSuccess || (got == "") != (len(m.Ns) == 1) {
			t.Errorf("%s: %q with scope %d\n%v", typ, got, scope, m)
		}
	}
}

// TestNearest: by the great circle.
func TestNearest(t *testing.T) {
	db, err := readDatabase(testDatabase(t, map[string]mmdbtype.Map{
		"10.4.0.0/16": country("DE", "EU", 50.1, 8.7), "10.5.0.0/16": country("US", "NA", 40.7, -74), "10.6.0.0/16": country("FJ", "OC", -18, 179.5),
	}))
	if err != nil {
		t.Fatal(err)
	}
	members := sites("ams", "iad", "akl")
	members[0].At, members[1].At, members[2].At = []float64{52.3, 4.8}, []float64{39, -77.5}, []float64{-36.8, 174.7}
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"nearest", "priority"}, Members: members})
	for client, want := range map[string]string{"10.4.0.0/24": "192.0.2.1", "10.5.0.0/24": "192.0.2.2", "10.6.0.0/24": "192.0.2.3", "10.7.0.0/24": "192.0.2.1"} {
		got, scope, _ := newAsker(t, p.Table(1, &Maps{all: []*Map{db}}, state(""))).once("www.example.com", "A", client)
		if got != want || scope < 14 {
			t.Errorf("%s: %s, scope %d", client, got, scope)
		}
	}
	got, _, _ := newAsker(t, p.Table(1, &Maps{all: []*Map{db}}, state("ams down"))).once("www.example.com", "A", "10.4.0.0/24")
	if got != "192.0.2.2" {
		t.Error(got)
	}
}
