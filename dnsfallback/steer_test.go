package dnsfallback

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

// addresses of a member by its number: one of each family.
func at(n int) []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", n))}
}

// sites makes members at the named sites, with addresses 1, 2, …
func sites(names ...string) []Member {
	var out []Member
	for i, n := range names {
		out = append(out, Member{Site: n, Addresses: at(i + 1)})
	}
	return out
}

// steeredPolicy has one name, www.example.com.
func steeredPolicy(t testing.TB, c Choice, pools ...Pool) *Policy {
	t.Helper()
	p, ps := NewPolicy(1, Placement{Pools: pools, Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{{Name: "www", Choice: c}},
		Records: []string{"alias CNAME www", "*.any CNAME alias", "www TXT beside"}}}}, Known{})
	for _, q := range ps {
		t.Error(q)
	}
	if p == nil {
		t.FailNow()
	}
	return p
}

// state of sites, as "fra down, ams suspect, iad ramp 20"; all of service web.
func state(words string) FleetState {
	s := FleetState{Sites: map[string]SiteState{}}
	for w := range strings.SplitSeq(words, ",") {
		f := strings.Fields(w)
		if len(f) < 2 {
			continue
		}
		svc := s.Sites[f[0]].Services["web"]
		n := 0
		if len(f) > 2 {
			fmt.Sscan(f[2], &n)
		}
		switch f[1] {
		case "down":
			svc.V4, svc.V6 = Down, Down
		case "down4":
			svc.V4 = Down
		case "down6":
			svc.V6 = Down
		case "suspect":
			svc.V4, svc.V6 = Suspect, Suspect
		case "up":
			svc.V4, svc.V6 = Up, Up
		case "ramp":
			svc.V4, svc.V6, svc.Ramp = Up, Up, uint8(n)
		case "shed":
			svc.V4, svc.V6, svc.Shed = Up, Up, uint8(n)
		default:
			panic(w)
		}
		s.Sites[f[0]] = SiteState{Services: map[string]ServiceState{"web": svc}}
	}
	return s
}

// asker asks one table again and again, as one worker does.
type asker struct {
	t     testing.TB
	table *Table
	a     *responder
}

func newAsker(t testing.TB, table *Table) *asker { return &asker{t, table, newResponder(nil, nil)} }

// once gives the data of the answer, joined, and its scope.
func (k *asker) once(name, typ, subnet string) (string, uint8, *dns.Msg) {
	k.t.Helper()
	var change []func(*dns.Msg)
	if subnet != "" {
		p := netip.MustParsePrefix(subnet)
		family := uint16(1)
		if p.Addr().Is6() {
			family = 2
		}
		change = append(change, withOption(&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}))
	}
	m := respond(k.t, k.a, k.table, question(k.t, name, typ, change...), false)
	var data []string
	for _, rr := range m.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	scope := uint8(0)
	if o, ok := optionOf[*dns.EDNS0_SUBNET](m); ok {
		scope = o.SourceScope
	}
	return strings.Join(data, " "), scope, m
}

// share counts the answers to n different clients, or to the same when client is given.
func (k *asker) share(n int, name, typ, client string) map[string]int {
	k.t.Helper()
	out := map[string]int{}
	for i := range n {
		from := client
		if from == "" {
			from = fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)
		}
		got, _, _ := k.once(name, typ, from)
		out[got]++
	}
	return out
}

func given(t testing.TB, p *Policy, words string, n int) map[string]int {
	t.Helper()
	return newAsker(t, p.Table(1, nil, state(words))).share(n, "www.example.com", "A", "")
}

