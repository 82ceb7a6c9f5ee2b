package dnsfallback

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// exampleZones hold one of everything.
func exampleZones() []Zone {
	return []Zone{
		{
			Name: "example.com",
			NS:   []string{"ns1", "ns2.example.net."},
			Records: []string{
				"@ A 192.0.2.1",
				"@ MX 10 mail",
				"@ MX 20 mail.example.org.",
				"@ CAA 0 issue \"ca.example\"",
				"ns1 A 192.0.2.53",
				"ns1 AAAA 2001:db8::53",
				"mail A 192.0.2.25",
				"www 60 A 192.0.2.80",
				"www 60 A 192.0.2.81",
				"www AAAA 2001:db8::80",
				"www TXT \"hello there\" \"and more\"",
				"www HTTPS 1 . alpn=h2 ipv4hint=192.0.2.80",
				"_sip._tcp SRV 0 5 5060 WWW",
				"alias CNAME WWW",
				"alias2 CNAME alias",
				"out CNAME www.example.org.",
				"dangling CNAME nothing",
				"into CNAME host.sub",
				"a.b.c TXT deep",
				"*.wild A 192.0.2.99",
				"*.wild TXT any",
				"below.closer.wild TXT here",
				"*.alias CNAME www",
				"deep.*.star TXT x",
				"sub NS ns.sub",
				"sub NS ns1",
				"sub DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				"ns.sub A 192.0.2.60",
				"strange TYPE65400 \\# 3 010203",
			},
		},
		{Name: "child.example.com", NS: []string{"ns1.example.com."}, Records: []string{"www A 192.0.2.200"}},
	}
}

func mustPolicy(t testing.TB, zones []Zone) *Policy {
	t.Helper()
	p, ps := NewPolicy(7, Placement{Zones: zones}, Known{})
	for _, q := range ps {
		t.Error(q)
	}
	if p == nil {
		t.FailNow()
	}
	return p
}

