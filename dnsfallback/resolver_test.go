package dnsfallback

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/internal/loopback"
)

// unbound resolves by our server until the test ends: with as few labels as can
// be in each question (RFC 9156), in mixed case, and with the client's subnet.
func unbound(t testing.TB, authority netip.AddrPort, zone string) netip.AddrPort {
	dir := t.TempDir()
	at := loopback.Own(t)
	conf := filepath.Join(dir, "unbound.conf")
	write(t, conf, fmt.Sprintf(`
server:
    directory: "%[1]s"
    interface: %[2]v
    port: %[3]d
    username: ""
    chroot: ""
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    num-threads: 1
    access-control: 127.0.0.0/8 allow
    do-not-query-localhost: no
    root-hints: ""
    module-config: "subnetcache iterator"
    send-client-subnet: %[4]v
    client-subnet-always-forward: yes
    max-client-subnet-ipv4: 32
    qname-minimisation: yes
    qname-minimisation-strict: yes
    use-caps-for-id: yes
    minimal-responses: no
remote-control:
    control-enable: no
stub-zone:
    name: %[6]s
    stub-addr: %[4]v@%[5]d
    stub-no-cache: no
`, dir, at.Addr(), at.Port(), authority.Addr(), authority.Port(), zone))
	daemon(t, program(t, "unbound"), "-d", "-p", "-c", conf)
	answering(t, at, zone)
	return at
}

// TestResolver asks a real resolver for names of ours: what clients get from it
// is what we say, and clients in different places get different answers.
func TestResolver(t *testing.T) {
	program(t, "unbound")
	m, err := readNetworks([]byte("10.1.0.0/16 fra\n10.1.128.0/24 ams\n10.2.0.0/16 ams\n"))
	if err != nil {
		t.Fatal(err)
	}
	zone := exampleZones()[0]
	zone.Names = []Steered{{Name: "shop", Choice: Choice{Service: "web", Methods: []string{"topology", "priority"}, Members: sites("fra", "ams", "iad")}}}
	zone.Records = append(zone.Records, "store CNAME shop")
	table := mustPolicy(t, []Zone{zone}).Table(1, &Maps{all: []*Map{m}}, FleetState{})
	v, _ := serve(t, table, func(s *Settings) { s.RateLimit = new(0) })
	at := unbound(t, v.Addresses()[0], zone.Name)

	asked := func() (n uint64) {
		for _, a := range v.Counters().Answers {
			n += a.Count
		}
		return n
	}
	resolve := func(name, typ, subnet string) *dns.Msg {
		change := []func(*dns.Msg){func(m *dns.Msg) { m.RecursionDesired = true }}
		if subnet != "" {
			p := netip.MustParsePrefix(subnet)
			change = append(change, withOption(&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}))
		}
		return exchange(t, "udp", at, question(t, name, typ, change...))
	}
	records := func(m *dns.Msg) string {
		var out []string
		for _, rr := range m.Answer {
			h := rr.Header()
			out = append(out, strings.ToLower(h.Name+" "+typeName(h.Rrtype)+" "+strings.TrimPrefix(rr.String(), h.String())))
		}
		slices.Sort(out)
		return dns.RcodeToString[m.Rcode] + " " + strings.Join(out, ", ")
	}
	// Static names: as we answer ourselves.
	for _, q := range []string{
		"www.example.com. A", "www.example.com. HTTPS", "example.com. MX", "_sip._tcp.example.com. SRV", "alias2.example.com. AAAA", "strange.example.com. TYPE65400",
		"www.example.com. MX", "a.b.c.example.com. TXT", "b.c.example.com. A", "x.a.b.c.example.com. A", "no.example.com. A",
		"x.wild.example.com. A", "x.y.wild.example.com. TXT", "x.closer.wild.example.com. A", "below.closer.wild.example.com. TXT", "x.star.example.com. A",
		"dangling.example.com. A", "x.alias.example.com. AAAA", "store.example.com. AAAA",
	} {
		name, typ, _ := strings.Cut(q, " ")
		ours := records(exchange(t, "udp", v.Addresses()[0], question(t, name, typ)))
		if got := records(resolve(name, typ, "")); got != ours {
			t.Errorf("%s\nby the resolver: %s\nby us:           %s", q, got, ours)
		}
	}
	// Clients in different places, and then their neighbours, from the cache.
	for _, c := range []struct{ subnet, want string }{
		{"10.1.2.0/24", "192.0.2.1"}, {"10.2.9.0/24", "192.0.2.2"}, {"10.1.128.0/24", "192.0.2.2"}, {"172.16.9.0/24", "192.0.2.1"},
	} {
		if got, want := records(resolve("shop.example.com", "A", c.subnet)), "NOERROR shop.example.com. a "+c.want; got != want {
			t.Errorf("%s: got %s; want %s", c.subnet, got, want)
		}
	}
	before := asked()
	for _, c := range []struct{ subnet, want string }{
		{"10.1.99.0/24", "192.0.2.1"}, {"10.2.200.0/24", "192.0.2.2"}, {"172.16.10.0/24", "192.0.2.1"}, {"10.1.128.77/32", "192.0.2.2"},
	} {
		if got, want := records(resolve("shop.example.com", "A", c.subnet)), "NOERROR shop.example.com. a "+c.want; got != want {
			t.Errorf("%s: got %s from the cache; want %s", c.subnet, got, want)
		}
	}
	if n := asked() - before; n > 0 {
		t.Errorf("the resolver asked %d times more for networks that it had answers for", n)
	}
}