func listed(m map[string]int) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// TestWhoIsGiven: which members may be given, by method and state.
func TestWhoIsGiven(t *testing.T) {
	zero := new(0)
	three := sites("fra", "ams", "iad")
	for _, c := range []struct {
		name   string
		choice Choice
		state  string
		want   string // of many askings
	}{
		{"all up", Choice{Members: three}, "", "192.0.2.1, 192.0.2.2, 192.0.2.3"},
		{"one down", Choice{Members: three}, "fra down", "192.0.2.2, 192.0.2.3"},
		{"down in the other family", Choice{Members: three}, "fra down6", "192.0.2.1, 192.0.2.2, 192.0.2.3"},
		{"suspect is not down", Choice{Members: three}, "fra suspect", "192.0.2.1, 192.0.2.2, 192.0.2.3"},
		{"all down, all given", Choice{Members: three}, "fra down, ams down, iad down", "192.0.2.1, 192.0.2.2, 192.0.2.3"},
		{"fewer than must be up", Choice{Members: three, MinUp: 2}, "fra down, ams down", "192.0.2.3"},
		{"fewer than must be up, and a fallback", Choice{Members: three, MinUp: 2, Fallback: []string{"198.51.100.1"}}, "fra down, ams down", "198.51.100.1"},
		{"fallback records", Choice{Members: three, Fallback: []string{"198.51.100.1"}}, "fra down, ams down, iad down", "198.51.100.1"},
		{"a fallback name", Choice{Members: three, Fallback: []string{"sorry.example.net"}}, "fra down, ams down, iad down", "sorry.example.net."},
		{"a fallback of one family only", Choice{Members: three, Fallback: []string{"2001:db8::99"}}, "fra down, ams down, iad down", "192.0.2.1, 192.0.2.2, 192.0.2.3"},
		{"priority", Choice{Members: three, Methods: []string{"priority"}}, "", "192.0.2.1"},
		{"priority, the next", Choice{Members: three, Methods: []string{"priority"}}, "fra down", "192.0.2.2"},
		{"priority, the last", Choice{Members: three, Methods: []string{"priority"}}, "fra down, ams down", "192.0.2.3"},
		{"all", Choice{Members: three, Methods: []string{"all"}}, "ams down", "192.0.2.1 192.0.2.3"},
		{"round robin", Choice{Members: three, Methods: []string{"round_robin"}}, "ams down", "192.0.2.1, 192.0.2.3"},
		{"hash", Choice{Members: three, Methods: []string{"hash"}}, "ams down", "192.0.2.1, 192.0.2.3"},
		{"weight 0 is a last resort", Choice{Members: []Member{{Site: "fra", Addresses: at(1)}, {Site: "ams", Addresses: at(2), Weight: zero}}}, "", "192.0.2.1"},
		{"and is given then", Choice{Members: []Member{{Site: "fra", Addresses: at(1)}, {Site: "ams", Addresses: at(2), Weight: zero}}}, "fra down", "192.0.2.2"},
		{"weight 0 by any method", Choice{Methods: []string{"priority"}, Members: []Member{{Site: "ams", Addresses: at(2), Weight: zero}, {Site: "fra", Addresses: at(1)}}}, "", "192.0.2.1"},
		{"all of weight 0 are alike", Choice{Members: []Member{{Site: "fra", Addresses: at(1), Weight: zero}, {Site: "ams", Addresses: at(2), Weight: zero}}}, "", "192.0.2.1, 192.0.2.2"},
		{"dr is not given", Choice{Members: append(sites("fra", "ams"), Member{Site: "dr", Addresses: at(9), DR: true})}, "fra down", "192.0.2.2"},
		{"but when nothing else is left", Choice{Members: append(sites("fra", "ams"), Member{Site: "dr", Addresses: at(9), DR: true})}, "fra down, ams down", "192.0.2.9"},
		{"or too little", Choice{MinUp: 2, Members: append(sites("fra", "ams"), Member{Site: "dr", Addresses: at(9), DR: true})}, "fra down", "192.0.2.2, 192.0.2.9"},
		{"dr is down too", Choice{Fallback: []string{"198.51.100.1"}, Members: append(sites("fra"), Member{Site: "dr", Addresses: at(9), DR: true})}, "fra down, dr down", "198.51.100.1"},
		{"a member of no site is never out", Choice{Members: []Member{{Name: "cdn", Addresses: at(7)}}}, "", "192.0.2.7"},
		{"a name", Choice{Members: []Member{{Site: "fra", CNAME: "fra.example.net"}}}, "", "fra.example.net."},
		{"a name is up when either family is", Choice{Members: []Member{{Site: "fra", CNAME: "fra.example.net"}, {Site: "ams", CNAME: "ams.example.net"}}}, "fra down4, ams down", "fra.example.net."},
		{"a site that returns takes a share", Choice{Members: three, Methods: []string{"priority"}}, "fra ramp 50, iad down", "192.0.2.1, 192.0.2.2"},
		{"a site that sheds loses some", Choice{Members: three, Methods: []string{"priority"}}, "fra shed 50, iad down", "192.0.2.1, 192.0.2.2"},
		{"the only one takes all", Choice{Members: sites("fra")}, "fra ramp 5", "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.choice.Service = "web"
			p := steeredPolicyBare(t, Steered{Name: "www", Choice: c.choice})
			if got := listed(given(t, p, c.state, 300)); got != c.want {
				t.Errorf("got %s; want %s", got, c.want)
			}
		})
	}
}

