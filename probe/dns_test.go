package probe

import (
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
)

// dnsServer answers queries over UDP and TCP on one port with what reply makes
// of them; nil is no answer.
func dnsServer(t testing.TB, reply func(q *dns.Msg, udp bool) []byte) string {
	t.Helper()
	pc, l := bothProtocols(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(b[:n]) != nil {
				continue
			}
			if out := reply(q, true); out != nil {
				pc.WriteTo(out, from)
			}
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
	serve(t, l, func(c net.Conn) {
		for {
			raw, err := readTCPMessage(c)
			q := new(dns.Msg)
			if err != nil || q.Unpack(raw) != nil {
				return
			}
			out := reply(q, false)
			if out == nil {
				silent(c)
				return
			}
			c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...))
		}
	})
	return pc.LocalAddr().String()
}

// bothProtocols listens on one port over UDP and TCP.
func bothProtocols(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 { // a port free for one may be taken for the other
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if pc, err := net.ListenPacket("udp", l.Addr().String()); err == nil {
			return pc, l
		}
		l.Close()
	}
	t.Fatal("no port is free over both UDP and TCP")
	return nil, nil
}

// answer is a right reply with the given records, changed by change.
func answer(change func(m *dns.Msg), records ...string) func(*dns.Msg, bool) []byte {
	return func(q *dns.Msg, _ bool) []byte {
		m := new(dns.Msg)
		m.SetReply(q)
		for _, r := range records {
			rr, err := dns.NewRR(strings.ReplaceAll(r, "@", q.Question[0].Name))
			if err != nil {
				panic(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		if change != nil {
			change(m)
		}
		b, err := m.Pack()
		if err != nil {
			panic(err)
		}
		return b
	}
}

func rcode(n int) func(*dns.Msg) { return func(m *dns.Msg) { m.Rcode = n } }

func nsid(s string) func(*dns.Msg) {
	return func(m *dns.Msg) {
		o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		o.Option = append(o.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte(s))})
		m.Extra = append(m.Extra, o)
	}
}

// The truth table of dnsjudge.go, against a server.
func TestDNSTruthTable(t *testing.T) {
	const a = "@ 60 IN A 192.0.2.1"
	nets := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		name string
		set  DNS
		srv  func(*dns.Msg, bool) []byte
		want string
	}{
		{"right", DNS{}, answer(nil, a), "up"},
		{"right, in allowed", DNS{Answers: nets}, answer(nil, a), "up"},
		{"tampered", DNS{Answers: nets}, answer(nil, a, "@ 60 IN A 203.0.113.9"), "down hard: tampered: example.test. has the address 203.0.113.9"},
		{"tampered v6", DNS{Answers: nets, Type: "AAAA"}, answer(nil, "@ 60 IN AAAA 2001:db9::1"), "down hard: tampered"},
		{"mapped v4 is no v6", DNS{Answers: nets, Type: "AAAA"}, answer(nil, "@ 60 IN AAAA ::ffff:192.0.2.1"), "down hard: tampered"},
		{"right v6", DNS{Answers: nets, Type: "aaaa"}, answer(nil, "@ 60 IN AAAA 2001:db8::1"), "up"},
		{"SERVFAIL", DNS{}, answer(rcode(dns.RcodeServerFailure)), "down soft: SERVFAIL for example.test., not NOERROR"},
		{"REFUSED", DNS{}, answer(rcode(dns.RcodeRefused)), "down soft: REFUSED"},
		{"error without the question", DNS{}, answer(func(m *dns.Msg) { m.Rcode, m.Question = dns.RcodeFormatError, nil }), "down soft: FORMERR"},
		{"NXDOMAIN wanted", DNS{Rcode: "NXDOMAIN"}, answer(rcode(dns.RcodeNameError)), "up"},
		{"NXDOMAIN wanted, lower case", DNS{Rcode: "nxdomain"}, answer(rcode(dns.RcodeNameError)), "up"},
		{"NXDOMAIN wanted, found", DNS{Rcode: "NXDOMAIN"}, answer(nil, a), "down soft: NOERROR for example.test., not NXDOMAIN"},
		{"unheard of rcode", DNS{}, answer(rcode(13)), "down soft: rcode 13"},
		{"NODATA", DNS{}, answer(nil), "down soft: 0 records of type A"},
		{"NODATA wanted", DNS{MinAnswers: new(0)}, answer(nil), "up"},
		{"too few", DNS{MinAnswers: new(2)}, answer(nil, a), "down soft: 1 records of type A for example.test.; at least 2"},
		{"other type", DNS{}, answer(nil, "@ 60 IN TXT hello"), "down soft: 0 records"},
		{"answer about another name", DNS{}, answer(nil, "other.test. 60 IN A 192.0.2.1"), "down soft: 0 records"},
		{"alias", DNS{}, answer(nil, "@ 60 IN CNAME x.test.", "x.test. 60 IN CNAME y.test.", "y.test. 60 IN A 192.0.2.1"), "up"},
		{"alias, in disorder and other case", DNS{}, answer(nil, "y.test. 60 IN A 192.0.2.1", "X.test. 60 IN CNAME Y.test.", "@ 60 IN CNAME x.TEST."), "up"},
		{"alias to nowhere", DNS{}, answer(nil, "@ 60 IN CNAME x.test."), "down soft: 0 records"},
		{"alias in a loop", DNS{}, answer(nil, "@ 60 IN CNAME x.test.", "x.test. 60 IN CNAME @"), "down soft: 0 records"},
		{"tampered behind an alias", DNS{Answers: nets}, answer(nil, "@ 60 IN CNAME x.test.", "x.test. 60 IN A 198.51.100.1"), "down hard: tampered"},
		{"the alias itself", DNS{Type: "CNAME"}, answer(nil, "@ 60 IN CNAME x.test."), "up"},
		{"match", DNS{Type: "TXT", Match: `^"v=1 `}, answer(nil, "@ 60 IN TXT \"v=1 ok\""), "up"},
		{"no match", DNS{Type: "TXT", Match: `^"v=2`}, answer(nil, "@ 60 IN TXT \"v=1 ok\""), "down soft: no record of example.test. matches"},
		{"match is on data, not name", DNS{Match: "example"}, answer(nil, a), "down soft: no record"},
		{"TTL low", DNS{MinTTL: time.Minute}, answer(nil, "@ 59 IN A 192.0.2.1"), "down soft: TTL of example.test. is 59s, under 1m0s"},
		{"TTL high", DNS{MaxTTL: time.Minute}, answer(nil, "@ 61 IN A 192.0.2.1"), "down soft: TTL of example.test. is 1m1s, over"},
		{"TTL in range", DNS{MinTTL: time.Minute, MaxTTL: time.Minute}, answer(nil, a), "up"},
		{"AA wanted", DNS{Authoritative: new(true)}, answer(nil, a), "down soft: not authoritative"},
		{"AA there", DNS{Authoritative: new(true)}, answer(func(m *dns.Msg) { m.Authoritative = true }, a), "up"},
		{"AA unwanted", DNS{Authoritative: new(false)}, answer(func(m *dns.Msg) { m.Authoritative = true }, a), "down soft: is authoritative"},
		{"AD wanted", DNS{Authenticated: true}, answer(nil, a), "down soft: not authenticated"},
		{"AD there", DNS{Authenticated: true}, answer(func(m *dns.Msg) { m.AuthenticatedData = true }, a), "up"},
		{"identity", DNS{Identity: "fra-1"}, answer(nsid("fra-1"), a), "up"},
		{"another's identity", DNS{Identity: "fra-1"}, answer(nsid("ams-1"), a), `down hard: somebody else answered: NSID is "ams-1", not "fra-1"`},
		{"another's identity and an error", DNS{Identity: "fra-1"}, answer(func(m *dns.Msg) { nsid("ams-1")(m); m.Rcode = 2 }), "down hard: somebody else"},
		{"no identity", DNS{Identity: "fra-1"}, answer(nil, a), "down soft: carries no NSID"},
		{"truncated", DNS{}, answer(func(m *dns.Msg) { m.Truncated = true }), "down soft: truncated over UDP"},
		{"truncated, both asked", DNS{Protocol: "both"}, func(q *dns.Msg, udp bool) []byte {
			return answer(func(m *dns.Msg) { m.Truncated = udp }, a)(q, udp)
		}, "up"},
		{"truncated over TCP means nothing", DNS{Protocol: "tcp"}, answer(func(m *dns.Msg) { m.Truncated = true }, a), "up"},
		{"over TCP", DNS{Protocol: "tcp"}, answer(nil, a), "up"},
		{"UDP answers, TCP does not", DNS{Protocol: "both"}, func(q *dns.Msg, udp bool) []byte {
			if udp {
				return answer(nil, a)(q, udp)
			}
			return nil
		}, "down soft: tcp: timeout"},
		{"TCP answers, UDP does not", DNS{Protocol: "both"}, func(q *dns.Msg, udp bool) []byte {
			if !udp {
				return answer(nil, a)(q, udp)
			}
			return nil
		}, "down soft: udp: timeout"},
		{"malformed", DNS{}, func(q *dns.Msg, _ bool) []byte {
			b := answer(nil, a)(q, true)
			return b[:len(b)-5]
		}, "down soft: malformed reply"},
		{"malformed over TCP", DNS{Protocol: "tcp"}, func(q *dns.Msg, _ bool) []byte {
			b := answer(nil, a)(q, true)
			return b[:len(b)-5]
		}, "down soft: malformed reply"},
		{"wrong id over TCP", DNS{Protocol: "tcp"}, answer(func(m *dns.Msg) { m.Id++ }, a), "down soft: to another question, or has a wrong id"},
		{"wrong id", DNS{}, answer(func(m *dns.Msg) { m.Id++ }, a), "down soft: 2 replies came with a wrong id or question"},
		{"other question", DNS{}, answer(func(m *dns.Msg) { m.Question[0].Name = "evil.test." }, a), "down soft: wrong id or question"},
		{"other type asked", DNS{}, answer(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeMX }, a), "down soft: wrong id or question"},
		{"no question", DNS{}, answer(func(m *dns.Msg) { m.Question = nil }, a), "down soft: wrong id or question"},
		{"a query for an answer", DNS{}, answer(func(m *dns.Msg) { m.Response = false }, a), "down soft: wrong id or question"},
		{"other opcode", DNS{}, answer(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, a), "down soft: wrong id or question"},
		{"shorter than a header", DNS{}, func(q *dns.Msg, _ bool) []byte { return []byte{byte(q.Id >> 8), byte(q.Id), 0x80} }, "down soft: wrong id or question"},
		{"silent", DNS{}, func(*dns.Msg, bool) []byte { return nil }, "down soft: timeout while waiting for an answer"},
		{"other case of the name", DNS{}, answer(func(m *dns.Msg) { m.Question[0].Name = "EXAMPLE.test." }, "EXAMPLE.TEST. 60 IN A 192.0.2.1"), "up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.set.Names == nil {
				c.set.Names = []string{"example.test"}
			}
			expect(t, run(t, Check{Kind: "dns", Target: dnsServer(t, c.srv), Timeout: patient(c.want, 200*time.Millisecond), DNS: &c.set}), c.want)
		})
	}
}

