package dnsfallback

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// newResponder makes one as a worker has it.
func newResponder(s Secrets, limit *limiter) *responder {
	if s == nil {
		s = Secrets{{1, 2, 3}}
	}
	a := &responder{shared: &shared{udp: udpSize, nsid: []byte("fra-1"), alive: 100}, limit: limit}
	a.secrets.Store(&s)
	return a
}

// respond gives the answer to a packet, nil for none.
func respond(t testing.TB, a *responder, table *Table, packet []byte, stream bool) *dns.Msg {
	t.Helper()
	out := a.respond(nil, packet, table, client, moment{unix: 1_800_000_000}, stream)
	if len(out) == 0 {
		return nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(out); err != nil {
		t.Fatalf("the answer cannot be read: %v\n%x", err, out)
	}
	return m
}

func withOption(o ...dns.EDNS0) func(*dns.Msg) {
	return func(m *dns.Msg) {
		if m.IsEdns0() == nil {
			m.SetEdns0(4096, false)
		}
		m.IsEdns0().Option = append(m.IsEdns0().Option, o...)
	}
}

func optionOf[T dns.EDNS0](m *dns.Msg) (o T, ok bool) {
	if opt := m.IsEdns0(); opt != nil {
		for _, e := range opt.Option {
			if o, ok = e.(T); ok {
				return o, true
			}
		}
	}
	return o, false
}

// TestHeader: what the header of an answer says, for each thing that a header can ask (RFC 8906 §8).
func TestHeader(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	good := question(t, "www.example.com", "A")
	change := func(f func(p []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for _, c := range []struct {
		name   string
		packet []byte
		rcode  int // -1: silence
	}{
		{"plain", good, dns.RcodeSuccess},
		{"nothing", nil, -1},
		{"a header cut short", good[:11], -1},
		{"a header alone", good[:12], dns.RcodeFormatError},
		{"a header that says so", change(func(p []byte) []byte { p[5] = 0; return p[:12] }), dns.RcodeFormatError},
		{"an answer", change(func(p []byte) []byte { p[2] |= 0x80; return p }), -1},
		{"the reserved flag", change(func(p []byte) []byte { p[3] |= 0x40; return p }), dns.RcodeSuccess},
		{"AD and CD", change(func(p []byte) []byte { p[3] |= 0x30; return p }), dns.RcodeSuccess},
		{"AA, TC and an rcode", change(func(p []byte) []byte { p[2] |= 0x06; p[3] |= 0x05; return p }), dns.RcodeSuccess},
		{"two questions", change(func(p []byte) []byte { p[5] = 2; return append(p, p[12:]...) }), dns.RcodeFormatError},
		{"two questions, one there", change(func(p []byte) []byte { p[5] = 2; return p }), dns.RcodeFormatError},
		{"a question cut short", good[:len(good)-1], dns.RcodeFormatError},
		{"something behind", append(bytes.Clone(good), 0), dns.RcodeFormatError},
		{"a pointer as name", change(func(p []byte) []byte { return append(p[:12], 0xC0, 12, 0, 1, 0, 1) }), dns.RcodeFormatError},
		{"a label too long", change(func(p []byte) []byte { p[12] = 64; return p }), dns.RcodeFormatError},
		{"an answer that is not there", change(func(p []byte) []byte { p[7] = 1; return p }), dns.RcodeFormatError},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := respond(t, newResponder(nil, nil), table, c.packet, false)
			if m == nil || c.rcode < 0 {
				if m != nil || c.rcode >= 0 {
					t.Fatalf("got %v", m)
				}
				return
			}
			if m.Rcode != c.rcode || !m.Response || m.Id != 4711 || m.Truncated || m.RecursionAvailable || m.Zero || m.AuthenticatedData || m.CheckingDisabled {
				t.Errorf("got\n%v", m)
			}
		})
	}
	for opcode := 1; opcode < 16; opcode++ {
		m := respond(t, newResponder(nil, nil), table, change(func(p []byte) []byte { p[2] |= byte(opcode << 3); return p }), false)
		if m == nil || m.Rcode != dns.RcodeNotImplemented || m.Opcode != opcode || m.Authoritative || len(m.Question) != 0 {
			t.Errorf("opcode %d: %v", opcode, m)
		}
	}
	for _, class := range []uint16{0, 2, dns.ClassCHAOS, dns.ClassHESIOD, dns.ClassNONE, dns.ClassANY, 1000} {
		m := respond(t, newResponder(nil, nil), table, question(t, "version.bind", "TXT", func(m *dns.Msg) { m.Question[0].Qclass = class }), false)
		if m.Rcode != dns.RcodeRefused || m.Authoritative || len(m.Answer) != 0 {
			t.Errorf("class %d: %v", class, m)
		}
	}
	if m := respond(t, newResponder(nil, nil), table, question(t, "www.example.com", "A", func(m *dns.Msg) { m.RecursionDesired = true }), false); !m.RecursionDesired || m.RecursionAvailable {
		t.Errorf("RD is not copied, or recursion offered:\n%v", m)
	}
	a := newResponder(nil, nil)
	if out := a.respond(nil, good, table, netip.MustParseAddrPort("203.0.113.7:0"), moment{}, false); len(out) > 0 {
		t.Error("an answer to port 0")
	}
	if a.tally.dropped.Load() != 1 {
		t.Error("what is dropped is not counted")
	}
	// Any name's length that a question can have is read, and none beyond.
	for _, n := range []int{1, 63, 127, 200, 253} {
		label := strings.Repeat("a.", n/2)
		if m := respond(t, newResponder(nil, nil), table, question(t, label, "A"), false); m.Rcode != dns.RcodeRefused {
			t.Errorf("a name of %d octets: %v", n, m)
		}
	}
	long := append(bytes.Clone(good[:12]), bytes.Repeat([]byte("\x01a"), 127)...)
	if m := respond(t, newResponder(nil, nil), table, append(long, 0, 0, 1, 0, 1), false); m.Rcode != dns.RcodeRefused {
		t.Errorf("a name of 255 octets: %v", m)
	}
	if m := respond(t, newResponder(nil, nil), table, append(long, 1, 'a', 0, 0, 1, 0, 1), false); m.Rcode != dns.RcodeFormatError {
		t.Errorf("a name of 257 octets: %v", m)
	}
}

// TestEDNS: RFC 6891, and the traps others fell into (RFC 8906 §8.2).
func TestEDNS(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	ask := func(change ...func(*dns.Msg)) *dns.Msg {
		return respond(t, newResponder(nil, nil), table, question(t, "www.example.com", "A", change...), false)
	}
	if m := ask(); m.IsEdns0() != nil {
		t.Errorf("OPT to a client that sent none:\n%v", m)
	}
	edns := func(m *dns.Msg) { m.SetEdns0(4096, false) }
	m := ask(edns)
	if o := m.IsEdns0(); o == nil || o.UDPSize() != udpSize || o.Version() != 0 || o.Do() || len(o.Option) != 0 || len(m.Answer) != 2 {
		t.Errorf("plain EDNS:\n%v", m)
	}
	// Another version: BADVERS with the question, ours, and no data (RFC 6891 §6.1.3).
	m = ask(edns, func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }, withOption(&dns.EDNS0_LOCAL{Code: 100, Data: []byte{1}}))
	if o := m.IsEdns0(); m.Rcode != dns.RcodeBadVers || o == nil || o.Version() != 0 || len(o.Option) != 0 || len(m.Question) != 1 || m.Authoritative || len(m.Answer)+len(m.Ns) > 0 {
		t.Errorf("EDNS version 1:\n%v", m)
	}
	// Unknown options and flags are neither refused nor sent back.
	m = ask(edns, func(m *dns.Msg) { m.IsEdns0().SetZ(0x7FFF) }, withOption(&dns.EDNS0_LOCAL{Code: 100, Data: []byte{1, 2}}))
	if o := m.IsEdns0(); m.Rcode != dns.RcodeSuccess || o == nil || o.Z() != 0 || len(o.Option) != 0 || len(m.Answer) != 2 {
		t.Errorf("unknown option and flags:\n%v", m)
	}
	if m = ask(edns, func(m *dns.Msg) { m.IsEdns0().SetDo() }); !m.IsEdns0().Do() {
		t.Errorf("DO is not copied:\n%v", m)
	}
	// OPT twice, with an owner, or in the wrong section.
	opt := []byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0}
	for name, p := range map[string][]byte{
		"twice":               with(question(t, "www.example.com", "A"), 0, 2, append(bytes.Clone(opt), opt...)),
		"an owner":            with(question(t, "www.example.com", "A"), 0, 1, append([]byte{1, 'x'}, opt...)),
		"as answer":           with(question(t, "www.example.com", "A"), 1, 0, opt),
		"cut short":           with(question(t, "www.example.com", "A"), 0, 1, opt[:10]),
		"an option cut short": with(question(t, "www.example.com", "A"), 0, 1, []byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 3, 0, 3, 0}),
		"an option too long":  with(question(t, "www.example.com", "A"), 0, 1, []byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 4, 0, 3, 0, 9}),
	} {
		if m := respond(t, newResponder(nil, nil), table, p, false); m == nil || m.Rcode != dns.RcodeFormatError {
			t.Errorf("%s: %v", name, m)
		}
	}
	// A size under 512 is 512 (RFC 6891 §6.2.3), and other records beside OPT are no harm.
	if m := ask(func(m *dns.Msg) { m.SetEdns0(100, false) }); m.Truncated || len(m.Answer) != 2 {
		t.Errorf("a size of 100:\n%v", m)
	}
	tsig := append([]byte{3, 'k', 'e', 'y', 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 1, 7}, opt...)
	if m := respond(t, newResponder(nil, nil), table, with(question(t, "www.example.com", "A"), 0, 2, tsig), false); m.Rcode != dns.RcodeSuccess || m.IsEdns0() == nil {
		t.Errorf("a record before OPT:\n%v", m)
	}
	// NSID is told to who asks (RFC 5001).
	m = ask(withOption(&dns.EDNS0_NSID{Code: dns.EDNS0NSID}))
	if o, ok := optionOf[*dns.EDNS0_NSID](m); !ok || o.Nsid != hex.EncodeToString([]byte("fra-1")) {
		t.Errorf("NSID:\n%v", m)
	}
	// The reason of a refusal (RFC 8914), and none where there is nothing to explain.
	for _, c := range []struct {
		name, typ string
		class     uint16
		code      int // -1: none
	}{
		{"example.org", "A", dns.ClassINET, int(dns.ExtendedErrorCodeNotAuthoritative)},
		{"example.com", "AXFR", dns.ClassINET, int(dns.ExtendedErrorCodeProhibited)},
		{"example.com", "IXFR", dns.ClassINET, int(dns.ExtendedErrorCodeProhibited)},
		{"version.bind", "TXT", dns.ClassCHAOS, int(dns.ExtendedErrorCodeNotSupported)},
		{"www.example.com", "A", dns.ClassINET, -1},
		{"no.example.com", "A", dns.ClassINET, -1},
	} {
		m = respond(t, newResponder(nil, nil), table, question(t, c.name, c.typ, edns, func(m *dns.Msg) { m.Question[0].Qclass = c.class }), false)
		if o, ok := optionOf[*dns.EDNS0_EDE](m); ok != (c.code >= 0) || ok && int(o.InfoCode) != c.code {
			t.Errorf("EDE of %s %s:\n%v", c.name, c.typ, m)
		}
	}
	// The timeout of a connection, over a connection (RFC 7828).
	alive := question(t, "www.example.com", "A", withOption(&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}))
	if o, ok := optionOf[*dns.EDNS0_TCP_KEEPALIVE](respond(t, newResponder(nil, nil), table, alive, true)); !ok || o.Timeout != 100 {
		t.Error("no timeout over TCP")
	}
	if _, ok := optionOf[*dns.EDNS0_TCP_KEEPALIVE](respond(t, newResponder(nil, nil), table, alive, false)); ok {
		t.Error("a timeout over UDP (RFC 7828 §3.2.1)")
	}
}

