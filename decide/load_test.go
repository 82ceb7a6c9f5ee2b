package decide

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
)

// TestLosingOneOfThree: three sites carry 50 of 100 each, and one is to leave. What
// the capacity guard answers, and what part of its clients DNS could move where it
// refuses, follows from where the table says that they go.
func TestLosingOneOfThree(t *testing.T) {
	for _, c := range []struct {
		spill string // to b, to c; "" says nothing
		soft  string // a failure that is not certain: limit 80
		hard  string // a certain one: limit 100
		most  string // of b and c, in percent
		part  int    // of its clients that can go, each at most at 80
	}{
		{"50 50", "granted", "granted", "75 75", 100},
		{"60 40", "granted", "granted", "80 70", 100},
		{"40 60", "granted", "granted", "70 80", 100},
		{"61 39", "partial", "granted", "81 70", 96},
		{"80 20", "partial", "granted", "90 60", 75},
		{"100 0", "partial", "granted", "100 50", 60},
		{"0 100", "partial", "granted", "50 100", 60},
		{"50 0", "partial", "granted", "100 75", 60}, // half of it goes nobody knows where
		{"30 30", "partial", "granted", "85 85", 85},
		{"", "partial", "granted", "100 100", 60},
	} {
		t.Run("spill "+c.spill, func(t *testing.T) {
			for class, want := range map[steadycast.Class]string{steadycast.Soft: c.soft, steadycast.Hard: c.hard} {
				table, got := loseOne(t, 50, c.spill, class)
				if got != want {
					t.Errorf("%s: %s, want %s", class, got, want)
				}
				bs := table.Burdens(nil, []string{"a", "b", "c"}, []string{"a"})
				if text := fmt.Sprintf("%d %d", bs[1].MostPercent, bs[2].MostPercent); text != c.most {
					t.Errorf("most %s, want %s", text, c.most)
				}
				if part := table.Movable(nil, "a", []string{"b", "c"}, 80); part != c.part {
					t.Errorf("%d%% can go, want %d%%", part, c.part)
				}
			}
		})
	}
	// With no room anywhere nothing goes, and a certain failure is refused too.
	for class, want := range map[steadycast.Class]string{steadycast.Soft: "refused", steadycast.Hard: "refused"} {
		if _, got := loseOne(t, 81, "50 50", class); got != want {
			t.Errorf("81 of 100 each, %s: %s, want %s", class, got, want)
		}
	}
}

// loseOne has a of three equal sites ask to leave. Refused is partial where DNS
// could move some of its clients.
func loseOne(t *testing.T, load int64, spill string, class steadycast.Class) (Table, string) {
	t.Helper()
	p := netip.MustParsePrefix("192.0.2.0/24")
	table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: []netip.Prefix{p}}}}
	for _, n := range []string{"a", "b", "c"} {
		table.Sites = append(table.Sites, Place{Name: n, Capacity: 100, Load: load})
	}
	if spill != "" {
		var b, c int
		if _, err := fmt.Sscan(spill, &b, &c); err != nil {
			t.Fatal(err)
		}
		for _, s := range []Spill{{"b", b}, {"c", c}} {
			if s.Percent > 0 {
				table.Sites[0].Spill = append(table.Sites[0].Spill, s)
			}
		}
	}
	if ps := table.Problems(); len(ps) > 0 {
		t.Fatal(ps)
	}
	table = table.WithDefaults()
	f := NewFleet()
	apply := func(e Entry) Reply {
		e.Schema, e.Rules, e.Epoch = Schema, RulesLevel, 1
		r, err := f.Apply(e)
		if err != nil || r.Invalid != "" {
			t.Fatal(err, r.Invalid)
		}
		return r
	}
	apply(Entry{Kind: KindGenesis, Table: &table})
	for i, n := range []string{"a", "b", "c"} {
		id := steadycast.RequestID{Incarnation: 1, Seq: uint64(i + 1)}
		apply(Entry{Kind: KindVerdict, Verdicts: []steadycast.Verdict{{Site: n, Service: "web", State: steadycast.Healthy}}})
		apply(Entry{Kind: KindDecide, Decide: &Decide{Requests: []steadycast.Request{{ID: id, Site: n, Prefixes: []netip.Prefix{p}, Action: steadycast.Return}}}})
		apply(Entry{Kind: KindIn, Return: &ReturnProof{Unit: steadycast.Unit{Site: n, Prefix: p}, ID: id}})
	}
	r := steadycast.Request{ID: steadycast.RequestID{Incarnation: 1, Seq: 9}, Site: "a", Prefixes: []netip.Prefix{p}, Action: steadycast.Withdraw, Class: class,
		Evidence: table.evidence("a", "web", 9, steadycast.Result{Outcome: steadycast.Down, Class: class})}
	ruling := apply(Entry{Kind: KindDecide, Decide: &Decide{Requests: []steadycast.Request{r},
		Seen: []Seen{{Prefix: p, Announcing: []string{"a", "b", "c"}, Healthy: []string{"b", "c"}}}}}).Answers[0].Rulings[0]
	g, refused := ruling.Refusal()
	switch {
	case !refused && ruling.Permit.Action == steadycast.Withdraw:
		return table, "granted"
	case g.Guard == capacityGuard && ruling.Permit == nil && table.Movable(nil, "a", []string{"b", "c"}, table.Guards.CapacityRed) > 0:
		return table, "partial"
	case g.Guard == capacityGuard && ruling.Permit == nil:
		return table, "refused"
	}
	return table, fmt.Sprintf("%+v", ruling)
}

// A burden counts what is known only, and no site twice.
func TestBurdens(t *testing.T) {
	table := Table{Sites: []Place{
		{Name: "a", Capacity: 100, Load: 40, Spill: []Spill{{"b", 75}}},
		{Name: "b", Capacity: 80},
		{Name: "c"},
		{Name: "d", Capacity: 10, Load: 3},
		{Name: "w", Witness: true},
	}}
	loads := []Load{{"b", 20, 5}, {"c", 7, 60}, {"d", 3, 61}}
	var got []string
	for _, b := range table.Burdens(loads, []string{"a", "b", "c", "d"}, []string{"a"}) {
		got = append(got, fmt.Sprintf("%s %d/%d/%d known=%t gone=%t %d%% %d%% %d%%", b.Site, b.Load, b.After, b.Most, b.Known, b.Gone, b.Percent, b.AfterPercent, b.MostPercent))
	}
	want := []string{
		"a 40/0/0 known=true gone=true 40% 0% 0%",
		"b 20/50/60 known=true gone=false 25% 63% 75%",
		"c 7/7/17 known=true gone=false 0% 0% 0%",
		"d 3/0/0 known=false gone=false 0% 0% 0%", // an old figure is none, even where the table has one
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := table.Movable(loads, "a", []string{"b", "d"}, 80); n != 0 {
		t.Errorf("%d%% could go where a load is not known", n)
	}
	// Of the 40, 30 are known to go to b and 10 go anywhere: 64 of 80 are 80 %, so all.
	if n := table.Movable(loads, "a", []string{"b", "c"}, 80); n != 100 {
		t.Errorf("%d%% could go to b and c", n)
	}
}