// TestNestedPools: a pool that has failed is left, and gives what it can when all have.
func TestNestedPools(t *testing.T) {
	pool := func(name string, c Choice) Pool {
		c.Service = "web"
		return Pool{Name: name, Choice: c}
	}
	eu := pool("eu", Choice{MinUp: 2, Members: sites("fra", "ams", "par")})
	us := pool("us", Choice{Members: []Member{{Site: "iad", Addresses: at(11)}, {Site: "sjc", Addresses: at(12)[:1]}}})
	world := pool("world", Choice{Methods: []string{"priority"}, Members: []Member{{Pool: "eu"}, {Pool: "us"}}})
	p := steeredPolicy(t, Choice{Methods: []string{"priority"}, Members: []Member{{Pool: "world"}}}, world, us, eu)
	for state, want := range map[string]string{
		"":                   "192.0.2.1, 192.0.2.2, 192.0.2.3",
		"fra down":           "192.0.2.2, 192.0.2.3",
		"fra down, ams down": "192.0.2.11, 192.0.2.12",
		// Neither has enough: the one that is up somewhere is given.
		"fra down, ams down, iad down, sjc down": "192.0.2.3",
		// Nothing is up anywhere.
		"fra down, ams down, par down, iad down, sjc down": "192.0.2.1, 192.0.2.2, 192.0.2.3",
	} {
		if got := listed(given(t, p, state, 300)); got != want {
			t.Errorf("%q: got %s; want %s", state, got, want)
		}
	}
	// Each family by itself: sjc has no IPv6, so us has only iad there.
	got := newAsker(t, p.Table(1, nil, state("fra down, ams down"))).share(300, "www.example.com", "AAAA", "")
	if listed(got) != "2001:db8::11" {
		t.Error(got)
	}
}

// TestForced: what a person says goes before what is real, and what is said of
// less before what is said of more.
func TestForced(t *testing.T) {
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"all"}, Members: sites("fra", "ams", "iad")})
	out, in := Forced{To: Down, Who: "ann", Why: "power works"}, Forced{To: Up}
	for _, c := range []struct {
		name string
		s    FleetState
		want string
	}{
		{"a site out", FleetState{Sites: map[string]SiteState{"fra": {Forced: out}}}, "192.0.2.2 192.0.2.3"},
		{"with an exception", FleetState{Sites: map[string]SiteState{"fra": {Forced: out}}, Members: map[string]Forced{"www.example.com/fra": in}}, "192.0.2.1 192.0.2.2 192.0.2.3"},
		{"the service stays", FleetState{Sites: map[string]SiteState{"fra": {Forced: out, Services: map[string]ServiceState{"web": {Forced: in}}}}}, "192.0.2.1 192.0.2.2 192.0.2.3"},
		{"in, though it is down", FleetState{Sites: map[string]SiteState{"fra": {Forced: in, Services: map[string]ServiceState{"web": {V4: Down}}}}}, "192.0.2.1 192.0.2.2 192.0.2.3"},
		{"one member out", FleetState{Members: map[string]Forced{"www.example.com/ams": out}}, "192.0.2.1 192.0.2.3"},
		{"the rest is down: what is forced out stays out", func() FleetState {
			s := state("ams down, iad down")
			s.Sites["fra"] = SiteState{Forced: out}
			return s
		}(), "192.0.2.2 192.0.2.3"},
		{"all forced out: no empty answer", FleetState{Sites: map[string]SiteState{"fra": {Forced: out}, "ams": {Forced: out}, "iad": {Forced: out}}}, "192.0.2.1 192.0.2.2 192.0.2.3"},
	} {
		got, _, _ := newAsker(t, p.Table(1, nil, c.s)).once("www.example.com", "A", "")
		if got != c.want {
			t.Errorf("%s: got %s; want %s", c.name, got, c.want)
		}
	}
	e, err := p.Table(9, nil, FleetState{Sites: map[string]SiteState{"fra": {Forced: out}}}).Explain("www.example.com", "A", netip.MustParsePrefix("203.0.113.7/32"))
	if want := "www.example.com: fra is out: the site fra is forced down by ann: power works"; err != nil || !slices.Contains(e.Branch, want) || e.Version != 9 {
		t.Errorf("%v %+v", err, e)
	}
}

