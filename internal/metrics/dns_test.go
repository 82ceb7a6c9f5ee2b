package metrics

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/loopback"
)

// TestDNSValues asks a server of names what is known, and reads on its page what
// that must have come to: by zone, type, rcode and transport; who was given; time
// taken; cookies, client subnets and limits; the table and its age.
func TestDNSValues(t *testing.T) {
	const limit = 20
	member := func(site, address string) dnsfallback.Member {
		return dnsfallback.Member{Site: site, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	steered := func(name, method string, members ...dnsfallback.Member) dnsfallback.Steered {
		return dnsfallback.Steered{Name: name, Choice: dnsfallback.Choice{Service: "web", Methods: []string{method}, Members: members}}
	}
	policy, problems := dnsfallback.NewPolicy(7, dnsfallback.Placement{Zones: []dnsfallback.Zone{{
		Name: "example.com", NS: []string{"ns.example.net."}, Records: []string{"www A 192.0.2.80", "loud A 192.0.2.99"},
		Names: []dnsfallback.Steered{
			steered("by", "priority", member("fra", "192.0.2.1"), member("ams", "192.0.2.2")),
			steered("near", "hash", member("fra", "192.0.2.1"), member("ams", "192.0.2.2")),
		},
	}}}, dnsfallback.Known{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	down := dnsfallback.FleetState{Sites: map[string]dnsfallback.SiteState{
		"fra": {Services: map[string]dnsfallback.ServiceState{"web": {V4: dnsfallback.Down, V6: dnsfallback.Down}}},
	}}
	at := loopback.Own(t)
	server, err := dnsfallback.Listen(dnsfallback.Settings{Listen: []netip.AddrPort{at}, Workers: 1, RateLimit: new(limit), Slip: new(1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table := policy.Table(41, nil, dnsfallback.FleetState{})
	if err := server.Set(table); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	udp := 0
	ask := func(network, name string, typ uint16, options ...dns.EDNS0) *dns.Msg {
		t.Helper()
		m := new(dns.Msg)
		m.SetQuestion(name, typ)
		if len(options) > 0 {
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = options
		}
		c := dns.Client{Net: network, Timeout: 10 * time.Second}
		r, _, err := c.Exchange(m, at.String())
		if err != nil {
			t.Fatalf("%s %s: %v", network, name, err)
		}
		if network == "udp" {
			udp++
		}
		return r
	}
	cookie := func(text string) dns.EDNS0 { return &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: text} }
	subnet := &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(203, 0, 113, 0)}

	ask("udp", "www.example.com.", dns.TypeA)
	ask("udp", "www.example.com.", dns.TypeTXT)
	ask("udp", "none.example.com.", dns.TypeA)
	ask("udp", "www.example.org.", dns.TypeA)
	ask("tcp", "www.example.com.", dns.TypeA)
	ask("tcp", "www.example.com.", dns.TypeMX)
	ask("tcp", "www.example.com.", dns.TypeMX)
	const half = "0102030405060708"
	r := ask("udp", "www.example.com.", dns.TypeAAAA, cookie(half))
	whole := r.IsEdns0().Option[0].(*dns.EDNS0_COOKIE).Cookie
	ask("udp", "www.example.com.", dns.TypeAAAA, cookie(whole))
	ask("udp", "www.example.com.", dns.TypeAAAA, cookie(whole))
	ask("udp", "www.example.com.", dns.TypeAAAA, cookie(half+strings.Repeat(hex.EncodeToString([]byte{9}), 16)))
	ask("udp", "near.example.com.", dns.TypeA, subnet)
	ask("udp", "www.example.com.", dns.TypeSOA, subnet)
	ask("udp", "www.example.com.", dns.TypeSRV, subnet)
	ask("udp", "by.example.com.", dns.TypeA)
	ask("udp", "by.example.com.", dns.TypeA)
	table = policy.Table(42, nil, down)
	if err := server.Set(table); err != nil {
		t.Fatal(err)
	}
	ask("udp", "by.example.com.", dns.TypeA)
	before := udp
	slipped := 0
	for range 5 * limit {
		if ask("udp", "loud.example.com.", dns.TypeA).Truncated {
			slipped++
		}
	}
	if slipped == 0 || slipped > 4*limit {
		t.Fatalf("of %d like questions %d were over the limit of %d", 5*limit, slipped, limit)
	}

	since, heard := time.Unix(1_800_000_000, 0), time.Unix(1_800_000_100, 0)
	handler := DNSHandler(func() DNS {
		return DNS{Answering: true, Counters: server.Counters(), Given: table.Given(), Version: table.Version(), Revision: 7, Since: since, Heard: heard,
			Mode: "normal", Modes: []string{"normal", "frozen"}}
	}, quiet())
	answered := func(zone, transport, typ, rcode string, n int) string {
		return fmt.Sprintf("answers_total{rcode=%q,transport=%q,type=%q,zone=%q} %d", rcode, transport, typ, zone, n)
	}
	want := []string{
		answered("example.com", "udp", "A", "NOERROR", 1+1+3+5*limit-slipped), // www, near, by, loud
		answered("example.com", "udp", "A", "NXDOMAIN", 1),
		answered("example.com", "udp", "TXT", "NOERROR", 1),
		answered("example.com", "udp", "SOA", "NOERROR", 1),
		answered("example.com", "udp", "SRV", "NOERROR", 1),
		answered("example.com", "udp", "AAAA", "NOERROR", 4),
		answered("", "udp", "A", "REFUSED", 1),
		answered("example.com", "tcp", "A", "NOERROR", 1),
		answered("example.com", "tcp", "MX", "NOERROR", 2),
		`given_total{choice="by.example.com",member="fra",site="fra"} 2`,
		`given_total{choice="by.example.com",member="ams",site="ams"} 1`,
		fmt.Sprintf(`duration_seconds_count{transport="udp"} %d`, before+5*limit),
		`duration_seconds_count{transport="tcp"} 3`,
		`connections_total{what="accepted"} 3`,
		`cookies_total{kind="new"} 1`, `cookies_total{kind="good"} 2`, `cookies_total{kind="bad"} 1`,
		`client_subnet_total{scope="network"} 1`, `client_subnet_total{scope="all"} 2`,
		fmt.Sprintf(`limited_total{how="slipped"} %d`, slipped), `limited_total{how="dropped"} 0`,
		`dropped_total 0`, `unsent_total 0`,
		`table_version 42`, `table_revision 7`, `table_timestamp_seconds 1.8e+09`, `state_heard_timestamp_seconds 1.8000001e+09`,
		`answering 1`, `stale 0`, `table_refused 0`, `mode{mode="normal"} 1`, `mode{mode="frozen"} 0`,
	}
	// The time that an answer took is added up after it is sent, so the last may be still to come.
	var text string
	var missing []string
	for end := time.Now().Add(10 * time.Second); ; {
		text, missing = scrape(t, handler), nil
		for _, line := range want {
			if !strings.Contains(text, "\nsteadycast_dns_"+line+"\n") {
				missing = append(missing, line)
			}
		}
		if len(missing) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(missing) > 0 {
		var ours []string
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "steadycast_dns_") && !strings.Contains(l, "_bucket") {
				ours = append(ours, l)
			}
		}
		t.Errorf("missing:\n%s\n\nof:\n%s", strings.Join(missing, "\n"), strings.Join(ours, ""))
	}
}
