package decide

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/steadycast/steadycast"
)

func ledView() View {
	web, api := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
	v := View{Table: Table{
		Sites: []Place{{Name: "ams", LoadPerAnswer: 40}, {Name: "fra"}, {Name: "iad"}},
		Services: []Service{{Name: "web", Sites: []string{"ams", "fra", "iad"}, Prefixes: []netip.Prefix{web}},
			{Name: "api", Sites: []string{"ams", "fra", "iad"}, Prefixes: []netip.Prefix{web, api}}, {Name: "wan", Sites: []string{"fra"}}},
	}}
	for _, site := range []string{"ams", "fra", "iad"} {
		for _, p := range []netip.Prefix{web, api} {
			v.Units = append(v.Units, UnitView{Unit: steadycast.Unit{Site: site, Prefix: p}, Phase: steadycast.In})
		}
	}
	return v
}

// TestLedWorth: a beat carries of a server's counts what a cut or a load may need,
// and no more; the sum for a site is of all that led there, however it is told.
func TestLedWorth(t *testing.T) {
	counts := []Led{{"ams", "web", 5}, {"ams", "", 2}, {"fra", "web", 7}, {"fra", "api", 1}, {"fra", "wan", 3}, {"lon", "web", 9}, {"iad", "api", 0}}
	for _, c := range []struct {
		name   string
		change func(*View)
		want   string
	}{
		{"all in: only where the load is told by answers", func(*View) {}, "[{ams  7}]"},
		{"a prefix of both services is out", func(v *View) { v.Units[2].Phase = steadycast.Out }, "[{ams  7} {fra api 1} {fra web 7}]"},
		{"the prefix of one is on its way back", func(v *View) { v.Units[3].Phase = steadycast.Returning }, "[{ams  7} {fra api 1}]"},
		{"out where the load is told", func(v *View) { v.Units[0].Phase = steadycast.Out }, "[{ams  2} {ams web 5}]"},
		{"no site's load is told by answers", func(v *View) { v.Table.Sites[0].LoadPerAnswer = 0 }, "[]"},
	} {
		v := ledView()
		c.change(&v)
		got := v.LedWorth(counts)
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v; want %s", c.name, got, c.want)
		}
		if v.Table.Sites[0].LoadPerAnswer > 0 && (&LedTold{Led: got}).To("ams") != 7 {
			t.Errorf("%s: %v do not add up to what led to ams", c.name, got)
		}
	}
	v := ledView() // bounded, by rows and by count
	var many []Led
	v.Table.Sites = nil
	for i := range 2 * LedMost {
		name := fmt.Sprintf("s%03d", i)
		v.Table.Sites = append(v.Table.Sites, Place{Name: name, LoadPerAnswer: 1})
		many = append(many, Led{Site: name, Count: int64(i) << 40})
	}
	if got := v.LedWorth(many); len(got) != LedMost || got[0].Count != ledMaxCount {
		t.Errorf("%d rows, the first %v", len(got), got[0])
	}
}

// TestLedTo: whose answers still lead to a service, by the beats that are fresh.
func TestLedTo(t *testing.T) {
	told := []SiteNow{
		{Site: "ams", Node: "ams-1", Led: &LedTold{Led: []Led{{"fra", "web", 2}, {"fra", "api", 5}, {"iad", "web", 8}}}},
		{Site: "fra", Node: "fra-1"},
		{Site: "iad", Led: &LedTold{Led: []Led{{"fra", "web", 1}}}},
		{Site: "lon", Node: "lon-1", AgeMS: BeatFresh.Milliseconds() + 1, Led: &LedTold{Led: []Led{{"fra", "web", 100}}}},
		{Site: "sin", Node: "sin-1", Led: &LedTold{}},
	}
	n, by, asked := LedTo(told, "fra", []Service{{Name: "web"}})
	if fmt.Sprint(n, by, asked) != "3 [ams-1 iad] 3" {
		t.Error(n, by, asked)
	}
	if n, by, asked = LedTo(told[1:2], "fra", []Service{{Name: "web"}}); fmt.Sprint(n, by, asked) != "0 [] 0" {
		t.Error(n, by, asked)
	}
}

// TestLedSound: what cannot be is not counted.
func TestLedSound(t *testing.T) {
	var none *LedTold
	if none.Sound() != nil || (&LedTold{AgeSeconds: -1}).Sound() != nil {
		t.Error("what is not known is told")
	}
	got := (&LedTold{AgeSeconds: 3, Led: []Led{{"fra", "", -1}, {"ams", "web", 4}, {"iad", "", ledMaxCount + 1}}}).Sound()
	if fmt.Sprint(*got) != "{3 [{ams web 4}]}" {
		t.Error(*got)
	}
	if got := (&LedTold{Led: make([]Led, 3*LedMost)}).Sound(); len(got.Led) != LedMost {
		t.Error(len(got.Led), "rows")
	}
}
