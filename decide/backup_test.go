package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// coveredTable has three sites with addresses of their own around and between
// the service's prefixes.
func coveredTable() Table {
	own := func(ps ...string) (out []netip.Prefix) {
		for _, p := range ps {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	return Table{
		Revision: 1,
		Sites: []Place{
			{Name: "fra", Own: own("30.0.0.1/32", "10.0.0.0/24")},
			{Name: "ams", Own: own("20.0.5.0/24")},
			{Name: "iad", Own: own("2001:db8::1/128")},
			{Name: "eye", Witness: true},
		},
		Services: []Service{{Name: "web", Prefixes: own("20.0.0.0/24", "20.0.9.0/24")}},
	}
}

// covering is the site fra, with all it announces In and on the wire.
func covering(t *testing.T) (*Site, View) {
	t.Helper()
	table := coveredTable()
	if ps := table.Problems(); len(ps) > 0 {
		t.Fatal(ps)
	}
	site := NewSite(SiteOptions{Name: "fra", Incarnation: 1, Table: table})
	v := View{Fence: steadycast.Fence{Epoch: 1, Index: 5}, Table: table.WithDefaults()}
	a := steadycast.Actual{Started: 1, Peers: []steadycast.Peer{{Name: "p1", State: "established"}}}
	for _, p := range table.PrefixesAt("fra") {
		v.Units = append(v.Units, UnitView{Unit: steadycast.Unit{Site: "fra", Prefix: p}, Phase: steadycast.In})
		a.Sent = append(a.Sent, steadycast.Sent{Peer: "p1", Prefix: p, Announced: true})
	}
	site.Step(0, Proved{Actual: a})
	return site, v
}

func brief(set steadycast.RouteSet) string {
	var words []string
	for _, r := range set.Routes {
		words = append(words, fmt.Sprintf("%v %v", r.Prefix, r.Stance))
	}
	return strings.Join(words, ", ")
}

// TestCovering is the chart at the head of backup.go, as sets of one site.
func TestCovering(t *testing.T) {
	site, v := covering(t)
	step := func(what string, in Input, want string) {
		t.Helper()
		sets := announced(site.Step(site.now, in))
		if len(sets) == 0 || brief(sets[len(sets)-1]) != want {
			t.Errorf("%s: %v\nwant %s", what, sets, want)
		}
	}
	const all = "10.0.0.0/24 normal, 20.0.0.0/24 normal, 20.0.5.0/24 backup, 20.0.9.0/24 normal, 30.0.0.1/32 normal, 2001:db8::1/128 backup"
	step("all is well", Committed{View: v}, all)
	order := func(kind steadycast.OrderKind, at ...int) View {
		next := v
		next.Fence.Index = site.fence.Index + 1
		next.Units = slices.Clone(v.Units)
		for _, i := range at {
			next.Units[i].Order = kind
		}
		return next
	}
	step("one of two leaves", Committed{View: order(steadycast.OrderWithdraw, 1)},
		"10.0.0.0/24 normal, 20.0.0.0/24 normal, 20.0.5.0/24 backup, 30.0.0.1/32 normal, 2001:db8::1/128 backup")
	step("the other drains", Committed{View: func() View {
		next := order(steadycast.OrderDrain, 0)
		next.Units[1].Order = steadycast.OrderWithdraw
		return next
	}()}, "10.0.0.0/24 depreferred, 20.0.0.0/24 draining, 30.0.0.1/32 depreferred")
	site.now += v.Table.DrainWait
	step("and leaves", Tick{}, "")
	step("all may return", Committed{View: order(steadycast.OrderAnnounce, 0, 1)}, all)
	if es := announced(site.Step(site.now, Tick{})); len(es) > 0 {
		t.Errorf("nothing happened, and it said %v", es)
	}
}

// What covers is no stranger on the wire, and no unit's proof hangs on it.
func TestCoverIsNoStranger(t *testing.T) {
	site, v := covering(t)
	site.Step(0, Committed{View: v})
	a := steadycast.Actual{Incarnation: 1, Version: site.set.Version, Started: 1, Peers: []steadycast.Peer{{Name: "p1", State: "established", Families: []string{"ipv4", "ipv6"}}}}
	for _, r := range site.set.Routes {
		a.Sent = append(a.Sent, steadycast.Sent{Peer: "p1", Prefix: r.Prefix, Announced: true, Acked: time.Unix(1, 0)})
	}
	site.Step(1, Proved{Actual: a})
	for _, w := range site.peers {
		if w.odd != "" {
			t.Errorf("%s %s", w.name, w.odd)
		}
	}
	a.Sent = slices.Insert(a.Sent, 0, steadycast.Sent{Peer: "p1", Prefix: netip.MustParsePrefix("9.0.0.0/24"), Announced: true})
	site.Step(2, Proved{Actual: a})
	if len(site.peers) != 1 || site.peers[0].odd == "" {
		t.Error("a real stranger is not seen")
	}
}

// TestCoversNeverTouchUnits: whatever state the units are in, the set is in
// order, has the units as they would be without any covers, is backup only for
// others and only while this site serves something well, and is nobody's home
// where nothing is announced.
func TestCoversNeverTouchUnits(t *testing.T) {
	table := coveredTable().WithDefaults()
	rapid.Check(t, func(t *rapid.T) {
		s := NewSite(SiteOptions{Name: rapid.SampledFrom([]string{"fra", "ams", "iad"}).Draw(t, "site"), Incarnation: 1, Table: table})
		well, shown := false, false
		for i := range s.units {
			u := &s.units[i]
			u.announced, u.draining, u.alone = rapid.Bool().Draw(t, "announced"), rapid.Bool().Draw(t, "draining"), rapid.Bool().Draw(t, "alone")
			shown = shown || u.announced
			well = well || u.announced && u.stance(0) == steadycast.Normal
		}
		routes := slices.Collect(s.routes(0))
		if !slices.IsSortedFunc(routes, func(a, b steadycast.Route) int { return comparePrefix(a.Prefix, b.Prefix) }) {
			t.Fatalf("not in order: %v", routes)
		}
		var units []steadycast.Route
		for _, r := range routes {
			i := slices.IndexFunc(s.own, func(c cover) bool { return c.prefix == r.Prefix })
			if i < 0 {
				units = append(units, r)
				continue
			}
			home := s.own[i].site == s.name
			if home == (r.Stance == steadycast.Backup) || !shown || r.Stance == steadycast.Backup && !well || r.Stance == steadycast.Draining {
				t.Fatalf("at %s, shown %v, well %v: %v", s.name, shown, well, r)
			}
		}
		want := len(s.own)
		switch {
		case !shown:
			want = 0
		case !well:
			want = len(table.Sites[slices.IndexFunc(table.Sites, func(p Place) bool { return p.Name == s.name })].Own)
		}
		if got := len(routes) - len(units); got != want {
			t.Fatalf("at %s, shown %v, well %v: %d covers of %d", s.name, shown, well, got, want)
		}
		s.own = nil
		if without := slices.Collect(s.routes(0)); !slices.EqualFunc(without, units, func(a, b steadycast.Route) bool { return a.Prefix == b.Prefix && sameOnWire(a, b) }) {
			t.Fatalf("units with covers %v, without %v", units, without)
		}
	})
}

func TestOwnProblems(t *testing.T) {
	for _, x := range []struct{ site, own, want string }{
		{"fra", "10.1.0.0/24", ""},
		{"fra", "20.0.0.7/32", "sites[0].own[2]: 20.0.0.7/32 shares addresses with services[0].prefixes[0], 20.0.0.0/24, which is every site's; an address is the one or the other"},
		{"ams", "10.0.0.1/32", "sites[1].own[1]: 10.0.0.1/32 shares addresses with sites[0].own[1], 10.0.0.0/24; each is one site's"},
		{"fra", "10.1.0.1/24", "sites[0].own[2]: 10.1.0.1/24 has bits set beyond its length; did you mean 10.1.0.0/24?"},
		{"fra", "0.0.0.0/0", "sites[0].own[2]: 0.0.0.0/0 is nothing that clients could reach one site by"},
		{"fra", "127.0.0.1/32", "sites[0].own[2]: 127.0.0.1/32 is nothing that clients could reach one site by"},
		{"eye", "10.1.0.0/24", "sites[3].own[0]: is of a witness, which announces nothing; remove it"},
	} {
		table := coveredTable()
		i := slices.IndexFunc(table.Sites, func(p Place) bool { return p.Name == x.site })
		table.Sites[i].Own = append(table.Sites[i].Own, netip.MustParsePrefix(x.own))
		got := ""
		for _, p := range table.Problems() {
			got += p.String()
		}
		if got != x.want {
			t.Errorf("%s: %q\nwant %q", x.own, got, x.want)
		}
	}
	table := coveredTable()
	table.Sites[0].Nodes = []Node{{Name: "fra-1", Mesh: netip.MustParseAddrPort("10.0.0.9:7482")}}
	if ps := table.Problems(); len(ps) != 1 || ps[0].Path != "sites[0].nodes[0].mesh" {
		t.Errorf("a node inside a covered prefix: %v", ps)
	}
}
