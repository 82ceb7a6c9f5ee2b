package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

func cutsOf(s *api.Snapshot, name string) *api.Page[api.Cut] {
	site, _ := s.Site(name)
	return &api.Page[api.Cut]{At: s.At, Items: site.Cuts}
}

// TestWaitForACut: --wait is content with the routers' word where nothing counts
// packets; where something does, it waits until the cut is complete.
func TestWaitForACut(t *testing.T) {
	ch := &change{done: func(u *api.Unit) bool { return !u.Wanted }}
	for _, c := range []struct {
		name string
		unit api.Unit
		want string
	}{
		{"a router keeps it", api.Unit{Unproven: "tor1 still has it"}, "tor1 still has it"},
		{"nothing is counted", api.Unit{Proven: true, Cut: cutIn(decide.CutInProgress, false, "target well for 3s of 10s")}, ""},
		{"one client stays", api.Unit{Proven: true, Cut: cutIn(decide.CutInProgress, true, "residual: 50 a second still come here")}, "the cut is in progress: residual: 50 a second"},
		{"a name leads here, and nobody counts packets", api.Unit{Proven: true, Cut: &api.Cut{Cut: decide.Cut{State: decide.CutInProgress, Measured: true, Why: []string{"residual: 3 answers"}}}},
			"the cut is in progress: residual: 3 answers"},
		{"names are counted, packets not, and no more can be known", api.Unit{Proven: true, Cut: &api.Cut{Cut: decide.Cut{State: decide.CutUnmeasured, Measured: true, Why: []string{"nothing counts"}}}}, ""},
		{"who took over fails", api.Unit{Proven: true, Cut: cutIn(decide.CutFailed, true, "target: ams: web is unhealthy. Roll back?")}, "the cut is failed: target: ams"},
		{"complete", api.Unit{Proven: true, Cut: cutIn(decide.CutComplete, true)}, ""},
		{"announced, where an older cut is not over yet", api.Unit{Proven: true, Wanted: true, Cut: cutIn(decide.CutInProgress, true, "residual")}, ""},
	} {
		of := *ch
		if c.unit.Wanted {
			of.done = func(u *api.Unit) bool { return u.Wanted }
		}
		missing, _ := unproven(&api.Units{Units: []api.Unit{c.unit}}, &of, steadycast.Fence{})
		if (c.want == "") != (missing == "") || !strings.Contains(missing, c.want) {
			t.Errorf("%s: %q; want %q", c.name, missing, c.want)
		}
	}
}

// TestWaitEndsWhenNobodyCanProveIt: a site that nobody hears will never prove a drain,
// and its units are not waited for once that is known, and not by an older cut.
func TestWaitEndsWhenNobodyCanProveIt(t *testing.T) {
	lost := cutIn(decide.CutFailed, false, "unheard: nothing was heard of fra for 1m0s")
	lost.Unheard, lost.Fence = true, steadycast.Fence{Epoch: 1, Index: 9}
	lost.Unit = steadycast.Unit{Site: "fra", Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	got := &api.Units{Units: []api.Unit{{Unit: steadycast.Unit{Site: "fra"}, Cut: cutIn(decide.CutFailed, true)}, {Unit: lost.Unit, Cut: lost}}}
	for _, c := range []struct {
		at       uint64
		prefixes []netip.Prefix
		want     bool
	}{
		{9, nil, true}, {8, nil, true}, {10, nil, false},
		{9, []netip.Prefix{lost.Unit.Prefix}, true}, {9, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, false},
	} {
		if cut := unheard(got, &change{prefixes: c.prefixes}, steadycast.Fence{Epoch: 1, Index: c.at}); (cut != nil) != c.want {
			t.Errorf("at %d of %v: %v", c.at, c.prefixes, cut)
		}
	}
}

// TestCutGivenUp: a cut whose unit is announced again goes nowhere any more, so it is
// not shown as if it did; one that was complete stays so.
func TestCutGivenUp(t *testing.T) {
	for state, want := range map[decide.CutState]string{
		decide.CutInProgress: "given up", decide.CutComplete: "complete", decide.CutFailed: "failed", decide.CutUnmeasured: "unmeasured",
	} {
		x := cutIn(state, true, "route: tor1 has not acknowledged it")
		x.Over = true
		got := renderCuts(style{width: 200}, &api.Page[api.Cut]{Items: []api.Cut{*x}})
		if !strings.Contains(got, want) || !strings.Contains(got, "announced again") || strings.Contains(got, "in progress") {
			t.Errorf("%s:\n%s", state, got)
		}
	}
}

func cutIn(state decide.CutState, counted bool, why ...string) *api.Cut {
	return &api.Cut{Cut: decide.Cut{State: state, Counted: counted, Measured: counted, Why: why}}
}