// TestConditions: members that take part only while something holds.
func TestConditions(t *testing.T) {
	p, ps := NewPolicy(1, Placement{Conditions: []Condition{{Name: "weekend"}, {Name: "drill"}},
		Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{{Name: "www", Choice: Choice{Service: "web", Methods: []string{"all"}, Members: []Member{
			{Site: "fra", Addresses: at(1)},
			{Site: "ams", Addresses: at(2), When: "weekend"},
			{Site: "dr", Addresses: at(3), DR: true, When: "drill"},
		}}}}}}}, Known{})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	for _, c := range []struct {
		holds, state, want string
	}{
		{"", "", "192.0.2.1"},
		{"weekend", "", "192.0.2.1 192.0.2.2"},
		{"drill", "", "192.0.2.1 192.0.2.3"},
		{"", "fra down", "192.0.2.3"},
		{"drill", "fra down", "192.0.2.3"},
	} {
		s := state(c.state)
		s.Members = map[string]Forced{"condition/" + c.holds: {To: Up}}
		if got, _, _ := newAsker(t, p.Table(1, nil, s)).once("www.example.com", "A", ""); got != c.want {
			t.Errorf("%q, %q: got %s; want %s", c.holds, c.state, got, c.want)
		}
	}
}

// TestTTL: steady; sensitive while something may change; and from 30 minutes before a window (to the minute).
func TestTTL(t *testing.T) {
	begin := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	p, ps := NewPolicy(1, Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{{
		Name: "www", Choice: Choice{Service: "web", Members: sites("fra", "ams")}, TTL: TTL(300 * time.Second),
		Windows: []Window{{From: begin, To: begin.Add(2 * time.Hour)}},
	}}}}}, Known{})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	for _, c := range []struct {
		state string
		at    time.Duration
		want  uint32
		until time.Duration
	}{
		{"", -31 * time.Minute, 300, -30 * time.Minute},
		{"", -29 * time.Minute, 30, 2 * time.Hour},
		{"", time.Hour, 30, 2 * time.Hour},
		{"", 2 * time.Hour, 300, 0},
		{"fra suspect", -time.Hour, 30, -30 * time.Minute},
		{"fra ramp 20", 3 * time.Hour, 30, 0},
		{"fra down", 3 * time.Hour, 300, 0},
		{"fra down, ams down", 3 * time.Hour, 30, 0},
	} {
		s := state(c.state)
		s.At = begin.Add(c.at)
		table := p.Table(1, nil, s)
		_, _, m := newAsker(t, table).once("www.example.com", "A", "")
		if got := m.Answer[0].Header().Ttl; got != c.want {
			t.Errorf("%q at %v: TTL %d, not %d", c.state, c.at, got, c.want)
		}
		if c.until == 0 != table.Until().IsZero() || c.until != 0 && !table.Until().Equal(begin.Add(c.until)) {
			t.Errorf("%q at %v: holds until %v", c.state, c.at, table.Until())
		}
	}
}

// TestLongTTLBeforeWindow: the lead is no less than the TTL.
func TestLongTTLBeforeWindow(t *testing.T) {
	begin := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	p := steeredPolicyBare(t, Steered{
		Name: "www", Choice: Choice{Service: "web", Members: sites("fra", "ams")}, TTL: TTL(2 * time.Hour),
		Windows: []Window{{From: begin, To: begin.Add(time.Hour)}},
	})
	for at, want := range map[time.Duration]uint32{-121 * time.Minute: 7200, -120 * time.Minute: 30, -29 * time.Minute: 30, time.Hour: 7200} {
		s := state("")
		s.At = begin.Add(at)
		_, _, m := newAsker(t, p.Table(1, nil, s)).once("www.example.com", "A", "")
		if got := m.Answer[0].Header().Ttl; got != want {
			t.Errorf("at %v: TTL %d, not %d", at, got, want)
		}
	}
}

