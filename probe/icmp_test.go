package probe

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func TestICMP(t *testing.T) {
	for _, target := range []string{"127.0.0.1", "127.1.2.3", "::1"} {
		r := run(t, Check{Kind: "icmp", Target: target})
		if strings.Contains(r.Reason, "not permitted") {
			mayLack(t, r.Reason)
		}
		expect(t, r, "up")
		expect(t, run(t, Check{Kind: "icmp", Target: target, ICMP: &ICMP{Count: 5, MaxLatency: 1}}), "down soft: right, but slow")
	}
	expect(t, run(t, Check{Kind: "icmp", Target: "127.0.0.1", Source: netip.MustParseAddr("127.0.0.9")}), "up")
}

// Without the right to ping the answer is unknown.
func TestICMPNotPermitted(t *testing.T) {
	p := &icmpProbe{target: "127.0.0.1", set: ICMP{Count: 1}, kinds: []int{unix.SOCK_DGRAM}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, _, err := p.open(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		expect(t, p.probe(ctx), "unknown: ping is not permitted here")
		return
	}
	conn.Close()
	expect(t, p.probe(ctx), "up") // the other way round: the unprivileged socket works alone
}

func TestICMPLoss(t *testing.T) {
	p := func(count, loss int) *icmpProbe {
		return &icmpProbe{target: "it", set: ICMP{Count: count, MaxLoss: loss}}
	}
	trips := func(n int) []time.Duration { return make([]time.Duration, n) }
	expect(t, p(3, 0).judge(trips(3)), "up")
	expect(t, p(3, 0).judge(trips(2)), "down soft: it: 1 of 3 echoes lost, over 0 %")
	expect(t, p(3, 34).judge(trips(2)), "up")
	expect(t, p(3, 33).judge(trips(2)), "down soft")
	expect(t, p(3, 99).judge(trips(0)), "down soft: 3 of 3")
}

// Only an echo reply from the target with our token counts: not the request
// that a raw socket on the loopback sees, not another's reply.
func TestEchoReply(t *testing.T) {
	to, token := netip.MustParseAddr("192.0.2.1"), []byte("0123456789abcdef")
	from := &net.IPAddr{IP: net.IPv4(192, 0, 2, 1)}
	make := func(typ icmp.Type, id, seq int, data string) []byte {
		b, err := (&icmp.Message{Type: typ, Body: &icmp.Echo{ID: id, Seq: seq, Data: []byte(data)}}).Marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	right := make(ipv4.ICMPTypeEchoReply, 7, 2, string(token))
	if seq, ok := echoReply(right, from, to, 7, token, true); !ok || seq != 2 {
		t.Fatalf("%d %v", seq, ok)
	}
	for name, c := range map[string]struct {
		b    []byte
		from net.Addr
	}{
		"request":          {make(ipv4.ICMPTypeEcho, 7, 2, string(token)), from},
		"other id":         {make(ipv4.ICMPTypeEchoReply, 8, 2, string(token)), from},
		"other token":      {make(ipv4.ICMPTypeEchoReply, 7, 2, "fedcba9876543210"), from},
		"from elsewhere":   {right, &net.IPAddr{IP: net.IPv4(192, 0, 2, 2)}},
		"cut short":        {right[:6], from},
		"nothing":          {nil, from},
		"from nowhere":     {right, nil},
		"destination lost": {[]byte{3, 1, 0, 0, 0, 0, 0, 0}, from},
	} {
		if _, ok := echoReply(c.b, c.from, to, 7, token, true); ok {
			t.Errorf("%s was taken for a reply", name)
		}
	}
}