func TestDNSQuery(t *testing.T) {
	var mu sync.Mutex
	var got []*dns.Msg
	addr := dnsServer(t, func(q *dns.Msg, udp bool) []byte {
		mu.Lock()
		got = append(got, q)
		mu.Unlock()
		return answer(nil, "@ 1 IN A 192.0.2.1")(q, udp)
	})
	names := []string{"{random}.{random}.example.test"}
	plain := compiled(t, Check{Kind: "dns", Target: addr, DNS: &DNS{Names: names}}, Env{})
	expect(t, plain.Run(context.Background()), "up")
	expect(t, plain.Run(context.Background()), "up")
	expect(t, run(t, Check{Kind: "dns", Target: addr, DNS: &DNS{Names: []string{"a-{random}-b.test."}, Recursion: new(false), CheckingDisabled: true,
		Authenticated: true, Identity: "x"}}), "down soft: not authenticated")
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 3 {
		t.Fatalf("%d queries", len(got))
	}
	if a, b := got[0].Question[0].Name, got[1].Question[0].Name; a == b || !strings.HasSuffix(a, ".example.test.") || strings.Contains(a, "xxxxxxxxxxxx") ||
		len(dns.SplitDomainName(a)) != 4 || len(a) != len("{random}.{random}.example.test.")+2*(randomLen-len(randomMark)) {
		t.Errorf("random labels: %s, then %s", a, b)
	}
	if l := dns.SplitDomainName(got[0].Question[0].Name); l[0] == l[1] {
		t.Errorf("two marks gave the same label: %v", l)
	}
	if !got[0].RecursionDesired || got[0].CheckingDisabled || got[0].IsEdns0() != nil {
		t.Errorf("a plain query has RD and nothing else: %v", got[0])
	}
	q := got[2]
	if n := q.Question[0].Name; !strings.HasPrefix(n, "a-") || !strings.HasSuffix(n, "-b.test.") {
		t.Errorf("a mark inside a label: %s", n)
	}
	if q.RecursionDesired || !q.CheckingDisabled || q.IsEdns0() == nil || !q.IsEdns0().Do() || len(q.IsEdns0().Option) != 1 {
		t.Errorf("RD off, CD, DO and NSID were asked for: %v", q)
	}
}

