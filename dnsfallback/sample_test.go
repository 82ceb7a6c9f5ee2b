package dnsfallback

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/internal/loopback"
)

// TestSample: one of so many questions is taken down as it was, with the steps to
// its answer; what is sampled is answered and counted like the rest.
func TestSample(t *testing.T) {
	v, err := Listen(Settings{Listen: []netip.AddrPort{loopback.Own(t)}, Workers: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Sample(0, func(Sample) {}); err == nil {
		t.Error("one of no questions is sampled")
	}
	var mu sync.Mutex
	var got []Sample
	if err := v.Sample(4, func(s Sample) { mu.Lock(); got = append(got, s); mu.Unlock() }); err != nil {
		t.Fatal(err)
	}
	p, ps := NewPolicy(3, Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{
		{Name: "www", Choice: Choice{Members: []Member{{Name: "one", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}}},
	}}}}, Known{})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	table := p.Table(77, nil, FleetState{})
	if err := v.Set(table); err != nil {
		t.Fatal(err)
	}
	stop := keepServing(t, v)
	const asked = 40
	packet := question(t, "www.example.com", "A")
	for range asked {
		if m := exchange(t, "udp", v.Addresses()[0], packet); len(m.Answer) != 1 {
			t.Fatalf("%v", m)
		}
	}
	mu.Lock()
	sampled := len(got)
	mu.Unlock()
	if m := exchange(t, "tcp", v.Addresses()[0], packet); len(m.Answer) != 1 {
		t.Fatalf("%v", m)
	}
	stop()
	// A connection draws which of its questions is the first, so its one may be.
	if sampled != asked/4 || len(got) > sampled+1 || len(got) > sampled && got[sampled].Transport != "tcp" {
		t.Fatalf("%d of %d are sampled, and %d of one more", sampled, asked, len(got))
	}
	for _, s := range got[:sampled] {
		var m dns.Msg
		if err := m.Unpack(s.Answer); err != nil || len(m.Answer) != 1 || !slices.Equal(s.Question[2:], packet[2:]) {
			t.Errorf("the messages are not those: %v", err)
		}
		if s.Name != "www.example.com" || s.Type != "A" || s.Rcode != "NOERROR" || s.Transport != "udp" || s.Version != 77 || s.Client.Addr() != netip.MustParseAddr("127.0.0.1") ||
			!strings.Contains(strings.Join(s.Branch, "\n"), "www.example.com: ratio gives one") {
			t.Errorf("%+v", s)
		}
	}
	if n := table.Given()[0].Count; n != asked+1 {
		t.Errorf("%d of %d answers are counted", n, asked)
	}
	c := v.Counters()
	if len(c.Answers) != 2 || c.Answers[0] != (Answered{"example.com", "udp", "A", "NOERROR", asked}) || c.Answers[1] != (Answered{"example.com", "tcp", "A", "NOERROR", 1}) {
		t.Errorf("%+v", c.Answers)
	}
	for _, over := range []struct {
		l    Latency
		want uint64
	}{{c.UDP, asked}, {c.TCP, 1}} {
		n := uint64(0)
		for _, x := range over.l.Counts {
			n += x
		}
		if n != over.want || over.l.Sum <= 0 || len(over.l.Counts) != len(over.l.Bounds)+1 {
			t.Errorf("%+v; want %d", over.l, over.want)
		}
	}
}

// TestCountersOutliveThePolicy: what keeps its name in another policy counts on,
// and only that.
func TestCountersOutliveThePolicy(t *testing.T) {
	policy := func(revision uint64, members ...string) *Policy {
		s := Steered{Name: "www", Choice: Choice{Methods: []string{"all"}}}
		for i, m := range members {
			s.Members = append(s.Members, Member{Name: m, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}})
		}
		p, ps := NewPolicy(revision, Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{s}}}}, Known{})
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		return p
	}
	v, _ := serve(t, policy(1, "a", "b").Table(1, nil, FleetState{}))
	once := func() {
		if m := exchange(t, "udp", v.Addresses()[0], question(t, "www.example.com", "A")); len(m.Answer) == 0 {
			t.Fatalf("%v", m)
		}
	}
	once()
	if err := v.Set(policy(2, "b", "c").Table(2, nil, FleetState{})); err != nil {
		t.Fatal(err)
	}
	once()
	counts := map[string]uint64{}
	for _, g := range v.Table().Given() {
		counts[g.Member] = g.Count
	}
	if counts["b"] != 2 || counts["c"] != 1 || len(counts) != 2 {
		t.Errorf("%v", counts)
	}
	if c := v.Counters().Answers; len(c) != 1 || c[0].Count != 2 {
		t.Errorf("%+v", c)
	}
}

// TestRoomForOneself: a server whose connections others have filled still answers
// its own test, which comes from its own address.
func TestRoomForOneself(t *testing.T) {
	own := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}), func(s *Settings) {
		s.Listen = []netip.AddrPort{own}
		s.TCP = TCPSettings{Connections: 2, PerNetwork: 1, Idle: time.Minute}
	})
	for _, from := range []string{"127.9.1.1", "127.9.2.1"} {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", v.Addresses()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for v.Counters().Accepted < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := v.SelfTest(t.Context()); err != nil {
		t.Errorf("its own test: %v", err)
	}
}

// TestMembersAreTheKeys: the names by which members are switched are those that the
// policy looks them up by.
func TestMembersAreTheKeys(t *testing.T) {
	a := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	set := Placement{
		Zones: []Zone{{Name: "Example.com", NS: []string{"ns.example.net."}, Names: []Steered{
			{Name: "@", Choice: Choice{Service: "web", Members: []Member{{Site: "fra", Addresses: a}}}},
			{Name: "*.WWW", Choice: Choice{Service: "web", Members: []Member{{Name: "one", Site: "fra", Addresses: a}, {Pool: "rest"}}}},
		}}},
		Pools: []Pool{{Name: "rest", Choice: Choice{Service: "web", Members: []Member{{Site: "ams", Addresses: a}}}}},
	}
	p, ps := NewPolicy(1, set, Known{})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	var keys []string
	for _, o := range p.pools {
		for _, m := range o.members {
			keys = append(keys, m.key)
		}
	}
	got := set.Members()
	slices.Sort(keys)
	slices.Sort(got)
	if !slices.Equal(keys, got) {
		t.Errorf("%v; want %v", got, keys)
	}
}