// TestSteeredNames: what stands beside, leads to, and covers a steered name.
func TestSteeredNames(t *testing.T) {
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"priority"}, Members: []Member{{Site: "fra", Addresses: at(1)[:1]}, {Site: "ams", Addresses: at(2)[:1]}}})
	k := newAsker(t, p.Table(1, nil, FleetState{}))
	for _, c := range []struct{ name, typ, want string }{
		{"WWW.example.com.", "A", "NOERROR aa\n       WWW.example.com. 300 IN A 192.0.2.1\n"},
		{"www.example.com.", "AAAA", "NOERROR aa\n  auth example.com. 60 IN SOA ns.example.net. hostmaster.example.com. 1 3600 600 1209600 60\n"},
		{"www.example.com.", "TXT", "NOERROR aa\n       www.example.com. 300 IN TXT \"beside\"\n"},
		{"www.example.com.", "ANY", "NOERROR aa\n       www.example.com. 3600 IN HINFO \"RFC8482\" \"\"\n"},
		{"x.www.example.com.", "A", "NXDOMAIN aa\n  auth example.com. 60 IN SOA ns.example.net. hostmaster.example.com. 1 3600 600 1209600 60\n"},
		{"alias.example.com.", "A", "NOERROR aa\n       alias.example.com. 300 IN CNAME www.example.com.\n       www.example.com. 300 IN A 192.0.2.1\n"},
		{"longer.x.any.example.com.", "A", "NOERROR aa\n       longer.x.any.example.com. 300 IN CNAME alias.example.com.\n       alias.example.com. 300 IN CNAME www.example.com.\n       www.example.com. 300 IN A 192.0.2.1\n"},
		{"x.any.example.com.", "AAAA", "NOERROR aa\n       x.any.example.com. 300 IN CNAME alias.example.com.\n       alias.example.com. 300 IN CNAME www.example.com.\n  auth example.com. 60 IN SOA ns.example.net. hostmaster.example.com. 1 3600 600 1209600 60\n"},
		{"x.any.example.com.", "TXT", "NOERROR aa\n       x.any.example.com. 300 IN CNAME alias.example.com.\n       alias.example.com. 300 IN CNAME www.example.com.\n       www.example.com. 300 IN TXT \"beside\"\n"},
	} {
		_, _, m := k.once(c.name, c.typ, "")
		if got := show(m); got != c.want {
			t.Errorf("%s %s\ngot:\n%s\nwant:\n%s", c.name, c.typ, got, c.want)
		}
	}
	// A choice of names only is an alias to every question.
	p = steeredPolicyBare(t, Steered{Name: "*.app", Choice: Choice{Members: []Member{{Name: "cdn", CNAME: "cdn.example.net"}}}})
	k = newAsker(t, p.Table(1, nil, FleetState{}))
	for _, typ := range []string{"A", "AAAA", "MX", "CNAME", "TXT"} {
		if got, _, m := k.once("a.b.app.example.com", typ, ""); got != "cdn.example.net." || m.Answer[0].Header().Rrtype != dns.TypeCNAME {
			t.Errorf("%s: %v", typ, m)
		}
	}
	// Minimal: the anycast addresses, whatever the rest says.
	p = steeredPolicyBare(t, Steered{Name: "www", Choice: Choice{Service: "web", Members: sites("fra")}, Anycast: at(99)})
	if got, _, _ := newAsker(t, p.Table(1, nil, FleetState{Minimal: true})).once("www.example.com", "AAAA", ""); got != "2001:db8::99" {
		t.Error(got)
	}
}

func steeredPolicyBare(t *testing.T, s Steered) *Policy {
	t.Helper()
	p, ps := NewPolicy(1, Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{s}}}}, Known{})
	for _, q := range ps {
		t.Error(q)
	}
	if p == nil {
		t.FailNow()
	}
	return p
}

// TestSteeringAllocatesNothing, whatever the method.
func TestSteeringAllocatesNothing(t *testing.T) {
	m, err := readNetworks([]byte("10.1.0.0/16 fra\n10.2.0.0/16 ams\n"))
	if err != nil {
		t.Fatal(err)
	}
	maps := &Maps{all: []*Map{m}}
	for _, methods := range [][]string{{"ratio"}, {"hash"}, {"priority"}, {"round_robin"}, {"all"}, {"topology", "ratio"}, {"nearest", "ratio"}} {
		members := sites("fra", "ams", "iad")
		members[0].At = []float64{1, 2}
		p := steeredPolicy(t, Choice{Service: "web", Methods: methods, Members: members})
		table := p.Table(1, maps, state("ams ramp 20"))
		packet := question(t, "alias.example.com", "A", withOption(&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: []byte{10, 2, 3, 0}}))
		a := newResponder(nil, nil)
		buf := make([]byte, 0, udpSize)
		if n := testing.AllocsPerRun(100, func() { buf = a.respond(buf[:0], packet, table, client, moment{}, false) }); n > 0 {
			t.Errorf("%v: %v allocations", methods, n)
		}
	}
}

