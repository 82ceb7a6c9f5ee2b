package bgp

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	base := func() Settings { return towards(r) }
	sp := speak(t, base())
	apply(t, sp, routes(net1)...)
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   []Change
	}{
		{"the same, built anew", func(*Settings) {}, []Change{{"r0", ChangeNone, "nothing changed"}}},
		{"defaults spelt out", func(s *Settings) { *s = s.WithDefaults() }, []Change{{"r0", ChangeNone, "nothing changed"}}},
		{"connect_retry", func(s *Settings) { s.Neighbors[0].ConnectRetry = time.Second }, []Change{{"r0", ChangeNone, "connect_retry changed: used from the next attempt"}}},
		{"community and MED", func(s *Settings) {
			s.Neighbors[0].Communities = []steadycast.Community{1}
			s.Neighbors[0].MED = new(uint32(3))
		}, []Change{{"r0", ChangeAttributes, "communities, med changed: routes that differ are sent again, session r0 stays"}}},
		{"password", func(s *Settings) { s.Neighbors[0].Password = "x" }, []Change{{"r0", ChangeReset, "password changed: session r0 will be reset"}}},
		{"hold time", func(s *Settings) { s.Neighbors[0].HoldTime = 30 * time.Second }, []Change{{"r0", ChangeReset, "hold_time, keepalive changed: session r0 will be reset"}}},
		{"our asn", func(s *Settings) { s.ASN = 65002 }, []Change{{"r0", ChangeReset, "our own asn changed: session r0 will be reset"}}},
		{"one more", func(s *Settings) {
			n := s.Neighbors[0]
			n.Name, n.Address = "r9", netip.MustParseAddr("127.0.0.9")
			s.Neighbors = append(s.Neighbors, n)
		}, []Change{{"r0", ChangeNone, "nothing changed"}, {"r9", ChangeAdd, "r9 is new: a session with 127.0.0.9 will be opened"}}},
		{"renamed", func(s *Settings) { s.Neighbors[0].Name = "tor" },
			[]Change{{"tor", ChangeAdd, "tor is new: a session with 127.0.0.1 will be opened"}, {"r0", ChangeRemove, "r0 is gone: its session will be closed"}}},
		{"no longer allowed", func(s *Settings) {
			s.Allow = slices.DeleteFunc(s.Allow, func(p netip.Prefix) bool { return p == net1 })
		},
			[]Change{{"r0", ChangeAttributes, "no longer allowed, will be withdrawn: 192.0.2.0/24"}}},
	} {
		next := base()
		c.change(&next)
		if got := sp.Plan(next); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Only what a change is about is touched: identical settings are nothing on the
// wire, an attribute is one UPDATE, a password resets that router alone.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	a, b := listenSink(t, sink.Options{}), listenSink(t, sink.Options{})
	sp := speak(t, towards(a, b))
	apply(t, sp, routes(net1)...)
	for _, r := range []*sink.Router{a, b} {
		hears(t, r, "announced", func(tb sink.Table) bool { return held(tb) == 1 })
	}
	up(t, sp, a, b)
	since := func(i int) time.Time { return sp.Actual().Peers[i].Since }
	sinceA, sinceB := since(0), since(1)

	if err := sp.Reconfigure(towards(a, b)); err != nil {
		t.Fatal(err)
	}
	next := towards(a, b)
	next.Neighbors[0].Communities = []steadycast.Community{65001<<16 | 1}
	if err := sp.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	hears(t, a, "the community", func(tb sink.Table) bool { return len(tb[home][net1].Communities) == 1 })
	eventually(t, sp, "the new attributes proven", func(x steadycast.Actual) bool {
		r := x.Sent[0]
		return r.Peer == "r0" && len(r.Attributes.Communities) == 1 && !r.Stale && !r.Acked.IsZero()
	})
	fence(t, sp, b, routes(net1)...)
	if na, nb := a.Updates(home), b.Updates(home); na < 2 || nb != 3 {
		t.Errorf("UPDATEs: %d, want at least 2; %d, want 1 and the fence's 2", na, nb)
	}
	if since(0) != sinceA || since(1) != sinceB {
		t.Error("a session was reset by an attribute")
	}

	bad := next
	bad.Neighbors = slices.Clone(next.Neighbors)
	bad.Neighbors[0].PasswordFile = t.TempDir() + "/absent"
	if err := sp.Reconfigure(bad); err == nil || !strings.Contains(err.Error(), "nothing is changed") {
		t.Errorf("an absent password file: %v", err)
	}
	bad.Neighbors[0] = Neighbor{Name: "!"}
	if err := sp.Reconfigure(bad); err == nil {
		t.Error("settings with problems were taken")
	}

	locked := listenSink(t, sink.Options{Password: "secret"})
	next.Neighbors = slices.Clone(next.Neighbors)
	next.Neighbors[0].Port, next.Neighbors[0].Password = locked.Addr().Port(), "secret"
	next.Allow = slices.DeleteFunc(slices.Clone(next.Allow), func(p netip.Prefix) bool { return p == net1 })
	apply(t, sp, routes(net1, net2)...)
	if err := sp.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	hears(t, locked, "the allowed one", func(tb sink.Table) bool { _, ok := tb[home][net2]; return ok && held(tb) == 1 })
	hears(t, b, "the allowed one", func(tb sink.Table) bool { _, ok := tb[home][net2]; return ok && held(tb) == 1 })
	if since(1) != sinceB {
		t.Error("the other session was reset")
	}
	if err := sp.Apply(steadycast.RouteSet{Incarnation: 2, Routes: routes(net1)}); err == nil {
		t.Error("a prefix no longer allowed was taken")
	}

	// A neighbour that goes and one that comes.
	next = towards(b)
	if err := sp.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	hears(t, locked, "gone", func(tb sink.Table) bool { return len(tb) == 0 })
	eventually(t, sp, "one peer", func(x steadycast.Actual) bool { return len(x.Peers) == 1 && x.Peers[0].Name == "r0" })
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	good := steadycast.RouteSet{Incarnation: 2, Version: 5, Fence: steadycast.Fence{Epoch: 1, Index: 7}, Routes: routes(net1)}
	if err := sp.Apply(good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*steadycast.RouteSet)
	}{
		{"route set 1.9 is older than 2.5", func(s *steadycast.RouteSet) { s.Incarnation, s.Version = 1, 9 }},
		{"route set 2.4 is older than 2.5", func(s *steadycast.RouteSet) { s.Version = 4 }},
		{"rests on fence 1.6; 1.7 has been seen", func(s *steadycast.RouteSet) { s.Fence.Index = 6 }},
		{"rests on fence 0.99; 1.7 has been seen", func(s *steadycast.RouteSet) { s.Fence = steadycast.Fence{Index: 99} }},
		{"203.0.113.0/24 (normal) is not in the allow-list", func(s *steadycast.RouteSet) { s.Routes = routes(netip.MustParsePrefix("203.0.113.0/24")) }},
		{"192.0.0.0/16 (normal) is not in the allow-list", func(s *steadycast.RouteSet) { s.Routes = routes(netip.MustParsePrefix("192.0.0.0/16")) }},
		{"203.0.113.0/24 (backup) is not in the allow-list", func(s *steadycast.RouteSet) {
			s.Routes = routes(netip.MustParsePrefix("203.0.113.0/24"))
			s.Routes[0].Stance = steadycast.Backup
		}},
		{"routes[1]: 192.0.2.0/24 comes after 198.51.100.0/24", func(s *steadycast.RouteSet) { s.Routes = routes(net2, net1) }},
		{"routes[1]: 192.0.2.0/24 comes after 192.0.2.0/24", func(s *steadycast.RouteSet) { s.Routes = routes(net1, net1) }},
		{"192.0.2.1/24 is not a prefix that can be announced", func(s *steadycast.RouteSet) { s.Routes = routes(netip.MustParsePrefix("192.0.2.1/24")) }},
		{"is not a prefix that can be announced", func(s *steadycast.RouteSet) { s.Routes = routes(netip.Prefix{}) }},
		{"is not a prefix that can be announced", func(s *steadycast.RouteSet) { s.Routes = routes(netip.MustParsePrefix("::ffff:192.0.2.0/120")) }},
	} {
		set := good
		set.Version++
		c.change(&set)
		if err := sp.Apply(set); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing is changed") && !strings.Contains(err.Error(), "seen") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	eventually(t, sp, "the good one", func(a steadycast.Actual) bool { return a.Incarnation == 2 && a.Version == 5 })
	hears(t, r, "the good one", func(tb sink.Table) bool { return held(tb) == 1 })
	// What the caller does to its set afterwards changes nothing.
	good.Routes[0].Prefix = net2
	if err := sp.Apply(steadycast.RouteSet{Incarnation: 2, Version: 5, Fence: good.Fence, Routes: routes(net1)}); err != nil {
		t.Errorf("the same again: %v", err)
	}
}