// M of N names: one zone that is gone, or one that hangs, is not an outage.
func TestDNSNeed(t *testing.T) {
	addr := dnsServer(t, func(q *dns.Msg, udp bool) []byte {
		switch dns.SplitDomainName(q.Question[0].Name)[0] {
		case "good", "fine":
			return answer(nil, "@ 1 IN A 192.0.2.1")(q, udp)
		case "gone":
			return answer(rcode(dns.RcodeNameError))(q, udp)
		case "tampered":
			return answer(nil, "@ 1 IN A 203.0.113.1")(q, udp)
		}
		return nil
	})
	for _, c := range []struct {
		names string
		need  int
		want  string
	}{
		{"good.test gone.test", 1, "up"},
		{"gone.test good.test", 2, "down soft: NXDOMAIN for gone.test."},
		{"gone.test good.test", 0, "down soft: NXDOMAIN"},
		{"hangs.test good.test", 1, "up"},
		{"hangs.test good.test fine.test", 2, "up"},
		{"gone.test good.test hangs.test", 2, "down soft: 1 of 3 right, 2 wanted: NXDOMAIN for gone.test., not NOERROR; timeout"},
		{"tampered.test gone.test good.test", 2, "down soft: of 3 right, 2 wanted"},
		{"tampered.test good.test", 2, "down hard: tampered"},
		{"tampered.test good.test", 1, "up"},
	} {
		for _, proto := range []string{"udp", "tcp", "both"} {
			t.Run(proto+" "+c.names, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				r := run(t, Check{Kind: "dns", Target: addr, Timeout: patient(c.want, 300*time.Millisecond), DNS: &DNS{
					Names: strings.Fields(c.names), Need: c.need, Protocol: proto, Answers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}})
				expect(t, r, c.want)
				if r.Outcome == steadycast.Up && time.Since(began) > 9*time.Second {
					t.Errorf("what was decided was waited for: %v", time.Since(began))
				}
			})
		}
	}
}