// TestSteeringProblems gives each mistake its sentence.
func TestSteeringProblems(t *testing.T) {
	name := func(s Steered) Placement {
		if s.Name == "" {
			s.Name = "www"
		}
		return Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{s}, Records: []string{"mx MX 0 mail.example.net."}}}}
	}
	fra := Member{Site: "fra", Addresses: at(1)}
	web := func(m ...Member) Steered { return Steered{Choice: Choice{Service: "web", Members: m}} }
	var out strings.Builder
	for _, c := range []struct {
		name string
		set  Placement
	}{
		{"no members", name(web())},
		{"no service", name(Steered{Choice: Choice{Members: []Member{fra}}})},
		{"unknown site", name(web(Member{Site: "frankfurt", Addresses: at(1)}))},
		{"unknown service", name(web(Member{Site: "fra", Service: "mail", Addresses: at(1)}))},
		{"nothing given", name(web(Member{Site: "fra"}))},
		{"two things given", name(web(Member{Site: "fra", Addresses: at(1), CNAME: "x.example.net"}))},
		{"twice", name(web(fra, fra))},
		{"no name", name(web(Member{Addresses: at(1)}))},
		{"unknown pool", name(web(Member{Pool: "eu"}))},
		{"methods", name(Steered{Choice: Choice{Service: "web", Members: []Member{fra}, Methods: []string{"best", "ratio", "topology", "ratio"}}})},
		{"numbers", name(Steered{TTL: TTL(1500 * time.Millisecond), Choice: Choice{Service: "web", MinUp: 2, Trickle: 60, Members: []Member{{Site: "fra", Addresses: at(1), Weight: new(-1), At: []float64{91, 0}, Serves: []string{"DE", "country:de", "asn:0"}}}}})},
		{"addresses", name(web(Member{Site: "fra", Addresses: []netip.Addr{netip.IPv4Unspecified(), netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("fe80::1")}}))},
		{"fallback", name(Steered{Choice: Choice{Service: "web", Members: []Member{fra}, Fallback: []string{"192.0.2.9", "sorry.example.net"}}})},
		{"outside", name(Steered{Name: "www.example.org.", Choice: Choice{Service: "web", Members: []Member{fra}}})},
		{"windows", name(Steered{Choice: Choice{Service: "web", Members: []Member{fra}}, Windows: []Window{{}, {From: time.Unix(10, 0), To: time.Unix(5, 0)}}})},
		{"beside records", Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Records: []string{"www A 192.0.2.1", "cdn TXT x", "sub NS ns.example.net.", "al CNAME x.example.net."}, Names: []Steered{
			{Name: "www", Choice: Choice{Service: "web", Members: []Member{fra}}},
			{Name: "cdn", Choice: Choice{Members: []Member{{Name: "a", CNAME: "a.example.net"}}}},
			{Name: "x.sub", Choice: Choice{Service: "web", Members: []Member{fra}}},
			{Name: "al", Choice: Choice{Service: "web", Members: []Member{fra}}},
			{Name: "@", Choice: Choice{Members: []Member{{Name: "a", CNAME: "a.example.net"}}}},
			{Name: "www", Choice: Choice{Service: "web", Members: []Member{fra}}},
		}}}}},
		{"all of aliases", name(Steered{Choice: Choice{Methods: []string{"all"}, Members: []Member{{Name: "a", CNAME: "a.example.net"}}}})},
		{"pools in a ring", func() Placement {
			p := name(web(Member{Pool: "a"}))
			p.Pools = []Pool{{Name: "a", Choice: Choice{Members: []Member{{Pool: "b"}}}}, {Name: "b", Choice: Choice{Members: []Member{{Pool: "a"}}}}, {Name: "a", Choice: Choice{Members: []Member{fra}}}, {Name: "A!"}}
			return p
		}()},
		{"maps", func() Placement {
			p := name(web(fra))
			p.Maps = []MapFile{{"geo", "geo.mmdb"}, {"geo", "/x"}, {"", "/y"}}
			return p
		}()},
	} {
		p, ps := NewPolicy(1, c.set, Known{Sites: []string{"fra", "ams"}, Services: []string{"web"}})
		if p != nil {
			t.Errorf("%s: taken", c.name)
		}
		fmt.Fprintf(&out, "# %s\n%s\n\n", c.name, strings.Join(texts(ps), "\n"))
	}
	golden(t, "steering-problems.txt", out.String())
}

