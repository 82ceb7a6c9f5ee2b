package dnsfallback

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// paced is www over fra, ams and iad by web, with its windows; mail is another service.
func paced(t testing.TB, www Steered, more ...func(*Placement)) *Policy {
	t.Helper()
	www.Name = "www"
	set := Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{www}}}}
	for _, m := range more {
		m(&set)
	}
	p, ps := NewPolicy(1, set, Known{Pace: map[string]Pace{
		"web":  {Leaves: 3500 * time.Millisecond, Returns: 90 * time.Second},
		"mail": {Leaves: 20 * time.Second, Returns: 10 * time.Second},
		"fast": {Leaves: 200 * time.Millisecond, Returns: 10 * time.Minute},
	}})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	return p
}

// TestAutoTTL: the TTL follows from what the choice rests on and how that stands.
func TestAutoTTL(t *testing.T) {
	of := func(service string, members ...Member) Choice { return Choice{Service: service, Members: members} }
	pair := sites("fra", "ams")
	by := func(service, site string) Member {
		m := sites(site)[0]
		m.Service = service
		return m
	}
	pools := func(p *Placement) {
		p.Pools = []Pool{{Name: "rest", Choice: of("mail", sites("fra", "iad")...)}}
	}
	when := func(text string) func(*Placement) {
		return func(p *Placement) { p.Conditions = []Condition{{Name: "cut", When: text}} }
	}
	bound := func(p *Placement) { p.Conditions = append(p.Conditions, Condition{Name: "cut"}) }
	bind := func(m Member) Member { m.When = "cut"; return m }
	for _, c := range []struct {
		name   string
		choice Choice
		state  string
		want   uint32
		why    string
		more   []func(*Placement)
	}{
		{"all well", of("web", pair...), "", 3, "auto: web at fra can be down 3.5s after its first bad round", nil},
		{"the fastest of them counts", of("web", pair[0], by("fast", "iad")), "", 1, "auto: fast at iad can be down 200ms after its first bad round", nil},
		{"one who is out can only return", of("web", pair[0]), "fra down, ams up", 30, "too few members are up", nil},
		{"and who is up can leave", of("web", pair...), "fra down", 3, "auto: web at ams can be down 3.5s after its first bad round", nil},
		{"suspect, and sooner than the sensitive TTL", of("web", pair...), "fra suspect", 3, "auto: web at fra", nil},
		{"a slow one, and the sensitive TTL is less", of("mail", by("mail", "ams")), "", 20, "auto: mail at ams can be down 20s", nil},
		{"what no site holds never changes", Choice{Members: []Member{{Name: "a", Addresses: at(1)}}}, "", 300, "", nil},
		{"a service that is not known may change at any moment", of("odd", sites("fra")...), "", 1, "auto: how soon odd at fra can change is not known here", nil},
		{"by the pool below", Choice{Members: []Member{{Pool: "rest"}}}, "", 20, "auto: mail at fra can be down 20s", []func(*Placement){pools}},
		{"by the condition", Choice{Members: []Member{{Name: "a", Addresses: at(1)}, bind(Member{Name: "b", Addresses: at(2)})}}, "", 3, "auto: web at iad", []func(*Placement){when("not web@iad")}},
		{"a condition that holds as a service is down", Choice{Members: []Member{{Name: "a", Addresses: at(1)}, bind(Member{Name: "b", Addresses: at(2)})}}, "iad down", 90, "auto: web at iad can be back 1m30s", []func(*Placement){when("not web@iad")}},
		{"a person's switch is not foreseen", Choice{Members: []Member{{Name: "a", Addresses: at(1)}, bind(Member{Name: "b", Addresses: at(2)})}}, "", 300, "", []func(*Placement){bound}},
	} {
		table := paced(t, Steered{TTL: Auto, Choice: c.choice}, c.more...).Table(1, nil, state(c.state))
		_, _, m := newAsker(t, table).once("www.example.com", "A", "")
		if got := m.Answer[0].Header().Ttl; got != c.want {
			t.Errorf("%s: TTL %d, not %d", c.name, got, c.want)
		}
		if got := explained(t, table); c.why == "" != (got == "") || !strings.HasPrefix(got, c.why) {
			t.Errorf("%s: because %q; want %q", c.name, got, c.why)
		}
	}
	// What a person switched stays as it is.
	s := state("")
	s.Members = map[string]Forced{"www.example.com/fra": {To: Up, Who: "ann"}, "www.example.com/ams": {To: Up, Who: "ann"}}
	if got := explained(t, paced(t, Steered{TTL: Auto, Choice: of("web", pair...)}).Table(1, nil, s)); got != "" {
		t.Errorf("all members are forced, and %q", got)
	}
	// One that is well again for a while may be back at any time.
	s = state("")
	s.Sites["fra"] = SiteState{Services: map[string]ServiceState{"mail": {V4: Down, V6: Down, Returning: true}}}
	p := paced(t, Steered{TTL: TTL(300 * time.Second), Choice: of("mail", pair...)})
	if got := explained(t, p.Table(1, nil, s)); got != "a member is suspect or returning" {
		t.Errorf("fra recovers, and %q", got)
	}
}

func explained(t testing.TB, table *Table) string {
	t.Helper()
	e, err := table.Explain("www.example.com", "A", netip.MustParsePrefix("203.0.113.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	return e.TTL
}

// TestWindowsAreNeverOutlived: whatever the TTL, the lead and the state, no answer
// that is given before a window is kept into it longer than the sensitive TTL allows,
// and one that is auto not at all, but for its least second. A table stays as it is until it says.
func TestWindowsAreNeverOutlived(t *testing.T) {
	start := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		second := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(1, most).Draw(t, name)) * time.Second
		}
		www := Steered{TTL: TTL(second("ttl", 7200)), SensitiveTTL: second("sensitive", 120), Choice: Choice{Service: "web", Members: sites("fra", "ams")}}
		auto := rapid.Bool().Draw(t, "auto")
		pace := Pace{second("leaves", 400), second("returns", 400)}
		zone := second("zone", 7200)
		if auto {
			www.TTL = Auto
		}
		www.Windows = []Window{{From: start, To: start.Add(time.Hour), Lead: second("lead", 3600)}}
		www.Name = "www"
		p, ps := NewPolicy(1, Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, TTL: zone, Names: []Steered{www}}}}, Known{Pace: map[string]Pace{"web": pace}})
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		s := state(rapid.SampledFrom([]string{"", "fra down", "fra suspect", "fra down, ams down"}).Draw(t, "state"))
		s.At = start.Add(-time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "before")))
		for made := 0; s.At.Before(start); made++ {
			if made > 20 {
				t.Fatal("the table is made again and again")
			}
			table := p.Table(1, nil, s)
			until := table.Until()
			if !until.After(s.At) {
				t.Fatalf("at %v it holds until %v", s.At, until)
			}
			if until.After(start) {
				until = start // what is given later is the window's own
			}
			ttl := time.Duration(table.steering.ttl[0]) * time.Second
			limit := start.Add(www.SensitiveTTL)
			if auto {
				limit = start.Add(time.Second)
				if ttl > max(time.Second, zone) {
					t.Fatalf("TTL %v; the zone's is %v", ttl, zone)
				}
			}
			if gone := until.Add(ttl); gone.After(limit) {
				t.Fatalf("TTL %v given until %v is kept until %v", ttl, until, gone)
			}
			s.At = until
		}
	})
}