// with adds records to a packet.
func with(p []byte, answers, additional byte, records []byte) []byte {
	p[7], p[11] = p[7]+answers, p[11]+additional
	return append(p, records...)
}

// TestSubnetOption: an answer to a client subnet copies it, with a scope (RFC 7871 §7.2.1).
func TestSubnetOption(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	for _, c := range []struct {
		name  string
		data  []byte
		rcode int
	}{
		{"IPv4", []byte{0, 1, 24, 0, 203, 0, 113}, dns.RcodeSuccess},
		{"IPv6", []byte{0, 2, 56, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 1}, dns.RcodeSuccess},
		{"none wanted", []byte{0, 1, 0, 0}, dns.RcodeSuccess},
		{"no family", []byte{0, 0, 0, 0}, dns.RcodeSuccess},
		{"loopback", []byte{0, 1, 8, 0, 127}, dns.RcodeSuccess},
		{"too few octets", []byte{0, 1, 24, 0, 203, 0}, dns.RcodeFormatError},
		{"too many octets", []byte{0, 1, 16, 0, 203, 0, 113}, dns.RcodeFormatError},
		{"bits beyond", []byte{0, 1, 23, 0, 203, 0, 113}, dns.RcodeFormatError},
		{"a scope", []byte{0, 1, 24, 24, 203, 0, 113}, dns.RcodeFormatError},
		{"too long", []byte{0, 1, 33, 0, 203, 0, 113, 7, 0}, dns.RcodeFormatError},
		{"another family", []byte{0, 9, 8, 0, 1}, dns.RcodeFormatError},
		{"short", []byte{0, 1, 0}, dns.RcodeFormatError},
	} {
		option := append([]byte{0, 8, 0, byte(len(c.data))}, c.data...)
		opt := append([]byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 0, byte(len(option))}, option...)
		a := newResponder(nil, nil)
		out := a.respond(nil, with(question(t, "www.example.com", "A"), 0, 1, opt), table, client, moment{}, false)
		if got := int(out[3] & 15); got != c.rcode {
			t.Errorf("%s: rcode %d", c.name, got)
		}
		if c.rcode == dns.RcodeSuccess && c.data[1] != 0 && !bytes.HasSuffix(out, option) {
			t.Errorf("%s: the option does not come back as it was, with scope 0: %x", c.name, out)
		}
	}
}

