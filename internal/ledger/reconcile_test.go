package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestReconcile: after a recovery the leader says for each site what its own fresh beats
// say, and none that was said before its speaker knew of the recovery. Until then it
// says nothing else of the site, whatever beats say, and sees it nowhere.
func TestReconcile(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon", "nyc")
	b.up("ams", "fra", "lon", "nyc")
	copied := b.l.fleet.Snapshot()
	before := b.l.fleet.Fence()

	f := decide.NewFleet()
	if err := f.Restore(copied); err != nil {
		t.Fatal(err)
	}
	b.now += time.Minute
	b.l = newLeader(f, "n2", b.now)
	e := b.l.entry(b.now, decide.KindEpoch)
	e.Epoch, e.Actor, e.Reason = 2, "ann", "burnt"
	b.apply(e)
	now := f.Fence()

	unit := func(site string) steadycast.Unit {
		return b.l.view.Units[slices.IndexFunc(b.l.view.Units, func(u decide.UnitView) bool { return u.Unit.Site == site })].Unit
	}
	phases := func() (said string) {
		for _, u := range b.l.view.Units {
			said += u.Unit.Site + " " + u.Phase.String()
			if u.Unheard {
				said += " unheard"
			}
			if u.Lost {
				said += " lost"
			}
			said += "; "
		}
		return said
	}
	hear := func(site string, at steadycast.Fence, say func(*decide.Beat)) []decide.Kind {
		x := decide.Beat{Site: site, Incarnation: 1, At: at}
		say(&x)
		b.l.hear(b.now, x)
		return b.duties()
	}
	announces := func(x *decide.Beat) { x.Announcing = []steadycast.Unit{unit(x.Site)} }

	b.duties() // a tick perhaps
	for range 8 {
		if got := hear("ams", before, announces); slices.Contains(got, decide.KindReconcile) || slices.Contains(got, decide.KindLost) {
			t.Fatalf("by a beat of before the recovery: %v", got)
		}
		b.now += time.Second
	}
	if got, want := phases(), "ams in unheard; fra in unheard; lon in unheard; nyc in unheard; "; got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	for _, s := range b.l.seen(b.now) {
		if len(s.Announcing) > 0 {
			t.Errorf("unheard, and seen: %+v", s)
		}
	}
	for site, say := range map[string]func(*decide.Beat){
		"ams": announces,
		"fra": func(x *decide.Beat) { x.Left = []steadycast.Unit{unit(x.Site)} },
		"lon": func(x *decide.Beat) { x.Wanted = []steadycast.Unit{unit(x.Site)} },
	} {
		if got := hear(site, now, say); len(got) == 0 || got[0] != decide.KindReconcile {
			t.Errorf("%s: %v", site, got)
		}
	}
	if got, want := phases(), "ams in; fra out; lon in lost; nyc in unheard; "; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := b.duties(); len(got) > 0 {
		t.Errorf("and again: %v", got)
	}
}

// TestReconcileNodes: that nobody announces only all nodes of a site can say, and any
// one that it does.
func TestReconcileNodes(t *testing.T) {
	p := decide.Place{Name: "ams", Nodes: []decide.Node{{Name: "ams-1"}, {Name: "ams-2"}}}
	u := decide.UnitView{Unit: steadycast.Unit{Site: "ams"}, Unheard: true}
	on, off := []steadycast.Unit{u.Unit}, []steadycast.Unit(nil)
	for name, x := range map[string]struct {
		beats []decide.Beat
		want  decide.Truth
		ok    bool
	}{
		"one of two announces":        {[]decide.Beat{{Node: "ams-1", Announcing: on}}, decide.Truth{Announcing: true, On: []string{"ams-1"}}, true},
		"one of two does not":         {[]decide.Beat{{Node: "ams-1", Announcing: off}}, decide.Truth{Idle: []string{"ams-1"}}, false},
		"both do not, and one knows":  {[]decide.Beat{{Node: "ams-1"}, {Node: "ams-2", Left: on}}, decide.Truth{Left: true, Idle: []string{"ams-1", "ams-2"}}, true},
		"one would, the other left":   {[]decide.Beat{{Node: "ams-1", Wanted: on}, {Node: "ams-2", Left: on}}, decide.Truth{Wanted: true, Idle: []string{"ams-1", "ams-2"}}, true},
		"one does, the other would":   {[]decide.Beat{{Node: "ams-1", Wanted: on}, {Node: "ams-2", Announcing: on}}, decide.Truth{Announcing: true, On: []string{"ams-2"}, Idle: []string{"ams-1"}}, true},
		"a stranger is no node of it": {[]decide.Beat{{Node: "ams-1"}, {Node: "ams-9", Announcing: on}}, decide.Truth{Idle: []string{"ams-1"}}, false},
	} {
		got, ok := chorus(x.beats).truth(p, u)
		x.want.Unit = u.Unit
		if ok != x.ok || got.Announcing != x.want.Announcing || got.Wanted != x.want.Wanted || got.Left != x.want.Left || !slices.Equal(got.On, x.want.On) || !slices.Equal(got.Idle, x.want.Idle) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}
