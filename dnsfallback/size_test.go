package dnsfallback

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// TestSizes: an answer is as long as its asker takes, and never longer than goes
// through any path (RFC 6891 §6.2.3, RFC 9715 §3.1), whatever its options need; it
// is cut exactly when it would not fit, and then to nothing.
func TestSizes(t *testing.T) {
	options := withOption(&dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IP{203, 0, 113, 0}})
	for _, c := range []struct {
		name  string
		ask   []func(*dns.Msg)
		limit int
	}{
		{"no EDNS", nil, 512},
		{"0", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(0, false) }}, 512},
		{"512", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(512, false) }}, 512},
		{"512 and options", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(512, false) }, options}, 512},
		{"700 and options", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(700, true) }, options}, 700},
		{"1232", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(1232, false) }}, 1232},
		{"4096", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(4096, false) }}, 1232},
		{"65535 and options", []func(*dns.Msg){func(m *dns.Msg) { m.SetEdns0(65535, true) }, options}, 1232},
	} {
		cut, whole := 0, 0
		for n := 20; n < 80; n++ {
			table := mustPolicy(t, []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Records: many(n)}}).Table(1, nil, FleetState{})
			packet := question(t, "many.example.com", "A", c.ask...)
			all := newResponder(nil, nil).respond(nil, packet, table, client, moment{}, true)
			out := newResponder(nil, nil).respond(nil, packet, table, client, moment{}, false)
			var m dns.Msg
			if err := m.Unpack(out); err != nil {
				t.Fatal(err)
			}
			fits := len(all) <= c.limit
			if fits {
				whole++
			} else {
				cut++
			}
			if m.Truncated == fits || len(out) > c.limit || fits && len(m.Answer) != n || !fits && len(m.Answer)+len(m.Ns)+helping(&m) > 0 {
				t.Errorf("%s: %d records, which need %d octets: %d octets with %d records, TC %v", c.name, n, len(all), len(out), len(m.Answer), m.Truncated)
			}
			if asked := new(dns.Msg); asked.Unpack(packet) != nil || (asked.IsEdns0() == nil) != (m.IsEdns0() == nil) {
				t.Errorf("%s: OPT for none, or none for OPT", c.name)
			}
		}
		if cut == 0 || whole == 0 {
			t.Errorf("%s: %d were cut and %d whole", c.name, cut, whole)
		}
	}
}
