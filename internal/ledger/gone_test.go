package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// see lets every vantage say of a site what it sees there.
func (b *bench) see(names []string, subject string, o steadycast.Outcome) {
	for _, v := range names {
		if v != subject {
			b.l.cross.hear(b.now, steadycast.Observation{Vantage: v, Subject: subject, Service: "web", Seq: uint64(b.now) + 1, Result: steadycast.Result{Outcome: o}})
		}
	}
}

// second lets a second pass in which the named sites beat, and gives the duties.
func (b *bench) second(names ...string) []decide.Kind {
	b.t.Helper()
	b.now += time.Second
	for _, n := range names {
		b.beat(n, 1, steadycast.RequestID{}, true)
	}
	return b.duties()
}

// TestSilentSiteIsGone: a leader proposes what is seen of a site that is silent,
// once, and its end with the site's next beat; and nothing while others see it well,
// while it is new itself, or while it hears too few to trust its ears.
func TestSilentSiteIsGone(t *testing.T) {
	names := []string{"ams", "fra", "lon", "nyc", "par"}
	without := func(out ...string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(out, n) })
	}
	start := func() *bench {
		b := newBench(t, names...)
		b.up(names...)
		return b
	}
	gone := func(b *bench) bool { return b.l.view.GoneOf("fra", "web") != nil }

	b := start()
	before := b.unit("fra")
	b.see(names, "fra", steadycast.Down)
	for b.now < beatFresh {
		if k := b.second(without("fra")...); slices.Contains(k, decide.KindGone) || gone(b) {
			t.Fatalf("gone after %s of silence", b.now)
		}
	}
	if k := b.second(without("fra")...); !slices.Contains(k, decide.KindGone) || !gone(b) {
		t.Fatalf("after %s of silence: %v", b.now, k)
	}
	g := b.l.view.GoneOf("fra", "web")
	if !slices.Equal(g.By, without("fra")) || g.QuietMS != 6000 || b.unit("fra").Phase != before.Phase || b.unit("fra").Permit != before.Permit {
		t.Errorf("%+v, %+v", g, b.unit("fra"))
	}
	for range 30 { // it is written once, and stays though the words grow old
		if k := b.second(without("fra")...); slices.Contains(k, decide.KindGone) || !gone(b) {
			t.Fatalf("after %s: %v", b.now, k)
		}
	}
	b.l = newLeader(b.l.fleet, "n2", b.now) // another leads and knows it
	if k := b.second(without("fra")...); slices.Contains(k, decide.KindGone) || !gone(b) {
		t.Fatalf("a new leader: %v", k)
	}
	b.beat("fra", 2, steadycast.RequestID{}, true)
	if k := b.duties(); !slices.Contains(k, decide.KindGone) || gone(b) {
		t.Fatalf("fra speaks again: %v, %+v", k, b.l.view.Gone)
	}

	for _, c := range []struct {
		what string
		live []string
		see  steadycast.Outcome
		lead bool // another leads, a second before
	}{
		{"others see it well", without("fra"), steadycast.Up, false},
		{"others do not know", without("fra"), steadycast.Unknown, false},
		{"a new leader", without("fra"), steadycast.Down, true},
		{"half of all are silent", []string{"ams", "par"}, steadycast.Down, false},
		{"all are silent", nil, steadycast.Down, false},
	} {
		b := start()
		for range 10 {
			b.see(names, "fra", c.see)
			if c.lead {
				cross := b.l.cross
				b.l = newLeader(b.l.fleet, "n2", b.now)
				b.l.cross = cross
			}
			if k := b.second(c.live...); slices.Contains(k, decide.KindGone) || gone(b) {
				t.Errorf("%s, and fra is gone after %s", c.what, b.now)
			}
		}
	}

	b = start() // nobody says anything of it
	for range 10 {
		if b.second(without("fra")...); gone(b) {
			t.Error("gone by silence alone")
		}
	}
	for range 20 { // what was said has grown old
		b.now += time.Second
	}
	b.see(names, "fra", steadycast.Down)
	b.now += 15 * time.Second
	for range 3 {
		if b.second(without("fra")...); gone(b) {
			t.Error("gone by words that are too old")
		}
	}
}