// TestCookies: RFC 7873 and RFC 9018, with the vectors of RFC 9018 appendix A.
func TestCookies(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	secret := Secret(unhex(t, "e5e973e5a6b2a43f48e7dc849e37bfcf"))
	for _, v := range []struct {
		secret, client, addr string
		at                   uint32
		want                 string
	}{
		{"e5e973e5a6b2a43f48e7dc849e37bfcf", "2464c4abcf10c957", "198.51.100.100", 1559731985, "010000005cf79f111f8130c3eee29480"},
		{"e5e973e5a6b2a43f48e7dc849e37bfcf", "fc93fc62807ddb86", "203.0.113.203", 1559734700, "010000005cf7a9acf73a7810aca2381e"},
		{"445536bcd2513298075a5d379663c962", "22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", 1559741961, "010000005cf7c609a6bb79d16625507a"},
	} {
		var out [serverCookieLen]byte
		Secrets{Secret(unhex(t, v.secret))}.sign(&out, unhex(t, v.client), netip.MustParseAddr(v.addr), v.at)
		if got := hex.EncodeToString(out[:]); got != v.want {
			t.Errorf("the cookie of %s is %s, not %s", v.addr, got, v.want)
		}
	}

	ask := func(s Secrets, cookie string, unix uint32, change ...func(*dns.Msg)) (*dns.Msg, *responder) {
		a := newResponder(s, nil)
		change = append(change, withOption(&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}))
		out := a.respond(nil, question(t, "www.example.com", "A", change...), table, client, moment{unix: unix}, false)
		m := new(dns.Msg)
		if err := m.Unpack(out); err != nil {
			t.Fatal(err)
		}
		return m, a
	}
	cookie := func(m *dns.Msg) string {
		o, _ := optionOf[*dns.EDNS0_COOKIE](m)
		if o == nil {
			return ""
		}
		return o.Cookie
	}
	const mine, now = "0102030405060708", uint32(1_800_000_000)
	m, a := ask(Secrets{secret}, mine, now)
	given := cookie(m)
	if m.Rcode != dns.RcodeSuccess || len(given) != 48 || !strings.HasPrefix(given, mine) || len(m.Answer) != 2 || a.tally.cookieNew.Load() != 1 {
		t.Fatalf("a first cookie:\n%v", m)
	}
	other := Secret{9}
	for _, c := range []struct {
		name      string
		secrets   Secrets
		unix      uint32
		good, new bool
	}{
		{"at once", Secrets{secret}, now, true, false},
		{"half an hour later", Secrets{secret}, now + 1800, true, false},
		{"and a second", Secrets{secret}, now + 1801, true, true},
		{"an hour later", Secrets{secret}, now + 3600, true, true},
		{"and a second more", Secrets{secret}, now + 3601, false, true},
		{"by a clock five minutes behind", Secrets{secret}, now - 300, true, false},
		{"and a second", Secrets{secret}, now - 301, false, true},
		{"next secret known", Secrets{secret, other}, now, true, false},
		{"next secret signs", Secrets{other, secret}, now, true, true},
		{"old secret gone", Secrets{other}, now, false, true},
	} {
		m, a := ask(c.secrets, given, c.unix)
		if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 2 {
			t.Errorf("%s: the question is not answered:\n%v", c.name, m)
		}
		if got := a.tally.cookieGood.Load() == 1; got != c.good {
			t.Errorf("%s: good %v", c.name, got)
		}
		if got := cookie(m) != given; got != c.new || len(cookie(m)) != 48 {
			t.Errorf("%s: a new cookie %v", c.name, got)
		}
	}
	// Whoever saw another's cookie has none: it is of the client's address and its half.
	for _, c := range []struct{ name, cookie, from string }{
		{"another address", given, "203.0.113.8:5353"},
		{"another family", given, "[2001:db8::7]:5353"},
		{"another client's half", "ff" + given[2:], client.String()},
		{"another version", mine + "02" + given[18:], client.String()},
		{"other reserved octets", given[:18] + "000001" + given[24:], client.String()},
		{"another time", given[:31] + "1" + given[32:], client.String()},
		{"another hash", given[:32] + given[40:] + given[32:40], client.String()},
		{"a longer one", given + "00", client.String()},
	} {
		a := newResponder(Secrets{secret}, nil)
		a.respond(nil, question(t, "www.example.com", "A", withOption(&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: c.cookie})), table, netip.MustParseAddrPort(c.from), moment{unix: now}, false)
		if a.tally.cookieGood.Load() != 0 || a.tally.cookieBad.Load() != 1 {
			t.Errorf("%s: the cookie is taken", c.name)
		}
	}
	// The time of a cookie is a serial number, which goes on from 2^32 to 0 (RFC 9018 §4.3).
	m, _ = ask(Secrets{secret}, mine, 1<<32-10)
	if _, a := ask(Secrets{secret}, cookie(m), 100); a.tally.cookieGood.Load() != 1 {
		t.Error("a cookie from before the clock went round is refused")
	}
	// Lengths that no cookie has (RFC 7873 §5.2.2).
	for _, n := range []int{0, 7, 9, 15, 41} {
		m, _ := ask(Secrets{secret}, strings.Repeat("ab", n), now)
		if m.Rcode != dns.RcodeFormatError {
			t.Errorf("a cookie of %d octets: %v", n, m)
		}
	}
	// No question: only to ask for a cookie (RFC 7873 §5.4).
	none := func(m *dns.Msg) { m.Question = nil }
	if m, _ := ask(Secrets{secret}, mine, now, none); m.Rcode != dns.RcodeSuccess || len(cookie(m)) != 48 || m.Authoritative {
		t.Errorf("asking for a cookie:\n%v", m)
	}
	if m, _ := ask(Secrets{secret}, given, now, none); m.Rcode != dns.RcodeSuccess {
		t.Errorf("asking with a good cookie:\n%v", m)
	}
	if m, _ := ask(Secrets{other}, given, now, none); m.Rcode != dns.RcodeBadCookie || len(cookie(m)) != 48 {
		t.Errorf("asking with another's cookie:\n%v", m)
	}
}

