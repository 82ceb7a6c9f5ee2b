package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestLeaderStepsRamps: what the beats of a returning site say walks it through its
// ramp, whoever leads meanwhile; a beat of a step that is over, of another site, or
// none at all moves nothing.
func TestLeaderStepsRamps(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon", "par")
	e := b.l.entry(0, decide.KindTable)
	table := policy("ams", "fra", "lon", "par")
	table.Revision, table.Ramp = 2, &decide.Ramp{Prove: time.Second, Dwell: 10 * time.Second, Steps: []int{5, 100}}
	for i := range table.Services {
		table.Services[i].TTL = time.Second
	}
	e.Table, e.Reason = &table, "test"
	b.apply(e)
	b.up("ams", "fra", "lon", "par")
	if a := b.ask("fra", 2, steadycast.Withdraw); permitted(a) != steadycast.Withdraw {
		t.Fatalf("%+v", a)
	}
	b.now += 6 * time.Minute
	share := func() decide.ShareView { x, _ := b.l.view.ShareOf("fra", "web"); return x }
	beats := func(passed int64, step steadycast.Fence) {
		for _, n := range []string{"ams", "lon", "par"} {
			b.beat(n, 1, steadycast.RequestID{}, true)
		}
		b.l.hear(b.now, decide.Beat{Site: "fra", Incarnation: 2, Seq: uint64(b.now), Announcing: []steadycast.Unit{unitOf("fra")},
			Returned: []decide.ReturnProof{{Unit: unitOf("fra"), ID: b.unit("fra").Return}},
			Ramps:    []decide.Ramped{{Service: "web", Step: step, Passed: passed}}})
	}
	beats(0, steadycast.Fence{})
	if a := b.ask("fra", 3, steadycast.Return); permitted(a) != steadycast.Return || share().Ramp.Of != 2 || share().Permille != 0 {
		t.Fatalf("%+v, %+v", a, share())
	}
	for i, c := range []struct {
		after  time.Duration
		passed int64
		old    bool
		step   int
	}{
		{time.Second, 0, false, 0},        // the route is proven
		{2 * time.Second, 0, false, 0},    // nobody looked
		{time.Second, 20, true, 0},        // at another step
		{time.Second, 20, false, 1},       // 5%
		{9 * time.Second, 20, false, 1},   // the dwell
		{10 * time.Second, 20, false, 2},  // all: what passed between two entries is lost with a leader
		{10 * time.Second, 20, false, -1}, // done
	} {
		if b.now += c.after; i == 4 { // another leads, who knows what was committed and what it hears
			b.l = newLeader(b.l.fleet, "n2", b.now)
		}
		at := share().Ramp.Fence
		if c.old {
			at.Index--
		}
		beats(c.passed, at)
		b.duties()
		if x := share(); x.Ramp.Of == 0 && c.step >= 0 || x.Ramp.Of > 0 && x.Ramp.Step != c.step {
			t.Fatalf("row %d: %+v; want step %d", i, x, c.step)
		}
	}
	if k := b.duties(); slices.Contains(k, decide.KindRamp) {
		t.Error("a ramp that is over is walked on")
	}
}
