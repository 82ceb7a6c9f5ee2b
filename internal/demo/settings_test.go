package demo

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The list of differences comes from the values: each one named is one, and
// what is not named is production's.
func TestDifferences(t *testing.T) {
	ds, err := differences(table([]decide.Place{{Name: "fra"}, {Name: "ams"}, {Name: "lhr"}}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range ds {
		names = append(names, d.Setting)
		if d.Demo == d.Default {
			t.Errorf("%s is said to differ, and is %s in both", d.Setting, d.Demo)
		}
	}
	want := []string{
		"guards.breaker_clear", "guards.breaker_window", "guards.cooldown",
		"services[0].health.hold_up", "services[0].health.rise",
		"a voter's free disk, at least", "and what it sets aside there",
	}
	if !slices.Equal(names, want) {
		t.Errorf("differences\n %q\nwant\n %q", names, want)
	}
}

func TestPreferred(t *testing.T) {
	med := func(n uint32) *uint32 { return &n }
	a, b, c := netip.MustParseAddr("127.0.0.11"), netip.MustParseAddr("127.0.0.12"), netip.MustParseAddr("127.0.0.13")
	gshut := []steadycast.Community{steadycast.GracefulShutdown}
	for _, k := range []struct {
		name   string
		routes map[netip.Addr]steadycast.Attributes
		want   []netip.Addr
	}{
		{"no route", nil, nil},
		{"all equal", map[netip.Addr]steadycast.Attributes{a: {ASPath: []uint32{1}}, b: {ASPath: []uint32{2}}}, []netip.Addr{a, b}},
		{"one drains", map[netip.Addr]steadycast.Attributes{a: {Communities: gshut}, b: {}, c: {}}, []netip.Addr{b, c}},
		{"all drain", map[netip.Addr]steadycast.Attributes{a: {Communities: gshut}, b: {Communities: gshut}}, []netip.Addr{a, b}},
		{"a longer path", map[netip.Addr]steadycast.Attributes{a: {ASPath: []uint32{1, 1}}, b: {ASPath: []uint32{2}}}, []netip.Addr{b}},
		{"a higher MED", map[netip.Addr]steadycast.Attributes{a: {MED: med(5)}, b: {MED: med(0)}, c: {}}, []netip.Addr{b, c}},
	} {
		if got := Preferred(k.routes); !slices.Equal(got, k.want) {
			t.Errorf("%s: %v, want %v", k.name, got, k.want)
		}
	}
}