// question makes the packet of one.
func question(t testing.TB, name, typ string, change ...func(*dns.Msg)) []byte {
	t.Helper()
	m := new(dns.Msg)
	m.Id = 4711
	m.Question = []dns.Question{{Name: dns.Fqdn(name), Qtype: typeNumber(t, typ), Qclass: dns.ClassINET}}
	for _, c := range change {
		c(m)
	}
	p, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func typeNumber(t testing.TB, s string) uint16 {
	t.Helper()
	if n, ok := dns.StringToType[s]; ok {
		return n
	}
	var n uint16
	if _, err := fmt.Sscanf(s, "TYPE%d", &n); err != nil {
		t.Fatalf("no type %q", s)
	}
	return n
}

// client is who asks, unless a test says otherwise.
var client = netip.MustParseAddrPort("203.0.113.7:5353")

// ask gives the answer of a table to a packet, as an independent codec reads it.
func ask(t testing.TB, table *Table, packet []byte, limit int) *dns.Msg {
	t.Helper()
	a := newResponder(nil, nil)
	out := a.respond(nil, packet, table, client, moment{}, true)
	if limit < dns.MaxMsgSize {
		a.udp = limit
		if !a.q.edns { // as a client that can take so much
			m := new(dns.Msg)
			if err := m.Unpack(packet); err != nil {
				t.Fatal(err)
			}
			m.SetEdns0(uint16(limit), false)
			packet, _ = m.Pack()
		}
		out = a.respond(nil, packet, table, client, moment{}, false)
	}
	if len(out) > limit {
		t.Errorf("%d octets, and only %d were allowed", len(out), limit)
	}
	m := new(dns.Msg)
	if err := m.Unpack(out); err != nil {
		t.Fatalf("the answer cannot be read: %v\n%x", err, out)
	}
	return m
}

// helping counts the additional records but for OPT.
func helping(m *dns.Msg) int {
	n := len(m.Extra)
	if m.IsEdns0() != nil {
		n--
	}
	return n
}

// show writes a message as the text tables do.
func show(m *dns.Msg) string {
	var b strings.Builder
	fmt.Fprint(&b, dns.RcodeToString[m.Rcode])
	for _, f := range []struct {
		set  bool
		word string
	}{{m.Authoritative, "aa"}, {m.Truncated, "tc"}} {
		if f.set {
			b.WriteString(" " + f.word)
		}
	}
	b.WriteString("\n")
	section := func(word string, rrs []dns.RR) {
		for _, rr := range rrs {
			if rr.Header().Rrtype != dns.TypeOPT {
				fmt.Fprintf(&b, "  %-4s %s\n", word, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
	}
	section("", m.Answer)
	section("auth", m.Ns)
	section("add", m.Extra)
	return b.String()
}

// TestLookups asks what testdata/lookups.txt asks, and compares what comes.
// `-update` rewrites it.
func TestLookups(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	file := filepath.Join("testdata", "lookups.txt")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, block := range strings.Split(string(src), "\n\n") {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		lines := strings.Split(strings.TrimSpace(block), "\n")
		for i, l := range lines {
			if strings.HasPrefix(l, "#") {
				out.WriteString(l + "\n")
				continue
			}
			w := strings.Fields(l)
			if w[0] != "?" || len(w) != 3 {
				t.Fatalf("%q: want  ? name type", l)
			}
			m := ask(t, table, question(t, w[1], w[2]), 4096)
			got := show(m)
			out.WriteString(l + "\n" + got)
			if want := strings.TrimSpace(strings.Join(lines[i+1:], "\n")); strings.TrimSpace(got) != want && !*update {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", l, got, want)
			}
			if m.Question[0].Name != dns.Fqdn(w[1]) {
				t.Errorf("%s: the question came back as %s", l, m.Question[0].Name)
			}
			break
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryPointerShifts asks below each delegation, wildcard and absence with
// names of every length: whatever the question's length, what follows it must
// be read as the same records.
func TestEveryPointerShifts(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	for _, c := range []struct{ below, typ string }{
		{"sub.example.com.", "A"}, {"wild.example.com.", "A"}, {"wild.example.com.", "MX"},
		{"example.com.", "A"}, {"alias.example.com.", "A"}, {"alias.example.com.", "MX"},
	} {
		var want string
		tried := 0
		for size := 1; len(c.below)+size+1 < maxNameLen; size++ {
			label, n := "", size
			for ; n > 63; n -= 64 {
				label += strings.Repeat("x", 63) + "."
			}
			if n == 0 {
				continue
			}
			asked := label + strings.Repeat("x", n) + "." + c.below
			got := strings.ReplaceAll(show(ask(t, table, question(t, asked, c.typ), 4096)), asked, "ASKED")
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("%s %s\ngot:\n%s\nwant:\n%s", asked, c.typ, got, want)
			}
			tried++
		}
		if tried < 200 {
			t.Errorf("only %d lengths were tried below %s", tried, c.below)
		}
	}
}

// TestCaseIsTheAskers: a name is found in any case and comes back in the asker's (RFC 4343 §4.1).
func TestCaseIsTheAskers(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	for _, n := range []string{"wWw.eXample.COM.", "X.WILD.example.com.", "ALIAS.example.com."} {
		m := ask(t, table, question(t, n, "A"), 4096)
		if m.Question[0].Name != n || len(m.Answer) == 0 || m.Answer[0].Header().Name != n {
			t.Errorf("%s comes back as\n%s", n, m)
		}
	}
	// Other octets than ASCII letters are not folded.
	m := ask(t, table, question(t, `\196www.example.com.`, "A"), 4096)
	if m.Rcode != dns.RcodeNameError {
		t.Errorf("a name with a strange octet is found:\n%s", m)
	}
}

// TestTimeOfAbsence: an absence is kept for the lesser of the SOA's TTL and its
// MINIMUM, whichever that is; the SOA asked for has its own TTL (RFC 2308 §3, §5).
func TestTimeOfAbsence(t *testing.T) {
	for _, c := range []struct{ ttl, minimum, want time.Duration }{
		{time.Hour, time.Minute, time.Minute}, {20 * time.Second, time.Hour, 20 * time.Second}, {time.Minute, time.Minute, time.Minute},
	} {
		z := Zone{Name: "example.com", NS: []string{"ns.example.net."}, SOA: SOA{TTL: c.ttl, Minimum: c.minimum}, Records: []string{"a.b A 192.0.2.1", "gone CNAME no"}}
		table := mustPolicy(t, []Zone{z}).Table(1, nil, FleetState{})
		for _, q := range [][2]string{{"no.example.com", "A"}, {"a.b.example.com", "AAAA"}, {"b.example.com", "A"}, {"gone.example.com", "A"}} {
			m := ask(t, table, question(t, q[0], q[1]), 4096)
			if len(m.Ns) != 1 || m.Ns[0].Header().Ttl != uint32(c.want.Seconds()) || m.Ns[0].(*dns.SOA).Minttl != uint32(c.minimum.Seconds()) {
				t.Errorf("TTL %v, MINIMUM %v: %s", c.ttl, c.minimum, show(m))
			}
		}
		if m := ask(t, table, question(t, "example.com", "SOA"), 4096); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != uint32(c.ttl.Seconds()) {
			t.Errorf("TTL %v: %s", c.ttl, show(m))
		}
	}
}

// TestLargeSets: no record is lost, and what does not fit is empty.
func TestLargeSets(t *testing.T) {
	z := Zone{Name: "example.com", NS: []string{"ns.example.net."}}
	for i := range 2000 {
		z.Records = append(z.Records, fmt.Sprintf("many A 10.0.%d.%d", i/250, i%250))
	}
	table := mustPolicy(t, []Zone{z}).Table(1, nil, FleetState{})
	m := ask(t, table, question(t, "many.example.com", "A"), 65535)
	if len(m.Answer) != 2000 {
		t.Errorf("%d records of 2000", len(m.Answer))
	}
	seen := map[string]bool{}
	for _, rr := range m.Answer {
		seen[net.IP(rr.(*dns.A).A).String()] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d different records of 2000", len(seen))
	}
	for _, limit := range []int{512, 1232, 20000} {
		m := ask(t, table, question(t, "many.example.com", "A"), limit)
		if !m.Truncated || len(m.Answer)+len(m.Ns)+helping(m) > 0 || len(m.Question) != 1 {
			t.Errorf("of %d octets: %s", limit, m)
		}
	}
}

// TestOptionalIsLeftOut: addresses that only help go before the answer is cut (RFC 2181 §9), and glue does not.
func TestOptionalIsLeftOut(t *testing.T) {
	z := Zone{Name: "example.com", NS: []string{"ns.example.net."}}
	for i := range 20 {
		z.Records = append(z.Records, fmt.Sprintf("@ MX %d mail%d", i, i), fmt.Sprintf("mail%d A 192.0.2.%d", i, i),
			fmt.Sprintf("sub NS ns%d.sub", i), fmt.Sprintf("ns%d.sub A 192.0.2.%d", i, i))
	}
	table := mustPolicy(t, []Zone{z}).Table(1, nil, FleetState{})
	if m := ask(t, table, question(t, "example.com", "MX"), 512); m.Truncated || len(m.Answer) != 20 || helping(m) != 0 {
		t.Errorf("MX in 512 octets:\n%s", m)
	}
	if m := ask(t, table, question(t, "example.com", "MX"), 1232); helping(m) != 20 {
		t.Errorf("MX in 1232 octets has %d helpful addresses of 20", helping(m))
	}
	if m := ask(t, table, question(t, "x.sub.example.com", "A"), 512); !m.Truncated || len(m.Ns)+helping(m) != 0 {
		t.Errorf("a referral without room for its glue:\n%s", m)
	}
}

// TestNoAllocation: an answer costs no garbage.
func TestNoAllocation(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	for _, n := range []string{"www.example.com", "x.y.wild.example.com", "no.such.example.com", "x.sub.example.com", "alias2.example.com"} {
		p := question(t, n, "A", func(m *dns.Msg) {
			m.SetEdns0(1232, true)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
				&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IP{203, 0, 113, 0}}}
		})
		a := newResponder(nil, newLimiter(100, 2, [2]uint64{}))
		buf := make([]byte, 0, udpSize)
		var now moment
		if got := testing.AllocsPerRun(100, func() {
			now.ms += 100
			if buf = a.respond(buf[:0], p, table, client, now, false); len(buf) == 0 {
				t.Fatal("no answer")
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", n, got)
		}
	}
}

func BenchmarkAnswer(b *testing.B) {
	table := mustPolicy(b, exampleZones()).Table(1, nil, FleetState{})
	for _, n := range []string{"www.example.com", "no.such.example.com", "x.sub.example.com"} {
		b.Run(n, func(b *testing.B) {
			p := question(b, n, "A")
			a := newResponder(nil, newLimiter(1e6, 2, [2]uint64{}))
			buf := make([]byte, 0, udpSize)
			var now moment
			b.ReportAllocs()
			defer processorTime(b)()
			for b.Loop() {
				now.ms++
				buf = a.respond(buf[:0], p, table, client, now, false)
			}
		})
	}
}

func texts(ps []Problem) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}