// TestLoadSecrets: the file of a fleet's secrets, and each mistake, which shows none of it.
func TestLoadSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cookies")
	put := func(mode os.FileMode, text string) {
		t.Helper()
		os.Remove(file)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	const a, b = "e5e973e5a6b2a43f48e7dc849e37bfcf", "445536bcd2513298075a5d379663c962"
	put(0o600, "# in force\n"+a+"\n\n"+b+" # next\n")
	s, err := LoadSecrets(file)
	if err != nil || len(s) != 2 || s[0] != Secret(unhex(t, a)) || s[1] != Secret(unhex(t, b)) {
		t.Errorf("%v %v", s, err)
	}
	for _, c := range []struct {
		mode       os.FileMode
		text, want string
	}{
		{0o640, a, " can be read by others (-rw-r-----); chmod 600 " + file},
		{0o600, "", ": holds no secret"},
		{0o600, a + "\n" + b[:31] + "\n", ":2: is not 32 hexadecimal digits, as openssl rand -hex 16 gives them"},
		{0o600, a + "\n" + a + "\n", ":2: stands before already"},
		{0o600, strings.Repeat("0", 32), ":1: is all zeros, which is no secret"},
		{0o600, "01" + a[2:] + "\n02" + a[2:] + "\n03" + a[2:] + "\n04" + a[2:] + "\n05" + a[2:], ":5: is one more than 4 secrets; take those away whose cookies are over an hour old"},
	} {
		put(c.mode, c.text)
		s, err := LoadSecrets(file)
		if err == nil || err.Error() != file+c.want || s != nil {
			t.Errorf("got:  %v\nwant: %s", err, file+c.want)
		}
	}
	if _, err := LoadSecrets(file + ".none"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRateLimit: like answers to one network are bounded, a cookie lifts the
// bound, and what still goes to a forged source is no longer than what came.
func TestRateLimit(t *testing.T) {
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	// Each group of questions has one answer, as far as the limiter goes.
	groups := map[string][]string{
		"a name":      {"www.example.com"},
		"absences":    {"a1.example.com", "a2.example.com", "a3.example.com"},
		"a wildcard":  {"a1.wild.example.com", "a2.wild.example.com"},
		"a referral":  {"a1.sub.example.com", "a2.sub.example.com"},
		"other zones": {"example.org", "example.net"},
	}
	edns := func(m *dns.Msg) { m.SetEdns0(4096, true) }
	for name, names := range groups {
		a := newResponder(nil, newLimiter(10, 2, [2]uint64{1, 2}))
		answered, empty, silent := 0, 0, 0
		for i := range 100 {
			packet := question(t, names[i%len(names)], "A", edns)
			out := a.respond(nil, packet, table, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 53), moment{}, false)
			switch {
			case len(out) == 0:
				silent++
			case out[2]&2 != 0:
				empty++
				if len(out) > len(packet) {
					t.Errorf("%s: %d octets for %d", name, len(out), len(packet))
				}
			default:
				answered++
			}
		}
		if answered != 10 || empty != 45 || silent != 45 || a.tally.limited.Load() != 45 || a.tally.slipped.Load() != 45 {
			t.Errorf("%s: %d answers, %d empty, %d silences", name, answered, empty, silent)
		}
		packet := question(t, names[0], "A", edns)
		if out := a.respond(nil, packet, table, netip.MustParseAddrPort("203.0.114.1:53"), moment{}, false); len(out) == 0 || out[2]&2 != 0 {
			t.Errorf("%s: another network is bounded too", name)
		}
		if out := a.respond(nil, packet, table, client, moment{ms: 200}, false); len(out) == 0 || out[2]&2 != 0 {
			t.Errorf("%s: time does not fill the bucket", name)
		}
	}
	// IPv6 is bounded by the /56, and one of so many answers over the limit is empty.
	for slip, want := range map[uint32]int{0: 0, 1: 90, 2: 45, 3: 30, 100: 0} {
		a, answered, empty := newResponder(nil, newLimiter(10, slip, [2]uint64{1, 2})), 0, 0
		from := netip.MustParsePrefix("2001:db8:1:100::/56").Addr().As16()
		for i := range 100 {
			from[7], from[15] = byte(i), byte(7*i)
			out := a.respond(nil, question(t, "www.example.com", "A"), table, netip.AddrPortFrom(netip.AddrFrom16(from), 53), moment{}, false)
			switch {
			case len(out) > 0 && out[2]&2 != 0:
				empty++
			case len(out) > 0:
				answered++
			}
		}
		if answered != 10 || empty != want {
			t.Errorf("slip %d: %d answers, %d empty; want 10, %d", slip, answered, empty, want)
		}
		if m := respond(t, a, table, question(t, "www.example.com", "A"), false); m == nil || m.Truncated {
			t.Errorf("slip %d: another network is bounded too", slip)
		}
		from[6]++
		if out := a.respond(nil, question(t, "www.example.com", "A"), table, netip.AddrPortFrom(netip.AddrFrom16(from), 53), moment{}, false); len(out) == 0 || out[2]&2 != 0 {
			t.Errorf("slip %d: another /56 is bounded too", slip)
		}
	}
	// A refusal that is not sent is not counted as one that is; one that is, is no longer than what came.
	for name, p := range map[string][]byte{
		"two questions":   append(bytes.Clone(question(t, "www.example.com", "A")[:4]), append([]byte{0, 2}, question(t, "www.example.com", "A")[6:]...)...),
		"opcode":          {18, 103, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"header":          {18, 103, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"EDNS version":    question(t, "www.example.com", "A", func(m *dns.Msg) { m.SetEdns0(4096, false); m.IsEdns0().SetVersion(1) }),
		"an option short": with(question(t, "www.example.com", "A"), 0, 1, []byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 3, 0, 3, 0}),
	} {
		a, got := newResponder(nil, newLimiter(10, 2, [2]uint64{1, 2})), 0
		for range 100 {
			if out := a.respond(nil, p, table, client, moment{}, false); len(out) > 0 {
				if got++; len(out) > len(p) {
					t.Errorf("%s: %d octets for %d", name, len(out), len(p))
				}
			}
		}
		if passed := 10 + int(a.tally.slipped.Load()); got != passed || a.tally.limited.Load()+a.tally.slipped.Load() != 90 {
			t.Errorf("%s: %d are answered, and counted are %d and %d dropped", name, got, passed, a.tally.limited.Load())
		}
	}
	// A cookie.
	a := newResponder(nil, newLimiter(1, 0, [2]uint64{1, 2}))
	m := respond(t, a, table, question(t, "www.example.com", "A", withOption(&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})), false)
	o, _ := optionOf[*dns.EDNS0_COOKIE](m)
	for range 100 {
		if m := respond(t, a, table, question(t, "www.example.com", "A", withOption(o)), false); m == nil || len(m.Answer) != 2 {
			t.Fatal("who shows a cookie is bounded")
		}
	}
	if m := respond(t, a, table, question(t, "www.example.com", "A"), false); m != nil {
		t.Error("who shows none is not bounded")
	}
	// Refusals of what cannot be read are answers too.
	bad := question(t, "www.example.com", "A")
	bad[5] = 2
	n := 0
	for range 10 {
		if respond(t, a, table, bad, false) != nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d refusals of 1", n)
	}
}

// FuzzPacket: whatever comes, the answer can be read, fits, belongs to the
// question, and claims nothing that cannot be.
func FuzzPacket(f *testing.F) {
	nets, err := readNetworks([]byte("203.0.0.0/8 fra\n203.0.113.0/24 ams\n2001:db8::/32 ams\n"))
	if err != nil {
		f.Fatal(err)
	}
	zones := exampleZones()
	zones[0].Names = []Steered{
		{Name: "shop", Choice: Choice{Service: "web", Methods: []string{"topology", "hash"}, Members: sites("fra", "ams", "iad")}},
		{Name: "*.app", Choice: Choice{Members: []Member{{Name: "cdn", CNAME: "cdn.example.net"}}}},
	}
	zones[0].Records = append(zones[0].Records, "*.store CNAME shop")
	for _, n := range []string{"www.example.com", "x.wild.example.com", "x.sub.example.com", "no.example.com", "example.org", "shop.example.com", "x.store.example.com", "x.app.example.com"} {
		f.Add(question(f, n, "A"), uint8(0))
		f.Add(question(f, n, "ANY", withOption(&dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
			&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IP{203, 0, 113, 0}})), uint8(1))
	}
	table := mustPolicy(f, zones).Table(1, &Maps{all: []*Map{nets}}, state("iad down, fra ramp 20"))
	limited, free := newResponder(nil, newLimiter(1, 1, [2]uint64{1, 2})), newResponder(nil, nil)
	var ms uint32
	f.Fuzz(func(t *testing.T, p []byte, how uint8) {
		stream := how&1 != 0
		out := free.respond([]byte("before"), p, table, client, moment{}, stream)
		if !bytes.HasPrefix(out, []byte("before")) {
			t.Fatal("what stood before is gone")
		}
		if out = out[6:]; len(out) == 0 {
			if len(p) >= 12 && p[2]&0x80 == 0 {
				t.Fatal("a question without an answer")
			}
			return
		}
		allowed := dns.MinMsgSize
		if free.q.edns {
			allowed = min(udpSize, max(allowed, int(free.q.size)))
		}
		if stream {
			allowed = dns.MaxMsgSize
		}
		if len(out) > allowed {
			t.Errorf("%d octets of %d", len(out), allowed)
		}
		var m dns.Msg
		if err := m.Unpack(out); err != nil {
			t.Fatalf("the answer cannot be read: %v\n%x", err, out)
		}
		if !m.Response || binary.BigEndian.Uint16(p) != m.Id || m.RecursionAvailable {
			t.Errorf("%v", &m)
		}
		if len(m.Question) == 1 && !bytes.Equal(out[12:12+len(free.q.question)], p[12:12+len(free.q.question)]) {
			t.Error("the question comes back changed")
		}
		if m.Rcode == dns.RcodeNameError && len(m.Answer) > 0 && m.Answer[0].Header().Rrtype != dns.TypeCNAME {
			t.Error("a name that is answered for does not exist")
		}
		if m.IsEdns0() == nil != !free.q.edns {
			t.Error("OPT for no OPT, or the other way")
		}
		// Over the limit, what goes to a source that may be forged is never longer than what came.
		ms++
		limited.respond(nil, p, table, client, moment{ms: ms}, false)
		if out := limited.respond(nil, p, table, client, moment{ms: ms}, false); len(out) > len(p) && limited.tally.cookieGood.Load() == 0 {
			t.Errorf("%d octets for %d", len(out), len(p))
		}
	})
}