// An answer that comes too late belongs to nobody: not to the probe that asked,
// and not to the next.
func TestDNSLateReply(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	type query struct {
		q    *dns.Msg
		from net.Addr
	}
	queries, over := make(chan query, 64), make(chan struct{})
	go func() {
		defer close(over)
		for b := make([]byte, 512); ; {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if err := q.Unpack(b[:n]); err != nil {
				t.Error(err)
			}
			queries <- query{q, from}
		}
	}()
	defer func() { pc.Close(); <-over }()
	c := compiled(t, Check{Kind: "dns", Target: pc.LocalAddr().String(), Timeout: time.Second, DNS: &DNS{Names: []string{"a.test"}}}, Env{})
	attempts := func() (otherPort bool) {
		if r := c.Run(context.Background()); r.Outcome == steadycast.Up {
			t.Fatalf("up, and nobody answered: %s", r.Reason)
		}
		first := <-queries
		done := make(chan steadycast.Result)
		go func() { done <- c.Run(context.Background()) }()
		next := <-queries
		for next.q.Id == first.q.Id && next.from.String() == first.from.String() {
			next = <-queries // the first, once more
		}
		late := answer(nil, "@ 1 IN A 192.0.2.1")(first.q, true)
		pc.WriteTo(late, first.from) // to where it was asked from
		pc.WriteTo(late, next.from)  // and to the next one
		r := <-done
		if !strings.Contains(r.Reason, "1 replies came with a wrong id") && !strings.Contains(r.Reason, "this host was late") {
			t.Errorf("%s: %s", r.Outcome, r.Reason)
		}
		for len(queries) > 0 {
			<-queries
		}
		return next.from.String() != first.from.String()
	}
	other := attempts()
	if !other { // which may be chance, once
		other = attempts()
	}
	if !other {
		t.Error("each attempt asks from the same port")
	}
}

// A reply from another address or port than was asked is not one.
func TestDNSSourceMismatch(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	other, err := net.ListenPacket("udp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		b := make([]byte, 512)
		n, from, err := pc.ReadFrom(b)
		q := new(dns.Msg)
		if err == nil && q.Unpack(b[:n]) == nil {
			other.WriteTo(answer(nil, "@ 1 IN A 192.0.2.1")(q, true), from)
		}
	}()
	expect(t, run(t, Check{Kind: "dns", Target: pc.LocalAddr().String(), Timeout: 100 * time.Millisecond, DNS: &DNS{Names: []string{"a.test"}}}), "down soft: timeout")
}