// BenchmarkTable compiles 10,000 steered names by a state in which one site changed.
func BenchmarkTable(b *testing.B) {
	z := Zone{Name: "example.com", NS: []string{"ns.example.net."}}
	for i := range 10_000 {
		z.Names = append(z.Names, Steered{Name: fmt.Sprintf("n%d", i), Choice: Choice{Service: "web", Methods: []string{"topology", "ratio"}, Members: sites("fra", "ams", "iad")}})
	}
	p, ps := NewPolicy(1, Placement{Zones: []Zone{z}}, Known{})
	if len(ps) > 0 {
		b.Fatal(ps[0])
	}
	down := state("fra down")
	defer processorTime(b)()
	for b.Loop() {
		p.Table(1, nil, down)
	}
}

// TestGiven: what was given is counted by member, whatever led to it, and
// explanations are not.
func TestGiven(t *testing.T) {
	eu := Pool{Name: "eu", Choice: Choice{Service: "web", Methods: []string{"all"}, Members: sites("fra", "ams")}}
	p := steeredPolicy(t, Choice{Service: "web", Fallback: []string{"198.51.100.1"}, Members: []Member{{Pool: "eu"}}}, eu)
	ask := func(words string, n int) *Table {
		table := p.Table(1, nil, state(words))
		newAsker(t, table).share(n, "alias.example.com", "A", "")
		return table
	}
	ask("", 5)
	ask("ams down", 2)
	table := ask("ams down, fra down", 3)
	if _, err := table.Explain("www.example.com", "A", netip.MustParsePrefix("203.0.113.7/32")); err != nil {
		t.Fatal(err)
	}
	want := []Given{{"eu", "fra", "fra", "web", 7}, {"eu", "ams", "ams", "web", 5}, {"www.example.com", "fallback", "", "", 3}}
	if got := table.Given(); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// TestNothingBadWhileSomethingIsGood draws choices, nested pools and states: what
// is known to be bad is never given while something that may be given is good,
// and a name that has members never has an empty answer.
func TestNothingBadWhileSomethingIsGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		draw := func(label string, members []Member) Choice {
			return Choice{Service: "web", Members: members, MinUp: rapid.IntRange(1, len(members)).Draw(t, label),
				Methods: []string{rapid.SampledFrom(methodNames[1:]).Draw(t, label)}}
		}
		leaf := func(i int) Member {
			m := Member{Site: names[i], Addresses: at(i + 1)[:1], DR: rapid.IntRange(0, 4).Draw(t, "dr") == 0}
			m.Weight = new(rapid.IntRange(0, 2).Draw(t, "weight"))
			return m
		}
		p, ps := NewPolicy(1, Placement{
			Pools: []Pool{{Name: "left", Choice: draw("left", []Member{leaf(0), leaf(1), leaf(2)})}, {Name: "right", Choice: draw("right", []Member{leaf(3), leaf(4)})}},
			Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{{Name: "www", Choice: draw("top", []Member{{Pool: "left"}, {Pool: "right"}, leaf(5)})}}}},
		}, Known{})
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		s := FleetState{Sites: map[string]SiteState{}}
		good := map[string]bool{}
		for i, n := range names {
			h := rapid.SampledFrom([]Health{Unknown, Up, Suspect, Down}).Draw(t, n)
			s.Sites[n] = SiteState{Services: map[string]ServiceState{"web": {V4: h}}}
			good[fmt.Sprintf("192.0.2.%d", i+1)] = h != Down
		}
		some := slices.Contains(slices.Collect(maps.Values(good)), true)
		table := p.Table(1, nil, s)
		a := &responder{shared: &shared{udp: udpSize}}
		for range 20 {
			a.choose.start(nil, netip.MustParsePrefix("203.0.113.0/24"), false, 0)
			table.choose(&a.choose, p.steered[0])
			if a.choose.count == 0 {
				t.Fatal("an empty answer")
			}
			for i := 0; i < len(a.choose.given); i += 16 {
				who := netip.AddrFrom4([4]byte(a.choose.given[i+12 : i+16])).String()
				if some && !good[who] {
					t.Fatalf("%s is given, which is bad, and something is good: %v", who, good)
				}
			}
		}
	})
}