// One lost datagram is not a dead server: what has no answer is asked once more.
func TestDNSLostDatagram(t *testing.T) {
	var n atomic.Int64
	addr := dnsServer(t, func(q *dns.Msg, udp bool) []byte {
		if n.Add(1) == 1 {
			return nil
		}
		return answer(nil, "@ 1 IN A 192.0.2.1")(q, udp)
	})
	expect(t, run(t, Check{Kind: "dns", Target: addr, DNS: &DNS{Names: []string{"a.test", "b.test"}}}), "up")
	if n.Load() != 3 {
		t.Errorf("%d queries; one of two was lost, so three", n.Load())
	}
	n.Store(0)
	expect(t, run(t, Check{Kind: "dns", Target: addr, Timeout: 300 * time.Millisecond, DNS: &DNS{Names: []string{"a.test"}, MaxLatency: 50 * time.Millisecond}}),
		"down soft: right, but slow")
}

func TestDNSRefused(t *testing.T) {
	for proto, want := range map[string]string{"udp": "down hard: refused", "tcp": "down hard: refused", "both": "down hard: refused"} {
		began := time.Now()
		expect(t, run(t, Check{Kind: "dns", Target: loopback.Own(t).String(), Timeout: time.Minute, DNS: &DNS{Names: []string{"a.test", "b.test"}, Protocol: proto}}), want)
		if time.Since(began) > 30*time.Second {
			t.Errorf("%s: a closed port was waited for", proto)
		}
	}
}

func TestDNSSlow(t *testing.T) {
	addr := dnsServer(t, answer(nil, "@ 1 IN A 192.0.2.1"))
	expect(t, run(t, Check{Kind: "dns", Target: addr, DNS: &DNS{Names: []string{"a.test"}, MaxLatency: time.Nanosecond}}), "down soft: right, but slow")
	expect(t, run(t, Check{Kind: "dns", Target: addr, DNS: &DNS{Names: []string{"a.test"}, MaxLatency: 900 * time.Millisecond}}), "up")
}

// Whatever comes, judging it neither panics nor passes what has another id, is
// no reply, or has not the address that is wanted.
func FuzzDNSReply(f *testing.F) {
	q := new(dns.Msg)
	q.SetQuestion("example.test.", dns.TypeA)
	q.Id = 0x1234
	for _, rs := range [][]string{{"@ 60 IN A 192.0.2.1"}, {"@ 60 IN CNAME x.test.", "x.test. 1 IN A 192.0.2.1"}, {}} {
		f.Add(answer(nil, rs...)(q, true), uint16(0x1234), true)
		f.Add(answer(nsid("fra-1"), rs...)(q, true), uint16(0x1234), false)
		f.Add(answer(rcode(2), rs...)(q, true), uint16(0x4321), true)
	}
	set := (&DNS{Names: []string{"example.test"}, Answers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		MaxTTL: time.Hour, Match: "2", Identity: "fra-1"}).withDefaults()
	j := newDNSJudge(*set)
	f.Fuzz(func(t *testing.T, raw []byte, id uint16, udp bool) {
		r, ours := j.reply(raw, id, "example.test.", udp)
		if !ours {
			if r.Outcome != steadycast.Unknown {
				t.Fatalf("a stray reply has the outcome %v", r.Outcome)
			}
			return
		}
		if len(raw) < 12 || uint16(raw[0])<<8|uint16(raw[1]) != id || raw[2]&0x80 == 0 {
			t.Fatalf("taken for ours: %x", raw)
		}
		if (r.Outcome == steadycast.Down) != (r.Class != steadycast.NoFailure) || r.Outcome == steadycast.Unknown {
			t.Fatalf("a reply gives %v %v", r.Outcome, r.Class)
		}
		if r.Outcome == steadycast.Up {
			m := new(dns.Msg)
			if err := m.Unpack(raw); err != nil || m.Rcode != 0 || nsidOf(m) != j.nsid {
				t.Fatalf("passed: %v %v", err, m)
			}
			for _, rr := range chase(m.Answer, "example.test.", dns.TypeA) {
				if a, ok := addressOf(rr); ok && !within(a, set.Answers) {
					t.Fatalf("passed with %v", a)
				}
			}
		} else if strings.ContainsAny(r.Reason, "\n\r") || len(r.Reason) > 1000 {
			t.Fatalf("reason %q", r.Reason)
		}
	})
}
